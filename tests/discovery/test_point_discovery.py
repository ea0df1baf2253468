"""Heavy values of columns of numbers: found off any grid, charged, kept on record, replayed, and given levels."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from hush.core.errors import InterruptedRelease
from hush.discovery.discover import discover
from hush.discovery.discovery_job import DiscoveryJob, RowsOf
from hush.discovery.discovery_record import DiscoveryRecord
from hush.discovery.discovery_step import DiscoveryStep, charged_cost
from hush.discovery.point_discovery import FoundPoints, discover_points
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import compose, price
from hush.schema import Numeric, Unit
from hush.schema.discovery_draft import Draft, OpenColumn, read_draft_column
from hush.tables.dialects.duckdb import DUCKDB
from hush.testing import check_replay

BUDGET = Budget(epsilon=1.0, delta=1e-9)
SPIKES = (9.99, 19.99, 0.1)


def prices(rows: int = 20_000, seed: int = 1) -> pa.Table:
    """Half of the rows at three prices, the others spread out."""
    random = np.random.default_rng(seed)
    spread = random.gamma(2.0, 60.0, rows).round(4)
    return pa.table({"x": np.where(random.random(rows) < 0.5, np.array(SPIKES)[random.integers(0, 3, rows)], spread)})


def open_column(kind: str = "numeric", **entries: Any) -> OpenColumn:
    column = read_draft_column("x", {"kind": kind, "bounds": "discover", "bins": "discover", **entries})
    assert isinstance(column, OpenColumn)
    return column


def step_of(rows: pa.Table, unit: Unit | None = None) -> DiscoveryStep:
    source = DUCKDB.open_frame("the rows", rows.column_names, rows, duckdb.connect())
    account = Allowance(BUDGET)
    delta = Fraction(1, 10**10)
    return DiscoveryStep(
        source=source, unit=unit or Unit(), account=account, cost=BUDGET.limit / 40, delta=delta, failure=0.01
    )


def test_heavy_values_are_found_exactly_and_charged() -> None:
    step = step_of(prices())
    found = discover_points(step, open_column())
    assert found.points == (Fraction(1, 10), Fraction(999, 100), Fraction(1999, 100))
    event = compose(step.account.events)
    assert found.cost == charged_cost(BUDGET, event) <= float(BUDGET.limit / 40)
    assert float(price(event).delta) <= found.delta < 1.01e-10
    assert found.private


def test_texts_are_read_as_the_column_spells_numbers() -> None:
    cells = ["1.234,50 €"] * 900 + [" 7 "] * 900 + ["n/a"] * 900 + ["-"] * 900 + ["inf"] * 900 + ["9" * 30] * 900
    rows = pa.table({"x": cells})
    column = open_column(decimal=",", thousands=".", strip=["€"], missing=True, missing_values=["-"])
    assert discover_points(step_of(rows), column).points == (Fraction(7), Fraction(2469, 2))
    whole = open_column("integer", decimal=",", thousands=".", strip=["€"])
    assert discover_points(step_of(rows), whole).points == (Fraction(7),)


def test_a_schema_gives_heavy_values_levels_of_their_own() -> None:
    schema = discover(prices(), Draft.of({"x": open_column()}), BUDGET).schema
    column = schema["x"]
    assert isinstance(column, Numeric)
    assert set(SPIKES) <= set(column.points)
    assert column.discovered is not None
    assert 0 < column.discovered.delta <= 1e-9
    # without a delta no value of a private list may be shown
    column = discover(prices(), Draft.of({"x": open_column()}), Budget(rho=0.05)).schema["x"]
    assert isinstance(column, Numeric)
    assert not {9.99, 19.99} & set(column.points)


def test_replay_finds_nothing_besides_the_gate() -> None:
    def run(rows: pa.Table) -> FoundPoints:
        return discover_points(step_of(rows), open_column())

    table = prices(2000)
    more = [pa.concat_tables([table, pa.table({"x": [number]})]) for number in (9.99, 1e300, -5.0)]
    assert check_replay(run, table, [*more, table.slice(1)]) == 4


def test_an_interrupted_run_keeps_its_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partial = tmp_path / "found.partial"
    job = DiscoveryJob(RowsOf(source=prices()), Draft.of({"x": open_column()}), BUDGET, partial=partial)

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(DiscoveryJob, "_count", stop)
    with pytest.raises(InterruptedRelease):
        job.run()
    monkeypatch.undo()
    record = DiscoveryRecord.load(partial)
    assert record.points["x"].points == (Fraction(1, 10), Fraction(999, 100), Fraction(1999, 100))
    monkeypatch.setattr("hush.discovery.discovery_job.discover_points", lambda *_: pytest.fail("paid for twice"))
    resumed = DiscoveryJob(RowsOf(source=prices()), Draft.of({"x": open_column()}), BUDGET, resume=record)
    column = resumed.run().schema["x"]
    assert isinstance(column, Numeric)
    assert set(SPIKES) <= set(column.points)
