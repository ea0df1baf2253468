"""Numbers in other spellings: the SQL reads a text as the spelling does, from every source alike."""

from __future__ import annotations

import csv
import decimal
import gzip
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import hush
from drawn_schemas import spellings
from hush.cli.main import main
from hush.core.errors import DataError
from hush.schema import Integer, Numeric, Schema
from hush.schema.number_spelling import NumberSpelling
from hush.tables import read

GERMAN = NumberSpelling(decimal=",", thousands=".", strip=("€", "%"))
texts = st.lists(
    st.text(st.sampled_from("0123456789,.' -+€%$eE_\u202f"), max_size=9) | st.sampled_from(["nan", "inf", "EUR 5"]),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60)
@given(spellings, texts)
def test_the_sql_reads_what_the_spelling_reads(reference, sql_codes, spelling, values) -> None:
    column = Numeric(name="x", edges=(0, 1.5, 20, 1000, 1e6), outside="clamp", missing=True, spelling=spelling)
    assert sql_codes(column, pa.array(values)) == [reference(column, value) for value in values]
    whole = Integer(name="x", low=0, high=5000, spelling=spelling)
    assert sql_codes(whole, pa.array(values)) == [reference(whole, value) for value in values]


FARE = Numeric(name="fare", edges=(0, 1.5, 100, 2000), spelling=GERMAN)


@pytest.mark.parametrize("engine", ["memory", "stream", "sql"])
def test_a_csv_with_decimal_commas_is_counted(engine, tmp_path: Path) -> None:
    path = tmp_path / "fares.csv"
    path.write_text('fare\n"1,25"\n"1.234,50 €"\n7\n"99,9"\n', encoding="utf-8")
    assert read(path, Schema([FARE]), engine=engine).counts([("fare",)])[("fare",)].tolist() == [1, 2, 1]


def test_numbers_that_are_no_texts_are_read_as_they_are() -> None:
    """1.125 is never read as 1125 where it is stored as a number."""
    schema = Schema([FARE])
    numbers = [1.125, 7.0]
    sources = [
        pa.table({"fare": numbers}),
        pd.DataFrame({"fare": numbers}),
        pd.DataFrame({"fare": [1.125, "7"]}, dtype=object),
        pd.DataFrame({"fare": [decimal.Decimal("1.125"), "7,0"]}, dtype=object),
        pd.DataFrame({"fare": pd.Categorical(numbers)}),
        pa.table({"fare": pa.array([decimal.Decimal("1.125"), decimal.Decimal(7)], pa.decimal256(60, 3))}),
    ]
    for source in sources:
        assert read(source, schema).counts([("fare",)])[("fare",)].tolist() == [1, 1, 0]


def test_what_is_spelled_otherwise_is_refused_and_not_guessed(tmp_path: Path) -> None:
    for text in ("1.5", "12.34,5", "1,2,3", "USD 5"):
        with pytest.raises(DataError, match="column 'fare' holds values outside its declared levels"):
            read(pa.table({"fare": [text]}), Schema([FARE]))


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_synthetic_csv_is_spelled_like_the_data_and_read_back(name: str, tmp_path: Path) -> None:
    """Numbers below zero too: they are numbers, and get no apostrophe."""
    column = Numeric(name="x", edges=(-2, -1, 0, 1), spelling=GERMAN)
    table = read(pa.table({"x": ["-1,5", "-0,5", "0,5"] * 50}), Schema([column]))
    workload = hush.Workload.kway(table.domain, 1)
    release = hush.plan(workload, hush.Budget(rho=100)).release(table)
    release.save(tmp_path / "r.hush")
    result = CliRunner().invoke(main, ["synth", str(tmp_path / "r.hush"), "-o", str(tmp_path / name)])
    assert result.exit_code == 0, result.output
    content = (tmp_path / name).read_bytes()
    lines = (gzip.decompress(content) if name.endswith(".gz") else content).decode().splitlines()
    cells = [row["x"] for row in csv.DictReader(lines)]
    assert any("," in cell for cell in cells)
    assert not any("." in cell or "'" in cell for cell in cells)
    counts = read(tmp_path / name, Schema([column])).counts([("x",)])[("x",)]
    assert abs(counts - 50).max() <= 3
