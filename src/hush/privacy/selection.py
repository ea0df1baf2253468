"""Private selection: the exponential mechanism and its variants, sampled exactly.

Scores are first rounded to a public grid, so that probabilities are proportional to e to a rational power. The rounding
and the numerical error that the caller states are added to the sensitivity. There is no flag for monotone scores: one
added row may raise one score and lower another, and assuming otherwise under-charges fourfold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import BudgetError, ConvergenceError
from hush.core.validation import check_number, check_whole
from hush.privacy.events import Event, SelectionEvent, compose
from hush.privacy.exact_sampling import EXP_SLACK, Entropy, below_exp

FAILURE_PROBABILITY = 0.05  # beta of the generalised mechanism: the chance that its shift of scores is too small
LARGEST_SHIFT = 2.0**40  # of scores and of their shift, in units of the least sensitivity
GRID_BITS = 20  # grid step = sensitivity / 2^20: costs a millionth of the utility and no privacy
_FEWEST_TRIALS, _MOST_TRIALS = 64, 8192


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of the candidates, higher is better, with a bound on how far a unit can move any of them.

    `sensitivity` bounds |q_i(D) - q_i(D')| for every candidate and all neighbours, in exact arithmetic; `own` holds a
    bound for each candidate, of which `sensitivity` is the largest. `error` bounds the numerical error of each computed
    score. Values are private, the bounds are public.
    """

    values: Floats
    sensitivity: float
    error: float = 0.0
    own: Floats | None = None

    def __post_init__(self) -> None:
        check_number(BudgetError, "sensitivity", self.sensitivity, above=0)
        check_number(BudgetError, "error", self.error, least=0)
        if len(self.values) == 0:
            raise BudgetError("selection among no candidates; give at least one")
        if self.own is not None:
            one_each = self.own.shape == self.values.shape and (self.own > 0).all()
            if not (one_each and self.own.max() == self.sensitivity):
                raise BudgetError(
                    "own: expected a number above 0 for each candidate, the largest of them `sensitivity`"
                )

    @property
    def candidates(self) -> int:
        """The number of candidates; public."""
        return len(self.values)

    def distance(self, other: Scores) -> Fraction:
        """The largest difference of a score, which `sensitivity` and twice `error` bound for neighbours.

        With `own` sensitivities, what a difference has beyond twice the error is scaled to the largest sensitivity.
        """
        pairs = zip(self.values, other.values, strict=True)
        gaps = [abs(Fraction(float(a)) - Fraction(float(b))) for a, b in pairs]
        if self.own is None:
            return max(gaps)
        error, most = 2 * Fraction(self.error), Fraction(self.sensitivity)
        return max(error + (gap - error) * most / Fraction(float(own)) for gap, own in zip(gaps, self.own, strict=True))

    def steps(self) -> tuple[Integers, int]:
        """Scores as whole numbers of grid steps, and the sensitivity in steps with rounding and error included.

        A quotient below 2^50 is computed to 1/8, so its rounding k has |k - q/g| <= 5/8, and neighbours' k differ by
        at most Delta/g + 2 error/g + 5/4, rounded up.
        """
        if not np.isfinite(self.values).all():
            raise ConvergenceError("a score is not a finite number; nothing was selected")
        grid = Fraction(self.sensitivity) / 2**GRID_BITS
        if Fraction(float(grid)) != grid:
            raise BudgetError(f"sensitivity={self.sensitivity!r} is too small for a grid; rescale the scores")
        quotients = np.asarray(self.values, dtype=np.float64) / float(grid)
        if np.abs(quotients).max() < 2.0**50:
            steps = np.rint(quotients).astype(np.int64)
        elif np.abs(quotients).max() < 2.0**61:
            steps = np.array([round(Fraction(float(value)) / grid) for value in self.values], dtype=np.int64)
        else:
            raise ConvergenceError("a score is too large for its sensitivity; rescale the scores")
        return steps, 2**GRID_BITS + 2 + math.ceil(2 * Fraction(self.error) / grid)


@dataclass(frozen=True, slots=True)
class ExponentialMechanism:
    """Choose i with probability proportional to exp(epsilon q_i / (2 Delta)).

    Drawn by uniform proposals, each accepted with probability exp(-epsilon (q_max - q_i) / (2 Delta)).

    Privacy: epsilon-DP, and epsilon^2/8-zCDP (bounded range).
    Reference: [McSherry and Talwar 2007]; [AIM, Def. 6 and Prop. 2]; exactness after [Ilvento 2020].
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", Fraction(self.epsilon))
        if self.epsilon <= 0:
            raise BudgetError(f"epsilon={float(self.epsilon):g}: expected a number above 0")

    @classmethod
    def for_rho(cls, rho: float | Fraction) -> ExponentialMechanism:
        """The largest epsilon, up to 2^-50, with epsilon^2/8 <= rho."""
        check_number(BudgetError, "rho", rho, above=0)
        bits = 60  # more for a small rho, so that epsilon keeps 50 significant bits
        while Fraction(8) * Fraction(rho) < Fraction(1, 4) ** (bits - 52):
            bits += 60
        return cls(Fraction(math.isqrt(math.floor(8 * Fraction(rho) * 4**bits)), 2**bits))

    def event(self) -> Event:
        return SelectionEvent(self.epsilon)

    def weights(self, scores: Scores) -> tuple[Integers, Fraction]:
        """Whole k_i and a rational c with P(i) proportional to exp(c k_i), exactly."""
        steps, sensitivity = scores.steps()
        return steps, self.epsilon / (2 * sensitivity)

    def choose(self, scores: Scores, entropy: Entropy) -> int:
        return choose_by_weights(*self.weights(scores), entropy)


@dataclass(frozen=True, slots=True)
class TopK:
    """Choose `count` distinct candidates, best first, by the exponential mechanism without replacement.

    Equivalent to adding Gumbel noise to all scores and taking the largest, but drawn exactly, one after the other.
    `epsilon` is that of each choice.

    Privacy: count * epsilon^2/8-zCDP and (count * epsilon)-DP.
    Reference: [Durfee and Rogers 2019, Lemma 4.2].
    """

    count: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        check_whole(BudgetError, "count", self.count, least=1)
        object.__setattr__(self, "epsilon", ExponentialMechanism(self.epsilon).epsilon)

    def check(self, candidates: int) -> None:
        """Refuse to choose more candidates than there are; public."""
        if self.count > candidates:
            raise BudgetError(f"count={self.count} of {candidates} candidates; ask for fewer")

    def event(self) -> Event:
        return compose([SelectionEvent(self.epsilon)] * self.count)

    def choose(self, scores: Scores, entropy: Entropy) -> list[int]:
        """Indices of the chosen candidates, in the order they were chosen."""
        self.check(scores.candidates)
        steps, rate = ExponentialMechanism(self.epsilon).weights(scores)
        left = np.arange(len(steps))
        chosen: list[int] = []
        for _ in range(self.count):
            pick = choose_by_weights(steps[left], rate, entropy)
            chosen.append(int(left[pick]))
            left = np.delete(left, pick)
        return chosen


@dataclass(frozen=True, slots=True)
class GeneralizedExponentialMechanism:
    """Choose among candidates whose scores have different sensitivities Delta_i.

    With t = (2/epsilon) log(k/beta), run the exponential mechanism with sensitivity 1 on
    s_i = min over j of ((q_i - t Delta_i) - (q_j - t Delta_j)) / (Delta_i + Delta_j).
    The noise of a candidate follows from its own sensitivity and not from the largest.

    Privacy: s_i moves by at most 1 between neighbours, so epsilon-DP and epsilon^2/8-zCDP.
    Reference: [Raskhodnikova and Smith 2016, Alg. 1], written for maximisation.
    """

    epsilon: Fraction
    beta: float = FAILURE_PROBABILITY

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", ExponentialMechanism(self.epsilon).epsilon)
        check_number(BudgetError, "beta", self.beta, above=0, below=1)

    @classmethod
    def for_rho(cls, rho: float | Fraction) -> GeneralizedExponentialMechanism:
        """The largest epsilon, up to 2^-50, with epsilon^2/8 <= rho."""
        return cls(ExponentialMechanism.for_rho(rho).epsilon)

    def event(self) -> Event:
        return SelectionEvent(self.epsilon)

    def normalised(self, scores: Scores) -> Scores:
        """The scores s_i, of sensitivity 1, with a bound on their numerical error.

        Scores q are clipped at 2^40 times the least sensitivity, which does not raise any sensitivity.
        """
        deltas = np.full(len(scores.values), scores.sensitivity) if scores.own is None else scores.own
        if not np.isfinite(scores.values).all():
            raise ConvergenceError("a score is not a finite number; nothing was selected")
        least = float(deltas.min())
        limit = LARGEST_SHIFT * least
        q = np.clip(np.asarray(scores.values, dtype=np.float64), -limit, limit)
        t = 2 / float(self.epsilon) * math.log(max(len(q), 2) / self.beta)
        shifted = q - t * deltas
        s = np.array([((shifted[i] - shifted) / (deltas[i] + deltas)).min() for i in range(len(q))])
        # Rounding: each s_i is computed in five operations on numbers of at most this size, which is public.
        size = (limit + t * float(deltas.max())) / least
        return Scores(s, 1.0, (scores.error / least) + 8 * 2.0**-53 * size)

    def choose(self, scores: Scores, entropy: Entropy) -> int:
        return ExponentialMechanism(self.epsilon).choose(self.normalised(scores), entropy)


def choose_by_weights(steps: Integers, rate: Fraction, entropy: Entropy, slack: float = EXP_SLACK) -> int:
    """An index i with probability proportional to exp(rate k_i), exactly.

    Proposals are uniform and accepted with probability exp(-x_i), x_i = rate (k_max - k_i). Floats decide where their
    error bound allows, else `below_exp` decides exactly. For x <= 745 the relative error of exp(-x) in floats is below
    2^-38; above, exp(-x) < 2^-1000 and only U = 0 is undecided. O(k / sum exp(-x)) proposals, at most about k.
    """
    count = len(steps)
    below_best = steps.max() - steps
    p = np.exp(-np.minimum(below_best.astype(np.float64) * float(rate), 800.0))
    low, high = p * (1.0 - slack), p * (1.0 + slack) + 2.0**-1000
    bits = max(1, (count - 1).bit_length())
    trials = _FEWEST_TRIALS
    while True:
        words = entropy.words(2 * trials).reshape(-1, 2)
        proposals = (words[:, 0] >> np.uint64(64 - bits)).astype(np.int64)
        inside = proposals < count
        proposals, prefixes = proposals[inside], words[inside, 1] >> np.uint64(11)
        u = prefixes.astype(np.float64)
        for trial in np.flatnonzero(u * 2.0**-53 < high[proposals]):
            i = int(proposals[trial])
            surely = (u[trial] + 1.0) * 2.0**-53 <= low[i]
            if surely or below_exp(int(prefixes[trial]), 53, rate * int(below_best[i]), entropy):
                return i
        trials = min(2 * trials, _MOST_TRIALS)
