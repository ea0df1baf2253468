"""Discovery: charged before reading, resumed without paying twice, replayed, and its schema taken by releases."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hush
from hush.core.errors import ArchiveError, BudgetError, DataError, InterruptedRelease, LedgerError, SchemaError
from hush.discovery.discover import discover
from hush.discovery.discovery_job import DiscoveryJob, RowsOf
from hush.discovery.discovery_record import DiscoveryRecord
from hush.privacy.budget import Budget
from hush.privacy.events import compose, price
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gate import watch
from hush.privacy.sensitivity import ONE_CELL, sensitivity
from hush.schema import Boolean, Categorical, Date, Integer, Numeric, Timestamp, Unit
from hush.schema.discovery_draft import Draft
from hush.schema.schema_toml import read_toml
from hush.testing import check_replay

BUDGET = Budget(epsilon=1.0, delta=1e-9)
OPEN = {"bounds": "discover"}


def incomes(rows: int = 20_000, seed: int = 0) -> pa.Table:
    """Made-up incomes with a heavy tail, many zeros and a few missing ones, ages, and days."""
    rng = np.random.default_rng(seed)
    income = np.where(rng.random(rows) < 0.3, 0.0, np.exp(rng.normal(10.3, 0.8, rows)).round(2))
    day = np.datetime64("2015-03-01") + rng.integers(0, 900, rows).astype("timedelta64[D]")
    return pa.table(
        {
            "income": pa.array(income, mask=rng.random(rows) < 0.01),
            "age": np.clip(rng.normal(45, 15, rows), 18, 95).astype(np.int64),
            "day": day.astype("datetime64[D]"),
        }
    )


def draft(**columns: dict[str, Any]) -> Draft:
    return Draft.of(columns)


EVERYTHING = draft(
    income={"kind": "numeric", "bins": "discover", "missing": True, **OPEN},
    age={"kind": "integer", **OPEN},
    day={"kind": "date", "granularity": "discover", **OPEN},
)


def test_bounds_bins_points_and_granularity_are_found() -> None:
    found = discover(incomes(), EVERYTHING, BUDGET)
    income, age, day = (found.schema[name] for name in ("income", "age", "day"))
    assert isinstance(income, Numeric)
    assert isinstance(age, Integer)
    assert isinstance(day, Date)
    exact = incomes()
    largest = np.nanquantile(exact["income"].to_numpy(zero_copy_only=False), 0.99)
    assert income.low == 0
    assert largest < income.high < 40 * largest
    assert income.points == (0.0,)
    assert 8 <= len(income.edges) <= 40
    assert 10 <= age.low <= 20
    assert 80 <= age.high <= 100
    assert not age.binned
    assert dt.date(2015, 2, 1) <= day.start <= dt.date(2015, 3, 15)
    assert dt.date(2017, 8, 1) <= day.end <= dt.date(2017, 9, 30)
    # every bin holds rows, and no bin nearly all of them
    counts = hush.read(exact, found.schema).counts([("income",)])[("income",)]
    assert counts[: income.levels].max() < 0.4 * exact.num_rows


def test_the_cost_is_that_of_the_noise_and_never_above_the_budget(tmp_path: Path) -> None:
    for budget in (BUDGET, Budget(epsilon=1.0), Budget(rho=0.05), Budget(mu=0.3)):
        job = DiscoveryJob(RowsOf(source=incomes(2000)), EVERYTHING, budget)
        schema = job.run().schema
        spent = sum(Fraction(column.discovered.cost) for column in schema if column.discovered is not None)
        assert spent <= budget.limit * (1 + Fraction(1, 10**9))
        assert spent >= budget.limit * Fraction(98, 100)
        assert {column.discovered.cost_unit for column in schema if column.discovered} == {budget.unit}
        cost = budget.spent(price(job.record.statement.event))
        assert float(spent) == pytest.approx(float(cost), rel=1e-3 if budget.approximate else 1e-9)


def test_the_ledger_is_charged_and_refuses_a_second_discovery(tmp_path: Path) -> None:
    ledger = tmp_path / "budget.db"
    schema = hush.Schema.discover(incomes(2000), EVERYTHING, BUDGET, ledger=ledger)
    assert schema.discovery is not None
    assert schema.discovery.ledger_head == hush.Ledger.open(ledger).head
    with pytest.raises(BudgetError, match="nothing is left"):
        hush.Schema.discover(incomes(2000), EVERYTHING, BUDGET, ledger=ledger)


def test_a_schema_that_was_found_is_read_back_whole_and_released() -> None:
    table = incomes(5000)
    schema = hush.Schema.discover(table, EVERYTHING, BUDGET)
    again = read_toml(schema.to_toml())
    assert again == schema
    assert again.discovery == schema.discovery
    assert [column.discovered for column in again] == [column.discovered for column in schema]
    assert schema.from_private_data == ()
    plan = hush.plan(hush.Workload.kway(schema.domain, 1), Budget(rho=0.5), "residual")
    release = plan.release(hush.read(table, schema))
    assert release.statement.private


def test_a_schema_that_was_found_with_hardly_any_noise_is_read_back_too() -> None:
    found = discover(incomes(300), EVERYTHING, Budget(epsilon=300.0)).schema
    assert min(found["age"].discovered.stddev) < 1e-5  # type: ignore[union-attr]
    assert read_toml(found.to_toml()) == found


def test_seeded_noise_marks_what_was_found(tmp_path: Path) -> None:
    schema = hush.Schema.discover(incomes(2000), EVERYTHING, BUDGET, entropy=NotPrivateEntropy(seed=1))
    assert schema.from_private_data == ("income", "age", "day")
    plan = hush.plan(hush.Workload.kway(schema.domain, 1), Budget(rho=0.5), "residual")
    with pytest.raises(SchemaError, match="drafted from private data"):
        plan.release(hush.read(incomes(2000), schema))


def test_a_seeded_cap_marks_columns_that_were_known() -> None:
    rows = pa.table({"id": [i // 3 for i in range(3000)], "works": [i % 2 == 0 for i in range(3000)]})
    known = Draft.of({"works": Boolean(name="works")}, unit=Unit(column="id"), open_unit=True)
    schema = hush.Schema.discover(rows, known, BUDGET, entropy=NotPrivateEntropy(seed=1))
    assert schema.from_private_data == ("works",)
    assert hush.Schema.discover(rows, known, BUDGET).from_private_data == ()


class Stopped:
    """A watcher of the gate that interrupts the run at one of its passages."""

    def __init__(self, passage: int) -> None:
        self.left = passage

    def charged(self, event: Any) -> None:
        pass

    def measured(self, request: Any, bound: Any, exact: Any, draw: Any) -> Any:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return draw()

    def discovered(self, law: Any, keys: int, exact: Any, draw: Any) -> Any:
        return draw()


@pytest.mark.parametrize("passage", range(5))
def test_an_interrupted_discovery_goes_on_and_pays_for_nothing_twice(tmp_path: Path, passage: int) -> None:
    kept, ledger, table = tmp_path / "people.toml.partial", tmp_path / "budget.db", incomes(3000)
    with watch(Stopped(passage)), pytest.raises(InterruptedRelease, match="pays for nothing twice"):  # type: ignore[arg-type]
        discover(table, EVERYTHING, BUDGET, ledger=ledger, partial=kept)
    held = DiscoveryRecord.load(kept)
    assert len(held.counts) == passage
    spent = hush.Ledger.open(ledger).total.rho
    # another run must not overwrite what was paid for, nor go on with another draft or ledger
    with pytest.raises(DataError, match="has paid for"):
        discover(table, EVERYTHING, BUDGET, ledger=ledger, partial=kept)
    with pytest.raises(DataError, match="not have the same draft"):
        discover(table, draft(age={"kind": "integer", **OPEN}), BUDGET, ledger=ledger, resume=kept)
    with pytest.raises(LedgerError, match="was charged to a ledger"):
        discover(table, EVERYTHING, BUDGET, resume=kept)
    job = DiscoveryJob(RowsOf(source=table), EVERYTHING, BUDGET, ledger, partial=kept, resume=kept)
    if passage < 5 and not _affordable(held):
        with pytest.raises(BudgetError, match="nothing is left"):
            job.run()
        return
    found = job.run()
    for key, (rows, _) in held.counts.items():
        assert np.array_equal(job.record.counts[key][0], rows)
    assert len(job.record.counts) == 6
    total = hush.Ledger.open(ledger).total.rho
    assert total is not None
    assert spent is not None
    assert spent < total <= BUDGET.limit * (1 + Fraction(1, 10**9))
    assert found.schema.from_private_data == ("income", "age", "day")  # the first part was watched


def test_a_disk_that_fills_up_during_a_discovery_loses_nothing_that_is_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, table = tmp_path / "budget.db", incomes(3000)

    kept, save = tmp_path / "people.partial", DiscoveryRecord.save

    def full(record: DiscoveryRecord, path: Path) -> None:
        if path == kept:
            raise ArchiveError("cannot write people.partial: no space left")
        save(record, path)

    with monkeypatch.context() as patch:
        patch.setattr(DiscoveryRecord, "save", full)
        with pytest.raises(InterruptedRelease, match="no space left, and resuming") as caught:
            discover(table, EVERYTHING, BUDGET, ledger=ledger, partial=kept)
    spent = hush.Ledger(ledger).limit - hush.Ledger(ledger).remaining
    assert 0 < spent < BUDGET.limit
    rescued = str(caught.value).split(" kept in ")[1].split(",")[0]
    assert discover(table, EVERYTHING, BUDGET, ledger=ledger, resume=rescued).schema.discovery is not None


def test_a_resumed_record_states_all_that_was_spent() -> None:
    table = incomes(500)
    with watch(Stopped(1)), pytest.raises(InterruptedRelease) as stopped:  # type: ignore[arg-type]
        discover(table, EVERYTHING, BUDGET)
    first = stopped.value.release
    assert isinstance(first, DiscoveryRecord)
    job = DiscoveryJob(RowsOf(source=table), EVERYTHING, BUDGET, resume=first)
    job.run()
    bound = sensitivity(ONE_CELL, max_rows=1, neighbours=job.neighbours)
    later = [law for key, (_, law) in job.record.counts.items() if key not in first.counts]
    assert len(later) == 5
    events = [first.statement.event, *(law.event(bound) for law in later)]
    assert price(job.record.statement.event).rho == price(compose(events)).rho


def _affordable(record: DiscoveryRecord) -> bool:
    """Whether an interrupted run left a part of its budget: its last charge spends all."""
    spent = price(compose([record.statement.event])).rho
    return spent is not None and spent < Fraction(9, 10) * BUDGET.limit


def test_a_run_depends_on_the_rows_through_the_gate_alone(tmp_path: Path) -> None:
    outlier = incomes(60, seed=4).slice(0, 1).set_column(0, "income", pa.array([4e6]))
    table = pa.concat_tables([outlier, incomes(59, seed=3)])
    neighbours = [table.slice(1), table.slice(0, 59), pa.concat_tables([table, table.slice(5, 1)])]

    def run(rows: pa.Table) -> tuple[str, tuple[str, ...]]:
        found = discover(rows, EVERYTHING, Budget(rho=50.0))
        return found.schema.to_toml(), found.notes

    assert check_replay(run, table, neighbours) == 3


def test_budgets_that_can_find_nothing_are_refused_before_the_charge(tmp_path: Path) -> None:
    ledger = tmp_path / "budget.db"
    with pytest.raises(BudgetError, match="use at least about epsilon=") as caught:
        discover(incomes(200), EVERYTHING, Budget(epsilon=0.01, delta=1e-9), ledger=ledger, rows=200)
    assert not ledger.exists()
    enough = float(str(caught.value).split("use at least about epsilon=")[1].split(",")[0])
    discover(incomes(200), EVERYTHING, Budget(epsilon=enough, delta=1e-9), rows=200)
    with pytest.raises(BudgetError, match="too small to find anything"):
        discover(incomes(200), EVERYTHING, Budget(epsilon=0.95 * enough, delta=1e-9), rows=200)


def test_numbers_far_from_zero_get_bins_as_fine_as_they_need() -> None:
    """Years take up a 50th of the levels 1,000 to 5,000; without a grid in between, they got two bins.

    Noise of standard deviation below 20 on 300 rows per year; of the three runs none may be wrong by chance.
    """
    rng = np.random.default_rng(9)
    table = pa.table({"year": rng.integers(1950, 2021, 20_000), "degrees": rng.normal(36.6, 0.7, 20_000).round(2)})
    entries = draft(year={"kind": "integer", **OPEN}, degrees={"kind": "numeric", "bins": "discover", **OPEN})
    for _ in range(3):
        job = DiscoveryJob(RowsOf(source=table), entries, BUDGET)
        schema = job.run().schema
        assert {("zoom", "year"), ("zoom", "degrees")} <= job.record.counts.keys()
        year, degrees = schema["year"], schema["degrees"]
        assert isinstance(year, Integer)
        assert isinstance(degrees, Numeric)
        assert 1930 <= year.low <= 1951
        assert 2019 <= year.high <= 2040
        assert year.size > 60
        assert sum(35 < edge < 38 for edge in degrees.edges) > 6
    # numbers near zero need no such grid
    job = DiscoveryJob(RowsOf(source=incomes(3000)), EVERYTHING, BUDGET)
    job.run()
    assert ("zoom", "income") not in job.record.counts


KINDS_OF_ENTRIES = {
    "bounds": Draft.of({"income": {"kind": "numeric", "missing": True, **OPEN}}),
    "levels": Draft.of({"city": {"kind": "categorical", "levels": "discover"}}),
    "cap": Draft.of({"works": Boolean(name="works")}, unit=Unit(column="id"), open_unit=True),
}


@pytest.mark.parametrize("entries", KINDS_OF_ENTRIES)
@pytest.mark.parametrize(
    "budget", [Budget(epsilon=1e-9, delta=1e-9), Budget(epsilon=1e-300), Budget(rho=1e-15)], ids=str
)
@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 4)], ids=str)
def test_the_least_budget_that_is_named_suffices_and_half_of_it_does_not(
    tmp_path: Path, entries: str, budget: Budget, share: Fraction
) -> None:
    if entries == "levels" and not budget.approximate:
        return  # refused for want of a delta
    table = pa.table({"income": [1.0], "city": ["a"], "works": [True], "id": [1]})

    def told(budget: Budget) -> str | None:
        try:
            job = DiscoveryJob(RowsOf(source=table), KINDS_OF_ENTRIES[entries], budget, share=share, rows=3000)
            job.ledger = tmp_path / "budget.db"
            job.run()
        except BudgetError as error:
            assert not (tmp_path / "budget.db").exists()
            return str(error)
        except DataError:  # the budget may be spent on these rows, in which there is nothing to find
            assert (tmp_path / "budget.db").exists()
        return None

    message = told(budget)
    assert message is not None
    assert f"{budget}: too small to find anything" in message
    named = message.split("use at least about ")[1].split(", or discover")[0]
    amounts = {key: float(value) for key, value in (part.split("=") for part in named.split(", "))}
    half = {key: value / 2 if key != "delta" else value for key, value in amounts.items()}
    assert told(Budget(**half)) is not None
    assert told(Budget(**amounts)) is None


ODD = {
    "one value": pa.array([3.5] * 4000),
    "all missing": pa.array([None] * 4000, pa.float64()),
    "infinite": pa.array([np.inf, -np.inf] * 2000),
    "mixed": pa.array([np.inf, 5.0, 6.0, None] * 1000),
    "huge": pa.array([1e300, 2.0] * 2000),
    "tiny": pa.array([1e-300, 2e-9] * 2000),
}


@pytest.mark.parametrize("known", [0, 1000])
def test_many_cells_and_points_are_no_more_than_a_column_may_list(known: int) -> None:
    """These numbers get over a thousand cells, each of which could begin with a single value."""
    numbers = np.random.default_rng(3).choice([99999999.0, 99999998.5, 1e15, 999999999999999.9], 2000)
    column = {"kind": "numeric", "bins": "discover", "points": list(range(known)), **OPEN}
    found = discover(pa.table({"x": numbers}), draft(x=column), Budget(rho=1e3)).schema["x"]
    assert isinstance(found, Numeric)
    assert len(found.points) <= 1000


def test_odd_columns_are_described_and_lose_nothing() -> None:
    entries = {"kind": "numeric", "bins": "discover", "missing": True, **OPEN}
    found = discover(pa.table(ODD), Draft.of(dict.fromkeys(ODD, entries)), BUDGET)
    notes = dict(note.split(": ", 1) for note in found.notes)
    assert set(found.left_out) == {"all missing", "infinite"}
    assert notes["all missing, infinite"].startswith("left out of the schema; all values are missing, or too few rows")
    assert "nearly all rows share one level" in notes["one value"]
    assert "infinite or beyond" in notes["mixed"]
    assert "infinite or beyond" in notes["huge"]
    one = found.schema["one value"]
    assert isinstance(one, Numeric)
    assert one.low <= 3.5 <= one.high
    counts = hush.read(pa.table(ODD), found.schema).counts([(name,) for name in found.schema.domain])
    assert all(rows.sum() == 4000 for rows in counts.values())
    with pytest.raises(
        DataError, match=r"nothing was found in any column.* About (39|4\d) % of epsilon=1, .* is spent"
    ):
        discover(pa.table({"x": ODD["all missing"]}), Draft.of({"x": entries}), BUDGET)


def test_timestamps_and_given_parts_stay() -> None:
    rng = np.random.default_rng(5)
    moments = np.datetime64("2021-01-01T00:00:00") + rng.integers(0, 400 * 86_400, 5000).astype("timedelta64[s]")
    entries = {"kind": "timestamp", "parts": ["date", "hour"], "granularity": "month", **OPEN}
    schema = hush.Schema.discover(pa.table({"at": moments}), {"at": entries}, BUDGET)
    part = schema["at.date"].part
    assert part is not None
    assert isinstance(part.stamp, Timestamp)
    assert part.stamp.start == dt.date(2021, 1, 1)
    assert dt.date(2022, 1, 31) <= part.stamp.end <= dt.date(2022, 5, 31)  # the last row is of 2022-02-04
    assert part.stamp.discovered is not None
    assert part.stamp.discovered.what == ("bounds",)
    assert read_toml(schema.to_toml()) == schema


def test_values_that_cannot_be_read_are_refused_before_the_charge(tmp_path: Path) -> None:
    ledger = tmp_path / "budget.db"
    table = pa.table({"age": ["31", "old"]})
    with pytest.raises(DataError, match="age"):
        discover(table, draft(age={"kind": "integer", **OPEN}), BUDGET, ledger=ledger)
    known = draft(age={"kind": "categorical", "values": ["31"]}, size={"kind": "integer", **OPEN})
    with pytest.raises(DataError, match="age.*outside its declared levels"):
        discover(table.append_column("size", pa.array([1, 2])), known, BUDGET, ledger=ledger)
    gaps = pa.table({"city": ["a"] * 500 + [None]})
    with pytest.raises(DataError, match="city.*set missing = true"):
        discover(gaps, draft(city={"kind": "categorical", "levels": "discover"}), BUDGET, ledger=ledger)
    assert not ledger.exists()
    with pytest.raises(DataError, match="no column 'agee'"):
        discover(table, draft(agee={"kind": "integer", **OPEN}), BUDGET)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    with pytest.raises(DataError, match="read only once"):
        discover(reader, draft(age={"kind": "integer", **OPEN}), BUDGET)


def test_levels_and_rows_per_person_are_found_with_numbers_and_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    rows = 8000
    table = pa.table(
        {
            "id": np.sort(rng.integers(0, 3000, rows)),
            "city": rng.choice(["Rome", "Oslo", "Bern"], rows, p=[0.6, 0.3, 0.1]),
            "ticket": [f"t{k}" for k in range(rows)],
            "fare": rng.uniform(0, 90, rows),
        }
    )
    entries = {"kind": "categorical", "levels": "discover"}
    columns = {"city": entries, "ticket": entries, "fare": {"kind": "numeric", **OPEN}}
    open_draft = Draft.of(columns, unit=Unit(column="id"), open_unit=True)
    kept, budget = tmp_path / "x.partial", Budget(epsilon=4.0, delta=1e-6)
    with watch(Stopped(2)), pytest.raises(InterruptedRelease):  # type: ignore[arg-type]
        discover(table, open_draft, budget, partial=kept)
    held = DiscoveryRecord.load(kept)
    assert held.unit is not None
    found = discover(table, open_draft, budget, resume=kept)
    assert found.schema.unit == Unit(column="id", max_rows=held.unit.max_rows)
    assert 3 <= held.unit.max_rows <= 8
    assert found.left_out == ("ticket",)
    assert [column.name for column in found.schema] == ["city", "fare"]
    city = found.schema["city"]
    assert isinstance(city, Categorical)
    assert {"Rome", "Oslo"} <= set(city.values)
    assert found.schema.discovery is not None
    assert found.schema.discovery.max_rows == held.unit.provenance
    assert read_toml(found.schema.to_toml()) == found.schema
    # without a delta, or with too little of the budget, levels are refused before anything is charged
    with pytest.raises(BudgetError, match="takes a budget of epsilon and delta"):
        discover(table, open_draft, Budget(rho=0.1), ledger=tmp_path / "b.db")
    assert not (tmp_path / "b.db").exists()
