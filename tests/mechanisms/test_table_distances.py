"""TableDistances: exact values, the sensitivity on every neighbour of tiny tables, and what a record keeps of them."""

from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Workload
from hush.core.errors import ArchiveError, WorkloadError
from hush.files.codec import CliqueTable
from hush.mechanisms import PrivSyn
from hush.mechanisms.candidates import LARGEST_MISFIT, on_grid
from hush.mechanisms.table_distances import TableDistances, survey_pairs
from hush.privacy.events import ComposedEvent, GaussianEvent
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.sensitivity import Neighbours
from hush.release.survey_record import SurveyFile, SurveyRecord
from hush.strategies.rare_levels import Merging
from hush.testing import TinyTable, neighbours_of

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
PAIRS = tuple(combinations(DOMAIN.attributes, 2))
ROWS = [(0, 0, 0), (1, 2, 1), (1, 1, 0), (1, 2, 1)]


def statistic(seed: int = 0) -> TableDistances:
    random = np.random.default_rng(seed)
    return TableDistances(on_grid({pair: 2 * random.random(DOMAIN.sizes(pair)) for pair in PAIRS}))


def answers(asked: TableDistances, table: TinyTable) -> np.ndarray[Any, Any]:
    return asked.answer(table.counts(asked.cliques))


def test_the_distances_are_rounded_down() -> None:
    asked, table = statistic(), TinyTable(DOMAIN, ROWS)
    exact = table.counts(PAIRS)
    dense = [int(np.floor(np.abs(exact[pair] - asked.tables[pair]).sum())) for pair in PAIRS]
    values = answers(asked, table)
    assert values.tolist() == dense
    assert values.dtype == np.int64


def excess(asked: TableDistances, relation: Neighbours, l1: Fraction, l2_squared: Fraction) -> int:
    """On how many neighbours of some tables the answers move further than these bounds."""
    beyond = 0
    for count in range(len(ROWS) + 1):
        table = TinyTable(DOMAIN, ROWS[:count])
        for other in neighbours_of(table, relation):
            moved = np.abs(answers(asked, other) - answers(asked, table))
            beyond += int(moved.sum()) > l1 or int((moved**2).sum()) > l2_squared
    return beyond


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("seed", range(5))
def test_no_neighbour_moves_the_distances_further_than_declared(relation: Neighbours, seed: int) -> None:
    asked = statistic(seed)
    bound = asked.sensitivity(max_rows=1, neighbours=relation)
    assert excess(asked, relation, bound.l1, bound.l2_squared) == 0
    factor = 1 if relation is Neighbours.ADD_REMOVE else 2
    assert (bound.l1, bound.l2_squared) == (3 * factor, 3 * factor**2)


@pytest.mark.parametrize("relation", Neighbours)
def test_smaller_bounds_would_be_exceeded(relation: Neighbours) -> None:
    asked = TableDistances({pair: np.zeros(DOMAIN.sizes(pair)) for pair in PAIRS})
    # without a model a distance is the number of rows, which an exchanged row does not move
    beyond = excess(asked, relation, Fraction(2), Fraction(3))
    assert (beyond > 0) == (relation is Neighbours.ADD_REMOVE)
    far = TableDistances({pair: TinyTable(DOMAIN, ROWS).counts([pair])[pair] * 1.0 for pair in PAIRS})
    assert excess(far, relation, Fraction(2), Fraction(2)) > 0


MERGING = Merging({"b": np.array([0, 1, 1])})


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("seed", range(3))
def test_distances_with_merged_levels_move_no_further(relation: Neighbours, seed: int) -> None:
    merged = {pair: MERGING.table(pair, table) for pair, table in statistic(seed + 9).tables.items() if "b" in pair}
    asked = TableDistances(statistic(seed).tables, on_grid(merged), MERGING)
    table = TinyTable(DOMAIN, ROWS)
    exact = {pair: MERGING.table(pair, counts) for pair, counts in table.counts(PAIRS).items()}
    distances = [int(np.floor(np.abs(exact[pair] - public).sum())) for pair, public in asked.merged.items()]
    assert answers(asked, table).tolist() == [*answers(statistic(seed), table).tolist(), *distances]
    bound = asked.sensitivity(max_rows=1, neighbours=relation)
    assert excess(asked, relation, bound.l1, bound.l2_squared) == 0
    factor = 1 if relation is Neighbours.ADD_REMOVE else 2
    assert (bound.l1, bound.l2_squared) == (5 * factor, 5 * factor**2)


def test_the_bound_without_merged_distances_would_be_exceeded() -> None:
    before = TinyTable(DOMAIN, [(0, 0, 0)])
    near = {pair: counts * 1.0 for pair, counts in before.counts(PAIRS).items()}
    asked = TableDistances(near, {pair: MERGING.table(pair, near[pair]) for pair in PAIRS if "b" in pair}, MERGING)
    moved = np.abs(answers(asked, TinyTable(DOMAIN, [(0, 0, 0), (1, 1, 1)])) - answers(asked, before))
    assert (
        int((moved**2).sum())
        == 5
        > TableDistances(near).sensitivity(max_rows=1, neighbours=Neighbours.ADD_REMOVE).l2_squared
    )


def test_exchanged_rows_reach_the_declared_bound() -> None:
    before, after = TinyTable(DOMAIN, [(0, 0, 0)]), TinyTable(DOMAIN, [(1, 1, 1)])
    asked = TableDistances({pair: before.counts([pair])[pair] * 1.0 for pair in PAIRS})
    moved = np.abs(answers(asked, after) - answers(asked, before))
    bound = asked.sensitivity(max_rows=1, neighbours=Neighbours.REPLACE)
    assert (int(moved.sum()), int((moved**2).sum())) == (bound.l1, bound.l2_squared)


def test_units_of_several_rows_are_as_many_steps() -> None:
    bound = statistic().sensitivity(max_rows=4, neighbours=Neighbours.ADD_REMOVE)
    assert (bound.l1, bound.l2_squared) == (12, 48)


def test_large_distances_are_cut_off_and_large_counts_are_exact() -> None:
    pair = ("a", "b")
    asked = TableDistances({pair: np.array([[2.0**40], [2.0**-10]])})
    near = np.array([[2**40 + 5], [3]])
    assert asked.answer({pair: near}).tolist() == [7]
    assert asked.answer({pair: 2 * near}).tolist() == [int(LARGEST_MISFIT)]


@pytest.mark.parametrize("cell", [0.3, np.nan])
def test_tables_off_the_grid_are_refused(cell: float) -> None:
    table = np.full((2, 3), cell)
    with pytest.raises(WorkloadError, match=r"off the grid of 2\^-10"):
        TableDistances({("a", "b"): table})


def test_a_table_of_another_shape_is_refused() -> None:
    asked = TableDistances({("a", "b"): np.zeros((2, 1))})
    with pytest.raises(WorkloadError, match="another shape"):
        answers(asked, TinyTable(DOMAIN, ROWS))


LINKED = TinyTable(DOMAIN, [(i % 2, i % 2 + (i % 5 == 0), i // 2 % 2) for i in range(400)])


def test_the_survey_finds_dependences_and_takes_out_the_noise_of_columns() -> None:
    plan = PrivSyn().plan(Workload.kway(DOMAIN, 2), Budget(rho=2.0))
    surveys: list[Any] = []

    class Keeping(PrivSyn):
        def run(self, session: Any, plan: Any) -> None:
            columns = [(name,) for name in session.domain]
            session.measure(columns, session.limit / 30, note="columns")
            surveys.append(survey_pairs(session, PAIRS, Fraction(1, 2), "test"))
            session.fit()

    settings = Keeping()
    for seed in range(20):
        settings.plan(plan.workload, plan.budget).release(LINKED, entropy=NotPrivateEntropy(seed))
    dependences = np.array([survey.dependences for survey in surveys])
    truth = []
    for pair, table in LINKED.counts(PAIRS).items():
        truth.append(np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0)) / 400).sum())
        assert pair in surveys[0].dependence()
    assert next(iter(surveys[0].dependence())) == ("a", "b")
    np.testing.assert_allclose(dependences.mean(axis=0), truth, atol=12)


def test_the_noise_of_scores_is_what_was_charged() -> None:
    release = PrivSyn().plan(Workload.kway(DOMAIN, 2), Budget(rho=0.3)).release(LINKED)
    scores = release.record.surveys[0]  # type: ignore[attr-defined]
    event = release.statement.event
    assert isinstance(event, ComposedEvent)
    charged = [part for part, _ in event.parts if isinstance(part, GaussianEvent) and part.sensitivity_l2_squared == 3]
    assert [part.variance for part in charged] == [scores.law.variance_parameter]
    assert float(charged[0].cost.rho) == pytest.approx(0.03, rel=1e-6)  # type: ignore[arg-type]
    assert scores.cliques == PAIRS


def test_scores_are_kept_in_files_and_used_again(tmp_path: Path) -> None:
    release = PrivSyn().plan(Workload.kway(DOMAIN, 2), Budget(rho=0.3)).release(LINKED)
    release.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    ours, theirs = release.record.surveys[0], loaded.record.surveys[0]  # type: ignore[union-attr,attr-defined]
    assert (ours.cliques, ours.law, ours.tables_before) == (theirs.cliques, theirs.law, theirs.tables_before)
    np.testing.assert_array_equal(ours.values, theirs.values)
    assert loaded.record.kind == "surveyed"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("cliques", "changes"),
    [
        ([("a", "b"), ("b", "c")], {"values": np.zeros(3, dtype=np.int64)}),
        ([], {"values": np.zeros(0, dtype=np.int64)}),
        ([("a", "b"), ("b", "c")], {"tables_before": 4}),
        ([("a", "b"), ("b", "c")], {"moved": np.array([1.0, -1.0])}),
        ([("a", "b"), ("b", "c")], {"moved": np.array([1.0])}),
        ([("a", "b"), ("b", "c")], {"merged_values": np.zeros(1, dtype=np.int64)}),
        ([("a", "b"), ("b", "c")], {"merged": CliqueTable.of(DOMAIN, [("a", "b")])}),
        (
            [("a", "b"), ("b", "c")],
            {"merged": CliqueTable.of(DOMAIN, [("a", "c")]), "merged_values": np.zeros(1, dtype=np.int64)},
        ),
    ],
    ids=["more", "none", "later", "negative", "fewer", "no merged pair", "no merged distance", "another pair"],
)
def test_damaged_surveys_are_refused(cliques: list[tuple[str, ...]], changes: dict[str, Any]) -> None:
    content = {"values": np.zeros(2, dtype=np.int64), "variance": Fraction(9), "tables_before": 3} | changes
    file = SurveyFile(cliques=CliqueTable.of(DOMAIN, cliques), **content)
    with pytest.raises(ArchiveError, match="does not fit its schema and tables"):
        file.build(DOMAIN, 3)


def test_other_records_cannot_hold_scores() -> None:
    class Plain(PrivSyn):
        def new_record(self, plan: Any) -> Any:
            return hush.release.noisy_tables_record.NoisyTablesRecord(plan.domain)  # type: ignore[attr-defined]

    with pytest.raises(WorkloadError, match="NoisyTablesRecord cannot hold them"):
        Plain().plan(Workload.kway(DOMAIN, 2), Budget(rho=0.3)).release(LINKED)
    assert SurveyRecord(DOMAIN).surveys == []
