"""Partitions chosen by weights of a dynamic program: against all partitions of six cells, and on every neighbour."""

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

from hush.domain import Clique, Domain
from hush.errors import BudgetError, DataError
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import SelectionEvent
from hush.privacy.exact_sampling import NotPrivateEntropy, exp_bounds
from hush.privacy.gate import Counts, Gate
from hush.privacy.selection import LARGEST_COST, PartitionCosts, PartitionMechanism, uniform_below
from hush.privacy.sensitivity import Neighbours, RowNorms
from hush.testing import TinyTable, check_replay, neighbours_of, scores_of

DOMAIN = Domain({"x": 6})
ROWS = [(0,), (0,), (1,), (3,), (3,), (3,), (5,)]
Law = dict[tuple[int, ...], Fraction]


def partitions(cells: int) -> list[tuple[int, ...]]:
    inner = range(1, cells)
    return [(0, *cuts, cells) for size in range(cells) for cuts in itertools.combinations(inner, size)]


@dataclass(frozen=True)
class Deviation:
    """Cost of an interval: one, and twice the sum of its counts' distances from their rounded mean.

    Privacy: one row moves one count by one, and the rounded mean of its interval by at most one step of 1, so that the
    sum of distances in that interval moves by at most 1 + (number of cells); all other intervals stay as they are. With
    six cells and the factor 2 that is at most 14 per row; replacing a row is removing one and adding one.
    """

    cliques: tuple[Clique, ...] = (("x",),)
    candidates: int = 32

    row_norms: ClassVar[RowNorms] = RowNorms.of_number(14, 28)

    def scores(self, counts: Counts, bound: Fraction) -> PartitionCosts:
        table, costs = counts[("x",)], np.zeros((7, 7), dtype=np.int64)
        for start, end in itertools.combinations(range(7), 2):
            mean = int(table[start:end].sum()) // (end - start)
            costs[start, end] = 1 + 2 * np.abs(table[start:end] - mean).sum()
        return PartitionCosts(costs, int(bound))


def scored(table: TinyTable, relation: Neighbours = Neighbours.ADD_REMOVE) -> PartitionCosts:
    return scores_of(Deviation(), table, relation)


def enumerated(law: PartitionMechanism, scores: PartitionCosts) -> Law:
    """Exact probabilities of all partitions, listed."""
    base = law.base(scores.sensitivity)
    costs = {
        cuts: sum(int(scores.costs[pair]) for pair in itertools.pairwise(cuts)) for cuts in partitions(scores.cells)
    }
    weights = {cuts: base**cost for cuts, cost in costs.items()}
    total = sum(weights.values())
    return {cuts: weight / total for cuts, weight in weights.items()}


class CountedWords:
    """Words that walk through every uniform integer below a bound, given in place of random ones."""

    private = False

    def __init__(self, words: list[int]) -> None:
        self.left = words

    def words(self, count: int) -> np.ndarray:
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, dtype=np.uint64)


def test_all_partitions_are_counted() -> None:
    scores = scored(TinyTable(DOMAIN, ROWS))
    assert scores.candidates == len(partitions(6)) == 32
    assert len(set(partitions(6))) == 32


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(30), Fraction(200)])
def test_draws_have_the_law_of_the_list(epsilon: Fraction) -> None:
    law, scores, entropy = PartitionMechanism(epsilon), scored(TinyTable(DOMAIN, ROWS)), NotPrivateEntropy(5)
    total, expected = 4_000, enumerated(law, scores)
    draws = Counter(law.choose(scores, entropy) for _ in range(total))
    assert set(draws) <= set(expected)
    likely = [cuts for cuts in expected if expected[cuts] * total > 5]
    rest = 1 - float(sum(expected[cuts] for cuts in likely))
    observed = [*(draws[cuts] for cuts in likely), total - sum(draws[cuts] for cuts in likely)]
    chances = np.array([*(float(expected[cuts]) for cuts in likely), max(rest, 1e-12)])
    assert stats.chisquare(observed, chances / chances.sum() * total).pvalue > 1e-9


def test_every_word_leads_to_the_partition_whose_weight_holds_it() -> None:
    """With costs of 0 and 1 and base 1/2^48 or less the weights can be counted through: two cells, all outcomes."""
    law = PartitionMechanism(Fraction(1000))
    scores = PartitionCosts(np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0]], dtype=np.int64), 1)
    assert law.base(1) == Fraction(1, 2**48)
    drawn = {word: law.choose(scores, CountedWords([word << 15, 0])) for word in (0, 1, 2, 2**47, 2**48)}
    assert drawn == {0: (0, 2), 1: (0, 1, 2), 2: (0, 1, 2), 2**47: (0, 1, 2), 2**48: (0, 1, 2)}


@pytest.mark.parametrize("relation", Neighbours)
def test_the_log_odds_of_neighbours_stay_within_epsilon(relation: Neighbours) -> None:
    law, furthest = PartitionMechanism(Fraction(2)), 0.0
    for rows in ([], ROWS, [(2,)] * 4):
        table = TinyTable(DOMAIN, rows)
        before = enumerated(law, scored(table, relation))
        for other in neighbours_of(table, relation):
            assert scored(table, relation).distance(scored(other, relation)) <= scored(table, relation).sensitivity
            after = enumerated(law, scored(other, relation))
            furthest = max(furthest, *(abs(math.log(after[cuts] / before[cuts])) for cuts in before))
    assert 0.1 < furthest <= 2.0


def test_the_base_never_spends_more_than_epsilon() -> None:
    for epsilon in (Fraction(1, 1000), Fraction(1), Fraction(7, 3), Fraction(50)):
        for sensitivity in (1, 3, 1000):
            base = PartitionMechanism(epsilon).base(sensitivity)
            low, high = exp_bounds(epsilon / (2 * sensitivity), 200)
            assert Fraction(low, 2**200) <= base <= Fraction(high, 2**200) + Fraction(2, 2**48)


def test_the_gate_charges_and_watches_the_choice() -> None:
    table, account = TinyTable(DOMAIN, ROWS), Allowance(Budget(epsilon=3.0))
    cuts = Gate(table, account).select(Deviation(), PartitionMechanism(Fraction(3)))
    assert cuts in partitions(6)
    assert account.events == (SelectionEvent(Fraction(3)),)
    with pytest.raises(BudgetError):
        Gate(table, account).select(Deviation(), PartitionMechanism(Fraction(3)))
    assert table.reads == 1
    with pytest.raises(DataError, match="31 candidates"):
        Gate(table, Allowance(Budget(epsilon=3.0))).select(Deviation(candidates=31), PartitionMechanism(Fraction(3)))

    def run(one: TinyTable) -> tuple[int, ...]:
        return Gate(one, Allowance(Budget(epsilon=3.0))).select(Deviation(), PartitionMechanism(Fraction(3)))

    assert check_replay(run, table, neighbours_of(table)) == 13


def test_a_family_far_too_large_to_list_is_drawn_from() -> None:
    cells = 60
    costs = np.add.outer(np.arange(cells + 1), np.arange(cells + 1)) % 7
    scores = PartitionCosts(costs.astype(np.int64), 2)
    assert scores.candidates == 2**59
    cuts = PartitionMechanism(Fraction(1)).choose(scores, NotPrivateEntropy(2))
    assert (cuts[0], cuts[-1]) == (0, cells)
    assert list(cuts) == sorted(set(cuts))


def test_costs_out_of_bounds_count_as_the_bounds() -> None:
    beyond = PartitionCosts(np.array([[0, -5, 2**40], [0, 0, 0], [0, 0, 0]], dtype=np.int64), 1)
    within = PartitionCosts(np.array([[0, 0, LARGEST_COST], [0, 0, 0], [0, 0, 0]], dtype=np.int64), 1)
    law = PartitionMechanism(Fraction(1, 1000))
    drawn = [
        [law.choose(costs, entropy) for _ in range(20)]
        for costs, entropy in ((beyond, NotPrivateEntropy(1)), (within, NotPrivateEntropy(1)))
    ]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    "costs", [np.zeros((3, 3)), np.zeros((1, 1), dtype=np.int64), np.zeros((3, 4), dtype=np.int64)]
)
def test_costs_that_are_none_are_refused(costs: np.ndarray) -> None:
    with pytest.raises(BudgetError, match="costs: expected"):
        PartitionCosts(costs, 1)


@pytest.mark.parametrize("sensitivity", [0, -1, True, 1.5])
def test_sensitivities_are_whole_and_positive(sensitivity: object) -> None:
    with pytest.raises(BudgetError, match="sensitivity="):
        PartitionCosts(np.zeros((3, 3), dtype=np.int64), sensitivity)  # type: ignore[arg-type]


def test_uniform_integers_are_uniform() -> None:
    entropy = NotPrivateEntropy(4)
    draws = Counter(uniform_below(5, entropy) for _ in range(5_000))
    assert stats.chisquare([draws[value] for value in range(5)]).pvalue > 1e-9
    assert uniform_below(1, entropy) == 0
    assert 0 <= uniform_below(10**40, entropy) < 10**40
