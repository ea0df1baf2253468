"""rap: what it chooses, what it measures, and what its scores promise."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hush
from hush.core.errors import BudgetError, HushError, WorkloadError
from hush.mechanisms import RAP
from hush.mechanisms.candidates import threshold_answers
from hush.mechanisms.rap import candidate_tables, whole_tables
from hush.models.relaxed.relaxed_rows import RelaxedRows
from hush.privacy.events import SelectionEvent
from hush.release.statement import event_parts
from hush.schema import Schema
from hush.strategies.rare_levels import MergedQuery
from hush.testing import TinyTable
from hush.workloads.threshold_term import TargetQuery

DOMAIN = hush.Domain({"a": 2, "b": 3, "c": 2})
SCHEMA = hush.datasets.people_schema()


@pytest.fixture(scope="module")
def people() -> Any:
    return hush.read(hush.datasets.people(3000, seed=2), SCHEMA)


def error(release: hush.Release, table: Any, cliques: list[tuple[str, ...]]) -> float:
    exact, model = table.counts(cliques), release.model()
    return max(float(np.abs(exact[clique] - model.counts(clique)).max()) for clique in cliques) / 3000


@pytest.mark.parametrize("measure", ["auto", "tables", "cells", "all"])
def test_with_much_budget_every_answer_is_near(people: Any, measure: str) -> None:
    """The noise is below a row, so what remains is the fit; all-zero answers are off by a third of the rows."""
    cliques = [("sex", "region"), ("sex", "employed"), ("region", "employed")]
    workload = hush.Workload.marginals(SCHEMA.domain, cliques)
    queries = {"queries": 12} if measure == "cells" else {}
    mechanism = RAP(measure=measure, rows=60, **queries)  # type: ignore[arg-type]
    release = hush.plan(workload, hush.Budget(rho=2000.0), mechanism=mechanism).release(people)
    assert isinstance(release.model().distribution, RelaxedRows)
    assert error(release, people, cliques) < 0.02


def test_a_run_spends_its_budget_on_as_many_rounds_as_planned(people: Any) -> None:
    workload = hush.Workload.kway(SCHEMA.domain, 2)
    mechanism = RAP(rounds=4, queries=2, rows=30)
    release = hush.plan(workload, hush.Budget(rho=0.1), mechanism=mechanism).release(people)
    assert len(release.rounds) == 8
    choices = {
        event: count for event, count in event_parts(release.statement.event) if isinstance(event, SelectionEvent)
    }
    assert sum(choices.values()) == 8
    spent = sum(event.epsilon**2 / 8 * count for event, count in choices.items())
    assert float(spent) == pytest.approx(0.1 * 0.7 * 0.25, rel=1e-6)  # a quarter of what the columns leave


def test_more_choices_than_tables_make_no_more_rounds(people: Any) -> None:
    workload = hush.Workload.marginals(SCHEMA.domain, [("sex", "region")])
    release = hush.plan(workload, hush.Budget(rho=0.1), mechanism=RAP(rounds=4, queries=8, rows=10)).release(people)
    assert len(release.rounds) == 4


def test_k_choices_at_once_cost_what_the_corrected_scale_says(people: Any) -> None:
    """With half of a round for choices, K choices at rho_t / (2 K) each; the printed scale would spend rho_t."""
    workload = hush.Workload.kway(SCHEMA.domain, 2)
    mechanism = RAP(measure="cells", rounds=1, queries=5, rows=20)
    release = hush.plan(workload, hush.Budget(rho=0.1), mechanism=mechanism).release(people)
    rho_t = Fraction("0.1") * Fraction(0.7)
    for played in release.rounds:
        assert played.epsilon**2 / 8 == pytest.approx(float(rho_t) / 10, rel=1e-6)
        scale = 2 / played.epsilon  # of Gumbel noise with the law of this choice, in rows
        assert scale == pytest.approx(float(5 / rho_t) ** 0.5, rel=1e-6)


def test_no_answer_is_measured_twice(people: Any) -> None:
    workload = hush.Workload.marginals(SCHEMA.domain, [("sex", "region")])
    mechanism = RAP(measure="cells", rounds=3, queries=3, rows=20)
    release = hush.plan(workload, hush.Budget(rho=5.0), mechanism=mechanism).release(people)
    asked = [table.asked for table in release.noisy_tables if isinstance(table.asked, TargetQuery)]
    assert len(asked) == 9
    assert max(Counter(asked).values()) == 1


def test_rounds_of_single_answers_state_how_far_the_rows_were(people: Any) -> None:
    """At a large budget, about the distance of the table from independent columns, which is what rows start as."""
    names = ("education", "employed")
    workload = hush.Workload.marginals(SCHEMA.domain, [names])
    mechanism = RAP(measure="cells", rounds=1, queries=3, rows=100)
    release = hush.plan(workload, hush.Budget(rho=50.0), mechanism=mechanism).release(people)
    table = people.counts([names])[names]
    independent = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    asked = [noisy.asked for noisy in release.noisy_tables if isinstance(noisy.asked, TargetQuery)]
    for played, query in zip(release.rounds, asked, strict=True):
        gap = abs(independent - table)[query.target]
        assert gap > 20
        assert played.misfit == pytest.approx(gap, abs=10)


def test_rare_levels_are_counted_together(people: Any) -> None:
    workload = hush.Workload.kway(SCHEMA.domain, 2)
    release = hush.plan(workload, hush.Budget(rho=0.003), mechanism=RAP(rounds=3, rows=20)).release(people)
    assert any(isinstance(table.asked, MergedQuery) for table in release.noisy_tables)
    assert release.model().counts(("sex", "region")).shape == SCHEMA.domain.sizes(("sex", "region"))


def test_thresholds_can_be_asked(people: Any) -> None:
    names = ("sex", "region", "employed")
    workload = hush.Workload.thresholds(SCHEMA.domain, 3, 2, cliques=[names])
    exact = threshold_answers(people.counts([names])[names], 2)
    for mechanism in (RAP(rows=60), RAP(measure="cells", rounds=2, queries=8, rows=60)):
        release = hush.plan(workload, hush.Budget(rho=500.0), mechanism=mechanism).release(people)
        found = threshold_answers(release.model().counts(names), 2)
        assert np.abs(found - exact).max() / 3000 < 0.05


@pytest.mark.parametrize(
    ("r", "factor", "orders"),
    [(4, 0.2, None), (4, 2, {4}), (1, 0.2, None), (1, 2, {2}), (2, 0.2, None), (2, 1.1, {2}), (2, 4, {2, 3})],
)
def test_all_tables_are_measured_at_once_where_that_leaves_little_noise(
    people: Any, r: int, factor: float, orders: set[int] | None
) -> None:
    """The budget is a factor of the least for which the largest noise of the marginal, or of pairs, is 2 % of rows."""
    names = ("sex", "region", "employed", "age")
    domain = SCHEMA.domain
    workload = hush.Workload.thresholds(domain, 4, r, cliques=[names])
    smallest = whole_tables(domain, [(names, r)], 2)
    assert len(smallest) == (1 if r == 4 else 6)
    cells = sum(domain.size(clique) for clique in smallest)
    for_columns = 0.3 if r == 4 else 0.5
    least = len(smallest) * np.log(cells) / ((0.02 * 3000) ** 2 * (1 - for_columns))
    budget = hush.Budget(rho=factor * least)
    release = hush.plan(workload, budget, mechanism=RAP(rows=20)).release(people)
    assert bool(release.rounds) == (orders is None)
    if orders is not None:
        assert {len(table.clique) for table in release.noisy_tables} == {1} | orders
    stated = hush.plan(workload, budget, mechanism=RAP(rounds=2, rows=20)).release(people)
    assert len(stated.rounds) == 2  # rounds that are asked for are played


def test_more_tables_than_can_be_kept_are_refused_before_anything_is_charged() -> None:
    domain = hush.Domain({f"c{index}": 2 for index in range(40)})
    workload = hush.Workload.thresholds(domain, 40, 15, cliques=[tuple(domain)])
    with pytest.raises(WorkloadError, match=r"would measure 10,660 tables, more than 8,192; use measure='tables'"):
        hush.plan(workload, hush.Budget(rho=0.5), mechanism=RAP(measure="all"))
    assert not whole_tables(domain, [(tuple(domain), 15)])


@pytest.mark.parametrize("rho", [0.0001, 5.0])
def test_worst_cells_are_chosen_by_where_the_budget_can_tell_them_apart(people: Any, rho: float) -> None:
    """Half of what noise is expected to leave is taken off: of all cells if choices are blurred, else of the worst."""
    workload = hush.Workload.marginals(SCHEMA.domain, [("sex", "region", "employed")])
    release = hush.plan(workload, hush.Budget(rho=rho), mechanism=RAP(rounds=3, rows=20)).release(people)
    blurred = 2 / release.rounds[0].epsilon * np.log(4) > 0.05 * 3000
    assert blurred == (rho < 1)
    for table, played in zip(
        release.noisy_tables[-3:-1], release.rounds[:-1], strict=True
    ):  # the last has what is left
        left = table.numbers * np.sqrt(2 / np.pi) if blurred else np.sqrt(2 * np.log(table.numbers))
        assert played.penalty == pytest.approx(0.5 * played.stddev * left, abs=2**-10)


def test_candidates_are_pairs_and_triples_and_the_columns_of_thresholds() -> None:
    domain, clique = hush.Domain(dict.fromkeys("abcd", 2)), ("d", "a", "b", "c")
    listed = list(candidate_tables(domain, [(clique, 4)]))
    assert len(listed) == 6 + 4
    assert ("a", "b", "d") in listed
    assert len(list(candidate_tables(domain, [(clique, 2)]))) == 4 + 6 + 4


def test_columns_alone_get_the_whole_budget() -> None:
    plan = hush.plan(hush.Workload.kway(DOMAIN, 0), hush.Budget(rho=0.5), mechanism=RAP(rows=10))
    release = plan.release(TinyTable(DOMAIN, [(0, 0, 0), (1, 2, 1)]))  # type: ignore[arg-type]
    assert not release.rounds
    assert len(release.noisy_tables) == 3
    assert release.noisy_tables[0].stddev == pytest.approx(np.sqrt(3 / (2 * 0.5)), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measure": "rows"}, "measure='rows': expected one of 'auto', 'tables', 'cells', 'all'"),
        ({"rounds": 0}, "rounds=0: expected a whole number of at least 1"),
        ({"queries": 1.5}, "queries=1.5"),
        ({"rows": None}, "rows=None"),
        ({"column_share": 1.0}, "column_share=1.0: expected a number between 0 and 1"),
        ({"choice_share": 0}, "choice_share=0"),
        ({"restraint": 1.0}, "restraint=1.0: expected a number of at least 0 and below 1"),
        ({"measure": "all", "rounds": 3}, "measure='all' has no rounds"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(HushError, match=message):
        RAP(**options)


def test_rules_are_refused_before_anything_is_charged(tmp_path: Any) -> None:
    columns = Schema.from_domain(DOMAIN).columns
    schema = Schema(columns, constraints=[hush.Constraint.forbid(DOMAIN, ("a", "b"), [(0, 0)])])
    table = hush.read(pa.table({"a": [0], "b": [1], "c": [1]}), schema)
    plan = hush.plan(hush.Workload.kway(schema.domain, 2), hush.Budget(rho=0.5), mechanism=RAP())
    with pytest.raises(WorkloadError, match="the schema has rules"):
        plan.release(table, ledger=tmp_path / "budget.db")
    assert not (tmp_path / "budget.db").exists()


def test_pure_epsilon_is_refused() -> None:
    with pytest.raises(BudgetError, match="never pure epsilon"):
        hush.plan(hush.Workload.kway(DOMAIN, 2), hush.Budget(epsilon=1.0), mechanism=RAP())
