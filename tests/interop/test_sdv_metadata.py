"""SDV takes our metadata, and SDMetrics reports on our rows."""

from __future__ import annotations

import datetime as dt
import warnings

import pytest

import hush
from hush.interop import sdv_metadata
from hush.schema import Categorical, Timestamp

SCHEMA = hush.datasets.people_schema()


def test_every_column_of_the_rows_has_an_entry() -> None:
    stamp = Timestamp(name="seen", start=dt.date(2024, 1, 1), end=dt.date(2024, 12, 31), parts=("weekday", "hour"))
    schema = hush.Schema([stamp, Categorical(name="sex", values=("f", "m"))])
    columns = sdv_metadata(schema)["tables"]["table"]["columns"]
    assert columns == {
        "seen": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d %H:%M:%S"},
        "sex": {"sdtype": "categorical"},
    }
    assert list(sdv_metadata(SCHEMA)["tables"]["table"]["columns"]) == list(SCHEMA.domain)


def test_sdv_reads_it_back() -> None:
    metadata = pytest.importorskip("sdv.metadata").Metadata.load_from_dict(sdv_metadata(SCHEMA, table="people"))
    metadata.validate()
    back = metadata.to_dict()["tables"]["people"]["columns"]
    assert back == sdv_metadata(SCHEMA)["tables"]["table"]["columns"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metadata.validate_data({"people": SCHEMA.to_pandas(hush.datasets.people(200, seed=1))})


def test_sdmetrics_reports_on_our_rows() -> None:
    reports = pytest.importorskip("sdmetrics.reports")
    real = hush.datasets.people(2000, seed=1)
    table = hush.read(real, SCHEMA)
    release = hush.plan("2-way", hush.Budget(epsilon=5, delta=1e-9), schema=SCHEMA, goal="rows").release(table)
    frames = [SCHEMA.to_pandas(rows).astype({"employed": bool}) for rows in (real, release.synthesize(2000))]
    report = reports.QualityReport()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report.generate(*({"people": frame} for frame in frames), sdv_metadata(SCHEMA, table="people"), verbose=False)
    assert report.get_score() > 0.7
