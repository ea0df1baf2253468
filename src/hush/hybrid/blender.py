"""BLENDER: a head list found by opt-in people, with shares estimated by both groups and blended by variance.

1. Opt-in people are split: some find the list (`head_list.discover`), the others count it.
2. Clients are asked about the list. By default they are split too: most are asked for their query, the others for their
   record, each at the whole epsilon, by the law with the least variance for a list of that length. As in the source,
   they may also answer both in two stages, with the budget split.
3. Shares of queries are blended at the level of queries, those of URLs at the level of records; each weighs as one over
   its variance. Queries and the wildcard are moved to the probability simplex.

Reference: [Avent 2023, Alg. 2.1 to 2.6]. Differs from it: blending records and adding them up would bring back the
noise of URLs, so queries are blended by themselves; weights use the variance at the blended share, since a variance
that follows its own estimate favours estimates that are too small.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import DataError
from hush.hybrid.client.question import DEFAULT_SHARE, WILDCARD, Question
from hush.hybrid.collection import ReportCounts
from hush.hybrid.frequency_estimates import Frequencies, RecordFrequencies, estimate, quantile
from hush.hybrid.head_list import HeadList, OptInEstimates, Record, discover, estimate_opt_in
from hush.hybrid.opt_in import OptInRecords
from hush.hybrid.promises import Promise
from hush.render.text_table import TextColumn, TextTable, number_columns

DISCOVERY_SHARE = 0.75  # of opt-in people; the document takes 0.95 and has few people left to count
QUERY_SHARE = 0.9  # of clients, asked for their query
SEPARATOR = "\t"  # between query and URL in an option


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadListQuestions:
    """What clients are asked about a head list: one question of two stages, or two questions to different clients."""

    head_list: HeadList
    queries: Question | None = None
    records: Question | None = None
    two_stage: Question | None = None

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions there are."""
        return tuple(one for one in (self.queries, self.records, self.two_stage) if one is not None)


def head_list_questions(
    head_list: HeadList,
    promise: Promise,
    *,
    form: Literal["split", "two-stage"] = "split",
    share: float | str = DEFAULT_SHARE,
    spend_slack: bool = True,
) -> HeadListQuestions:
    """The questions about a head list, each at the whole promise; an empty list asks nothing."""
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
    """A record as one option of a list; the wildcard URL stands for all URLs of the query that are not listed."""
    return f"{query}{SEPARATOR}{url}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShares:
    """What one group says about queries or records of the list: unbiased shares, and their variance at any shares."""

    estimate: Floats
    slope: float  # of the share of reports against the share of people; 1 for opt-in people
    floor: float  # share of reports of those who do not hold the option
    people: int
    noise: Floats | float = 0.0  # variance that is added to that of sampling

    def variance(self, shares: Floats) -> Floats:
        """r (1 - r)/(N slope^2) + noise, with r the share of reports at these shares."""
        r = self.floor + self.slope * np.clip(shares, 0.0, 1.0)
        return np.asarray(r * (1 - r) / (self.people * self.slope**2) + self.noise)


def blend_shares(groups: list[GroupShares], *, rounds: int = 4) -> tuple[Floats, Floats, Floats]:
    """The blended shares, their variances and the weight of each group, shape (groups, shares).

    Weights are one over the variance at the blended shares, found in a few rounds from equal ones.
    """
    stacked = np.stack([group.estimate for group in groups])
    people = np.array([float(group.people) for group in groups])
    shares = np.average(stacked, axis=0, weights=people)
    for _ in range(rounds):
        precision = 1 / np.stack([np.maximum(group.variance(shares), 1e-300) for group in groups])
        weights = precision / precision.sum(axis=0)
        shares = np.clip((weights * stacked).sum(axis=0), 0.5 / people.sum(), 1.0)
    return (weights * stacked).sum(axis=0), 1 / precision.sum(axis=0), weights


def simplex_projection(shares: Floats) -> Floats:
    """The nearest point whose entries are not negative and add up to one.

    Reference: [Wang and Carreira-Perpinan 2013].

    >>> simplex_projection(np.array([0.9, 0.4, -0.2]))
    array([0.75, 0.25, 0.  ])
    """
    ordered = np.sort(shares)[::-1]
    lifts = (1 - np.cumsum(ordered)) / np.arange(1, len(shares) + 1)
    last = np.flatnonzero(ordered + lifts > 0)[-1]
    return np.asarray(np.maximum(shares + lifts[last], 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendedHeadList:
    """An ordered head list: queries by their share, the URLs of each by theirs.

    `shares` are the blended shares of `queries` after projection, `query_groups` what each group says by itself, and
    `query_weights` how much each group counts, in the order of `groups`.
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
        """The ends of intervals for the shares of queries, cut to what a share can be."""
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

    def __repr__(self) -> str:
        return self.table().text()


def blend(
    opt_in: OptInEstimates, questions: HeadListQuestions, reports: dict[str, ReportCounts] | None = None
) -> BlendedHeadList:
    """Blend what opt-in people and clients say about a list.

    `reports` are counts by question id. Without them the result is that of the opt-in people alone, which is the
    curator's baseline.
    """
    head_list, reports = questions.head_list, reports or {}
    names = list(head_list)
    records: list[Record] = [(query, url) for query, urls in head_list.items() for url in urls]
    if head_list != opt_in.head_list:
        raise DataError("these questions are about another head list than the opt-in people counted")
    if unknown := set(reports) - {question.id for question in questions.questions}:
        raise DataError(f"reports on a question {sorted(unknown)[0][:8]} that is not about this head list")
    own = dict(zip(opt_in.records, opt_in.estimate, strict=True))
    parts = np.array([len(head_list[query]) + 1 for query in names], dtype=np.float64)
    opt_in_queries = GroupShares(
        estimate=np.array([sum(own[query, url] for url in (*head_list[query], WILDCARD)) for query in names]),
        slope=1.0,
        floor=0.0,
        people=opt_in.rows,
        noise=parts * opt_in.noise / opt_in.rows**2,
    )
    opt_in_records = GroupShares(
        estimate=np.array([own[record] for record in records]),
        slope=1.0,
        floor=0.0,
        people=opt_in.rows,
        noise=opt_in.noise / opt_in.rows**2,
    )
    by_query, by_record = {"opt-in": opt_in_queries}, {"opt-in": opt_in_records}
    for question in questions.questions:
        if question.id in reports:
            _add_reports(by_query, by_record, question, reports[question.id], names, records)
    people = {"opt-in": opt_in.rows} | {
        f"clients ({name})": counts.total for name, counts in _named(questions, reports)
    }
    return _ordered(names, records, by_query, by_record, people)


def _named(questions: HeadListQuestions, reports: dict[str, ReportCounts]) -> list[tuple[str, ReportCounts]]:
    return [(question.name, reports[question.id]) for question in questions.questions if question.id in reports]


def _add_reports(
    by_query: dict[str, GroupShares],
    by_record: dict[str, GroupShares],
    question: Question,
    counts: ReportCounts,
    names: list[str],
    records: list[Record],
) -> None:
    """What the clients of one question say, added to the groups."""
    found = estimate(counts)
    law: Any = question.law
    if isinstance(found, RecordFrequencies):
        t, a = float(law.query.probability(0, 0)), float(law.query.probability(0, 1))
        by_query["clients"] = GroupShares(estimate=_at(found.queries, names), slope=t - a, floor=a, people=counts.total)
        by_record["clients"] = _stated(found.records, records)
        return
    if not isinstance(found, Frequencies):
        raise DataError("a question about a number says nothing about a head list")
    slope, floor = _line(question)
    if question.name == "query":
        by_query["clients"] = GroupShares(estimate=_at(found, names), slope=slope, floor=floor, people=counts.total)
    else:
        estimates = _at(found, [record_option(*record) for record in records])
        by_record["clients"] = GroupShares(estimate=estimates, slope=slope, floor=floor, people=counts.total)


def _line(question: Question) -> tuple[float, float]:
    """How the share of reports that name an option follows the share of people who hold it: slope and floor."""
    from hush.hybrid.client.device_bits import UNIT

    law: Any = question.law
    if question.mechanism == "unary":
        return 0.5 - law.rare / UNIT, law.rare / UNIT
    kept, other = float(law.probability(0, 0)), float(law.probability(0, 1))
    return kept - other, other


def _at(found: Frequencies, labels: list[Any]) -> Floats:
    places = {label: index for index, label in enumerate(found.labels)}
    return found.estimate[[places[label] for label in labels]]


def _stated(found: Frequencies, records: list[Record]) -> GroupShares:
    """Shares whose variances are taken as they were estimated."""
    places = {label: index for index, label in enumerate(found.labels)}
    index = [places[record] for record in records]
    return GroupShares(
        estimate=found.estimate[index], slope=1.0, floor=0.0, people=1 << 60, noise=found.variance[index]
    )


def _ordered(
    names: list[str],
    records: list[Record],
    by_query: dict[str, GroupShares],
    by_record: dict[str, GroupShares],
    people: dict[str, int],
) -> BlendedHeadList:
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
        here = sorted(
            (i for i, record in enumerate(records) if record[0] == query), key=lambda i: (-record_shares[i], records[i])
        )
        urls[query] = tuple(records[i][1] for i in here)
        url_shares[query] = np.clip(record_shares[here], 0.0, 1.0)
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
    """Split opt-in people, find a list with the one part and count it with the other; at most so many queries.

    Privacy: (epsilon, delta)-DP for every person: the two parts share nobody.
    """
    if isinstance(most_queries, bool) or not isinstance(most_queries, int) or most_queries < 1:
        raise DataError(f"most_queries={most_queries!r}: expected an integer >= 1")
    finders, counters = people.split(discovery_share)
    found = discover(finders, promise)
    return estimate_opt_in(counters, found, promise).shortened(most_queries)
