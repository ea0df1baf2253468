"""Noisy tables of OpenDP's contingency tables become measurements over a schema with the same labels.

OpenDP's extra asks for mbi 1.1, so these tests run with that version.
"""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hush
from hush.interop import from_opendp_table

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    mbi = pytest.importorskip("mbi")
    Marginals = pytest.importorskip("opendp.extras.mbi").Marginals
    import opendp.prelude as dp
    import polars as pl

SEX, TOWN = ["f"] * 60 + ["m"] * 40, ["x", "y", None, "x", "y"] * 20
FRAME = pl.DataFrame({"sex": SEX * 20, "town": TOWN * 20})


def released(delta: float, **keys: list[str]) -> Any:
    """A contingency table that OpenDP releases; it finds the keys that are not given, which takes a delta."""
    dp.enable_features("contrib")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = dp.Context.compositor(
            data=FRAME.lazy(), privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=0.5, delta=1e-7)
        )
        fixed = dp.mbi.Fixed(queries=[dp.mbi.Count(("sex", "town"))])
        query = context.query(rho=0.2, delta=delta).select("sex", "town")
        return query.contingency_table(keys=keys, algorithm=fixed).release()


def test_a_table_becomes_measurements_with_missing_last() -> None:
    table = released(0.0, sex=["f", "m"], town=["x", "y"])
    schema, (measurement,) = from_opendp_table(table)
    (theirs,) = table.marginals.flatten()
    assert [schema["town"].label(code) for code in range(3)] == ["x", "y", "(missing)"]
    assert (measurement.clique, measurement.stddev) == (("sex", "town"), theirs.stddev)
    assert measurement.values.ravel().tolist() == theirs.noisy_measurement.tolist()


def test_null_before_other_keys_becomes_the_last_level() -> None:
    measured = mbi.LinearMeasurement(np.array([5.0, 60.0, 41.0]), ("town",), 2.0)
    marginals = Marginals({("town",): [measured]})
    table = SimpleNamespace(keys={"town": [None, "x", "y"]}, marginals=marginals)
    schema, (measurement,) = from_opendp_table(table)
    assert measurement.values.tolist() == [60.0, 41.0, 5.0]
    assert schema["town"].label(2) == "(missing)"


def test_keys_that_opendp_found_are_measured_without_null() -> None:
    table = released(1e-7, sex=["f", "m"])
    schema, measurements = from_opendp_table(table)
    (alone,) = [measurement for measurement in measurements if measurement.clique == ("town",)]
    assert alone.query.dense().tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    # one model is fitted to both tables, here and there
    ours = hush.fit(schema, measurements).counts(("sex", "town"))
    assert np.abs(np.asarray(table.project(["sex", "town"])) - ours).max() < 10
    exact = [[480, 480, 240], [320, 320, 160]]
    assert np.abs(ours[:2] - exact).max() < 10
