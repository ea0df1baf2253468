"""What is drawn is what was charged: the gate takes laws, queries and scorers that can do nothing else."""

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from hush.core.domain import Clique, Domain
from hush.core.errors import BudgetError
from hush.core.unit import ROW, Unit
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.exact_sampling import SystemEntropy
from hush.privacy.gate import NOISE_LAWS, SCORES, SELECTION_LAWS, Counts, Gate, MarginalQuery, Request
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.partition_laws import NoisyPartition, PartitionMechanism, SplittingTree
from hush.privacy.selection import ExponentialMechanism, GeneralizedExponentialMechanism, Scores, TopK
from hush.privacy.sensitivity import ONE_CELL, Neighbours, RowNorms
from hush.testing import TinyTable

DOMAIN = Domain({"a": 2, "b": 3})
ROWS = [(0, 0), (1, 2), (1, 1), (0, 2)]
LAWS: list[Any] = [
    DiscreteGaussian.of_scale(3),
    DiscreteLaplace.of_scale(3),
    ExponentialMechanism(Fraction(1)),
    TopK(1, Fraction(1)),
    GeneralizedExponentialMechanism(Fraction(1)),
    PartitionMechanism(Fraction(1)),
    NoisyPartition(Fraction(1)),
    SplittingTree(Fraction(1)),
]


@dataclass(frozen=True)
class Favourite:
    """Scores each clique by its first cell."""

    cliques: tuple[Clique, ...] = (("a",), ("b",))
    candidates: ClassVar[int] = 2
    row_norms: ClassVar[RowNorms] = RowNorms.of_number(1, 1)

    def scores(self, counts: Counts, bound: Fraction) -> Scores:
        return Scores(np.array([float(counts[clique].flat[0]) for clique in self.cliques]), float(bound))


def gate(unit: Unit = ROW, **options: Any) -> tuple[Gate, TinyTable, Allowance]:
    table, account = TinyTable(DOMAIN, ROWS, unit=unit), Allowance(Budget(rho=50.0))
    return Gate(table, account, **options), table, account


@dataclass(frozen=True)
class Twice:
    """Priced at one epsilon, drawn at twice that."""

    law: ExponentialMechanism

    def event(self) -> Any:
        return self.law.event()

    def choose(self, scores: Scores, entropy: Any) -> int:
        return ExponentialMechanism(2 * self.law.epsilon).choose(scores, entropy)


class Sharper(ExponentialMechanism):
    """The same by a subclass."""

    def weights(self, scores: Scores) -> Any:
        steps, rate = super().weights(scores)
        return steps, 2 * rate


class Quieter(DiscreteGaussian):
    """Priced at sigma, drawn at half of it."""

    def sample(self, shape: Any, entropy: Any) -> Any:
        return DiscreteGaussian(self.variance_parameter / 4).sample(shape, entropy)


@pytest.mark.parametrize("law", [Twice(ExponentialMechanism(Fraction(1))), Sharper(Fraction(1))], ids=str)
def test_a_choice_by_another_law_is_refused_before_it_is_charged(law: Any) -> None:
    entrance, table, account = gate()
    with pytest.raises(
        BudgetError, match=f"a choice by {type(law).__name__}: .* so that what is drawn is what was charged"
    ):
        entrance.select(Favourite(), law)
    assert (account.events, table.reads) == ((), 0)


def test_noise_of_another_law_is_refused_before_it_is_charged() -> None:
    entrance, table, account = gate()
    honest = Request(MarginalQuery(("a",)), DiscreteGaussian.of_scale(3))
    with pytest.raises(BudgetError, match="noise by Quieter"):
        entrance.measure([honest, Request(MarginalQuery(("a",)), Quieter(Fraction(9)))])
    assert (account.events, table.reads) == ((), 0)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_laws_cannot_be_changed_once_they_are_made(law: Any) -> None:
    """Neither their numbers, nor how they draw: a frozen dataclass with slots, of a type that is listed."""
    for field in dataclasses.fields(law):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(law, field.name, getattr(law, field.name))
    for method in ("event", "sample", "choose", "weights"):
        with pytest.raises((AttributeError, TypeError)):  # a frozen dataclass with slots raises either
            setattr(law, method, None)
        with pytest.raises(AttributeError):
            object.__setattr__(law, method, None)
    assert not hasattr(law, "__dict__")


def test_all_laws_are_tested() -> None:
    assert {type(law) for law in LAWS} == {*NOISE_LAWS, *SELECTION_LAWS}


def test_the_system_s_entropy_cannot_be_changed_either() -> None:
    entropy = SystemEntropy()
    with pytest.raises(AttributeError):
        entropy.words = lambda count: np.zeros(count, dtype=np.uint64)  # type: ignore[method-assign]
    with pytest.raises(AttributeError):
        entropy.private = True
    entrance = gate(entropy=entropy)[0]
    assert entrance.private


class Fixed(SystemEntropy):
    """A subclass that draws what it likes."""

    def words(self, count: int) -> Any:
        return np.zeros(count, dtype=np.uint64)


def test_a_subclass_of_the_system_s_entropy_is_not_private() -> None:
    assert not gate(entropy=Fixed())[0].private


@dataclass
class Changeable:
    """A query, or a scorer, that could become another one after the charge."""

    cliques: tuple[Clique, ...] = (("a",),)
    candidates: int = 1
    row_norms: RowNorms = ONE_CELL

    def answer(self, counts: Counts) -> Any:
        return counts[("a",)]


def test_queries_and_scorers_that_can_be_changed_are_refused_before_they_are_charged() -> None:
    entrance, table, account = gate()
    with pytest.raises(BudgetError, match="Changeable must be a frozen dataclass"):
        entrance.measure([Request(Changeable(), DiscreteGaussian.of_scale(3))])
    with pytest.raises(BudgetError, match="Changeable must be a frozen dataclass"):
        entrance.select(Changeable(), ExponentialMechanism(Fraction(1)))  # type: ignore[type-var]
    assert (account.events, table.reads) == ((), 0)


@dataclass(frozen=True)
class Forgetful(Favourite):
    """Scores that claim the sensitivity of a single row."""

    def scores(self, counts: Counts, bound: Fraction) -> Scores:
        return Scores(super().scores(counts, bound).values, 1.0)


@dataclass(frozen=True)
class Doubled(Favourite):
    """Scores that make themselves twice as steep when they are drawn from."""

    def scores(self, counts: Counts, bound: Fraction) -> Scores:
        class Steep(Scores):
            def steps(self) -> Any:
                steps, sensitivity = super().steps()
                return 2 * steps, sensitivity

        plain = super().scores(counts, bound)
        return Steep(plain.values, plain.sensitivity)


@pytest.mark.parametrize(("unit", "relation", "bound"), [(3, Neighbours.ADD_REMOVE, 3), (3, Neighbours.REPLACE, 3)])
def test_scores_that_forget_units_of_several_rows_are_refused(unit: int, relation: Neighbours, bound: int) -> None:
    law = ExponentialMechanism(Fraction(1))
    assert gate(neighbours=relation)[0].select(Forgetful(), law) in (0, 1)  # a single row is what it claims
    entrance = gate(Unit(column="id", max_rows=unit), neighbours=relation)[0]
    with pytest.raises(BudgetError, match=f"Forgetful claims that a unit moves its scores by 1, .* allow {bound} here"):
        entrance.select(Forgetful(), law)
    assert entrance.select(Favourite(), law) in (0, 1)


def test_scores_of_another_kind_are_refused() -> None:
    with pytest.raises(BudgetError, match="a choice from Steep"):
        gate()[0].select(Doubled(), ExponentialMechanism(Fraction(1)))
    assert Scores in SCORES
