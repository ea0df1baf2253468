"""Noisy thresholds: exact tails, the law of the code itself on every tiny table, charges, and record and replay."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np
import pytest

from hush.core.errors import BudgetError, DataError, ReplayError
from hush.hybrid.opt_in import OptInRecords
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import ComposedEvent, GaussianEvent, RareKeyEvent, compose, event_from_dict, price
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gate import Gate
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.noisy_threshold import NoisyThreshold, tail_bound
from hush.privacy.sensitivity import Neighbours
from hush.privacy.total_epsilon import total_epsilon
from hush.testing import check_replay

Law = dict[Any, float]
FURTHEST = 60  # noise beyond has a probability below 1e-20 in the laws below
LAPLACE = NoisyThreshold.for_delta(DiscreteLaplace(Fraction(1)), Fraction(1, 50), minimum=1)
LATE = NoisyThreshold.for_delta(DiscreteLaplace(Fraction(1)), Fraction(1, 50), minimum=2)
GAUSSIAN = NoisyThreshold.for_delta(DiscreteGaussian(Fraction(2)), Fraction(1, 50), minimum=1)


def exact_tail(noise: Any, start: int) -> Any:
    """P(Y >= start) to 40 digits."""
    if isinstance(noise, DiscreteLaplace):
        p = mpmath.exp(-1 / (mpmath.mpf(noise.scale.numerator) / noise.scale.denominator))
        return p**start / (1 + p)
    v = mpmath.mpf(noise.variance_parameter.numerator) / noise.variance_parameter.denominator
    reach = int(40 * math.sqrt(float(noise.variance_parameter))) + 60
    weights = [mpmath.exp(-mpmath.mpf(y * y) / (2 * v)) for y in range(reach)]
    tail = mpmath.fsum(mpmath.exp(-mpmath.mpf(y * y) / (2 * v)) for y in range(start, start + reach))
    return tail / (2 * mpmath.fsum(weights) - 1)


@pytest.mark.parametrize("delta", [Fraction(1, 3), Fraction(1, 10**10), Fraction(1, 10**30)])
@pytest.mark.parametrize(
    "noise",
    [
        *(DiscreteLaplace(Fraction(scale)) for scale in (Fraction(1, 8), 1, 30)),
        *(DiscreteGaussian(Fraction(variance)) for variance in (Fraction(1, 100), 1, 16, 750)),
    ],
)
def test_the_threshold_is_the_least_that_keeps_delta_and_its_tail_is_bounded_closely(
    noise: Any, delta: Fraction
) -> None:
    law = NoisyThreshold.for_delta(noise, delta, minimum=1)
    start = law.threshold - law.minimum
    with mpmath.workdps(60):
        exact = exact_tail(noise, start)
        stated = mpmath.mpf(law.delta.numerator) / law.delta.denominator
        assert exact <= stated <= mpmath.mpf(delta.numerator) / delta.denominator
        assert stated <= exact * mpmath.mpf("1.01") + mpmath.mpf(2) ** -190
        # one less would release a rare key more often than delta allows, up to the 1 % of the bound
        assert start == 1 or exact_tail(noise, start - 1) * mpmath.mpf("1.01") > mpmath.mpf(delta.numerator) / (
            delta.denominator
        )


def test_the_default_minimum_rises_with_the_threshold_and_so_does_the_threshold() -> None:
    noise, delta = DiscreteGaussian(Fraction(400)), Fraction(1, 10**10)
    plain, late = NoisyThreshold.for_delta(noise, delta, minimum=1), NoisyThreshold.for_delta(noise, delta)
    assert late.minimum == 1 + plain.threshold // 64 == 3
    assert late.threshold - late.minimum == plain.threshold - plain.minimum
    assert late.delta == plain.delta


@lru_cache(maxsize=512)
def outcomes(law: NoisyThreshold, units: int) -> tuple[tuple[int | None, float], ...]:
    """The law of what the code shows of one key: its noisy count or None; every value of the noise is tried."""
    shown: Counter[int | None] = Counter()
    for y in range(-FURTHEST, FURTHEST + 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(law.noise), "sample", lambda self, shape, entropy, y=y: np.full(shape, y))
            released = law.released(["key"], np.array([units]), NotPrivateEntropy(0))
        shown[released[0][1] if released else None] += float(law.noise.pmf(y))
    return tuple(shown.items())


def output_law(law: NoisyThreshold, table: tuple[frozenset[str], ...]) -> Law:
    """The law of all that is released about a table, where each unit holds a set of keys."""
    chances: Law = {(): 1.0}
    for key, units in Counter(key for held in table for key in held).items():
        parts = [(((key, noisy),) if noisy is not None else (), p) for noisy, p in outcomes(law, units) if p > 1e-12]
        chances = {(*before, *part): c * p for before, c in chances.items() for part, p in parts}
    return {frozenset(output): chance for output, chance in chances.items()}


def excess(mine: Law, other: Law, epsilon: float) -> float:
    """The least delta at which the first law is (epsilon, delta)-close to the second."""
    return sum(max(chance - math.exp(epsilon) * other.get(output, 0.0), 0.0) for output, chance in mine.items())


def check_every_neighbour(law: NoisyThreshold, most: int) -> float:
    """Add a unit of at most `most` keys to every small table: the outputs keep what the event states, both ways.

    Returns the largest excess in shares of delta.
    """
    cost = price(law.event(most))
    assert cost.epsilon is not None
    worst = 0.0
    keys = [frozenset(held) for size in range(1, most + 1) for held in itertools.combinations("abc"[: most + 1], size)]
    for units in range(2 * law.minimum):
        for table in itertools.combinations_with_replacement(keys, units):
            before = output_law(law, table)
            for held in keys:
                after = output_law(law, (*table, held))
                for mine, other in ((after, before), (before, after)):
                    worst = max(worst, excess(mine, other, float(cost.epsilon)) / float(cost.delta))
    assert worst <= 1 + 1e-6
    return worst


@pytest.mark.parametrize(("law", "most"), [(LAPLACE, 1), (LAPLACE, 2), (LATE, 1)])
def test_the_code_keeps_what_it_states_on_every_tiny_table(law: NoisyThreshold, most: int) -> None:
    """The bound is nearly attained, so a lower charge, or a lower threshold, would break it."""
    assert check_every_neighbour(law, most) > 0.9


def test_the_stated_delta_covers_the_exact_tail() -> None:
    with mpmath.workdps(60):
        for law in (LAPLACE, LATE, GAUSSIAN):
            exact = exact_tail(law.noise, law.threshold - law.minimum)
            assert exact <= mpmath.mpf(law.delta.numerator) / law.delta.denominator


def test_gaussian_counts_keep_the_curve_of_their_noise_and_delta() -> None:
    """At every epsilon, delta is at most that of the noise on the keys that stay, plus that of new keys."""
    law, most = GAUSSIAN, 2
    y = np.arange(-FURTHEST, FURTHEST + 1)
    p, q = law.noise.pmf(y), law.noise.pmf(y - 1)
    both = np.multiply.outer(p, p).ravel(), np.multiply.outer(q, q).ravel()
    rare = float(price(law.event(most)).delta)
    table = (frozenset("ab"), frozenset("a"))
    for held in (frozenset("ab"), frozenset("ac"), frozenset("cd"), frozenset("c")):
        before, after = output_law(law, table), output_law(law, (*table, held))
        for epsilon in (0.0, 0.3, 1.0, 2.5):
            noise = float(np.maximum(both[0] - math.exp(epsilon) * both[1], 0).sum())
            assert max(excess(after, before, epsilon), excess(before, after, epsilon)) <= rare + noise + 1e-9


def test_a_charge_for_one_key_is_not_enough_for_two() -> None:
    cost = price(LAPLACE.event(1))
    before, after = output_law(LAPLACE, ()), output_law(LAPLACE, (frozenset("ab"),))
    assert excess(after, before, float(cost.epsilon or 0)) > 1.5 * float(cost.delta)


def test_the_event_is_the_noise_and_a_delta_for_each_key() -> None:
    event = GAUSSIAN.event(3)
    assert event == compose([GaussianEvent(Fraction(2), Fraction(3)), RareKeyEvent(GAUSSIAN.delta, 3)])
    assert event_from_dict(event.to_dict()) == event
    cost = price(event)
    assert (cost.rho, cost.epsilon, cost.delta) == (Fraction(3, 4), None, 3 * GAUSSIAN.delta)
    plain = total_epsilon(GaussianEvent(Fraction(2), Fraction(3)), 0.2)
    assert total_epsilon(event, 0.2 + float(cost.delta)).epsilon == pytest.approx(plain.epsilon, rel=1e-6)


PEOPLE = [("news", "a.org")] * 40 + [("mail", "b.org")] * 3 + [("rare", "c.org")]
CAP = Budget(epsilon=4.0, delta=1e-5)
LAW = NoisyThreshold.for_delta(DiscreteGaussian(Fraction(9)), Fraction(1, 10**6) / 4)


def found(people: OptInRecords, allowance: Allowance | None = None) -> tuple[Any, ...]:
    gate = Gate(people, Allowance(CAP) if allowance is None else allowance, neighbours=Neighbours.REPLACE)
    return gate.discover(people, LAW)


def test_the_gate_charges_first_and_gives_noisy_counts_of_common_keys() -> None:
    """Noise of standard deviation 3: 6 of them have a chance below 1e-8."""
    allowance = Allowance(CAP)
    ((key, noisy),) = found(OptInRecords([record] for record in PEOPLE), allowance)
    assert key == ("news", "a.org")
    assert abs(noisy - 40) <= 18
    assert compose(allowance.events) == LAW.event(2)


@pytest.mark.parametrize("cap", [Budget(epsilon=4.0), Budget(rho=10.0), Budget(epsilon=4.0, delta=1e-7)])
def test_a_budget_without_room_for_delta_is_refused_before_anything_is_read(cap: Budget) -> None:
    class Unread(OptInRecords):
        def key_counts(self) -> Any:
            raise AssertionError("read before the charge")

    people = Unread([record] for record in PEOPLE)
    with pytest.raises(BudgetError, match="delta"):
        Gate(people, Allowance(cap), neighbours=Neighbours.REPLACE).discover(people, LAW)


def neighbours() -> Iterator[OptInRecords]:
    for place in (0, 40, 43):
        for record in (("news", "a.org"), ("new", "d.org"), ("mail", "b.org")):
            yield OptInRecords([one] for one in [*PEOPLE[:place], record, *PEOPLE[place + 1 :]])


def test_replay_finds_nothing_besides_the_gate() -> None:
    assert check_replay(found, OptInRecords([one] for one in PEOPLE), neighbours()) == 9


def test_replay_sees_keys_below_the_minimum_too() -> None:
    """A source that counts some unit twice is found even where its keys are never released."""

    class Twice(OptInRecords):
        def key_counts(self) -> Any:
            return {key: 2 * count for key, count in super().key_counts().items()}

    with pytest.raises(ReplayError, match="move further between neighbours"):
        check_replay(
            found,
            Twice([one] for one in PEOPLE),
            [Twice([one] for one in [*PEOPLE[1:], ("x", "y")])],
        )


class Listed(OptInRecords):
    """People whose keys are counted as listed, in two batches."""

    listed: tuple[tuple[str, int], ...] = ()

    def counted_keys(self, least: int = 1) -> Any:
        for batch in (self.listed[:2], self.listed[2:]):
            yield [key for key, _ in batch], np.array([count for _, count in batch], dtype=np.int64)


def test_keys_come_sorted_and_those_below_the_minimum_never() -> None:
    people = Listed([record] for record in PEOPLE)
    late = NoisyThreshold(LAW.noise, LAW.threshold + 4, LAW.minimum + 4)
    people.listed = (("b", 500), ("z", late.minimum - 1), ("a", 600), ("y", 1))
    gate = Gate(people, Allowance(CAP), neighbours=Neighbours.REPLACE)
    assert [key for key, _ in gate.discover(people, late)] == ["a", "b"]
    # Noise beyond all counts would take half of the keys over the threshold.
    wide = NoisyThreshold(DiscreteGaussian(Fraction(2**60)), 7, 5)
    assert wide.released(["z"] * 40, np.full(40, 4), NotPrivateEntropy(1)) == []
    assert len(wide.released(["z"] * 40, np.full(40, 5), NotPrivateEntropy(1))) > 5


def test_a_count_of_nobody_is_refused() -> None:
    people = Listed([record] for record in PEOPLE)
    people.listed = (("b", 500), ("z", 0))
    with pytest.raises(DataError, match="not a whole number above 0"):
        found(people)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NoisyThreshold(DiscreteLaplace(Fraction(1)), 1), "threshold=1: expected a whole number from 2"),
        (lambda: NoisyThreshold(DiscreteLaplace(Fraction(1)), 5, 0), "minimum=0"),
        (lambda: NoisyThreshold(object(), 5), "expected DiscreteGaussian or DiscreteLaplace"),  # type: ignore[arg-type]
        (lambda: NoisyThreshold.for_delta(DiscreteLaplace(Fraction(1)), Fraction(0)), "a Fraction from 2"),
        (lambda: NoisyThreshold.for_delta(DiscreteLaplace(Fraction(1)), Fraction(1, 2**129)), "a Fraction from 2"),
    ],
)
def test_laws_that_promise_nothing_are_refused(make: Any, message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        make()


def test_the_tail_falls_with_its_start() -> None:
    for noise in (DiscreteGaussian(Fraction(50)), DiscreteLaplace(Fraction(5))):
        tails = [tail_bound(noise, start) for start in range(1, 60)]
        assert all(above > below for above, below in itertools.pairwise(tails))


def test_a_threshold_event_is_composed_with_others() -> None:
    twice = compose([LAPLACE.event(2), LAPLACE.event(2)])
    assert isinstance(twice, ComposedEvent)
    assert price(twice).delta == 4 * LAPLACE.delta
