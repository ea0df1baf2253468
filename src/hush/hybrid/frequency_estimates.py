"""Estimates from the reports on a question: unbiased frequencies and means, unbiased variances, intervals.

Clients are treated as a sample: variances include both who answered and what their devices drew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import DataError
from hush.core.validation import check_number
from hush.hybrid.client.choice_laws import UNIT, KaryResponse, RecordResponse, UnaryResponse
from hush.hybrid.collection import ReportCounts
from hush.render.text_table import TextColumn, TextTable, number_columns

INTERVAL_LEVEL = 0.95  # of intervals, by default and in tables


class ShownAsTable(ABC):
    """An estimate that prints as its table."""

    __slots__ = ()

    @abstractmethod
    def table(self) -> TextTable:
        """The estimate as a table to read."""

    def __repr__(self) -> str:
        return self.table().text()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Frequencies(ShownAsTable):
    """Estimated shares with their variances, from so many reports; unbiased, so a share may be below 0 or above 1."""

    labels: tuple[Any, ...]
    estimate: Floats
    variance: Floats
    reports: int

    @property
    def stddev(self) -> Floats:
        return np.sqrt(np.maximum(self.variance, 0.0))

    def interval(self, level: float = INTERVAL_LEVEL) -> tuple[Floats, Floats]:
        """The ends of intervals, each of which covers its true share with this probability."""
        reach = quantile(level) * self.stddev
        return self.estimate - reach, self.estimate + reach

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        lower, upper = self.interval()
        rows = zip(self.labels, self.estimate, self.stddev, lower, upper, strict=True)
        return {
            "reports": self.reports,
            "level": INTERVAL_LEVEL,
            "shares": [
                {"label": label, "estimate": float(e), "stddev": float(s), "lower": float(a), "upper": float(b)}
                for label, e, s, a, b in rows
            ],
        }

    def table(self) -> TextTable:
        """The shares in percent, as a table to read."""
        lower, upper = self.interval()
        rows = [
            (label_text(label), f"{100 * e:.2f} %", f"{100 * s:.2f}", f"{100 * a:.2f} to {100 * b:.2f} %")
            for label, e, s, a, b in zip(self.labels, self.estimate, self.stddev, lower, upper, strict=True)
        ]
        columns = (TextColumn(heading="answer", fit="clip"), *number_columns("share", "stddev", "95 % interval"))
        return TextTable(columns=columns, rows=rows, notes=[f"From {self.reports:,} reports."])


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RecordFrequencies(ShownAsTable):
    """Shares of queries and of records from the same reports; those of a query's records add up to that of the query.

    `records.labels` are pairs of query and URL.
    """

    queries: Frequencies
    records: Frequencies

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {"queries": self.queries.to_dict(), "records": self.records.to_dict()}

    def table(self) -> TextTable:
        """The shares of records, as a table to read."""
        return self.records.table()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MeanEstimate(ShownAsTable):
    """An estimated mean with the variance of the estimate; unbiased, so it may lie outside the bounds."""

    estimate: float
    variance: float
    reports: int

    @property
    def stddev(self) -> float:
        return float(np.sqrt(max(self.variance, 0.0)))

    def interval(self, level: float = INTERVAL_LEVEL) -> tuple[float, float]:
        """The ends of an interval that holds the true mean with this probability."""
        reach = quantile(level) * self.stddev
        return self.estimate - reach, self.estimate + reach

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        lower, upper = self.interval()
        ends = {"lower": lower, "upper": upper}
        return {"reports": self.reports, "level": INTERVAL_LEVEL, "mean": self.estimate, "stddev": self.stddev, **ends}

    def table(self) -> TextTable:
        """The mean, as a table to read."""
        lower, upper = self.interval()
        row = (f"{self.estimate:.6g}", f"{self.stddev:.3g}", f"{lower:.6g} to {upper:.6g}")
        notes = [f"From {self.reports:,} reports."]
        return TextTable(columns=number_columns("mean", "stddev", "95 % interval"), rows=[row], notes=notes)


def estimate(counts: ReportCounts) -> Frequencies | RecordFrequencies | MeanEstimate:
    """Estimate shares, or a mean, from the reports on a question, by the law that drew them.

    >>> from hush.hybrid import Question
    >>> from hush.hybrid.collection import count_reports
    >>> question = Question.yes_no("a smoker", epsilon=3)
    >>> estimate(count_reports(question, [0] * 800 + [1] * 200))
    answer    share  stddev     95 % interval
    no      83.14 %    1.40  80.40 to 85.88 %
    yes     16.86 %    1.40  14.12 to 19.60 %
    From 1,000 reports.
    """
    law = counts.question.law
    if isinstance(law, RecordResponse):
        return _records(counts, law)
    if isinstance(law, KaryResponse | UnaryResponse):
        return _shares(counts, law)
    return _mean(counts, law)


def _shares(counts: ReportCounts, law: KaryResponse | UnaryResponse) -> Frequencies:
    """p = (r - q)/(t - q), with the variance r (1 - r)/((N - 1)(t - q)^2).

    r is the share of reports that name an option; t is its expectation among those who hold it, and q among others.
    """
    if isinstance(law, KaryResponse):
        kept, other = law.probability(0, 0), law.probability(0, 1)
    else:
        kept, other = Fraction(1, 2), Fraction(law.rare, UNIT)
    n, r, gap = counts.total, counts.counts / counts.total, float(kept - other)
    return Frequencies(
        labels=counts.question.options,
        estimate=(r - float(other)) / gap,
        variance=r * (1 - r) / ((n - 1) * gap**2),
        reports=n,
    )


def _records(counts: ReportCounts, law: RecordResponse) -> RecordFrequencies:
    """Shares of queries as by k-ary response, and of records by

        p_qu = (r_qu - t g p_q - (a/k_q)(1 - p_q)) / (t (t_q - g)),  a = (1 - t)/(k - 1),  g = (1 - t_q)/(k_q - 1).

    With A = a/k_q - t g, the variance of p_qu, times t^2 (t_q - g)^2, is

        r_qu (1 - r_qu)/(N - 1) + A^2 Var(p_q) + 2 A r_qu (1 - r_q)/((N - 1)(t - a)).

    Differs from [Avent 2023, Alg. 2.5, line 19]: N/(N - 1) is not applied to Var(p_q) a second time.
    """
    # the queries
    n, sizes = counts.total, law.sizes
    starts = np.cumsum([0, *sizes])
    queries = np.add.reduceat(counts.counts, starts[:-1])
    t, a = float(law.query.probability(0, 0)), float(law.query.probability(0, 1)) if len(sizes) > 1 else 0.0
    r_q = queries / n
    p_q, var_q = (r_q - a) / (t - a), r_q * (1 - r_q) / ((n - 1) * (t - a) ** 2)
    # the records of each query
    shares, variances = np.empty(starts[-1]), np.empty(starts[-1])
    for query, size in enumerate(sizes):
        here = slice(starts[query], starts[query + 1])
        if size == 1:
            shares[here], variances[here] = p_q[query], var_q[query]
            continue
        urls = law.urls[query]
        kept, g = float(urls.probability(0, 0)), float(urls.probability(0, 1))
        r = counts.counts[here] / n
        excess = a / size - t * g
        slope = t * (kept - g)
        shares[here] = (r - t * g * p_q[query] - a / size * (1 - p_q[query])) / slope
        both = 2 * excess * r * (1 - r_q[query]) / ((n - 1) * (t - a))
        variances[here] = (r * (1 - r) / (n - 1) + excess**2 * var_q[query] + both) / slope**2
    names = counts.question.slots
    labels = tuple((query, url) for query, urls_of in names.items() for url in urls_of)
    return RecordFrequencies(
        queries=Frequencies(labels=tuple(names), estimate=p_q, variance=var_q, reports=n),
        records=Frequencies(labels=labels, estimate=shares, variance=variances, reports=n),
    )


def _mean(counts: ReportCounts, law: Any) -> MeanEstimate:
    """The mean of (report - intercept)/slope in the units of the question, and its sample variance over N."""
    if counts.values is None:
        raise DataError("reports on numbers lack their values")
    body, n = counts.question.body, counts.total
    lower, upper = float(Fraction(body["lower"])), float(Fraction(body["upper"]))
    unit = (upper - lower) / law.steps
    numbers = lower + unit * (counts.values - float(law.intercept)) / float(law.slope)
    mean = float(np.dot(numbers, counts.counts)) / n
    spread = float(np.dot((numbers - mean) ** 2, counts.counts)) / (n - 1)
    return MeanEstimate(estimate=mean, variance=spread / n, reports=n)


def quantile(level: float) -> float:
    """The half-width, in standard deviations, of a two-sided interval of this probability."""
    level = check_number(DataError, "level", level, above=0, below=1, hint=", such as 0.95")
    return NormalDist().inv_cdf((1 + level) / 2)


def label_text(label: str | Sequence[str]) -> str:
    """An option, or a record as its two parts."""
    return label if isinstance(label, str) else " | ".join(label)
