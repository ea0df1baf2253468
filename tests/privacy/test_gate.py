import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from hush.core.domain import Clique, Domain
from hush.core.errors import BudgetError, DataError, DomainError
from hush.core.unit import Unit
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import GaussianEvent, SelectionEvent
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gate import Counts, Gate, MarginalQuery, Request, watch
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.selection import ExponentialMechanism, Scores, TopK
from hush.privacy.sensitivity import ONE_CELL, Neighbours, RowNorms
from hush.testing import TinyTable, check_law
from hush.testing.replay import Recorder

DOMAIN = Domain({"a": 2, "b": 3})
ROWS = [(0, 0), (1, 2), (1, 1), (0, 2)]
NOISE = DiscreteGaussian.of_scale(3)
WIDE = DiscreteGaussian.of_scale(2**21)


@dataclass(frozen=True)
class Favourite:
    """Scores each clique by its first cell."""

    cliques: tuple[Clique, ...] = (("a",), ("b",))
    candidates: int = 2

    row_norms: ClassVar[RowNorms] = RowNorms.of_number(1, 1)

    def scores(self, counts: Counts, bound: Fraction) -> Scores:
        return Scores(np.array([float(counts[clique].flat[0]) for clique in self.cliques]), float(bound))


@dataclass(frozen=True)
class Broken:
    """A query that answers in something else than int64."""

    values: tuple[float, ...]
    dtype: str
    cliques: tuple[Clique, ...] = ((),)

    @property
    def row_norms(self) -> RowNorms:
        return ONE_CELL

    def answer(self, counts: Counts) -> np.ndarray:
        return np.array(self.values, dtype=self.dtype)


ROOMY = Budget(rho=10.0)


def gate(budget: Budget = ROOMY, **options: object) -> tuple[Gate, TinyTable, Allowance]:
    table, account = TinyTable(DOMAIN, ROWS), Allowance(budget)
    return Gate(table, account, **options), table, account  # type: ignore[arg-type]


def test_a_refused_charge_reads_nothing() -> None:
    entrance, table, account = gate(Budget(rho=0.01))
    with pytest.raises(BudgetError) as refused:
        entrance.measure([Request(MarginalQuery(("a",)), NOISE)])
    assert table.reads == 0
    assert account.remaining == Fraction(0.01)
    assert (refused.value.remaining, refused.value.requested) == (Fraction(0.01), Fraction(1, 18))
    with pytest.raises(BudgetError):
        entrance.select(Favourite(), ExponentialMechanism(Fraction(3)))
    assert table.reads == 0


def test_the_charge_comes_before_the_first_read_even_if_no_answer_is_taken() -> None:
    entrance, table, account = gate()
    answers = entrance.measure([Request(MarginalQuery(("a",)), NOISE)])
    assert account.cost.rho == Fraction(1, 18)
    assert table.reads == 0
    next(answers)
    assert table.reads == 1


def test_the_charge_is_the_sum_over_what_was_measured() -> None:
    entrance, _, account = gate()
    noises = [DiscreteGaussian.of_scale(s) for s in (2, 3, 3)]
    requests = [Request(MarginalQuery(c), n) for c, n in zip([("a",), ("b",), ("a", "b")], noises, strict=True)]
    list(entrance.measure(requests))
    entrance.select(Favourite(), TopK(2, Fraction(1, 2)))
    by_hand = Fraction(1, 8) + 2 * Fraction(1, 18) + 2 * Fraction(1, 4) / 8
    assert account.cost.rho == by_hand
    events = [entrance.event(request) for request in requests]
    assert sum((event.cost.rho for event in events), Fraction(0)) == by_hand - Fraction(1, 16)
    assert events == [GaussianEvent(n.variance_parameter, Fraction(1), True) for n in noises]


def test_answers_are_exact_counts_plus_integer_noise_of_the_law() -> None:
    entrance, table, _ = gate(entropy=NotPrivateEntropy(1))
    noisy = list(entrance.measure([Request(MarginalQuery(("a", "b")), DiscreteGaussian.of_scale(7))] * 5))
    assert {answer.values.dtype for answer in noisy} == {np.dtype(np.int64)}
    assert noisy[0].values.shape == (2, 3)
    entrance, table, _ = gate(Budget(rho=1e9))
    repeats = entrance.measure([Request(MarginalQuery(()), DiscreteLaplace.of_scale(4))] * 5_000)
    noise = np.array([int(answer.values) for answer in repeats]) - len(table.rows)
    check_law(noise, DiscreteLaplace.of_scale(4))


def test_order_is_kept_across_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hush.privacy.gate.BATCH_CELLS", 4)
    entrance, table, _ = gate(Budget(rho=1e9), entropy=NotPrivateEntropy(1))
    cliques = [("a",), ("b",), ("a", "b"), (), ("b",)]
    tiny = DiscreteGaussian.of_scale(Fraction(1, 20))
    answers = list(entrance.measure([Request(MarginalQuery(clique), tiny) for clique in cliques]))
    exact = table.counts(cliques)
    assert [answer.clique for answer in answers] == cliques
    for answer, clique in zip(answers, cliques, strict=True):
        np.testing.assert_array_equal(answer.values, exact[clique])


def test_units_of_several_rows_and_replace_scale_the_charge() -> None:
    table = TinyTable(DOMAIN, ROWS, unit=Unit(column="id", max_rows=3), units=[1, 1, 2, 3])
    request = Request(MarginalQuery(("a",)), NOISE)
    plain = Gate(table, Allowance(Budget(rho=9.0))).event(request).cost.rho
    replaced = Gate(table, Allowance(Budget(rho=9.0)), neighbours=Neighbours.REPLACE).event(request).cost.rho
    assert plain == 9 * Fraction(1, 18)
    assert replaced == 2 * 9 * Fraction(1, 18)


def test_bad_requests_are_refused_before_the_charge() -> None:
    entrance, table, account = gate()
    with pytest.raises(DomainError, match="'c'"):
        entrance.measure([Request(MarginalQuery(("a",)), NOISE), Request(MarginalQuery(("c",)), NOISE)])
    with pytest.raises(DomainError, match="'c'"):
        entrance.select(Favourite(cliques=(("c",),), candidates=1), ExponentialMechanism(Fraction(1)))
    with pytest.raises(BudgetError, match="count=3 of 2 candidates"):
        entrance.select(Favourite(), TopK(3, Fraction(1)))
    assert (account.cost.rho, table.reads) == (0, 0)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (Broken((1.5,), "float64"), "float64"),
        (Broken((1,), "int32"), "int32"),
        (Broken((2**62,), "int64"), "too large"),
        (Broken((-(2**63),), "int64"), "too large"),
    ],
)
def test_answers_that_are_not_exact_integers_never_leave(query: Broken, text: str) -> None:
    entrance, _, _ = gate()
    with pytest.raises(DataError, match=text):
        next(entrance.measure([Request(query, NOISE)]))


@dataclass(frozen=True)
class Talkative(Favourite):
    """A scorer, and a query, that fails on the counts and tells of them."""

    def scores(self, counts: Counts, bound: Fraction) -> Scores:
        raise ValueError(f"cannot score {counts[('a',)].tolist()}")

    def answer(self, counts: Counts) -> np.ndarray:
        return self.scores(counts, Fraction(1))  # type: ignore[return-value]


@pytest.mark.parametrize(
    "ask",
    [
        lambda gate: gate.select(Talkative(), ExponentialMechanism(Fraction(1))),
        lambda gate: next(gate.measure([Request(Talkative(), NOISE)])),
    ],
    ids=["scorer", "query"],
)
def test_what_fails_on_exact_counts_does_not_tell_of_them(ask: Callable[[Gate], object]) -> None:
    with pytest.raises(DataError, match="Talkative failed") as failed:
        ask(gate()[0])
    told = "".join(traceback.format_exception(failed.value))
    assert "cannot score" not in told
    assert "[2, 2]" not in told
    with watch(Recorder()), pytest.raises(ValueError, match="cannot score"):
        ask(gate()[0])


def test_scorers_must_score_the_candidates_they_announced() -> None:
    entrance, _, _ = gate()
    with pytest.raises(DataError, match="3 candidates"):
        entrance.select(Favourite(candidates=3), ExponentialMechanism(Fraction(1)))


def test_what_seeded_or_watched_bits_produce_is_stamped() -> None:
    request = Request(MarginalQuery(("a",)), NOISE)
    plain = gate()[0]
    next(plain.measure([request]))
    assert plain.private
    seeded = gate(entropy=NotPrivateEntropy(1))[0]
    assert not seeded.private
    next(seeded.measure([request]))
    assert not seeded.private
    for pass_something in (
        lambda entrance: next(entrance.measure([request])),
        lambda entrance: entrance.select(Favourite(), ExponentialMechanism(Fraction(1))),
    ):
        watched = gate()[0]
        with watch(Recorder()):
            assert not watched.private
            pass_something(watched)
        next(watched.measure([request]))
        assert not watched.private  # what a watcher saw stays not private, whatever passes later


class Mergeable(TinyTable):
    """A table whose levels all stay apart when they are merged."""

    def coarse(self, codes: object) -> TinyTable:
        return TinyTable(self.domain, self.rows)


def test_what_is_watched_at_a_view_of_merged_levels_is_stamped() -> None:
    entrance = Gate(Mergeable(DOMAIN, ROWS), Allowance(ROOMY))
    views = [entrance.coarse({}) for _ in range(2)]
    request = Request(MarginalQuery(("a",)), NOISE)
    next(views[1].measure([request]))
    assert entrance.private
    with watch(Recorder()):
        next(views[0].measure([request]))
    assert views[1].private
    assert not entrance.private


@pytest.mark.parametrize("relation", list(Neighbours))
def test_a_view_of_merged_levels_charges_the_same_account_as_much(relation: Neighbours) -> None:
    entrance = Gate(Mergeable(DOMAIN, ROWS), Allowance(ROOMY), neighbours=relation)
    request = Request(MarginalQuery(("a",)), NOISE)
    next(entrance.coarse({}).measure([request]))
    assert entrance.account.cost == entrance.event(request).cost  # type: ignore[attr-defined]


def test_two_runs_by_default_differ() -> None:
    request = Request(MarginalQuery(("a", "b")), DiscreteGaussian.of_scale(1000))
    first, second = (next(gate()[0].measure([request])).values for _ in range(2))
    assert not np.array_equal(first, second)


def test_selection_is_charged_as_its_law_says() -> None:
    entrance, _, account = gate()
    assert entrance.select(Favourite(), ExponentialMechanism(Fraction(1, 2))) in (0, 1)
    assert account.events == (SelectionEvent(Fraction(1, 2)),)


def test_no_requests_cost_nothing() -> None:
    entrance, table, account = gate()
    requests: Sequence[Request] = []
    assert list(entrance.measure(requests)) == []
    assert (account.cost.rho, table.reads) == (0, 0)


class Checked(TinyTable):
    """A table whose rows are looked at before a charge."""

    checks = 0

    def check(self, most_rows: int = 0) -> None:
        self.checks += 1


def test_rows_are_not_even_looked_at_once_the_budget_is_spent() -> None:
    table = Checked(DOMAIN, ROWS)
    entrance = Gate(table, Allowance(Budget(rho=0.06)))
    next(entrance.measure([Request(MarginalQuery(("a",)), NOISE)]))
    assert table.checks == 1
    with pytest.raises(BudgetError):
        entrance.measure([Request(MarginalQuery(("a",)), NOISE)])
    with pytest.raises(BudgetError):
        entrance.select(Favourite(), ExponentialMechanism(Fraction(1)))
    assert table.checks == 1


class Strict(TinyTable):
    """Says how many rows it may have, and refuses them."""

    most_rows = 0

    def check(self, most_rows: int = 0) -> None:
        self.most_rows = most_rows
        raise DataError("refused")


@dataclass(frozen=True)
class Weighted:
    """A marginal whose counts are multiplied by a large number."""

    largest_factor: ClassVar[int] = 2**20
    cliques: ClassVar[tuple[Clique, ...]] = (("a",),)
    row_norms: ClassVar[RowNorms] = RowNorms.of_number(2**20, 2**21)

    def answer(self, counts: Counts) -> np.ndarray:
        return 2**20 * counts[("a",)]


@pytest.mark.parametrize(
    ("ask", "most_rows"),
    [
        (lambda gate: gate.measure([Request(MarginalQuery(("a",)), NOISE)]), 2**61),
        (lambda gate: gate.measure([Request(MarginalQuery(("a",)), NOISE), Request(Weighted(), WIDE)]), 2**41),
        (lambda gate: gate.select(Favourite(), ExponentialMechanism(Fraction(1))), 2**53),
    ],
    ids=["counts", "weighted counts", "scores"],
)
def test_rows_that_are_refused_are_not_paid_for(ask: Callable[[Gate], object], most_rows: int) -> None:
    """More rows than a float, or an integer of 64 bits, holds exactly are refused too."""
    table, account = Strict(DOMAIN, ROWS), Allowance(ROOMY)
    with pytest.raises(DataError, match="refused"):
        ask(Gate(table, account))
    assert (table.most_rows, table.reads, account.events) == (most_rows, 0, ())


class Boasting(NotPrivateEntropy):
    """A seeded source that calls itself private."""

    private = True


def test_only_the_operating_system_makes_private_noise() -> None:
    entrance, _, _ = gate(entropy=Boasting(1))
    next(entrance.measure([Request(MarginalQuery(("a",)), NOISE)]))
    assert not entrance.private


def test_a_forked_child_cannot_go_on_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    entrance, _, _ = gate()
    answers = entrance.measure([Request(MarginalQuery(("a",)), NOISE)] * 2)
    next(answers)
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(BudgetError, match="process that paid"):
        next(answers)
