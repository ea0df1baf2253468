"""Statistics that do not add up over rows: their declared sensitivity is charged, and holds on every neighbour."""

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from hush.core.domain import Clique, Domain
from hush.core.errors import BudgetError, DataError, DomainError
from hush.core.unit import Unit
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import GaussianEvent, LaplaceEvent
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gate import Counts, DeclaredStatistic, Gate, MarginalQuery, Request
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.sensitivity import Neighbours, Sensitivity
from hush.testing import TinyTable, check_law, check_replay, neighbours_of

DOMAIN = Domain({"a": 2, "b": 3})
NOISE = DiscreteLaplace.of_scale(2)


@dataclass(frozen=True)
class OccupiedCells(DeclaredStatistic):
    """How many cells of a table hold rows, and the largest of its counts.

    Privacy: each row of a unit empties or fills at most one cell and moves the largest count by at most one, so that m
    added or removed rows move each number by at most m. Of exchanged rows, at most m go and at most m come: the
    numbers fall by at most m in the first step and rise by at most m in the second, so that each moves by at most m.
    """

    clique: Clique

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    def sensitivity(self, *, max_rows: int, neighbours: Neighbours) -> Sensitivity:
        return Sensitivity(Fraction(2 * max_rows), Fraction(2 * max_rows**2))

    def answer(self, counts: Counts) -> np.ndarray:
        return np.array([np.count_nonzero(counts[self.clique]), counts[self.clique].max()], dtype=np.int64)


@dataclass(frozen=True)
class Understated(OccupiedCells):
    """The same with half of its sensitivity."""

    def sensitivity(self, *, max_rows: int, neighbours: Neighbours) -> Sensitivity:
        return Sensitivity(Fraction(max_rows), Fraction(max_rows**2))


@dataclass
class Changeable(DeclaredStatistic):
    """A statistic that could become another one after the charge."""

    clique: Clique = ("a",)
    cliques = (("a",),)

    def sensitivity(self, *, max_rows: int, neighbours: Neighbours) -> Sensitivity:
        return Sensitivity(Fraction(1), Fraction(1))

    def answer(self, counts: Counts) -> np.ndarray:
        return np.zeros(1, dtype=np.int64)


def small_tables(rows: int) -> list[TinyTable]:
    every_row = list(itertools.product(range(2), range(3)))
    listed = (chosen for size in range(rows + 1) for chosen in itertools.combinations_with_replacement(every_row, size))
    return [TinyTable(DOMAIN, chosen) for chosen in listed]


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("clique", [("a",), ("a", "b"), ()])
def test_the_declared_sensitivity_holds_on_every_neighbour(relation: Neighbours, clique: Clique) -> None:
    statistic = OccupiedCells(clique)
    bound, furthest = statistic.sensitivity(max_rows=1, neighbours=relation), 0
    for table in small_tables(3):
        exact = statistic.answer(table.counts([clique]))
        for other in neighbours_of(table, relation):
            gap = np.abs(statistic.answer(other.counts([clique])) - exact)
            assert gap.sum() <= bound.l1
            assert (gap**2).sum() <= bound.l2_squared
            furthest = max(furthest, int(gap.sum()))
    assert furthest >= 1 or (clique == () and relation is Neighbours.REPLACE)


def release(table: TinyTable, statistic: DeclaredStatistic) -> list[int]:
    gate = Gate(table, Allowance(Budget(epsilon=10.0)), entropy=NotPrivateEntropy(3))
    return next(gate.measure([Request(statistic, NOISE)])).raw.tolist()


def test_harnesses_watch_statistics_and_find_one_that_is_understated() -> None:
    table = TinyTable(DOMAIN, [(0, 0), (1, 1), (1, 1)])
    assert check_replay(lambda one: release(one, OccupiedCells(("a", "b"))), table, neighbours_of(table)) == 9
    with pytest.raises(Exception, match="moves further between neighbours than its declared sensitivity"):
        check_replay(
            lambda one: release(one, Understated(("a", "b"))),
            TinyTable(DOMAIN, []),
            neighbours_of(TinyTable(DOMAIN, [])),
        )


@pytest.mark.parametrize("relation", Neighbours)
def test_the_charge_is_that_of_the_declared_sensitivity(relation: Neighbours) -> None:
    table = TinyTable(DOMAIN, [(0, 0)], unit=Unit(column="id", max_rows=3))
    account = Allowance(Budget(rho=100.0))
    gate = Gate(table, account, neighbours=relation)
    gaussian = DiscreteGaussian.of_scale(5)
    list(gate.measure([Request(OccupiedCells(("a",)), NOISE), Request(OccupiedCells(("a",)), gaussian)]))
    parts = dict(account.events[0].parts)  # type: ignore[attr-defined]
    assert parts == {LaplaceEvent(Fraction(2), Fraction(6)): 1, GaussianEvent(Fraction(25), Fraction(18)): 1}


def test_a_refused_charge_reads_nothing() -> None:
    table = TinyTable(DOMAIN, [(0, 0)])
    with pytest.raises(BudgetError):
        Gate(table, Allowance(Budget(epsilon=0.1))).measure([Request(OccupiedCells(("a",)), NOISE)])
    with pytest.raises(DomainError, match="'c'"):
        Gate(table, Allowance(Budget(epsilon=9.0))).measure([Request(OccupiedCells(("c",)), NOISE)])
    assert table.reads == 0


def test_statistics_are_answered_in_batches_with_counts() -> None:
    table = TinyTable(DOMAIN, [(0, 0), (1, 1)])
    least = DiscreteGaussian.of_scale(Fraction(1, 20))
    asked = [Request(query, least) for query in (MarginalQuery(("a",)), OccupiedCells(("a", "b")), MarginalQuery(()))]
    answers = list(Gate(table, Allowance(Budget(rho=1e9))).measure(asked))
    assert [answer.raw.tolist() for answer in answers] == [[1, 1], [2, 1], 2]
    assert table.reads == 1


def test_the_noise_is_the_law_that_was_asked_for() -> None:
    gate = Gate(TinyTable(DOMAIN, []), Allowance(Budget(rho=1e9)))
    answers = gate.measure([Request(OccupiedCells(("a",)), NOISE)] * 3_000)
    check_law(np.concatenate([answer.raw for answer in answers]), NOISE)


def test_a_statistic_that_can_be_changed_is_refused() -> None:
    with pytest.raises(BudgetError, match="Changeable must be a frozen dataclass"):
        Gate(TinyTable(DOMAIN, []), Allowance(Budget(rho=1.0))).measure([Request(Changeable(), NOISE)])


def test_answers_that_are_not_int64_never_leave() -> None:
    @dataclass(frozen=True)
    class Share(OccupiedCells):
        def answer(self, counts: Counts) -> np.ndarray:
            return counts[self.clique] / 2

    with pytest.raises(DataError, match="float64"):
        next(Gate(TinyTable(DOMAIN, []), Allowance(Budget(rho=9.0))).measure([Request(Share(("a",)), NOISE)]))
