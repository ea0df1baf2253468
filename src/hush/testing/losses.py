"""Losses that a user writes: whether the gradient is that of the value, and whether the value is convex."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from hush.core.domain import Domain
from hush.core.errors import HushError, WorkloadError
from hush.core.validation import check_whole
from hush.inference.factors import Factors
from hush.models.graphical.marginal_loss import CustomLoss, LossFunction

STEP = 1e-6  # of the length of the point, for differences of values
GRADIENT_TOLERANCE = 1e-4  # relative to the largest slope seen
ROUNDING = 1e-9  # relative, of values that are compared


class LossError(HushError):
    """A loss with a wrong gradient, or one that is not convex."""


def check_loss(
    domain: Domain, cliques: Iterable[Iterable[str]], function: LossFunction, *, trials: int = 20, seed: int = 0
) -> None:
    """Raise LossError unless a loss of tables of counts has the gradient that it returns and is convex.

    At `trials` random points, the slope in a random direction is compared with a central difference, and the value half
    way between two points with the mean of their values. A loss with kinks passes unless a point lies on one; a loss
    that is not convex between nearby points alone may pass.

    >>> domain = Domain({"age": 3})
    >>> check_loss(domain, [("age",)], lambda tables: (float((tables[0] ** 2).sum()), [2 * tables[0]]))
    >>> check_loss(domain, [("age",)], lambda tables: (float((tables[0] ** 2).sum()), [tables[0]]))
    Traceback (most recent call last):
    hush.testing.losses.LossError: the gradient is off by 50 %; return one table of slopes for each clique
    """
    check_whole(WorkloadError, "trials", trials, least=1)
    named = [domain.clique(clique) for clique in cliques]
    factors = Factors(domain, named)
    loss = CustomLoss(domain, named, function, factors=factors)
    random = np.random.Generator(np.random.PCG64(seed))
    gradient = np.empty(factors.size)
    for _ in range(trials):
        first, second = (random.gamma(2.0, 50.0, factors.size) + 1.0 for _ in range(2))
        toward = second - first
        before, after = loss.value(first - STEP * toward), loss.value(first + STEP * toward)
        loss.value_and_gradient(first, gradient)
        slope, difference = float(gradient @ toward), (after - before) / (2 * STEP)
        # Differences of values lose digits of the values themselves.
        slack = GRADIENT_TOLERANCE * max(abs(slope), abs(difference)) + ROUNDING * max(abs(before), abs(after)) / STEP
        if not math.isfinite(slope) or abs(slope - difference) > slack:
            missed = abs(slope - difference) / max(abs(slope), abs(difference))
            raise LossError(f"the gradient is off by {100 * missed:.0f} %; return one table of slopes for each clique")
        ends, middle = (loss.value(first) + loss.value(second)) / 2, loss.value((first + second) / 2)
        if middle > ends + ROUNDING * max(abs(ends), abs(middle)):
            raise LossError("the loss is not convex: it is larger half way between two points than at them in the mean")
