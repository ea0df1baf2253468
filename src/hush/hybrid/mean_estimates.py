"""Hybrid means from data: a weighted mean of the curator's mean of opt-in people and the clients' reports.

Weights by variance need the variance of the numbers. The clients' reports give it at no further cost: their variance is
that of the numbers plus that of the noise, which is known. Duchi's law has only two reports, whose variance tells
nothing about the numbers; then the noise alone decides the weight. Intervals use an upper bound on the variance of the
numbers, at most that of numbers at the two bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np

from hush.core.errors import DataError
from hush.hybrid.client.number_laws import GaussianResponse
from hush.hybrid.collection import ReportCounts
from hush.hybrid.frequency_estimates import INTERVAL_LEVEL, MeanEstimate, estimate
from hush.hybrid.mean_errors import client_noise
from hush.hybrid.opt_in import OptInNumbers, noisy_mean, require_opt_in
from hush.hybrid.promises import ESTIMATION, Promise
from hush.render.text_table import TextColumn, TextTable, number_columns

Weighting = Literal["variance", "privacy", "size"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HybridMean(MeanEstimate):
    """A mean of both groups, the weight of opt-in people, and the mean of each group alone.

    `numbers_variance` is the estimated variance of the people's numbers; None if the reports do not show it.
    """

    weight: float
    curator: MeanEstimate
    clients: MeanEstimate
    numbers_variance: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        lower, upper = self.interval()
        return {
            "mean": self.estimate,
            "stddev": self.stddev,
            "level": INTERVAL_LEVEL,
            "lower": lower,
            "upper": upper,
            "curator weight": self.weight,
            "curator": self.curator.to_dict(),
            "clients": self.clients.to_dict(),
        }

    def table(self) -> TextTable:
        """Both groups and their mean, as a table to read."""
        groups: list[tuple[str, MeanEstimate, float]] = [
            ("opt-in people", self.curator, self.weight),
            ("clients", self.clients, 1 - self.weight),
            ("both", self, 1.0),
        ]
        rows = []
        for name, mean, share in groups:
            lower, upper = mean.interval()
            interval = f"{lower:.5g} to {upper:.5g}"
            rows.append((name, f"{mean.estimate:.5g}", f"{mean.stddev:.2g}", interval, f"{100 * share:.0f} %"))
        columns = (TextColumn(heading="group"), *number_columns("mean", "stddev", "95 % interval", "weight"))
        notes = [f"From {self.curator.reports:,} opt-in people and {self.clients.reports:,} clients."]
        return TextTable(columns=columns, rows=rows, notes=notes)


def hybrid_mean(
    people: OptInNumbers, reports: ReportCounts, promise: Promise, *, weight: Weighting | float = "variance"
) -> HybridMean:
    """The mean of a number over both groups.

    `weight` is the weight of opt-in people: "variance" by the estimated variances of both means, "privacy" by their
    noise alone, "size" by the number of people, or a number from 0 to 1. The curator adds Laplace noise; but if clients
    added Gaussian noise, so does the curator, and `amplified_epsilon` is the epsilon against someone who sees nothing
    but the mean.

    Privacy: epsilon-DP for opt-in people, or (epsilon, delta)-DP with Gaussian noise, by the gate; clients' reports are
    private already.
    """
    # check that both groups have the same bounds
    require_opt_in(people, OptInNumbers)
    body, law = reports.question.body, reports.question.mechanism
    if reports.question.kind != "number":
        raise DataError(f"the question {reports.question.name!r} is not about a number")
    bounds = tuple(float(Fraction(body[name])) for name in ("lower", "upper"))
    if bounds != (people.lower, people.upper):
        raise DataError(
            f"opt-in people have the bounds {people.lower:g} and {people.upper:g}, the question {bounds[0]:g} and "
            f"{bounds[1]:g}; use the same"
        )
    weightings = get_args(Weighting)
    if weight not in weightings if isinstance(weight, str) else not 0 <= weight <= 1:
        raise DataError(f"weight={weight!r}: expected a number from 0 to 1, or one of {', '.join(weightings)}")
    gaussian = isinstance(reports.question.law, GaussianResponse)
    if gaussian and not promise.delta:
        raise DataError(
            "clients added Gaussian noise, so the curator does too: give a promise with the question's delta"
        )
    # the mean of each group
    clients = estimate(reports)
    if not isinstance(clients, MeanEstimate):
        raise DataError("reports on numbers give no mean")
    delta = promise.delta if gaussian else None
    measured = noisy_mean(people, promise.epsilon, promise.account(ESTIMATION), delta=delta)
    variance, largest_variance = numbers_variance(clients, reports, bounds, law)
    curator_variance = largest_variance / measured.people + measured.noise
    curator = MeanEstimate(estimate=measured.mean, variance=curator_variance, reports=measured.people)
    # the weight of opt-in people
    if not isinstance(weight, str):
        share = float(weight)
    elif weight == "size":
        share = measured.people / (measured.people + clients.reports)
    elif weight == "privacy" or variance is None:
        clients_noise = max(clients.variance * clients.reports - (variance or 0.0), 0.0)
        if isinstance(reports.question.law, GaussianResponse):  # known exactly, so that no report moves the weight
            clients_noise = _gaussian_noise(reports.question.law, bounds)
        share = clients_noise / (clients_noise + clients.reports * measured.noise)
    else:
        share = clients.variance / (clients.variance + variance / measured.people + measured.noise)
    return HybridMean(
        estimate=share * curator.estimate + (1 - share) * clients.estimate,
        variance=share**2 * curator.variance + (1 - share) ** 2 * clients.variance,
        reports=curator.reports + clients.reports,
        weight=share,
        curator=curator,
        clients=clients,
        numbers_variance=variance,
    )


def numbers_variance(
    clients: MeanEstimate, reports: ReportCounts, bounds: tuple[float, ...], mechanism: str
) -> tuple[float | None, float]:
    """The variance of people's numbers, estimated from their reports, and an upper bound on it.

    The mean variance of the noise is linear in the variance v of the numbers, n_0 + n_1 v, so reports have the variance
    v + n_0 + n_1 v. For Duchi's law n_1 = -1, and the estimate is None. The upper bound adds two standard errors to the
    variance of reports.
    """
    width, offset = bounds[1] - bounds[0], clients.estimate - (bounds[0] + bounds[1]) / 2
    offset = min(max(offset, -width / 2), width / 2)
    largest = width**2 / 4
    if mechanism == "duchi" or reports.values is None:
        return None, largest
    epsilon = float(reports.question.epsilon)

    def noise(variance: float) -> float:
        return client_noise(epsilon, mechanism=mechanism, variance=variance, width=width, offset=offset)  # type: ignore[arg-type]

    law: Any = reports.question.law
    if isinstance(law, GaussianResponse):
        start, slope = _gaussian_noise(law, bounds), 0.0
    else:
        start, slope = noise(0.0), noise(1.0) - noise(0.0)
    numbers = bounds[0] + width / law.steps * (reports.values - float(law.intercept)) / float(law.slope)
    spread = clients.variance * clients.reports
    fourth = float(np.dot((numbers - clients.estimate) ** 4, reports.counts)) / reports.total
    error = math.sqrt(max(fourth - spread**2, 0.0) / reports.total)
    estimated, upper = ((value - start) / (1 + slope) for value in (spread, spread + 2 * error))
    return min(max(estimated, 0.0), largest), min(max(upper, 0.0), largest)


def _gaussian_noise(law: GaussianResponse, bounds: tuple[float, ...]) -> float:
    """The variance of one client's Gaussian noise, in the square of the question's unit."""
    return ((bounds[1] - bounds[0]) / law.steps) ** 2 * float(law.variance(0))
