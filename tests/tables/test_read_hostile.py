"""Cells that slip past careless code: each lands in exactly one level, or the table is refused without quoting it."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hush
from hush import Budget, Workload
from hush.core.errors import DataError
from hush.schema import Categorical, Column, Integer, Numeric, Schema
from hush.tables import read
from hush.testing import check_replay

CANARY = "zebra-7319"
HOSTILE = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1e300, -1e300, 5e-324, 2.0**53, None, 4.999999999, 5.0]
CLAMPED = Numeric.equal_width(name="x", low=0, high=10, bins=2, outside="clamp", missing=True)


def counts(column: Column, values: object) -> list[int]:
    return read(values, Schema([column])).counts([("x",)])[("x",)].tolist()  # type: ignore[arg-type]


def test_hostile_numbers_land_in_one_bin_each() -> None:
    """Bins [0, 5) and [5, 10], then missing: NaN and null are missing, the rest is clamped."""
    assert counts(CLAMPED, pa.table({"x": pa.array(HOSTILE, pa.float64(), from_pandas=False)})) == [6, 4, 2]
    for value in HOSTILE:
        assert sum(counts(CLAMPED, pd.DataFrame({"x": [value]}, dtype=object))) == 1


def test_hostile_integers_land_in_one_level_each() -> None:
    column = Integer(name="x", low=0, high=3, outside="clamp", missing=True)
    mixed = pd.DataFrame({"x": [10**40, -(10**40), 2, "2", 2.0, None, np.int8(3), " 1 "]}, dtype=object)
    assert sum(counts(column, mixed)) == 8
    assert counts(column, pd.DataFrame({"x": [10**40, -(10**40)]}, dtype=object)) == [1, 0, 0, 1, 0]


@pytest.mark.parametrize("column", [Integer(name="x", low=0, high=3), Categorical(name="x", values=("a", "b"))])
@pytest.mark.parametrize("value", [CANARY, "7319.5", 7319.25, -7319])
def test_a_refused_cell_is_never_quoted(column: Column, value: object) -> None:
    with pytest.raises(DataError) as refused:
        counts(column, pd.DataFrame({"x": [value]}, dtype=object))
    assert "'x'" in str(refused.value)
    assert "7319" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


SCHEMA = Schema(
    [
        Categorical(name="city", values=("ulm", "bonn"), other=True),
        Integer(name="age", low=0, high=3, outside="clamp", missing=True),
        Categorical(name="always", values=("yes", "no")),
    ]
)
ROWS = ["ulm,1,yes", "bonn,2,yes", "ulm,3,yes"]


@pytest.mark.parametrize(
    "row", [f"{CANARY},1,yes", "ulm,7319,yes", "ulm,,yes", "ulm,nan,yes", "ulm,-7319.0,yes", "bonn,2,no"]
)
def test_values_never_seen_before_change_nothing_that_is_public(row: str, tmp_path: Path) -> None:
    """A new category, an outlier, a missing value, a second value in a constant column: shapes and files stay."""

    def run(rows: list[str]) -> object:
        (tmp_path / "people.csv").write_text("\n".join(["city,age,always", *rows]) + "\n")
        table = hush.read(tmp_path / "people.csv", SCHEMA)
        release = hush.plan(Workload.kway(table.domain, 2), Budget(rho=0.5), mechanism="residual").release(table)
        release.save(tmp_path / "people.hush", overwrite=True)
        shown = [str(release.marginal("city", "age")), str(release.sql("SELECT city, COUNT(*) FROM t GROUP BY city"))]
        return tmp_path / "people.hush", shown, repr(table), str(table.domain)

    assert check_replay(run, ROWS, [[*ROWS, row]]) == 1
