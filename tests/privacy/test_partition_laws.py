"""Partitions of cells in a row: against all partitions listed, and on every neighbour, with the clamp as a control."""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import mpmath
import numpy as np
import pytest
from scipy import stats

from hush.core.domain import Clique, Domain
from hush.core.errors import BudgetError, DataError
from hush.privacy import partition_laws
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import Event, NoisyChoiceEvent, SelectionEvent
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gate import Counts, Gate
from hush.privacy.noise import DiscreteLaplace
from hush.privacy.partition_laws import (
    LARGEST_COST,
    NoisyPartition,
    PartitionCosts,
    PartitionMechanism,
    cheapest_partition,
)
from hush.privacy.sensitivity import Neighbours, RowNorms
from hush.testing import TinyTable, check_replay, neighbours_of, scores_of

DOMAIN = Domain({"x": 6})
ROWS = [(0,), (0,), (1,), (3,), (3,), (3,), (5,)]
MIXED = ((Fraction(1), Fraction(0)), (Fraction(1, 3), Fraction(2)), (Fraction(5), Fraction(1, 2)))
Cuts = tuple[int, ...]


def partitions(cells: int, lengths: tuple[int, ...] | None = None) -> list[Cuts]:
    cuts = [(0, *inner, cells) for size in range(cells) for inner in itertools.combinations(range(1, cells), size)]
    lengths = tuple(range(1, cells + 1)) if lengths is None else lengths
    return [one for one in cuts if all(b - a in lengths for a, b in itertools.pairwise(one))]


def total(cuts: Cuts, costs: np.ndarray, lengths: tuple[int, ...]) -> int:
    return sum(int(costs[lengths.index(b - a), a]) for a, b in itertools.pairwise(cuts))


@dataclass(frozen=True)
class Deviation:
    """Cost of an interval: one, and the distances of its counts from their median.

    Privacy: a row moves one distance by one from any centre, so the least sum of them by at most one.
    """

    lengths: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    candidates: int = 21
    cliques: tuple[Clique, ...] = (("x",),)
    bucket: int = 1

    row_norms: ClassVar[RowNorms] = RowNorms.of_number(1, 2)

    def scores(self, counts: Counts, bound: Fraction) -> PartitionCosts:
        table = counts[("x",)]
        costs = np.zeros((len(self.lengths), len(table)), dtype=np.int64)
        for k, length in enumerate(self.lengths):
            for start in range(len(table) - length + 1):
                window = np.sort(table[start : start + length])
                costs[k, start] = self.bucket + np.abs(window - window[length // 2]).sum()
        return PartitionCosts(self.lengths, costs, 1, int(bound))


POWERS = Deviation((1, 2, 4), 6 + 5 + 3)


def scored(table: TinyTable, relation: Neighbours = Neighbours.ADD_REMOVE, scorer: Any = POWERS) -> PartitionCosts:
    return scores_of(scorer, table, relation)


def enumerated(law: PartitionMechanism, scores: PartitionCosts) -> dict[Cuts, Any]:
    """Probabilities of all partitions, listed, at 60 digits."""
    costs, rate = law.weights(scores)
    with mpmath.workdps(60):
        r = mpmath.mpf(rate.numerator) / rate.denominator
        listed = partitions(scores.cells, scores.lengths)
        prior = dict.fromkeys(listed, mpmath.mpf(0))
        for w, k in law.prior:
            geometric = {cuts: mpmath.exp(-(len(cuts) - 1) * mpmath.mpf(float(k))) for cuts in listed}
            for cuts, chance in geometric.items():
                prior[cuts] += mpmath.mpf(w.numerator) / w.denominator * chance / sum(geometric.values())
        weights = {cuts: prior[cuts] * mpmath.exp(-r * total(cuts, costs, scores.lengths)) for cuts in listed}
        whole = sum(weights.values())
        return {cuts: weight / whole for cuts, weight in weights.items()}


def pvalue(draws: Counter[Cuts], expected: dict[Cuts, Any]) -> float:
    """Chi-square of draws against a law, its unlikely outcomes together."""
    assert set(draws) <= set(expected)
    count = draws.total()
    likely = [cuts for cuts in expected if expected[cuts] * count > 5]
    observed = [*(draws[cuts] for cuts in likely), count - sum(draws[cuts] for cuts in likely)]
    rest = max(1 - sum(float(expected[cuts]) for cuts in likely), 1e-12)
    chances = np.array([*(float(expected[cuts]) for cuts in likely), rest])
    return float(stats.chisquare(observed, chances / chances.sum() * count).pvalue)


@pytest.mark.parametrize("prior", [((Fraction(1), Fraction(0)),), MIXED])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(3), Fraction(20)])
def test_draws_have_the_law_of_the_list(epsilon: Fraction, prior: Any) -> None:
    law, scores, entropy = PartitionMechanism(epsilon, prior), scored(TinyTable(DOMAIN, ROWS)), NotPrivateEntropy(5)
    draws = Counter(law.choose(scores, entropy) for _ in range(1_500))
    assert pvalue(draws, enumerated(law, scores)) > 1e-9


def test_draws_do_not_have_the_law_of_another_epsilon() -> None:
    law, scores, entropy = PartitionMechanism(Fraction(3)), scored(TinyTable(DOMAIN, ROWS)), NotPrivateEntropy(5)
    draws = Counter(law.choose(scores, entropy) for _ in range(1_500))
    assert pvalue(draws, enumerated(PartitionMechanism(Fraction(6)), scores)) < 1e-9


@pytest.mark.parametrize("prior", [((Fraction(1), Fraction(0)),), MIXED])
def test_words_that_floats_cannot_decide_are_decided_in_integers(prior: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a gap of one half nearly every comparison is finished in integers, from more bits of the same number."""
    scores, law = scored(TinyTable(DOMAIN, ROWS)), PartitionMechanism(Fraction(3), prior)
    quick = [law.choose(scores, NotPrivateEntropy(seed)) for seed in range(60)]
    asked: list[int] = []
    finish = partition_laws._decide
    monkeypatch.setattr(partition_laws, "ROUNDED_WEIGHT", 0.5 / (4 * 6))
    monkeypatch.setattr(partition_laws, "_decide", lambda *given: asked.append(given[1]) or finish(*given))
    draws = Counter(law.choose(scores, NotPrivateEntropy(seed)) for seed in range(300))
    assert len(asked) > 300
    assert pvalue(draws, enumerated(law, scores)) > 1e-9
    # a first word that floats decide is decided alike in integers
    monkeypatch.setattr(partition_laws, "ROUNDED_WEIGHT", 0.0)
    assert [law.choose(scores, NotPrivateEntropy(seed)) for seed in range(60)] == quick


def test_sums_in_integers_are_those_in_floats_and_of_the_list() -> None:
    scores = scored(TinyTable(DOMAIN, ROWS))
    rate, offset = Fraction(1, 7), Fraction(1, 2)
    sums = partition_laws._WeightedPartitions(scores.lengths, scores.costs, rate, offset)
    mantissa, power = sums.sums(192)[-1]
    listed = sum(
        math.exp(-float(rate) * total(cuts, scores.costs, scores.lengths) - 0.5 * (len(cuts) - 1))
        for cuts in partitions(6, scores.lengths)
    )
    assert float(Fraction(mantissa) * Fraction(2) ** power) == pytest.approx(listed, rel=1e-13)
    assert math.ldexp(sums.mantissas[-1], int(sums.exponents[-1])) == pytest.approx(listed, rel=1e-13)
    terms, gap = sums.terms(6, 192)
    assert gap < Fraction(1, 2**180)
    last = [
        sum(
            math.exp(-float(rate) * total(cuts, scores.costs, scores.lengths) - 0.5 * (len(cuts) - 1))
            for cuts in partitions(6, scores.lengths)
            if cuts[-1] - cuts[-2] == length
        )
        for length in scores.lengths
    ]
    assert [term / sum(terms) for term in terms] == pytest.approx([value / sum(last) for value in last])


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("prior", [((Fraction(1), Fraction(0)),), MIXED])
def test_the_log_odds_of_neighbours_stay_within_epsilon(relation: Neighbours, prior: Any) -> None:
    law, furthest = PartitionMechanism(Fraction(2), prior), 0.0
    for rows in ([], ROWS, [(2,)] * 4):
        table = TinyTable(DOMAIN, rows)
        before = enumerated(law, scored(table, relation))
        for other in neighbours_of(table, relation):
            assert scored(table, relation).distance(scored(other, relation)) <= scored(table, relation).sensitivity
            after = enumerated(law, scored(other, relation))
            furthest = max(furthest, *(abs(float(mpmath.log(after[cuts] / before[cuts]))) for cuts in before))
    assert 0.1 < furthest <= 2.0


def test_the_search_finds_the_cheapest_of_all_partitions() -> None:
    draw = np.random.default_rng(3)
    for cells in range(1, 13):
        for lengths in (tuple(range(1, cells + 1)), tuple(2**k for k in range(cells.bit_length()))):
            costs = draw.integers(-20, 20, (len(lengths), cells))
            least = min(total(cuts, costs, lengths) for cuts in partitions(cells, lengths))
            found = cheapest_partition(costs, lengths)
            assert (found[0], found[-1]) == (0, cells)
            assert total(found, costs, lengths) == least


# The whole law of the least noisy cost on four cells, all ten intervals. Given the noise of the first and last cell,
# the halves are independent, and so are the partitions that cut no half. Keys order partitions by cost, ties as the
# search breaks them: shorter last intervals first.
ALL = Deviation((1, 2, 3, 4), 10, bucket=2)
FOUR = Domain({"x": 4})
REACH, MIDDLE = 12, 60
ORDER = sorted(partitions(4), key=lambda cuts: [b - a for a, b in itertools.pairwise(cuts)][::-1])


def moved(law: np.ndarray, by: int) -> np.ndarray:
    """The law of a cost plus a number; none of it reaches the ends of the array."""
    return np.roll(law, by)


def sum_of(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.convolve(first, second)[MIDDLE : MIDDLE + len(first)]


def halves(inner: np.ndarray, pair: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray]:
    """The law of the cheaper of two cells and their pair: of the cells where they are, of the pair where it is."""
    cells = moved(inner, end)
    return cells * np.cumsum(pair[::-1])[::-1], pair * (1 - np.cumsum(cells))


def keyed(law: np.ndarray, cuts: Cuts) -> np.ndarray:
    """The law of 8 cost + place in the order of ties."""
    keys = np.zeros((len(law), 8))
    keys[:, ORDER.index(cuts)] = law
    return keys.ravel()


def noisy_law(law: NoisyPartition, scores: PartitionCosts, floor: int | None = None) -> dict[Cuts, float]:
    """The probability of every partition of four cells, up to noise beyond `REACH`; `floor` plants the clamp."""
    chances: dict[tuple[int, int], np.ndarray] = {}
    noise = np.arange(-REACH, REACH + 1)
    for k, (length, scale) in enumerate(zip(scores.lengths, law.scales(scores), strict=True)):
        for start in range(4 - length + 1):
            costs = int(scores.costs[k, start]) + noise
            costs = costs if floor is None else np.maximum(costs, floor)
            weights = DiscreteLaplace(scale).pmf(noise)
            chances[start, start + length] = np.bincount(costs + MIDDLE, weights, 2 * MIDDLE + 1)
    possible = [int(cost) for cost in np.flatnonzero(chances[0, 1])]
    left = {first: halves(chances[1, 2], chances[0, 2], first - MIDDLE) for first in possible}
    right = {last: halves(chances[2, 3], chances[2, 4], last - MIDDLE) for last in possible}
    result = dict.fromkeys(ORDER, 0.0)
    for first, last in itertools.product(possible, possible):
        whole = {
            (0, 1, 3, 4): moved(chances[1, 3], first + last - 2 * MIDDLE),
            (0, 1, 4): moved(chances[1, 4], first - MIDDLE),
            (0, 3, 4): moved(chances[0, 3], last - MIDDLE),
            (0, 4): chances[0, 4],
        }
        cut = {
            (0, 1, 2, 3, 4): sum_of(left[first][0], right[last][0]),
            (0, 2, 3, 4): sum_of(left[first][1], right[last][0]),
            (0, 1, 2, 4): sum_of(left[first][0], right[last][1]),
            (0, 2, 4): sum_of(left[first][1], right[last][1]),
        }
        laws = {cuts: keyed(one, cuts) for cuts, one in {**whole, **cut}.items()}
        above = [1 - np.cumsum(laws[cuts]) for cuts in whole]
        above.append(1 - np.cumsum(sum(laws[cuts] for cuts in cut)))
        chance = chances[0, 1][first] * chances[3, 4][last]
        for cuts, one in laws.items():
            place = list(whole).index(cuts) if cuts in whole else len(whole)
            result[cuts] += chance * float(one @ math.prod(above[:place] + above[place + 1 :]))
    return result


def loss_over_neighbours(law_of: Callable[[PartitionCosts], dict[Cuts, float]], tables: list[list[int]]) -> float:
    """The largest logarithm of odds between tables of four cells and all tables with one row more."""
    largest = 0.0
    for counts in tables:
        rows = [(cell,) for cell, count in enumerate(counts) for _ in range(count)]
        before = law_of(scored(TinyTable(FOUR, rows), scorer=ALL))
        for cell in range(4):
            after = law_of(scored(TinyTable(FOUR, [*rows, (cell,)]), scorer=ALL))
            largest = max(largest, *(abs(math.log(after[cuts] / before[cuts])) for cuts in before))
    return largest


NOISY = NoisyPartition(Fraction(4))


@pytest.mark.parametrize("floor", [0, 2])
def test_noisy_costs_have_the_law_that_is_computed(floor: int) -> None:
    """And not that of costs cut off from below, at the cost of an even interval; where that is nothing, at 0."""
    scorer = dataclasses.replace(ALL, bucket=floor)
    scores, entropy = scored(TinyTable(FOUR, [(1,)]), scorer=scorer), NotPrivateEntropy(8)
    law = noisy_law(NOISY, scores)
    assert sum(law.values()) == pytest.approx(1, abs=1e-9)
    draws = Counter(NOISY.choose(scores, entropy) for _ in range(4_000))
    assert pvalue(draws, law) > 1e-9
    assert pvalue(draws, noisy_law(NOISY, scores, floor=floor)) < 1e-9


def test_no_partition_by_noisy_costs_tells_neighbours_apart_by_more_than_epsilon() -> None:
    tables = [[0, 0, 0, 0], [0, 1, 0, 0]]
    assert 1.0 < loss_over_neighbours(lambda scores: noisy_law(NOISY, scores), tables) <= 4.0


def test_the_lesser_noise_of_the_remark_is_enough() -> None:
    """Single cells always cost the same: with less noise on short intervals the loss is larger, and within epsilon."""

    def of_remark(scores: PartitionCosts) -> dict[Cuts, float]:
        return noisy_law(NOISY, dataclasses.replace(scores, own=(0, 1, 1, 1)))

    loss = loss_over_neighbours(of_remark, [[0, 0, 0, 0]])
    assert loss_over_neighbours(lambda scores: noisy_law(NOISY, scores), [[0, 0, 0, 0]]) < loss <= 4.0


def test_noisy_costs_that_are_cut_off_from_below_tell_neighbours_apart() -> None:
    """The clamp of the published program, planted: x = (0, 1, 0, 0) against 0 is told apart by more than epsilon."""
    assert loss_over_neighbours(lambda scores: noisy_law(NOISY, scores, floor=2), [[0, 0, 0, 0]]) > 6.0


def test_a_planted_clamp_changes_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = scored(TinyTable(FOUR, [(1,)]), scorer=ALL)
    monkeypatch.setattr(
        partition_laws, "cheapest_partition", lambda costs, lengths: cheapest_partition(np.maximum(costs, 2), lengths)
    )
    entropy = NotPrivateEntropy(8)
    draws = Counter(NOISY.choose(scores, entropy) for _ in range(4_000))
    assert pvalue(draws, noisy_law(NOISY, scores)) < 1e-9


def test_scales_are_those_of_the_theorem_and_of_the_remark() -> None:
    costs = np.zeros((3, 4), dtype=np.int64)
    law = NoisyPartition(Fraction(1, 2))
    assert law.scales(PartitionCosts((1, 2, 4), costs, 2, 3)) == [24, 24, 24]
    assert law.scales(PartitionCosts((1, 2, 4), costs, 2, 3, own=(0, 1, 2))) == [12, 18, 24]


def test_an_offset_makes_partitions_coarser() -> None:
    scores = PartitionCosts((1, 2, 4), np.zeros((3, 64), dtype=np.int64), 1)
    plain, coarse = (
        np.mean([len(NoisyPartition(Fraction(1), Fraction(k)).choose(scores, NotPrivateEntropy(s))) for s in range(30)])
        for k in (0, 3)
    )
    assert coarse < plain - 5


@pytest.mark.parametrize(
    ("law", "event"),
    [
        (PartitionMechanism(Fraction(3)), SelectionEvent(Fraction(3))),
        (PartitionMechanism(Fraction(3), MIXED), SelectionEvent(Fraction(3))),
        (NoisyPartition(Fraction(3)), NoisyChoiceEvent(Fraction(3))),
    ],
    ids=["exponential", "mixed prior", "noisy"],
)
def test_the_gate_charges_and_watches_the_choice(law: Any, event: Event) -> None:
    table, account = TinyTable(DOMAIN, ROWS), Allowance(Budget(epsilon=3.0))
    assert Gate(table, account).select(POWERS, law) in partitions(6)
    assert account.events == (event,)
    with pytest.raises(BudgetError):
        Gate(table, account).select(POWERS, law)
    assert table.reads == 1
    with pytest.raises(DataError, match="31 candidates"):
        Gate(table, Allowance(Budget(epsilon=3.0))).select(Deviation(candidates=31), law)

    def run(one: TinyTable) -> Cuts:
        return Gate(one, Allowance(Budget(epsilon=3.0))).select(POWERS, law)

    assert check_replay(run, table, neighbours_of(table)) == 13


def test_thousands_of_cells_are_partitioned() -> None:
    cells, lengths = 5000, tuple(2**k for k in range(13))
    costs = np.random.default_rng(1).integers(0, 40, (13, cells))
    scores = PartitionCosts(lengths, costs, 2)
    for law in (PartitionMechanism(Fraction(1), MIXED), NoisyPartition(Fraction(1))):
        cuts = law.choose(scores, NotPrivateEntropy(2))
        assert (cuts[0], cuts[-1]) == (0, cells)
        assert {b - a for a, b in itertools.pairwise(cuts)} <= set(lengths)


def test_a_mixed_prior_lets_the_data_decide_how_coarse_the_partition_is() -> None:
    """Of 256 cells that are all alike it makes few buckets, and of cells that are all unlike many."""
    lengths, rates = tuple(2**k for k in range(9)), [(Fraction(1), Fraction(0)), (Fraction(1), Fraction(4))]
    alike = np.full((9, 256), 4, dtype=np.int64)
    unlike = alike + 40 * np.array(lengths)[:, None] * (np.array(lengths) > 1)[:, None]

    def buckets(costs: np.ndarray, prior: Any) -> int:
        law = PartitionMechanism(Fraction(1, 5), tuple(prior))
        return len(law.choose(PartitionCosts(lengths, costs, 1), NotPrivateEntropy(3))) - 1

    fine, mixed = ([buckets(costs, prior) for costs in (alike, unlike)] for prior in (rates[:1], rates))
    assert mixed[0] < 40 < fine[0]
    assert mixed[1] > 200


def test_costs_far_apart_are_told_apart() -> None:
    """One interval of cost 10^6 is never chosen beside 64 of cost 20, whose weights floats could not hold either."""
    costs = np.full((2, 64), 20, dtype=np.int64)
    costs[1, 0] = 10**6
    law = PartitionMechanism(Fraction(40))
    assert law.choose(PartitionCosts((1, 64), costs, 1), NotPrivateEntropy(1)) == tuple(range(65))
    costs[1, 0] = 64 * 20 - 2
    assert law.choose(PartitionCosts((1, 64), costs, 1), NotPrivateEntropy(1)) == (0, 64)


@pytest.mark.parametrize("bits", [20, 128, 300])
def test_the_logarithm_of_two_is_known(bits: int) -> None:
    with mpmath.workdps(200):
        assert abs(partition_laws._log_two(bits) - mpmath.floor(mpmath.log(2) * mpmath.mpf(2) ** bits)) <= 1


@pytest.mark.parametrize("cost", [0, 1, 7, 12345, 2**40])
def test_weights_are_powers_of_e(cost: int) -> None:
    sums = partition_laws._WeightedPartitions((1,), np.array([[cost]]), Fraction(3, 7), Fraction(1, 3))
    low, power = sums._weight(cost, 150)
    with mpmath.workdps(80):
        x = mpmath.mpf(3 * cost) / 7 + mpmath.mpf(1) / 3
        exact = mpmath.exp(mpmath.log(2) * -power - x)  # times 2^power
        assert 0 <= 1 - low / exact <= mpmath.mpf(2) ** -150
        close = mpmath.exp(mpmath.log(2) * int(sums.halvings[0, 0]) - x)
        assert abs(float(sums.weights[0, 0]) / close - 1) < 2.0**-48


def bounded() -> Iterator[tuple[PartitionCosts, PartitionCosts, Any]]:
    """Costs beyond the bounds of a law, and at them."""
    exponential, noisy = PartitionMechanism(Fraction(1, 1000)), NoisyPartition(Fraction(1))
    for low, high, law in ((0, LARGEST_COST, exponential), (-LARGEST_COST, LARGEST_COST, noisy)):
        beyond = np.array([[low - 5, 3], [2**60, 0]], dtype=np.int64)
        within = np.array([[low, 3], [high, 0]], dtype=np.int64)
        yield PartitionCosts((1, 2), beyond, 1), PartitionCosts((1, 2), within, 1), law


@pytest.mark.parametrize(("beyond", "within", "law"), list(bounded()), ids=["exponential", "noisy"])
def test_costs_out_of_bounds_count_as_the_bounds(beyond: PartitionCosts, within: PartitionCosts, law: Any) -> None:
    drawn = [[law.choose(costs, NotPrivateEntropy(seed)) for seed in range(20)] for costs in (beyond, within)]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    ("lengths", "costs"),
    [
        ((1, 2), np.zeros((2, 3))),
        ((1,), np.zeros((2, 3), dtype=np.int64)),
        ((), np.zeros((0, 3), dtype=np.int64)),
        ((2, 3), np.zeros((2, 3), dtype=np.int64)),
        ((1, 4), np.zeros((2, 3), dtype=np.int64)),
        ((1, 1), np.zeros((2, 3), dtype=np.int64)),
    ],
)
def test_costs_that_are_none_are_refused(lengths: tuple[int, ...], costs: np.ndarray) -> None:
    with pytest.raises(BudgetError, match=r"costs: expected|lengths of intervals: expected"):
        PartitionCosts(lengths, costs, 1)


@pytest.mark.parametrize("sensitivity", [0, -1, True, 1.5])
def test_sensitivities_are_whole_and_positive(sensitivity: object) -> None:
    costs = np.zeros((2, 3), dtype=np.int64)
    with pytest.raises(BudgetError, match="row_sensitivity="):
        PartitionCosts((1, 2), costs, sensitivity)  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="rows="):
        PartitionCosts((1, 2), costs, 1, sensitivity)  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="own: expected"):
        PartitionCosts((1, 2), costs, 1, 1, own=(0, 2))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PartitionMechanism(Fraction(0)), "epsilon=0"),
        (lambda: PartitionMechanism(Fraction(2000)), "epsilon=2000 of a partition"),
        (lambda: NoisyPartition(Fraction(1, 2**30)), "of a partition: expected"),
        (lambda: PartitionMechanism(Fraction(1), ()), "prior: expected"),
        (lambda: PartitionMechanism(Fraction(1), ((Fraction(1), Fraction(-1)),)), "prior: expected"),
        (lambda: NoisyPartition(Fraction(1), Fraction(-1)), "offset=-1"),
    ],
)
def test_settings_out_of_range_are_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(BudgetError, match=words):
        make()


def test_lengths_with_a_lesser_sensitivity_are_compared_with_it() -> None:
    costs = np.zeros((2, 2), dtype=np.int64)
    moved = costs.copy()
    moved[1, 0] = 1
    own = (0, 1)
    assert PartitionCosts((1, 2), costs, 2, 1, own).distance(PartitionCosts((1, 2), moved, 2, 1, own)) == 2
    moved[0, 0] = 1
    assert PartitionCosts((1, 2), costs, 2, 1, own).distance(PartitionCosts((1, 2), moved, 2, 1, own)) > 2
