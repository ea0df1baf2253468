"""Costs of intervals and scores of nodes: against plain sums, and no further apart on neighbours than they say."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hush.core.domain import Domain
from hush.core.errors import DomainError
from hush.core.unit import Unit
from hush.histograms.interval_costs import (
    IntervalDeviations,
    NodeScores,
    cells_in_line,
    deviations,
    hilbert_order,
    powers_of_two,
)
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import Event, NoisyChoiceEvent, SelectionEvent
from hush.privacy.gate import Gate
from hush.privacy.partition_laws import (
    NoisyPartition,
    PartitionMechanism,
    SplittingTree,
    cheapest_partition,
    node_sizes,
)
from hush.privacy.sensitivity import Neighbours
from hush.testing import TinyTable, check_replay, neighbours_of, scores_of

DOMAIN = Domain({"x": 4})
EXAMPLE = np.array([2, 3, 8, 1, 0, 2, 0, 4, 2, 4])  # of the document


def exact_deviation(window: np.ndarray, centre: str) -> Fraction:
    values = [int(value) for value in window]
    if centre == "median":
        return min(sum((abs(value - Fraction(m)) for value in values), Fraction(0)) for m in values)
    mean = Fraction(sum(values), len(values))
    return sum((abs(value - mean) for value in values), Fraction(0))


@pytest.mark.parametrize("centre", ["median", "mean"])
@pytest.mark.parametrize("cells", [1, 2, 3, 8, 21])
def test_deviations_are_those_of_plain_sums(cells: int, centre: Any) -> None:
    x = np.random.default_rng(cells).integers(0, 12, cells)
    lengths = tuple(range(1, cells + 1))
    for grid in (1, 6):
        costs = deviations(x, lengths, centre, grid)
        for k, length in enumerate(lengths):
            for start in range(cells - length + 1):
                assert costs[k, start] == grid * exact_deviation(x[start : start + length], centre) // 1


def test_the_document_s_example() -> None:
    """Deviations 1, 0, 3 and 2 2/3 of its four intervals, 17.2 of all; which partition is cheapest at which penalty."""
    grid = 60
    costs = deviations(EXAMPLE, tuple(range(1, 11)), "mean", grid)
    intervals = [(0, 2), (2, 3), (3, 7), (7, 10)]
    assert [Fraction(int(costs[b - a - 1, a]), grid) for a, b in intervals] == [1, 0, 3, Fraction(8, 3)]
    assert Fraction(int(costs[9, 0]), grid) == Fraction(172, 10)
    lengths = tuple(range(1, 11))
    assert sum(costs[b - a - 1, a] for a, b in intervals) + 4 * grid == Fraction(32, 3) * grid
    assert cheapest_partition(costs + 10 * grid, lengths) == (0, 10)
    assert len(cheapest_partition(costs + grid, lengths)) > 2


def test_the_counter_example_to_costs_that_are_cut_off() -> None:
    """x = (0, 1, 0, 0) against 0 at epsilon 1: the odds of all single cells would move by 2.24, were costs cut off.

    Every interval over the row must then beat its own bound, and the logarithms add up: deviation / scale each.
    """
    scorer = IntervalDeviations(("x",), 4, lengths=(1, 2, 3, 4), centre="mean", grid=12)
    assert scorer.own == (0, 12, 16, 18)
    scores = scorer.scores({("x",): np.array([0, 1, 0, 0])}, scorer.row_norms.l1)
    scales = NoisyPartition(Fraction(1)).scales(scores)
    loss = sum(int(cost) / scale for costs, scale in zip(scores.costs, scales, strict=True) for cost in costs)
    assert float(loss) == pytest.approx(2.24, abs=0.005)


@pytest.mark.parametrize("score", ["count", "deviation"])
@pytest.mark.parametrize(("cells", "fanout"), [(8, 2), (13, 2), (16, 4), (21, 4), (1, 2)])
def test_nodes_have_the_scores_of_their_cells(score: Any, cells: int, fanout: int) -> None:
    x = np.random.default_rng(cells).integers(0, 12, cells)
    scores = NodeScores(("x",), cells, score, fanout).scores({("x",): x}, Fraction(1))
    for size, level in zip(node_sizes(cells, fanout), scores.levels, strict=True):
        windows = [x[start : start + size] for start in range(0, cells, size)]
        plain = [int(w.sum()) if score == "count" else exact_deviation(w, "median") for w in windows]
        assert level.tolist() == plain


def test_deviations_about_the_median_fall_with_the_interval() -> None:
    x = np.random.default_rng(5).integers(0, 6, 12)
    costs = deviations(x, tuple(range(1, 13)), "median")
    for a, b in itertools.combinations(range(13), 2):
        for c, d in itertools.combinations(range(a, b + 1), 2):
            assert costs[d - c - 1, c] <= costs[b - a - 1, a]


SCORERS = [
    IntervalDeviations(("x",), 4),
    IntervalDeviations(("x",), 4, centre="mean"),
    IntervalDeviations(("x",), 4, centre="mean", grid=7, bucket_cost=5, lengths=(1, 2, 3, 4)),
    NodeScores(("x",), 4),
    NodeScores(("x",), 4, "count"),
    IntervalDeviations(("x",), 4, grid=5, lengths=(1, 2, 3, 4)),
]


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("scorer", SCORERS, ids=str)
def test_neighbours_are_no_further_apart_than_declared(scorer: Any, relation: Neighbours) -> None:
    """Every table of up to two rows in a cell, and all its neighbours; the bound is reached by adding a row."""
    furthest = Fraction(0)
    for counts in itertools.product(range(3), repeat=4):
        table = TinyTable(DOMAIN, [(cell,) for cell, count in enumerate(counts) for _ in range(count)])
        before = scores_of(scorer, table, relation)
        for other in neighbours_of(table, relation):
            furthest = max(furthest, before.distance(scores_of(scorer, other, relation)) / before.sensitivity)
    assert Fraction(1, 2) <= furthest <= 1


@pytest.mark.parametrize(
    ("scorer", "law", "event"),
    [
        (SCORERS[1], NoisyPartition(Fraction(1, 2)), NoisyChoiceEvent(Fraction(1, 2))),
        (SCORERS[2], PartitionMechanism(Fraction(1, 2)), SelectionEvent(Fraction(1, 2))),
        (SCORERS[3], SplittingTree(Fraction(1, 2)), NoisyChoiceEvent(Fraction(1, 2))),
    ],
    ids=["noisy", "exponential", "tree"],
)
def test_a_choice_is_charged_by_what_its_law_keeps_to(scorer: Any, law: Any, event: Event) -> None:
    """Only the exponential mechanism has a bounded range, and costs epsilon^2 / 8 of zCDP, not epsilon^2 / 2."""
    account = Allowance(Budget(rho=1))
    Gate(TinyTable(DOMAIN, [(0,), (1,)]), account).select(scorer, law)
    assert account.events == (event,)
    assert account.cost.rho == Fraction(1, 32 if isinstance(event, SelectionEvent) else 8)


@pytest.mark.parametrize(
    ("scorer", "law"),
    [
        (SCORERS[1], NoisyPartition(Fraction(1))),
        (SCORERS[2], PartitionMechanism(Fraction(1))),
        (SCORERS[3], SplittingTree(Fraction(1))),
        (SCORERS[4], SplittingTree(Fraction(1))),
    ],
    ids=["noisy", "exponential", "deviations", "counts"],
)
@pytest.mark.parametrize("relation", Neighbours)
def test_a_choice_of_each_law_replays_on_every_neighbour(scorer: Any, law: Any, relation: Neighbours) -> None:
    table = TinyTable(DOMAIN, [(0,), (1,), (1,), (3,)])

    def run(one: TinyTable) -> tuple[int, ...]:
        return Gate(one, Allowance(Budget(epsilon=1.0)), neighbours=relation).select(scorer, law)

    cuts = run(table)
    assert (cuts[0], cuts[-1]) == (0, 4)
    assert check_replay(run, table, neighbours_of(table, relation)) in (8, 16)


def test_units_of_several_rows_move_costs_by_as_many() -> None:
    """A person with three rows in one cell, or one in each of three: the laws are told of three steps."""
    unit = Unit(column="id", max_rows=3)
    for scorer, law in ((SCORERS[0], NoisyPartition(Fraction(1))), (SCORERS[3], SplittingTree(Fraction(1)))):
        empty = TinyTable(DOMAIN, [], unit=unit)
        before = scores_of(scorer, empty)
        assert (before.rows, before.sensitivity) == (3, 3 * scorer.row_norms.l1)
        for rows in ([(1,)] * 3, [(0,), (1,), (3,)]):
            person = TinyTable(DOMAIN, rows, unit=unit, units=[7, 7, 7])
            assert before.distance(scores_of(scorer, person)) <= before.sensitivity
        assert Gate(empty, Allowance(Budget(epsilon=1.0))).select(scorer, law)[-1] == 4


def test_cells_of_a_map_are_taken_along_the_curve() -> None:
    table = np.arange(16).reshape(4, 4)
    assert cells_in_line(table).tolist() == list(range(16))
    in_line = cells_in_line(table, "hilbert")
    steps = np.abs(np.diff(in_line // 4)) + np.abs(np.diff(in_line % 4))
    assert (steps == 1).all()
    scorer = NodeScores(("x", "y"), 16, "count", fanout=4, curve="hilbert")
    scores = scorer.scores({("x", "y"): table}, Fraction(1))
    quarters = [table[:2, :2].sum(), table[:2, 2:].sum(), table[2:, :2].sum(), table[2:, 2:].sum()]
    assert sorted(scores.levels[1].tolist()) == sorted(quarters)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: IntervalDeviations(("x",), 4, grid=0), "grid=0"),
        (lambda: IntervalDeviations(("x",), 4, centre="mode"), "centre='mode'"),
        (lambda: NodeScores(("x",), 4, "sum"), "score='sum'"),
        (lambda: cells_in_line(np.zeros(4, dtype=np.int64), "hilbert"), "1 axes"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, words: str) -> None:
    with pytest.raises(DomainError, match=words):
        make()


def test_powers_of_two_reach_up_to_the_cells() -> None:
    assert [powers_of_two(cells)[-1] for cells in (1, 2, 3, 4, 1000, 1024)] == [1, 2, 2, 4, 512, 1024]


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 2), (16, 16), (5, 3), (1, 7), (128, 128)])
def test_a_hilbert_curve_visits_every_cell_once(rows: int, columns: int) -> None:
    assert sorted(hilbert_order(rows, columns).tolist()) == list(range(rows * columns))


def test_steps_are_to_neighbours_and_runs_of_four_to_a_power_are_squares() -> None:
    order = hilbert_order(16, 16)
    x, y = order // 16, order % 16
    assert (np.abs(np.diff(x)) + np.abs(np.diff(y)) == 1).all()
    for size in (4, 16, 64):
        for run in range(0, 256, size):
            inside = slice(run, run + size)
            assert np.ptp(x[inside]) + 1 == np.ptp(y[inside]) + 1 == round(size**0.5)


def test_a_grid_without_cells_is_refused() -> None:
    with pytest.raises(DomainError, match="0 x 4"):
        hilbert_order(0, 4)
