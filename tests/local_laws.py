"""Laws of randomised reports: the probability of every report, and how private these probabilities are, exactly."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import mpmath

Matrix = list[list[Fraction]]  # P(report | input), a row for each input


def matrix_of(law: Any, inputs: Iterable[Any]) -> Matrix:
    """The probability of every report, for every input, from the weights that the law draws with."""
    reports = list(law.outputs())
    return [[law.probability(value, report) for report in reports] for value in inputs]


def worst_ratio(matrix: Matrix) -> Fraction:
    """The largest ratio of the probabilities of one report under two inputs."""
    ratio: Fraction = max(max(column) / min(column) for column in zip(*matrix, strict=True))
    return ratio


def worst_loss(matrix: Matrix) -> float:
    """The logarithm of the worst ratio."""
    with mpmath.workdps(60):
        return float(mpmath.log(exactly(worst_ratio(matrix))))


def within(ratio: Fraction, epsilon: Fraction) -> bool:
    """Whether a ratio is at most e^epsilon, to 60 digits."""
    with mpmath.workdps(60):
        return bool(exactly(ratio) <= mpmath.exp(exactly(epsilon)))


def hockey_stick(matrix: Matrix, epsilon: Fraction) -> float:
    """The largest sum over reports of (P(r | a) - e^epsilon P(r | b))+, over all pairs of inputs."""
    with mpmath.workdps(60):
        bound = mpmath.exp(exactly(epsilon))
        rows = [[exactly(p) for p in row] for row in matrix]
        gaps = [mpmath.fsum(max(p - bound * q, 0) for p, q in zip(a, b, strict=True)) for a in rows for b in rows]
        return float(max(gaps))


def exactly(number: Fraction) -> Any:
    """A fraction at the precision that is set."""
    return mpmath.mpf(number.numerator) / number.denominator
