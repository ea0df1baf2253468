"""BLENDER: a head list found by opt-in people, with shares estimated by both groups and blended by variance.

1. Opt-in people are split: some find the list (`head_list.discover`), the others count it.
2. Clients are asked about the list. By default they are split too: most are asked for their query, the others for their
   record, each at the whole epsilon, by the law of least variance for a list of that length. As in the paper, they may
   instead answer both in two stages, which split the budget.
3. Shares of queries are blended from estimates of queries, those of URLs from estimates of records, with weights
   inverse to the variances. The shares of queries and the wildcard are projected to the probability simplex.

Reference: [Avent 2023, Alg. 2.1 to 2.6]. Differs from it: sums of blended records would have the noise of all URLs, so
queries are blended separately; and weights use the variance at the blended share, since a variance computed from a
group's own estimate favours estimates that are too small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from hush.core.arrays import Floats, simplex_projection
from hush.core.errors import DataError
from hush.core.validation import check_whole
from hush.hybrid.client.choice_laws import UNIT
from hush.hybrid.client.question import DEFAULT_SHARE, WILDCARD, Question
from hush.hybrid.collection import ReportCounts
from hush.hybrid.frequency_estimates import Frequencies, RecordFrequencies, ShownAsTable, estimate, quantile
from hush.hybrid.head_list import HeadList, OptInEstimates, Record, discover, estimate_opt_in
from hush.hybrid.opt_in import OptInRecords
from hush.hybrid.promises import Promise
from hush.render.text_table import TextColumn, TextTable, number_columns

DISCOVERY_SHARE = 0.75  # of opt-in people find the list; 0.95 in the paper, which leaves few people to count
QUERY_SHARE = 0.9  # of clients are asked for their query


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadListQuestions:
    """The questions to clients about a head list: one question in two stages, or two questions to different clients."""

    head_list: HeadList
    queries: Question | None = None
    records: Question | None = None
    two_stage: Question | None = None

    @property
    def questions(self) -> tuple[Question, ...]:
        """All questions about the list."""
        return tuple(q for q in (self.queries, self.records, self.two_stage) if q is not None)


def head_list_questions(
    head_list: HeadList,
    promise: Promise,
    *,
    form: Literal["split", "two-stage"] = "split",
    share: float | str = DEFAULT_SHARE,
    spend_slack: bool = True,
    places: int = 1,
) -> HeadListQuestions:
    """The questions about a head list, each at the whole promise; an empty list has no questions.

    With `places`, each device sends so many reports (`Device.answer_places`), which share the promise, and shares are
    of places, as with `OptInRecords(max_records=places)`. One place has the least error on most lists.
    """
    check_whole(DataError, "places", places, least=1)
    promise = replace(promise, epsilon=promise.epsilon / places, delta=promise.delta / places)
    if not head_list:
        return HeadListQuestions(head_list=head_list)
    if form == "two-stage":
        delta = Fraction(0) if spend_slack else promise.delta
        question = Question.records(
            "record", head_list, epsilon=promise.epsilon, delta=delta, share=share, spend_slack=spend_slack
        )
        return HeadListQuestions(head_list=head_list, two_stage=question)
    records = [record_option(query, url) for query, urls in head_list.items() for url in (*urls, WILDCARD)]
    return HeadListQuestions(
        head_list=head_list,
        queries=Question.choice("query", list(head_list), epsilon=promise.epsilon, other=True),
        records=Question.choice("record", records, epsilon=promise.epsilon, other=True),
    )


def record_option(query: str, url: str) -> str:
    """A record as one option of a question; the wildcard URL stands for all URLs of the query that are not listed."""
    return f"{query}\t{url}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShares:
    """One group's unbiased shares of queries or records, and their variance at any true shares.

    A share p of people gives an expected share of reports of floor + slope p.
    """

    estimate: Floats
    slope: float  # 1 for opt-in people
    floor: float  # the share of reports among people who do not hold the option
    people: int
    noise: Floats | float = 0.0  # variance in addition to that of sampling

    def variance(self, shares: Floats) -> Floats:
        """r (1 - r)/(N slope^2) + noise, with r the share of reports at these shares."""
        r = self.floor + self.slope * np.clip(shares, 0.0, 1.0)
        return np.asarray(r * (1 - r) / (self.people * self.slope**2) + self.noise)


def blend_shares(groups: list[GroupShares], *, rounds: int = 4) -> tuple[Floats, Floats, Floats]:
    """The blended shares, their variances and the weight of each group, shape (groups, shares).

    Weights are inverse to the variance at the blended shares, found in a few rounds from weights by people.
    """
    stacked = np.stack([group.estimate for group in groups])
    people = np.array([float(group.people) for group in groups])
    shares = np.average(stacked, axis=0, weights=people)
    for _ in range(rounds):
        precision = 1 / np.stack([np.maximum(group.variance(shares), 1e-300) for group in groups])
        weights = precision / precision.sum(axis=0)
        shares = np.clip((weights * stacked).sum(axis=0), 0.5 / people.sum(), 1.0)
    return (weights * stacked).sum(axis=0), 1 / precision.sum(axis=0), weights


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BlendedHeadList(ShownAsTable):
    """An ordered head list: queries by their share, and the URLs of each query by theirs.

    `shares` are the blended shares of `queries` after projection. `query_groups` are the estimates of each group alone
    and `query_weights` its weights, in the order of `groups`.
    """

    queries: tuple[str, ...]
    shares: Floats
    wildcard: float
    variances: Floats
    urls: dict[str, tuple[str, ...]]
    url_shares: dict[str, Floats]
    groups: tuple[str, ...]
    query_groups: Floats  # (groups, queries)
    query_weights: Floats  # (groups, queries)
    people: dict[str, int]

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """The ends of intervals for the shares of queries, clipped to [0, 1]."""
        reach = quantile(level) * np.sqrt(self.variances)
        return np.clip(self.shares - reach, 0.0, 1.0), np.clip(self.shares + reach, 0.0, 1.0)

    @property
    def head_list(self) -> HeadList:
        """The URLs of each query, all in order."""
        return {query: list(self.urls[query]) for query in self.queries}

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        lower, upper = self.interval()
        return {
            "people": self.people,
            "wildcard": self.wildcard,
            "queries": [
                {
                    "query": query,
                    "share": float(self.shares[i]),
                    "lower": float(lower[i]),
                    "upper": float(upper[i]),
                    "weights": dict(zip(self.groups, map(float, self.query_weights[:, i]), strict=True)),
                    "by group": dict(zip(self.groups, map(float, self.query_groups[:, i]), strict=True)),
                    "urls": dict(zip(self.urls[query], map(float, self.url_shares[query]), strict=True)),
                }
                for i, query in enumerate(self.queries)
            ],
        }

    def table(self, most: int = 20) -> TextTable:
        """The head of the list, as a table to read."""
        lower, upper = self.interval()
        rows = [
            (
                str(i + 1),
                query,
                f"{100 * self.shares[i]:.2f} %",
                f"{100 * lower[i]:.2f} to {100 * upper[i]:.2f} %",
                f"{100 * self.query_weights[0, i]:.0f} %",
                next(iter(self.urls[query]), ""),
            )
            for i, query in enumerate(self.queries[:most])
        ]
        columns = (
            TextColumn(heading="#", align="right"),
            TextColumn(heading="query", fit="clip"),
            *number_columns("share", "95 % interval", "opt-in weight"),
            TextColumn(heading="first URL", fit="clip", optional=True),
        )
        more = f"... {len(self.queries) - most} more" if len(self.queries) > most else ""
        people = ", ".join(f"{number:,} {group}" for group, number in self.people.items())
        notes = [f"All else: {100 * self.wildcard:.2f} %. From {people}."]
        return TextTable(columns=columns, rows=rows, more=more, notes=notes)


def blend(
    opt_in: OptInEstimates, questions: HeadListQuestions, reports: dict[str, ReportCounts] | None = None
) -> BlendedHeadList:
    """Blend the estimates of opt-in people and of clients.

    `reports` are counts by question id. Without them the result is that of opt-in people alone, the curator's baseline.
    """
    # check that all are about the same list
    head_list, reports = questions.head_list, reports or {}
    names = list(head_list)
    records: list[Record] = [(query, url) for query, urls in head_list.items() for url in urls]
    if head_list != opt_in.head_list:
        raise DataError("these questions are about another head list than the opt-in people counted")
    if unknown := set(reports) - {question.id for question in questions.questions}:
        raise DataError(f"reports on a question {sorted(unknown)[0][:8]} that is not about this head list")
    # the shares of opt-in people: the noise of a query is that of its records, one for each URL and the wildcard URL
    shares = dict(zip(opt_in.records, opt_in.estimate, strict=True))
    noise, parts = opt_in.noise / opt_in.rows**2, np.array([len(head_list[query]) + 1.0 for query in names])
    query_shares = np.array([sum(shares[query, url] for url in (*head_list[query], WILDCARD)) for query in names])
    record_shares = np.array([shares[record] for record in records])
    counted: dict[str, Any] = {"slope": 1.0, "floor": 0.0, "people": opt_in.rows}
    by_query = {"opt-in": GroupShares(estimate=query_shares, noise=parts * noise, **counted)}
    by_record = {"opt-in": GroupShares(estimate=record_shares, noise=noise, **counted)}
    # the shares of the clients of each question
    people = {"opt-in": opt_in.rows}
    for question in questions.questions:
        if question.id in reports:
            _add_reports(by_query, by_record, question, reports[question.id], names, records)
            people[f"clients ({question.name})"] = reports[question.id].total
    return _ordered(names, records, by_query, by_record, people)


def _add_reports(
    by_query: dict[str, GroupShares],
    by_record: dict[str, GroupShares],
    question: Question,
    counts: ReportCounts,
    names: list[str],
    records: list[Record],
) -> None:
    """Add the shares that the clients of one question report."""
    estimates = estimate(counts)
    law: Any = question.law
    if isinstance(estimates, RecordFrequencies):
        t, a = float(law.query.probability(0, 0)), float(law.query.probability(0, 1))
        shares = estimates.queries.estimate[_places(estimates.queries, names)]
        by_query["clients"] = GroupShares(estimate=shares, slope=t - a, floor=a, people=counts.total)
        # records: so many people that no variance is added to the estimated one
        places = _places(estimates.records, records)
        shares, variances = estimates.records.estimate[places], estimates.records.variance[places]
        by_record["clients"] = GroupShares(estimate=shares, slope=1.0, floor=0.0, people=1 << 60, noise=variances)
        return
    if not isinstance(estimates, Frequencies):
        raise DataError("a question about a number cannot be blended into a head list")
    if question.mechanism == "unary":
        slope, floor = 0.5 - law.rare / UNIT, law.rare / UNIT
    else:
        floor = float(law.probability(0, 1))
        slope = float(law.probability(0, 0)) - floor
    of_queries = question.name == "query"
    labels = names if of_queries else [record_option(*record) for record in records]
    shares = estimates.estimate[_places(estimates, labels)]
    group = GroupShares(estimate=shares, slope=slope, floor=floor, people=counts.total)
    (by_query if of_queries else by_record)["clients"] = group


def _places(estimates: Frequencies, labels: Sequence[Any]) -> list[int]:
    places = {label: index for index, label in enumerate(estimates.labels)}
    return [places[label] for label in labels]


def _ordered(
    names: list[str],
    records: list[Record],
    by_query: dict[str, GroupShares],
    by_record: dict[str, GroupShares],
    people: dict[str, int],
) -> BlendedHeadList:
    """Blend the shares of all groups, and order queries and the URLs of each query by them."""
    if not names:
        empty = np.zeros(0)
        return BlendedHeadList(
            queries=(), shares=empty, wildcard=1.0, variances=empty, urls={}, url_shares={}, groups=tuple(by_query),
            query_groups=np.zeros((len(by_query), 0)), query_weights=np.zeros((len(by_query), 0)), people=people,
        )  # fmt: skip
    shares, variances, weights = blend_shares(list(by_query.values()))
    projected = simplex_projection(np.append(shares, 1 - shares.sum()))
    order = sorted(range(len(names)), key=lambda i: (-projected[i], -shares[i], names[i]))
    record_shares = blend_shares(list(by_record.values()))[0]
    urls: dict[str, tuple[str, ...]] = {}
    url_shares: dict[str, Floats] = {}
    for query in names:
        of_query = [i for i, record in enumerate(records) if record[0] == query]
        of_query.sort(key=lambda i: (-record_shares[i], records[i]))
        urls[query] = tuple(records[i][1] for i in of_query)
        url_shares[query] = np.clip(record_shares[of_query], 0.0, 1.0)
    return BlendedHeadList(
        queries=tuple(names[i] for i in order),
        shares=projected[order],
        wildcard=float(projected[-1]),
        variances=variances[order],
        urls=urls,
        url_shares=url_shares,
        groups=tuple(by_query),
        query_groups=np.stack([group.estimate for group in by_query.values()])[:, order],
        query_weights=weights[:, order],
        people=people,
    )


def find_head_list(
    people: OptInRecords, promise: Promise, *, most_queries: int, discovery_share: float = DISCOVERY_SHARE
) -> OptInEstimates:
    """Split opt-in people, find a list with one part and count it with the other; keeps at most `most_queries` queries.

    Privacy: (epsilon, delta)-DP for every person: no person is in both parts.
    """
    check_whole(DataError, "most_queries", most_queries, least=1)
    finders, counters = people.split(discovery_share)
    return estimate_opt_in(counters, discover(finders, promise), promise).shortened(most_queries)
