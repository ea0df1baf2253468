"""Discovery of unknown keys: exact probabilities, all neighbours enumerated, charges, and record and replay."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from hush.core.errors import BudgetError, DataError, ReplayError
from hush.hybrid.opt_in import OptInRecords
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.discovery import PROBABILITY_BITS, KeyDiscovery
from hush.privacy.events import DiscoveryEvent
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gate import Gate
from hush.privacy.sensitivity import Neighbours
from hush.testing import check_replay

LAWS = [
    KeyDiscovery(Fraction(1, 2), Fraction(1, 20)),
    KeyDiscovery(Fraction(2), Fraction(1, 200_000)),
    KeyDiscovery(Fraction(1, 100), Fraction(1, 1000)),
    KeyDiscovery(Fraction(7, 8), Fraction(1, 4)),  # shows an e^-epsilon that is rounded down
]


def real(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator


@pytest.mark.parametrize("law", LAWS)
def test_a_key_of_one_unit_is_released_with_probability_delta_exactly(law: KeyDiscovery) -> None:
    assert law.probability(0) == 0
    assert law.probability(1) == law.delta
    assert law.probability(10**9) == 1


@pytest.mark.parametrize("law", LAWS)
def test_every_step_of_the_table_is_private_and_could_not_be_larger(law: KeyDiscovery) -> None:
    with mpmath.workdps(60):
        grown, delta = mpmath.exp(real(law.epsilon)), real(law.delta)
        for units in range(len(law.table) - 1):
            p, q = real(law.probability(units)), real(law.probability(units + 1))
            assert p <= q <= min(grown * p + delta, 1 - (1 - p - delta) / grown, 1)
            assert q >= min(grown * p + delta, 1 - (1 - p - delta) / grown, 1) - mpmath.mpf(2) ** (8 - PROBABILITY_BITS)


def outputs(law: KeyDiscovery, rows: tuple[tuple[str, ...], ...]) -> dict[frozenset[str], Any]:
    """The exact law of the released set of keys."""
    counts = Counter(key for row in rows for key in set(row))
    chances: dict[frozenset[str], Any] = {frozenset(): mpmath.mpf(1)}
    for key, units in counts.items():
        p = real(law.probability(units))
        after: dict[frozenset[str], Any] = {}
        for found, chance in chances.items():
            after[found] = after.get(found, 0) + chance * (1 - p)
            after[found | {key}] = after.get(found | {key}, 0) + chance * p
        chances = after
    return chances


def excess(
    law: KeyDiscovery, mine: tuple[tuple[str, ...], ...], other: tuple[tuple[str, ...], ...], epsilon: Any
) -> Any:
    p, q = outputs(law, mine), outputs(law, other)
    return sum(max(chance - mpmath.exp(epsilon) * q.get(found, 0), 0) for found, chance in p.items())


@pytest.mark.parametrize(("keys", "people"), [(1, 3), (2, 2)])
def test_all_exchanges_of_one_person_stay_within_the_charge(keys: int, people: int) -> None:
    """Every table of a few people over four keys, and every exchange of one of them: at most (epsilon, delta)."""
    law = KeyDiscovery(Fraction(1, 2), Fraction(1, 20))
    names = "abcd" if keys == 1 else "abc"
    rows = list(itertools.combinations(names, keys))
    cost = law.event(2 * keys).cost
    assert cost.epsilon is not None
    worst = mpmath.mpf(0)
    with mpmath.workdps(40):
        for table in itertools.combinations_with_replacement(rows, people):
            for new in rows:
                worst = max(worst, excess(law, table, (new, *table[1:]), real(cost.epsilon)))
        assert 0 < worst <= real(cost.delta)
        assert worst > real(law.delta) / 2


def test_a_table_that_is_too_generous_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of one unit released at twice delta, as a threshold that is too low would, breaks the same bound."""
    law = KeyDiscovery(Fraction(1, 2), Fraction(1, 20))
    generous = KeyDiscovery(Fraction(1, 2), Fraction(1, 5))
    with mpmath.workdps(40):
        assert excess(generous, (("a",), ("b",)), (("c",), ("b",)), 1) > real(law.event(2).cost.delta)


def test_two_records_charged_as_one_would_be_found() -> None:
    law = KeyDiscovery(Fraction(1, 2), Fraction(1, 20))
    one = law.event(2).cost
    assert one.epsilon is not None
    with mpmath.workdps(40):
        assert excess(law, (("a", "b"),), (("c", "d"),), real(one.epsilon) / 8) > real(one.delta) / 2


@pytest.mark.parametrize("units", [0, 1, 2, 6, 7, 50])
def test_draws_follow_the_table(units: int) -> None:
    """40,000 keys: an error of 6 standard deviations has a chance below 1e-8."""
    law = KeyDiscovery(Fraction(1), Fraction(1, 50))
    chosen = law.choose(np.full(40_000, units), NotPrivateEntropy(units))
    p = float(law.probability(units))
    assert chosen.mean() == pytest.approx(p, abs=6 * math.sqrt(p * (1 - p) / 40_000) + 1e-12)


class Words:
    """Entropy that hands out given words."""

    private = False

    def __init__(self, *words: int) -> None:
        self.given = list(words)

    def words(self, count: int) -> Any:
        taken, self.given = self.given[:count], self.given[count:]
        return np.array(taken, dtype=np.uint64)


def test_a_draw_that_64_bits_do_not_decide_is_decided_by_more() -> None:
    law = KeyDiscovery(Fraction(2), Fraction(1, 3))
    high = 2**64 // 3  # 1/3 is 0.010101... in bits, so the next word of the bound is the same again
    assert law.choose(np.array([1]), Words(high, high - 1)).tolist() == [True]
    assert law.choose(np.array([1]), Words(high, high + 1)).tolist() == [False]
    assert law.choose(np.array([1]), Words(high, high, high + 1)).tolist() == [False]
    assert law.choose(np.array([1]), Words(high - 1)).tolist() == [True]
    assert law.choose(np.array([1]), Words(high + 1)).tolist() == [False]
    assert law.choose(np.array([0]), Words(0, 0)).tolist() == [False]
    assert law.choose(np.array([1000]), Words(2**64 - 1)).tolist() == [True]


CAP = Budget(epsilon=4.0, delta=1e-5)
LAW = KeyDiscovery(Fraction(2), Fraction(1e-5) / 2)
PEOPLE = [("news", "a.org")] * 30 + [("mail", "b.org")] * 2 + [("rare", "c.org")]


def found(people: OptInRecords, allowance: Allowance | None = None) -> tuple[Any, ...]:
    gate = Gate(people, Allowance(CAP) if allowance is None else allowance, neighbours=Neighbours.REPLACE)
    return gate.discover(people, LAW)


def test_the_gate_charges_first_and_releases_common_keys_only() -> None:
    """The key of two people is released with a chance of 4e-5, that of one with 5e-6."""
    allowance = Allowance(CAP)
    assert found(OptInRecords([record] for record in PEOPLE), allowance) == (("news", "a.org"),)
    assert allowance.events == (DiscoveryEvent(LAW.epsilon, LAW.delta, 2),)
    assert allowance.cost.epsilon == 4
    assert allowance.cost.delta == Fraction(1e-5)


TINY = Fraction(1, 10**9)


class Counting(OptInRecords):
    """People who count how often they were read."""

    reads = 0

    def key_counts(self) -> Any:
        self.reads += 1
        return super().key_counts()


@pytest.mark.parametrize(
    "cap", [Budget(epsilon=4.0), Budget(rho=10.0), Budget(epsilon=4.0, delta=9e-6), Budget(mu=9.0)]
)
def test_a_budget_without_room_for_delta_is_refused_before_anything_is_read(cap: Budget) -> None:
    people = Counting([record] for record in PEOPLE)
    with pytest.raises(BudgetError, match="delta"):
        Gate(people, Allowance(cap), neighbours=Neighbours.REPLACE).discover(people, LAW)
    assert people.reads == 0


@pytest.mark.parametrize("law", [KeyDiscovery(Fraction(1), Fraction(1, 2**130)), KeyDiscovery(TINY, TINY)])
def test_a_law_that_could_release_nothing_is_refused_before_it_is_charged(law: KeyDiscovery) -> None:
    people, allowance = Counting([record] for record in PEOPLE), Allowance(CAP)
    with pytest.raises(BudgetError, match="too small for anything to be released"):
        Gate(people, allowance, neighbours=Neighbours.REPLACE).discover(people, law)
    assert (people.reads, allowance.events) == (0, ())


def test_another_law_or_another_table_is_refused() -> None:
    class Softer(KeyDiscovery):
        pass

    people, others = (OptInRecords([record] for record in PEOPLE) for _ in range(2))
    gate = Gate(people, Allowance(CAP), neighbours=Neighbours.REPLACE)
    with pytest.raises(BudgetError, match="expected one of KeyDiscovery"):
        gate.discover(people, Softer(Fraction(2), Fraction(1, 10**6)))
    with pytest.raises(BudgetError, match="its own table"):
        gate.discover(others, LAW)
    assert gate.account.remaining == CAP.limit


def neighbours() -> Iterator[OptInRecords]:
    for place in (0, 30, 32):
        for record in (("news", "a.org"), ("new", "d.org"), ("mail", "b.org")):
            yield OptInRecords([one] for one in [*PEOPLE[:place], record, *PEOPLE[place + 1 :]])


def test_replay_finds_nothing_beside_the_gate() -> None:
    assert check_replay(lambda people: found(people), OptInRecords([one] for one in PEOPLE), neighbours()) == 9


def test_replay_finds_people_who_count_twice() -> None:
    class Twice(OptInRecords):
        def key_counts(self) -> Any:
            return {key: 2 * count for key, count in super().key_counts().items()}

    with pytest.raises(ReplayError, match="move further between neighbours"):
        check_replay(
            lambda people: found(people),
            Twice([one] for one in PEOPLE),
            [Twice([one] for one in [*PEOPLE[1:], ("x", "y")])],
        )


def test_keys_come_sorted_so_that_their_order_tells_nothing() -> None:
    people = OptInRecords([record] for record in [("b", "1")] * 40 + [("a", "1")] * 30 + [("c", "1")] * 50)
    assert found(people) == (("a", "1"), ("b", "1"), ("c", "1"))


@pytest.mark.parametrize(
    ("epsilon", "delta", "message"),
    [
        (Fraction(0), Fraction(1, 10), "epsilon=.*a Fraction above 0"),
        (Fraction(1), Fraction(0), "delta=.*a Fraction above 0"),
        (0.5, Fraction(1, 10), "epsilon=.*a Fraction above 0"),
        (Fraction(1), Fraction(2, 3), "too large"),
        (Fraction(65), Fraction(1, 10), "too large"),
    ],
)
def test_laws_that_promise_nothing_are_refused(epsilon: Any, delta: Any, message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        KeyDiscovery(epsilon, delta)
    with pytest.raises(BudgetError, match="too small"):
        _ = KeyDiscovery(Fraction(1), Fraction(1, 2**130)).table


def test_a_source_that_counts_wrongly_is_refused() -> None:
    class Wrong(OptInRecords):
        def key_counts(self) -> Any:
            return {"a": 0}

    with pytest.raises(DataError, match="not a whole number above 0"):
        found(Wrong([[("a", "b")]]))


def test_a_person_counts_for_a_few_different_records_chosen_by_that_person_alone() -> None:
    lists = [["a", "b", "a", "c"], ["a", "a"], ["b"], []]
    for most in (1, 2):
        together = OptInRecords(lists, max_records=most).key_counts()
        alone = Counter()
        for records in lists[:-1]:
            alone.update(OptInRecords([records], max_records=most).key_counts())
        assert together == dict(alone)
        assert max(OptInRecords([["a", "a", "a"]], max_records=most).key_counts().values()) == 1
    assert sum(OptInRecords([["a", "b", "c"]], max_records=2).key_counts().values()) == 2
