"""Memory of a release: predicted and refused before the first charge, or kept to; for every mechanism and estimator."""

import dataclasses
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hush
from hush.core.errors import SizeError
from hush.mechanisms import AIM, DAWA, GEM, HDMM, MST, RAP, DualQuery
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.registry import BUILT_IN
from hush.mechanisms.release_job import ReleaseJob
from hush.tables.table import Table

WIDE = hush.Domain({"id": 10**6, "a": 2, "b": 3, "c": 5})
MEDIUM = hush.Domain({f"m{number}": 60 for number in range(5)})
NARROW = hush.Domain({"id": 2500, "a": 4, "b": 3})
LIMIT = 1 << 27
ROWS = 2000

VARIANTS: dict[str, Mechanism] = {
    **{name: kind() for name, kind in BUILT_IN.items()},
    "aim, relaxed": AIM(estimator="relaxed", rows=50),
    "aim, relaxed and merged": AIM(estimator="relaxed", merge_rare=True, rows=50),
    "aim, merged": AIM(merge_rare=True),
    "mst, merged": MST(merge_rare=True),
    "rap, cells": RAP(measure="cells", rows=50, rounds=2, queries=3),
    "rap, tables": RAP(measure="tables", rows=50, rounds=2),
    "rap, all": RAP(measure="all", rows=50),
    "hdmm, global": HDMM(least_squares="global"),
    "dawa, noisy costs": DAWA(partition="noisy-costs"),
}
QUICK = {  # the same within seconds
    "aim": AIM(rounds=7),
    "aim, merged": AIM(rounds=7, merge_rare=True),
    "aim, relaxed": AIM(estimator="relaxed", rows=10, rounds=7),
    "aim, relaxed and merged": AIM(estimator="relaxed", merge_rare=True, rows=10, rounds=7),
    "rap": RAP(rows=10, rounds=2),
    "rap, all": RAP(measure="all", rows=20),
    "dualquery": DualQuery(turns=3, draws=2),
    "gem": GEM(rounds=2, rows=20, hidden=8),
}


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> int:
    """A container of little memory, as every part of hush sees it."""
    for name, size in (("max", LIMIT), ("current", 0)):
        (tmp_path / name).write_text(str(size))
    files = ((str(tmp_path / "max"), str(tmp_path / "current")),)
    monkeypatch.setattr("hush.core.memory._CONTAINER_FILES", files)
    return LIMIT


def workload_of(mechanism: Mechanism, domain: hush.Domain) -> hush.Workload:
    if isinstance(mechanism, DAWA):
        return hush.Workload.product(domain, {domain.attributes[0]: hush.queries.prefix})
    searching = mechanism.name in ("matrix", "hdmm", "auto")
    return hush.Workload.kway(domain, 2 if not searching else 3 if domain is WIDE else 1)


def rows_of(domain: hush.Domain) -> pa.Table:
    generator = np.random.default_rng(5)
    return pa.table({name: np.minimum(generator.pareto(1.0, ROWS).astype(int), domain[name] - 1) for name in domain})


def people(domain: hush.Domain) -> Table:
    return hush.read(rows_of(domain), hush.Schema.from_domain(domain))


def release(mechanism: Mechanism, domain: hush.Domain, table: Table, folder: Path, limit: int) -> str:
    """Release under the limit; "refused" or "done", with all that either promises."""
    budget = hush.Budget(epsilon=1.0) if getattr(mechanism, "partition", "grids") != "grids" else hush.Budget(rho=0.5)
    ledger = hush.Ledger.create(folder / "ledger.db", budget)
    reads: list[str] = []

    def read(self: Table, *arguments: object, **options: object) -> object:
        reads.append("read")
        return counts(self, *arguments, **options)

    counts = Table.counts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "counts", read)
        try:
            plan = hush.plan(workload_of(mechanism, domain), budget, mechanism=mechanism)
        except SizeError:
            return "refused"
        tracemalloc.start()
        try:
            done = ReleaseJob(plan, ledger=ledger, output=folder / "release.hush").run(table)
        except SizeError as error:
            done, refusal = None, str(error)
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    if done is None:
        assert not reads, refusal
        assert ledger.remaining == ledger.budget.limit, refusal
        assert "needs" in refusal
        return "refused"
    assert done.complete
    predicted = mechanism.memory(plan, table.schema) if mechanism.name != "auto" else limit
    assert peak <= limit
    assert peak <= max(predicted, 1 << 26)
    return "done"


@pytest.mark.parametrize("name", VARIANTS)
def test_a_column_of_a_million_levels_is_refused_before_the_charge_or_fits(name, tmp_path, limited) -> None:
    release(VARIANTS[name], WIDE, people(WIDE), tmp_path, limited)


@pytest.mark.parametrize("name", VARIANTS)
def test_many_medium_columns_are_refused_before_the_charge_or_fit(name, tmp_path, limited) -> None:
    release(QUICK.get(name, VARIANTS[name]), MEDIUM, people(MEDIUM), tmp_path, limited)


@pytest.mark.parametrize(
    "name",
    [
        "aim",
        "mst",
        "mwem",
        "privbayes",
        "privmrf",
        "privsyn",
        "swift",
        "scout",
        "dualquery",
        "gem",
        "rap",
        "rap, cells",
        "independent",
    ],
)
def test_what_is_predicted_to_fit_is_released_within_the_prediction(name, tmp_path, limited) -> None:
    settings = dataclasses.replace(QUICK.get(name, VARIANTS[name]))
    if hasattr(settings, "max_size_mb"):
        settings = dataclasses.replace(settings, max_size_mb=0.2)
    assert release(settings, NARROW, people(NARROW), tmp_path, limited) == "done"


@pytest.mark.parametrize("engine", ["memory", "stream", "sql"])
@pytest.mark.parametrize("measure", ["tables", "cells"])
def test_levels_are_merged_before_they_are_counted_where_tables_would_not_fit(
    engine, measure, tmp_path, limited
) -> None:
    domain = hush.Domain({"id": 10**5, "a": 30, "b": 30})
    pq.write_table(rows_of(domain), tmp_path / "rows.parquet")
    table = hush.read(tmp_path / "rows.parquet", hush.Schema.from_domain(domain), engine=engine)
    with pytest.raises(SizeError):
        table.require([("id", "a", "b")])
    settings = RAP(measure=measure, rows=20, rounds=2)
    plan = hush.plan(hush.Workload.kway(domain, 3), hush.Budget(rho=2.0), mechanism=settings)
    assert plan.release(table).complete


def test_engines_count_merged_levels_alike(tmp_path) -> None:
    domain = hush.Domain({"id": 10**5, "a": 30, "b": 30})
    pq.write_table(rows_of(domain), tmp_path / "rows.parquet")
    codes = {"id": np.minimum(np.arange(10**5), 7)}
    asked = [("a", "id", "b"), ("b", "a"), ("id",)]
    counts = []
    for engine in ("memory", "stream", "sql"):
        schema = hush.Schema.from_domain(domain)
        table = hush.read(tmp_path / "rows.parquet", schema, engine=engine, memory_limit="40MB")
        merged = table.coarse(codes)
        merged.require(asked)
        counts.append(merged.counts(asked))
    for clique in asked:
        assert counts[0][clique].sum() == ROWS
        assert counts[0][clique].shape == tuple(8 if name == "id" else domain[name] for name in clique)
        for other in counts[1:]:
            np.testing.assert_array_equal(other[clique], counts[0][clique])


def test_rounds_choose_only_what_there_is_memory_to_keep(limited) -> None:
    """With little memory left, a run chooses small tables, and none fails for want of memory."""
    twins = rows_of(MEDIUM)
    twins = twins.set_column(1, "m1", twins.column("m0"))
    table = hush.read(twins, hush.Schema.from_domain(MEDIUM))
    plan = hush.plan(hush.Workload.kway(MEDIUM, 2), hush.Budget(rho=5.0), mechanism=AIM(rounds=12, max_size_mb=0.2))
    job = ReleaseJob(plan)
    whole = plan.settings.check_memory

    def nearly_nothing(*arguments: object) -> float:
        whole(*arguments)
        return 2.0 * (64 + 260) * 700  # for 700 noisy numbers, of which the columns have 300 or 600

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AIM, "check_memory", lambda self, *arguments: nearly_nothing(*arguments))
        done = job.run(table)
    assert done.complete
    assert all(len(played.clique) == 1 for played in done.rounds)
    assert any(len(played.clique) == 2 for played in plan.release(table).rounds)
