"""Private partitions of n cells in a row into intervals: the exponential mechanism, least noisy cost, and a tree.

A partition costs the sum of its intervals' costs. One row is in one cell, and every partition has exactly one interval
over that cell, so a row moves the cost of a partition no further than the cost of one interval. The first two laws rest
on this; neither lists the partitions. The tree splits a node while its noisy score, minus a toll for its depth, is
high; its noise does not grow with depth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np

from hush.core.arrays import Integers
from hush.core.errors import BudgetError
from hush.core.validation import check_whole
from hush.privacy.events import Event, NoisyChoiceEvent, SelectionEvent
from hush.privacy.exact_sampling import Entropy, exp_bounds, one_word
from hush.privacy.noise import SMALLEST_SCALE, DiscreteLaplace
from hush.privacy.selection import ExponentialMechanism

LARGEST_COST = 2**40  # of an interval; larger costs count as this
LARGEST_RATE = 64  # of a prior
LARGEST_EPSILON = 2**10
ROUNDED_WEIGHT = 2.0**-48  # bounds the relative error of a weight in floats
_EXPONENT_BITS = 128  # bits of exponents behind the point, before they are rounded
LARGEST_SCORE = 2**53
_LOSS_BITS = 96  # of the bound on the loss of a tree
_LOSS_TERMS = 48  # of its sum that are not bounded by a geometric series
_NOISE_SEARCH_STEPS = 14  # of the search for the least noise

Cuts = tuple[int, ...]  # boundaries of a partition, from 0 to n
Terms = tuple[list[int], Fraction]  # numbers in proportion to probabilities, and the error of cumulative ones


@dataclass(frozen=True, slots=True, eq=False)
class PartitionCosts:
    """Costs of the candidate intervals of n cells in a row: all intervals of some public lengths, at every offset.

    `costs[k, i]` is the cost of the cells i .. i + lengths[k] - 1, a whole number; entries that reach beyond the last
    cell are not used. Costs are private, all else is public. Lengths rise from 1, so every partition can be reached.

    A unit is a chain of `rows` steps from one table to the other, and each step adds or removes one row. A step leaves
    the cost of intervals without the row's cell unchanged, and moves the cost of any other interval by at most
    `row_sensitivity`, or by at most `own[k]` if the length of the interval is lengths[k].
    """

    lengths: tuple[int, ...]
    costs: Integers  # (lengths, n)
    row_sensitivity: int
    rows: int = 1
    own: tuple[int, ...] | None = None
    error: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        if self.costs.dtype != np.int64 or self.costs.ndim != 2 or not 1 <= len(self.lengths) == len(self.costs):
            raise BudgetError("costs: expected an int64 matrix with a row for each length")
        rising = all(before < after for before, after in zip(self.lengths, self.lengths[1:], strict=False))
        if not (self.lengths[0] == 1 and rising and self.lengths[-1] <= self.cells):
            raise BudgetError(f"lengths of intervals: expected 1 first, then rising, up to the {self.cells} cells")
        for name in ("row_sensitivity", "rows"):
            object.__setattr__(self, name, check_whole(BudgetError, name, getattr(self, name), least=1))
        if self.own is not None and not (
            len(self.own) == len(self.lengths) and min(self.own) >= 0 and max(self.own) <= self.row_sensitivity
        ):
            raise BudgetError("own: expected a sensitivity for each length, of at most row_sensitivity")

    @property
    def cells(self) -> int:
        """The number of cells; public."""
        return int(self.costs.shape[1])

    @property
    def sensitivity(self) -> int:
        """How far a unit moves the cost of any partition; public."""
        return self.rows * self.row_sensitivity

    @property
    def candidates(self) -> int:
        """How many intervals have a cost; public."""
        return interval_count(self.cells, self.lengths)

    def distance(self, other: PartitionCosts) -> Fraction:
        """The largest sum over a partition of the differences of its intervals' costs.

        With sensitivities of their own, differences are scaled to the largest of them.
        """
        own = [self.row_sensitivity] * len(self.lengths) if self.own is None else self.own
        factors = [Fraction(self.row_sensitivity, each) if each else Fraction(LARGEST_COST) for each in own]
        gaps = np.abs(self.costs - other.costs)
        furthest = [Fraction(0)]
        for end in range(1, self.cells + 1):
            reached = (
                furthest[end - length] + factor * int(gaps[k, end - length])
                for k, (length, factor) in enumerate(zip(self.lengths, factors, strict=True))
                if length <= end
            )
            furthest.append(max(reached))
        return furthest[-1]


def interval_count(cells: int, lengths: tuple[int, ...]) -> int:
    """How many intervals of these lengths there are among n cells."""
    return sum(cells - length + 1 for length in lengths)


@dataclass(frozen=True, slots=True)
class PartitionMechanism:
    """Choose a partition P with probability proportional to prior(P) exp(-epsilon cost(P) / (2 Delta)), exactly.

    The prior is public, a mixture of geometric laws of the number of intervals: prior(P) is the sum over its pairs
    (w, k) of w exp(-k |P|) / N_k, with N_k the sum of exp(-k |P|) over all partitions. Several rates k let the data
    decide how coarse the partition is.

    With Z_j = sum over lengths l of Z_(j-l) exp(-k - epsilon cost / (2 Delta)) and Z_0 = 1, the weight of all
    partitions of the first j cells, the mixture's part is drawn in proportion to w Z_n / N_k, and then, backwards from
    j = n, the last interval in proportion to its term of Z_j. O(n lengths) for each part of the prior.

    Exactness: all terms are positive, so relative errors add up: floats know every cumulative probability within
    `gap` = 4 n (2^-48 + (lengths + 8) 2^-53); powers of two are kept apart, so that no weight is too small. A uniform
    number within `gap` of one is undecided; more of its bits are drawn and compared with sums in integers of growing
    length, until they decide. Whichever path is taken, the partition has exactly its probability. Costs below 0 count
    as 0, and those above 2^40 as 2^40, which increases no difference between costs.
    Privacy: the exponential mechanism with a base measure; epsilon-DP and epsilon^2/8-zCDP.
    Reference: [McSherry and Talwar 2007]; exactness after [Ilvento 2020].
    """

    epsilon: Fraction
    prior: tuple[tuple[Fraction, Fraction], ...] = ((Fraction(1), Fraction(0)),)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", ExponentialMechanism(self.epsilon).epsilon)
        _check_epsilon(self.epsilon)
        prior = tuple((Fraction(weight), Fraction(rate)) for weight, rate in self.prior)
        if not prior or any(weight <= 0 or not 0 <= rate <= LARGEST_RATE for weight, rate in prior):
            raise BudgetError(f"prior: expected pairs of a weight > 0 and a rate of 0 to {LARGEST_RATE} per interval")
        object.__setattr__(self, "prior", prior)

    def event(self) -> Event:
        return SelectionEvent(self.epsilon)

    def weights(self, scores: PartitionCosts) -> tuple[Integers, Fraction]:
        """Whole c of every interval and a rational r, so that its weight is exp(-r c) times that of the prior."""
        return np.clip(scores.costs, 0, LARGEST_COST), self.epsilon / (2 * scores.sensitivity)

    def choose(self, scores: PartitionCosts, entropy: Entropy) -> Cuts:
        """The boundaries of the chosen partition, from 0 to n."""
        costs, rate = self.weights(scores)
        parts = [_WeightedPartitions(scores.lengths, costs, rate, offset) for _, offset in self.prior]
        return parts[self._part(parts, entropy) if len(parts) > 1 else 0].draw(entropy)

    def _part(self, parts: list[_WeightedPartitions], entropy: Entropy) -> int:
        """Which part of the prior the partition comes from: in proportion to w Z_n / N_k; floats where they decide."""
        blank = [_WeightedPartitions(part.lengths, np.zeros_like(part.costs), part.rate, part.offset) for part in parts]
        weights = [weight for weight, _ in self.prior]

        def terms(bits: int) -> Terms:
            numbers = []
            for weight, part, without in zip(weights, parts, blank, strict=True):
                (z, e), (n, f) = part.sums(bits)[-1], without.sums(bits)[-1]
                numbers.append((math.floor(weight * z * 2 ** (2 * bits) / n), e - f - 2 * bits))
            return _aligned(numbers, bits), 2 * parts[0].error(bits)

        rough = []
        for weight, part, without in zip(weights, parts, blank, strict=True):
            ratio = weight * Fraction(part.mantissas[-1]) / Fraction(without.mantissas[-1])
            rough.append((math.floor(ratio * 2**192), int(part.exponents[-1] - without.exponents[-1]) - 192))
        prefix = one_word(entropy)
        slot = _slot(prefix, 64, _aligned(rough, 64), 2 * Fraction(parts[0].gap))
        return _decide(prefix, 64, terms, entropy) if slot is None else slot


class _WeightedPartitions:
    """Sums over partitions of products of weights exp(-r c - k), in floats, and in integers of any length."""

    def __init__(self, lengths: tuple[int, ...], costs: Integers, rate: Fraction, offset: Fraction) -> None:
        from hush.privacy._kernels import weigh_partitions

        self.lengths, self.costs, self.rate, self.offset = lengths, costs, rate, offset
        self.cells = int(costs.shape[1])
        self.gap = 4.0 * self.cells * (ROUNDED_WEIGHT + (len(lengths) + 8) * 2.0**-53)
        # Weights as numbers of 1/2 to 1, and how often to halve them: r c + k = h log 2 + g in integers of 128 bits
        # behind the point, then exp(-g) in floats for 0 <= g < log 2. The relative error is below 2^-48 for an exp with
        # an error below 16 ulp.
        distinct, places = np.unique(costs, return_inverse=True)
        long_rate, long_offset = (math.floor(number * 2**_EXPONENT_BITS) for number in (rate, offset))
        log_two = _log_two(_EXPONENT_BITS)
        split = [divmod(cost * long_rate + long_offset, log_two) for cost in distinct.tolist()]
        rest = np.array([(g >> (_EXPONENT_BITS - 60)) * 2.0**-60 for _, g in split])
        self.weights = np.exp(-rest)[places].reshape(costs.shape)
        self.halvings = np.array([h for h, _ in split], dtype=np.int64)[places].reshape(costs.shape)
        self.mantissas, self.exponents = np.empty(self.cells + 1), np.empty(self.cells + 1, dtype=np.int64)
        weigh_partitions(self.weights, self.halvings, np.array(lengths, dtype=np.int64), self.mantissas, self.exponents)
        self._sums: dict[int, list[tuple[int, int]]] = {}
        self._weights: dict[tuple[int, int], tuple[int, int]] = {}

    def draw(self, entropy: Entropy) -> Cuts:
        """The boundaries of a partition with probability in proportion to its product."""
        from hush.privacy._kernels import walk_back

        lengths = np.array(self.lengths, dtype=np.int64)
        cuts = [self.cells]
        while cuts[-1]:
            words = entropy.words(min(cuts[-1], 1 << 12))
            starts = np.empty(len(words), dtype=np.int64)
            drawn, undecided = walk_back(
                self.weights, self.halvings, lengths, self.mantissas, self.exponents, self.gap, cuts[-1], words, starts
            )
            cuts.extend(starts[:drawn].tolist())
            if undecided:
                k = _decide(int(words[drawn]) >> 11, 53, partial(self.terms, cuts[-1]), entropy)
                cuts.append(cuts[-1] - self.lengths[k])
        return tuple(reversed(cuts))

    def terms(self, end: int, bits: int) -> Terms:
        """The terms of Z_end, in integers."""
        return _aligned(self._products(end, self.sums(bits), bits), bits), self.error(bits)

    def sums(self, bits: int) -> list[tuple[int, int]]:
        """Every Z_j from below as mantissa and power of two, up to a factor 1 + n 2^(4 - bits)."""
        if bits not in self._sums:
            sums = self._sums[bits] = [(1, 0)]
            for end in range(1, self.cells + 1):
                products = self._products(end, sums, bits)
                top = max(mantissa.bit_length() + power for mantissa, power in products)
                sums.append((sum(_aligned(products, bits)), top - bits - 32))
        return self._sums[bits]

    def error(self, bits: int) -> Fraction:
        """Bounds the error of cumulative probabilities at this length: twice the relative error, and rounding."""
        return Fraction(self.cells + 2, 2 ** (bits - 6))

    def _products(self, end: int, sums: list[tuple[int, int]], bits: int) -> list[tuple[int, int]]:
        products = []
        for k, length in enumerate(self.lengths):
            if length <= end:
                (z, e), (w, f) = sums[end - length], self._weight(int(self.costs[k, end - length]), bits)
                products.append((z * w, e + f))
        return products

    def _weight(self, cost: int, bits: int) -> tuple[int, int]:
        """exp(-r c - k) from below, with a relative error of at most 2^-bits: 2^-h exp(-g) for x = h log 2 + g."""
        if (cost, bits) not in self._weights:
            x = self.rate * cost + self.offset
            long = bits + 8 + math.ceil(x).bit_length()
            log_two = _log_two(long)
            halvings = math.floor(x * 2**long / (log_two + 1))
            rest = x - Fraction(halvings * log_two, 2**long)  # above what it stands for by less than 2^-(bits + 6)
            self._weights[cost, bits] = (exp_bounds(rest, bits + 8)[0], -bits - 8 - halvings)
        return self._weights[cost, bits]


@lru_cache(maxsize=16)
def _log_two(bits: int) -> int:
    """2^bits log 2 from below, by at most two: log 2 is the sum over k >= 1 of 2^-k / k, here with 32 bits more."""
    return sum((1 << bits + 32 - k) // k for k in range(1, bits + 32)) >> 32


def _aligned(numbers: list[tuple[int, int]], bits: int) -> list[int]:
    """Numbers as multiples of one power of two, rounded down, the largest with `bits` + 32 bits."""
    low = max(mantissa.bit_length() + power for mantissa, power in numbers) - bits - 32
    return [mantissa << power - low if power >= low else mantissa >> low - power for mantissa, power in numbers]


def _decide(prefix: int, length: int, terms: Callable[[int], Terms], entropy: Entropy) -> int:
    """The index k with C_(k-1) <= U < C_k for the uniform U whose first `length` bits are `prefix`.

    Draws a word of U at a time until the bounds on the cumulative probabilities C decide.
    """
    while True:
        prefix, length = (prefix << 64) | one_word(entropy), length + 64
        slot = _slot(prefix, length, *terms(length + 64))
        if slot is not None:
            return slot


def _slot(prefix: int, length: int, numbers: list[int], gap: Fraction) -> int | None:
    """The index that `_decide` looks for, if the bits decide it, else None; C are the sums of numbers, up to `gap`."""
    total, reached = sum(numbers), 0
    for k, number in enumerate(numbers):
        before, reached = reached, reached + number
        above = k == 0 or Fraction(prefix, 1 << length) >= Fraction(before, total) + gap
        below = k == len(numbers) - 1 or Fraction(prefix + 1, 1 << length) <= Fraction(reached, total) - gap
        if above and below:
            return k
    return None


@dataclass(frozen=True, slots=True)
class NoisyPartition:
    """The partition of least noisy cost: each candidate interval's cost gets noise once, then a dynamic program.

    An interval of length l has discrete Laplace noise of scale s_l = rows (Delta + Delta_l) / epsilon, where a row
    moves the cost of any interval by at most Delta, and the cost of an interval of this length by at most Delta_l.
    Costs without Delta_l have Delta_l = Delta, the scale of the theorem; costs with it have the scale of the remark.
    `offset` adds a public cost to each interval, in multiples of s_l. Only the partition leaves.

    Privacy: epsilon-DP. Let neighbours x, x' differ by a row in cell t. Take any partition P, let b be its interval
    over t, and fix the noise of all intervals but b. P is chosen if it costs less than every partition Q, with ties
    broken by a fixed order. If Q has b, then b cancels, no other interval of P or Q is over t, and the comparison is
    the same under x and x'. If Q lacks b, then P costs less if the noise of b is at most cost(Q) + noise(Q) minus
    cost(b) minus the rest of P. One interval of Q is over t, so this bound moves by at most Delta + Delta_l between x
    and x'. So P is chosen if the noise of b is at most some integer, which moves by at most Delta + Delta_l; for
    discrete Laplace noise of scale s the logarithm of that probability moves by at most
    (Delta + Delta_l) / s = epsilon / rows. Units of several rows, and replaced ones, are `rows` such steps. Noisy costs
    are compared as they are: cutting them off from below, as the published program does, breaks this argument and the
    privacy.
    Reference: [Li 2013, Thm 6.1 and the remark on it]; differs from [Li 2013, Program 6.3.1]: integer noise.
    """

    epsilon: Fraction
    offset: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", ExponentialMechanism(self.epsilon).epsilon)
        _check_epsilon(self.epsilon)
        object.__setattr__(self, "offset", Fraction(self.offset))
        if not 0 <= self.offset <= 2**10:
            raise BudgetError(
                f"offset={float(self.offset):g}: expected a number from 0 to 1024, in scales of the noise"
            )

    def event(self) -> Event:
        return NoisyChoiceEvent(self.epsilon)

    def scales(self, scores: PartitionCosts) -> list[Fraction]:
        """The scale of the noise of each length; public."""
        own = [scores.row_sensitivity] * len(scores.lengths) if scores.own is None else scores.own
        return [max(SMALLEST_SCALE, scores.rows * (scores.row_sensitivity + each) / self.epsilon) for each in own]

    def choose(self, scores: PartitionCosts, entropy: Entropy) -> Cuts:
        """The boundaries of the chosen partition, from 0 to n."""
        noisy = np.clip(scores.costs, -LARGEST_COST, LARGEST_COST)
        for k, (length, scale) in enumerate(zip(scores.lengths, self.scales(scores), strict=True)):
            fit = scores.cells - length + 1
            noisy[k, :fit] += DiscreteLaplace(scale).sample(fit, entropy)
            noisy[k, :fit] += math.floor(self.offset * scale)
        return cheapest_partition(noisy, scores.lengths)


def cheapest_partition(costs: Integers, lengths: tuple[int, ...]) -> Cuts:
    """The boundaries of a partition of least cost, by intervals of these lengths; without noise, private as `costs`."""
    from hush.privacy._kernels import least_cost

    last = np.zeros(costs.shape[1] + 1, dtype=np.int64)
    least_cost(costs, np.array(lengths, dtype=np.int64), last)
    cuts = [costs.shape[1]]
    while cuts[-1]:
        cuts.append(cuts[-1] - lengths[last[cuts[-1]]])
    return tuple(reversed(cuts))


@dataclass(frozen=True, slots=True, eq=False)
class TreeScores:
    """A score for every node of a tree over n cells in a row, from the root down to nodes of `fanout` cells.

    Node i at depth k holds the cells from i s to (i + 1) s - 1 that exist, with s = fanout^(depths - k). With cells in
    the order of a space-filling curve, every node of fanout 4 is a square. Scores are private whole numbers, all else
    is public. A unit is a chain of `rows` steps that each add or remove one row. A step moves the score of nodes that
    hold the row's cell by at most one, and leaves all others unchanged.
    """

    levels: tuple[Integers, ...]  # of depth 0, 1, ...; (ceil(n / s),)
    cells: int
    fanout: int = 2
    rows: int = 1
    error: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        for name, least in (("cells", 1), ("fanout", 2), ("rows", 1)):
            object.__setattr__(self, name, check_whole(BudgetError, name, getattr(self, name), least=least))
        nodes = [-(-self.cells // size) for size in node_sizes(self.cells, self.fanout)]
        if [len(level) for level in self.levels] != nodes or any(level.dtype != np.int64 for level in self.levels):
            raise BudgetError(f"scores of a tree over {self.cells} cells: expected int64 arrays of {nodes} nodes")

    @property
    def sensitivity(self) -> int:
        """How far a unit moves a score; public."""
        return self.rows

    @property
    def candidates(self) -> int:
        """How many nodes have a score; public."""
        return sum(len(level) for level in self.levels)

    def distance(self, other: TreeScores) -> Fraction:
        """The largest difference of a score."""
        gaps = [int(np.abs(a - b).max()) for a, b in zip(self.levels, other.levels, strict=True)]
        return Fraction(max(gaps, default=0))


def node_sizes(cells: int, fanout: int) -> list[int]:
    """How many cells a node holds at each depth, down to `fanout`."""
    sizes = []
    size = 1
    while size < cells:
        size *= fanout
        sizes.append(size)
    return sizes[::-1]


@dataclass(frozen=True, slots=True)
class SplittingTree:
    """Split the root, and every child of a split node, while b + Z > threshold; the leaves are the partition.

    b = max(threshold - toll, score - toll depth), with Z discrete Laplace noise of scale s and `toll` the next integer
    to decay s log2(fanout). A node at the floor splits with probability about exp(-toll/s) / 2, less than one time in
    `fanout`, so empty parts of the tree stay small. A score above that of the parent node counts as the parent's. A
    node of one cell is not split.

    Privacy: epsilon-DP for scores that rise, fall or both. Let neighbours differ by a row in cell t. Only the nodes
    over t, a path from the root to a leaf of the output, have other scores, by at most one. Let S(b) be the
    probability of a split and r(b) = log S(b+1) / S(b), which is 1/s for b <= threshold and falls above it;
    log (1 - S(b-1)) / (1 - S(b)) is at most 1/s. Let m be the smaller b, under the two tables, of the deepest node of
    the path whose b differs; m >= threshold - toll. Under the table where that node is above this floor, b rises by at
    least `toll` from each node of the path to its parent, since scores fall along the path; under the other table
    ancestors are no less far above m. So the i-th ancestor, if it differs, has b >= m + i toll under both. The
    logarithm of the odds of the output is at most the sum of r over nodes that split, and at most 1/s more if the leaf
    differs; the leaf is then the deepest that differs. In both cases it is at most

        L = r(threshold - toll) + r(threshold) + r(threshold + toll) + r(threshold + 2 toll) + ...
          = 2/s + sum over i >= 1 of log(1 + q^i (1 - a) / (1 + a - q^i)),    a = exp(-1/s), q = exp(-toll/s),

    and the same with the tables exchanged. s is the least of a grid with L <= epsilon / rows, where L is bounded from
    above in rationals. Units of several rows, and replaced ones, are `rows` such steps.
    Reference: [Zhang et al. 2016, Thm 3.1]; differs from [Zhang et al. 2016, Alg. 2]: integer noise, an exact bound in
    place of (2 fanout - 1) / (fanout - 1), and scores that may fall where a row is added, as deviations do.
    """

    epsilon: Fraction
    threshold: int = 0
    decay: Fraction = Fraction(7, 10)  # about log 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", ExponentialMechanism(self.epsilon).epsilon)
        _check_epsilon(self.epsilon)
        object.__setattr__(self, "decay", Fraction(self.decay))
        threshold = check_whole(BudgetError, "threshold", self.threshold, least=-(2**53), most=2**53)
        object.__setattr__(self, "threshold", threshold)
        if not Fraction(1, 16) <= self.decay <= 16:
            raise BudgetError(f"decay={float(self.decay):g}: expected a number from 1/16 to 16")

    def event(self) -> Event:
        return NoisyChoiceEvent(self.epsilon)

    def noise(self, rows: int = 1, fanout: int = 2) -> tuple[Fraction, int]:
        """The scale of the noise and the toll per depth, for units of `rows` steps; public."""
        return _least_noise(self.epsilon / rows, self.decay * (fanout - 1).bit_length())

    def choose(self, scores: TreeScores, entropy: Entropy) -> Cuts:
        """The boundaries of the leaves, from 0 to n."""
        scale, toll = self.noise(scores.rows, scores.fanout)
        law, n = DiscreteLaplace(scale), scores.cells
        cuts = {0, n}
        nodes, above = np.zeros(min(1, len(scores.levels)), dtype=np.int64), np.array([LARGEST_SCORE])
        for depth, (size, level) in enumerate(zip(node_sizes(n, scores.fanout), scores.levels, strict=True)):
            many = np.minimum(n - nodes * size, size) > 1
            nodes, above = nodes[many], np.minimum(above[many], np.clip(level[nodes[many]], -LARGEST_SCORE, None))
            biased = np.maximum(above - toll * depth, self.threshold - toll)
            split = biased + law.sample(len(nodes), entropy) > self.threshold
            nodes = (nodes[split, None] * scores.fanout + np.arange(scores.fanout)).ravel()
            above = np.repeat(above[split], scores.fanout)
            starts = nodes * (size // scores.fanout)
            inside = starts < n
            nodes, above = nodes[inside], above[inside]
            cuts.update(starts[inside].tolist())
        return tuple(sorted(cuts))


def loss_bound(scale: Fraction, toll: int) -> Fraction:
    """An upper bound on L of `SplittingTree`, by log(1 + y) <= y - y^2/2 + y^3/3 and a geometric tail."""
    unit = 1 << _LOSS_BITS
    a = Fraction(exp_bounds(1 / scale, _LOSS_BITS)[0], unit)
    q = Fraction(exp_bounds(toll / scale, _LOSS_BITS)[1], unit)
    if q == 1:
        raise BudgetError(f"a toll of {toll} is too small for noise of scale {float(scale):g}")
    loss, power = 2 / scale, Fraction(1)
    for _ in range(_LOSS_TERMS):
        power = Fraction(math.ceil(power * q * unit), unit)
        y = Fraction(math.ceil(power * (1 - a) / (1 + a - power) * unit), unit)
        loss += Fraction(math.ceil((y - y**2 / 2 + y**3 / 3) * unit), unit)
    return loss + power * q / (1 - q) * (1 - a) / (1 + a - q)


@lru_cache(maxsize=256)
def _least_noise(epsilon: Fraction, decay: Fraction) -> tuple[Fraction, int]:
    """The least scale of a grid, and its toll, whose loss is at most epsilon; L is above 2/s, so s above 2/epsilon."""

    def noise(factor: Fraction) -> tuple[Fraction, int]:
        scale = max(SMALLEST_SCALE, factor / epsilon)
        scale = Fraction(math.ceil(scale * 2**20), 2**20)
        return scale, max(1, math.ceil(decay * scale))

    low, high = Fraction(2), Fraction(3)
    while loss_bound(*noise(high)) > epsilon:
        low, high = high, 2 * high
    for _ in range(_NOISE_SEARCH_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if loss_bound(*noise(middle)) <= epsilon else (middle, high)
    return noise(high)


def _check_epsilon(epsilon: Fraction) -> None:
    """Refuse an epsilon whose noise would have no practical scale."""
    if not Fraction(1, 2**24) <= epsilon <= LARGEST_EPSILON:
        raise BudgetError(
            f"epsilon={float(epsilon):g} of a partition: expected a number from 2^-24 to {LARGEST_EPSILON}"
        )
