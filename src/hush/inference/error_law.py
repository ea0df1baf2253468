"""ErrorLaw: the exact law of the error of an estimate, and the interval it gives.

An estimate is a sum of noisy numbers, so its error is E = sum_j c_j N_j with independent noise N_j and public
coefficients. The margin at a level is the least m with P(|E| <= m) >= level. It is computed for

- one number: as the quantile of its discrete law, times c;
- few numbers: from the law of E on a grid, which is the characteristic function phi(t) = prod_j phi_j(c_j t) inverted
  by FFT. If the coefficients are multiples of a common step, they lie on the grid; otherwise a little normal noise is
  added to E, and the margin is widened accordingly;
- many numbers, each small relative to E: as z sd(E), because their sum is nearly normal, plus half the common step.

Discrete noise has steps, and at large budgets these are as wide as the noise: a normal quantile then covers too little
at some levels and too much at others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np

from hush.core.arrays import Floats
from hush.privacy.measurement import StatedNoise
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace, Noise

Law: TypeAlias = Noise | StatedNoise
Part: TypeAlias = tuple[Floats, Floats, Law]

CONTINUOUS_STEP = 1 / 64  # of sd(E): smaller steps are treated as continuous
CONTINUOUS_SHARE, LEAST_STDDEV = 0.01, 0.28  # so are numbers with less of the variance, unless their noise is mostly 0
GRID_STDDEVS = {"gaussian": 9.0, "laplace": 32.0}  # half the width of a grid; less than 1e-18 lies outside
DEFAULT_GRID, LARGEST_GRID = 1 << 13, 1 << 16  # points
MOST_STEP_PARTS = 1024  # of the largest coefficient, tried as a common step
HIGHEST_QUANTILE = 1 - 1e-9  # higher levels get a bound instead of a quantile
ROUNDING_SHARE = 2.0**-45  # of a sum's absolute terms: 256 roundings of a float
LARGEST_SUMMED_STDDEV = 4096.0  # of a discrete law whose quantile is summed up; wider ones are nearly continuous


class ErrorLaw:
    """The law of sum_j c_j N_j, given as parts: coefficients, how often each occurs, and the law of their noise.

    `rounding` bounds the distance of the computed estimate from sum_j c_j y_j; see `rounding_error`. It is the whole
    margin if the noise is nearly always 0.

    >>> from fractions import Fraction
    >>> one = ErrorLaw([(np.ones(1), np.ones(1), DiscreteGaussian(Fraction(1)))])
    >>> one.margin(0.95), one.margin(0.5)
    (2.0, 1.0)
    >>> two = ErrorLaw([(np.array([0.5]), np.array([2.0]), DiscreteGaussian(Fraction(1)))])
    >>> two.margin(0.95)
    1.5
    """

    def __init__(self, parts: Iterable[Part], rounding: float = 0.0) -> None:
        merged: dict[Law, list[tuple[Floats, Floats]]] = {}
        for coefficients, counts, law in parts:
            values = np.abs(coefficients).ravel()
            merged.setdefault(law, []).append((values, np.broadcast_to(counts, values.shape)))
        self.parts: list[Part] = []
        for law, pieces in merged.items():
            values, counts = _distinct(*(np.concatenate(side) for side in zip(*pieces, strict=True)))
            if len(values):
                self.parts.append((values, counts, law))
        self.stddev = math.sqrt(sum(float(n @ c**2) * law.stddev**2 for c, n, law in self.parts))
        self.rounding = rounding
        self._key = rounding, *((values.tobytes(), counts.tobytes(), law) for values, counts, law in self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ErrorLaw) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def laplace(self) -> bool:
        """Whether some of the noise has Laplace tails."""
        return any(law.name == "laplace" for _, _, law in self.parts)

    def margin(self, level: float) -> float:
        """The least m with P(|E| <= m) >= level, up to the step of a grid, plus the rounding error."""
        if not self.parts:
            return self.rounding
        if len(self.parts) == 1 and self.parts[0][1].sum() == 1:
            (c,), _, law = self.parts[0]
            margin = float(c) * quantile(law, level)
        elif level > HIGHEST_QUANTILE:
            largest = max(float(c[-1]) for c, _, _ in self.parts)
            margin = two_sided_quantile(level, laplace=self.laplace) * self.stddev + largest
        elif (gridded := _gridded(self)) is None:
            margin = two_sided_quantile(level) * self.stddev + self.half_step
        else:
            step, within, widened = gridded
            margin = float(np.searchsorted(within, level)) * step + widened
        return margin + self.rounding

    @cached_property
    def half_step(self) -> float:
        """Half of the common step of all values of E; 0 if E is continuous."""
        if any(isinstance(law, StatedNoise) for _, _, law in self.parts):
            return 0.0
        values, least = np.concatenate([c for c, _, _ in self.parts]), CONTINUOUS_STEP * self.stddev
        large = values[values > least]
        return (_common_step([large], least) or least) / 2 if len(large) else float(values.max()) / 2

    def split(self, part: Part) -> tuple[Part, Part]:
        """The terms of a part whose steps matter, and the terms that are treated as continuous."""
        coefficients, counts, law = part
        if isinstance(law, StatedNoise):
            stepped = np.zeros(coefficients.shape, dtype=bool)
        else:
            small = (law.stddev * coefficients) ** 2 <= CONTINUOUS_SHARE * self.stddev**2
            stepped = (coefficients > CONTINUOUS_STEP * self.stddev) & ~(small & (law.stddev >= LEAST_STDDEV))
        return (coefficients[stepped], counts[stepped], law), (coefficients[~stepped], counts[~stepped], law)


@lru_cache(maxsize=512)
def _gridded(error: ErrorLaw) -> tuple[float, Floats, float] | None:
    """A step h, P(|E| <= k h) for every k, and what to add to a margin; None if the law is nearly normal."""
    # Noise whose steps matter (coarse), and noise that is treated as continuous (fine).
    splits = [error.split(part) for part in error.parts]
    coarse, fine = ([part for part in parts if len(part[0])] for parts in zip(*splits, strict=True))
    if not coarse and not error.laplace:
        return None

    # The grid: a common step of the coarse coefficients, fine enough for the continuous noise too.
    reach = GRID_STDDEVS["laplace" if error.laplace else "gaussian"] * error.stddev
    reach += 4 * max((float(c[-1]) for c, _, _ in coarse), default=0.0)
    blur = math.sqrt(sum(float(n @ c**2) * law.stddev**2 for c, n, law in fine))
    widened, step, extra = 0.0, 0.0, 0.0
    if blur < error.stddev / 1024:  # too narrow for the grid: added as eight of its standard deviations
        fine, widened, blur = [], 8 * blur, 0.0
    if blur:
        widened += error.half_step
    if coarse:
        step = _common_step([c for c, _, _ in coarse], 2 * reach / LARGEST_GRID)
    if step and blur:
        step /= math.ceil(4 * step / blur)
    if not step or 2 * reach / step > LARGEST_GRID:  # no common step: smooth E by normal noise of stddev `extra`
        step = 2 * reach / DEFAULT_GRID
        extra = 2 * step if coarse else 0.0
        widened += 3 * extra

    # The characteristic function on the grid's frequencies, inverted to probabilities of |E| <= k h.
    size = 1 << max(6, math.ceil(math.log2(2 * reach / step)))
    angles = 2 * np.pi * np.arange(size // 2 + 1) / size
    transform = np.exp(-0.5 * (extra / step * angles) ** 2)
    for parts, of in ((coarse, _discrete_transform), (fine, _continuous_transform)):
        for coefficients, counts, law in parts:
            for c, n in zip(coefficients, counts, strict=True):
                transform *= of(law, c / step * angles) ** n
    masses = np.fft.irfft(transform, size)
    within = masses[0] + 2 * np.concatenate([[0.0], np.cumsum(masses[1 : size // 2])])
    return step, np.maximum.accumulate(within), widened + (step / 2 if blur or extra else 0.0)


def two_sided_quantile(level: float, *, laplace: bool = False) -> float:
    """z such that P(|X| <= z sd(X)) >= level for a normal X; with `laplace`, for sums of Laplace noise too.

    Such sums lie between one Laplace variable, P(|X| > z sd) = exp(-sqrt(2) z), and the normal law; the larger of the
    two quantiles is returned.

    >>> round(two_sided_quantile(0.95), 3), round(two_sided_quantile(0.95, laplace=True), 3)
    (1.96, 2.118)
    """
    above = (1 + level) / 2
    normal = NormalDist().inv_cdf(above) if above < 1 else math.inf
    return max(normal, -math.log1p(-level) / math.sqrt(2)) if laplace else normal


def quantile(law: Law, level: float) -> float:
    """The least m with P(|N| <= m) >= level; a whole number for discrete noise.

    >>> from fractions import Fraction
    >>> quantile(DiscreteLaplace(Fraction(10)), 0.95), round(quantile(StatedNoise(10.0), 0.95), 2)
    (30.0, 19.6)
    """
    if isinstance(law, DiscreteLaplace):  # P(|N| > k) = 2 a^(k + 1) / (1 + a) with a = exp(-1 / scale)
        rate = 1 / float(law.scale)
        tail = math.log1p(-level) + math.log1p(math.exp(-rate)) - math.log(2)
        return float(max(0, math.ceil(-tail / rate - 1 - 1e-12)))
    if isinstance(law, StatedNoise):
        return law.stddev * (-math.log1p(-level) / math.sqrt(2) if law.name == "laplace" else two_sided_quantile(level))
    middle = two_sided_quantile(level) * law.stddev
    if law.stddev > LARGEST_SUMMED_STDDEV or level > HIGHEST_QUANTILE:
        return float(max(0, math.ceil(middle - 0.5)))
    masses = law.pmf(np.arange(math.ceil(middle) + 8))
    return float(np.argmax(masses[0] + 2 * np.concatenate([[0.0], np.cumsum(masses[1:])]) >= level))


def rounding_error(coefficients: Floats, counts: Floats, largest: float) -> float:
    """A bound on the rounding error of a sum of noisy numbers: a share of sum_j |c_j| max |y_j|.

    >>> rounding_error(np.array([-0.5, 1.0]), np.array([2.0, 1.0]), 8.0) == 16 * ROUNDING_SHARE
    True
    """
    return ROUNDING_SHARE * float((np.abs(coefficients) * counts).sum()) * largest


def largest_of(numbers: np.ndarray[Any, Any]) -> float:
    """max |y_j|; 0 for no numbers."""
    return max(float(numbers.max(initial=0)), -float(numbers.min(initial=0)))


def product_part(coefficients: Floats, others: Iterable[Floats], law: Law) -> Part:
    """The part of all products of a coefficient with one entry of every other vector; equal entries are merged."""
    values, counts = _distinct(np.abs(coefficients).ravel(), np.ones(1))
    for vector in others:
        factors, times = _distinct(np.abs(vector), np.ones(1))
        values, counts = _distinct(np.multiply.outer(values, factors).ravel(), np.multiply.outer(counts, times).ravel())
    return values, counts, law


def _distinct(values: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """The distinct non-zero values, up to rounding and in order, and how often each occurs."""
    top = float(values.max(initial=0.0))
    keys = np.rint(values * (2.0**40 / top)) if top else values
    distinct, places = np.unique(keys, return_inverse=True)
    totals = np.bincount(places, weights=np.broadcast_to(counts, values.shape), minlength=len(distinct)).astype(
        np.float64
    )
    kept = (distinct > 0) & (totals > 0)
    return distinct[kept] * (top / 2.0**40), totals[kept]


def _common_step(coefficients: list[Floats], least: float) -> float:
    """A step of at least `least` of which every coefficient is a multiple, up to rounding; 0 if there is none."""
    values = np.concatenate(coefficients)
    top = float(values.max())
    parts = np.arange(1, min(int(top / least), MOST_STEP_PARTS) + 1)
    multiples = np.multiply.outer(parts, values / top)
    off = np.abs(multiples - np.rint(multiples)).max(axis=1, initial=0.0)
    fits = np.flatnonzero(off < 1e-6 * parts * float(values.min()) / top)
    return top / float(parts[fits[0]]) if len(fits) else 0.0


def _discrete_transform(law: Law, angles: Floats) -> Floats:
    """E[cos(angle N)] of integer noise; for Gaussian noise by Poisson summation, unless it is mostly zero."""
    if isinstance(law, DiscreteLaplace):
        a = math.exp(-1 / float(law.scale))
        return np.asarray((1 - a) ** 2 / (1 - 2 * a * np.cos(angles) + a * a))
    if not isinstance(law, DiscreteGaussian):
        raise TypeError(f"{law!r} is not a law of integer noise")
    sigma = math.sqrt(law.variance_parameter)
    if sigma < 0.5:
        masses = law.pmf(np.arange(6))
        return np.asarray(masses[0] + 2 * sum(m * np.cos(y * angles) for y, m in enumerate(masses[1:], 1)))
    wrapped = np.remainder(angles + np.pi, 2 * np.pi) - np.pi
    images = np.arange(-2, 3) if sigma < 3 else np.zeros(1)  # further ones contribute less than 1e-15
    total = float(np.exp(-0.5 * (2 * np.pi * sigma * images) ** 2).sum())
    return np.asarray(sum(np.exp(-0.5 * (sigma * (wrapped + 2 * np.pi * k)) ** 2) for k in images) / total)


def _continuous_transform(law: Law, angles: Floats) -> Floats:
    """E[cos(angle X)] of continuous noise of the same kind and standard deviation."""
    squares = (law.stddev * angles) ** 2 / 2
    return np.asarray(1 / (1 + squares) if law.name == "laplace" else np.exp(-squares))
