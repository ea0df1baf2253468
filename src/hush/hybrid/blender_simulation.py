"""BLENDER on invented people: a search log with the shape of a real one, and a whole run on it.

Invented logs have the nine most common queries of a log of 519,371 people from 2006, a tail in which the share of a
query falls with the power 0.95 of its rank, and queries that nobody else typed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import DataError
from hush.core.validation import check_number, check_whole
from hush.hybrid.blender import (
    DISCOVERY_SHARE,
    QUERY_SHARE,
    BlendedHeadList,
    blend,
    find_head_list,
    head_list_questions,
    record_option,
)
from hush.hybrid.client.question import WILDCARD, Question
from hush.hybrid.opt_in import OptInRecords
from hush.hybrid.promises import Promise
from hush.hybrid.simulated_reports import generator_of, simulate_reports

AOL_PEOPLE = 519_371
TOP_QUERIES = (
    ("google", 0.0211),
    ("yahoo", 0.0067),
    ("google.com", 0.0066),
    ("myspace.com", 0.0055),
    ("mapquest", 0.0055),
    ("yahoo.com", 0.0048),
    ("www.google.com", 0.0044),
    ("myspace", 0.0034),
    ("ebay", 0.0030),
)
URL_SHARES = (0.7, 0.2, 0.1)
TAIL_POWER = 0.95
COMMON_QUERIES = 100_000  # that several people may type


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLog:
    """One search of each of many invented people, as codes; a query code of `COMMON_QUERIES` or more occurs once."""

    queries: Integers
    urls: Integers

    def __len__(self) -> int:
        return len(self.queries)

    def record(self, person: int) -> tuple[str, str]:
        """The query and the URL of one person."""
        return query_text(int(self.queries[person])), url_text(int(self.queries[person]), int(self.urls[person]))

    def true_shares(self, most: int) -> dict[str, dict[str, float]]:
        """The shares of the URLs of the most common queries."""
        width = len(URL_SHARES)
        common = self.queries < COMMON_QUERIES
        cells = np.bincount(self.queries[common] * width + self.urls[common], minlength=COMMON_QUERIES * width)
        table = cells.reshape(-1, width) / len(self)
        order = np.argsort(-table.sum(axis=1), kind="stable")[:most]
        return {query_text(int(q)): {url_text(int(q), u): float(table[q, u]) for u in range(width)} for q in order}


def search_log(people: int = AOL_PEOPLE, *, seed: int) -> SearchLog:
    """An invented log; the same for the same seed.

    >>> log = search_log(1000, seed=1)
    >>> len(log), log.record(0) == search_log(1000, seed=1).record(0)
    (1000, True)
    """
    check_whole(DataError, "people", people, least=1)
    generator = generator_of(seed)
    queries = np.searchsorted(np.cumsum(query_shares()), generator.random(people), side="right")
    alone = queries >= COMMON_QUERIES
    queries[alone] = COMMON_QUERIES + np.flatnonzero(alone)
    urls = generator.choice(len(URL_SHARES), size=people, p=URL_SHARES)
    return SearchLog(queries=queries.astype(np.int64), urls=urls.astype(np.int64))


def query_shares() -> Floats:
    """The probabilities of the common queries; everybody else types a query that nobody else does."""
    top = len(TOP_QUERIES)
    tail = TOP_QUERIES[-1][1] * (top / np.arange(top + 1, COMMON_QUERIES + 1)) ** TAIL_POWER
    return np.concatenate([[share for _, share in TOP_QUERIES], tail])


def query_text(code: int) -> str:
    """The text of a query."""
    if code < len(TOP_QUERIES):
        return TOP_QUERIES[code][0]
    return f"query {code + 1}" if code < COMMON_QUERIES else f"typed once {code}"


def url_text(query: int, url: int) -> str:
    """The text of a URL of a query."""
    return f"{chr(ord('a') + url)}.{query_text(query).replace(' ', '-').removesuffix('.com')}.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlenderRun:
    """A blended list, the list of opt-in people alone, and the log that both came from."""

    log: SearchLog
    blended: BlendedHeadList
    opt_in: BlendedHeadList
    most_queries: int

    @property
    def reached(self) -> bool:
        """Whether the list has as many queries as were asked for."""
        return len(self.blended.queries) == self.most_queries

    def share_errors(self) -> dict[str, float]:
        """The l1 distance of the shares of listed queries from the true ones: of both groups, and of each alone."""
        true, queries = self.log.true_shares(5000), self.blended.queries
        listed = {query: sum(true.get(query, {}).values()) for query in queries}
        estimates = {"both": self.blended.shares} | dict(
            zip(self.blended.groups, self.blended.query_groups, strict=True)
        )
        return {
            group: l1_distance(dict(zip(queries, map(float, shares), strict=True)), listed)
            for group, shares in estimates.items()
        }


def l1_distance(estimated: Mapping[str, float], true: Mapping[str, float]) -> float:
    """The sum over queries of |estimate - truth|; the share of a missing query is 0."""
    return math.fsum(abs(estimated.get(query, 0.0) - true.get(query, 0.0)) for query in {*estimated, *true})


def simulate_blender(
    log: SearchLog,
    promise: Promise,
    *,
    opt_in_share: float,
    most_queries: int,
    seed: int,
    discovery_share: float = DISCOVERY_SHARE,
    query_share: float = QUERY_SHARE,
    form: Literal["split", "two-stage"] = "split",
    spend_slack: bool = True,
) -> BlenderRun:
    """Split the people of a log into groups, and run every step of BLENDER; each client is asked one question."""
    check_number(DataError, "opt_in_share", opt_in_share, above=0, below=1)
    # opt-in people find and count the list
    generator = generator_of(seed)
    order = generator.permutation(len(log))
    opted = order[: int(opt_in_share * len(log))]
    clients = order[len(opted) :]
    people = OptInRecords([log.record(int(person))] for person in opted)
    counted = find_head_list(people, promise, most_queries=most_queries, discovery_share=discovery_share)
    # clients are asked about it
    questions = head_list_questions(counted.head_list, promise, form=form, spend_slack=spend_slack)
    cut = int(query_share * len(clients))
    asked = [(questions.two_stage, clients), (questions.queries, clients[:cut]), (questions.records, clients[cut:])]
    reports = {
        question.id: simulate_reports(question, _codes(question, log, part), generator)
        for question, part in asked
        if question is not None
    }
    return BlenderRun(
        log=log,
        blended=blend(counted, questions, reports),
        opt_in=blend(counted, questions),
        most_queries=most_queries,
    )


def _codes(question: Question, log: SearchLog, people: Integers) -> Integers:
    """The records of people as a question encodes them; each different record is encoded once."""
    width = int(log.urls.max()) + 1
    pairs = log.queries[people] * width + log.urls[people]
    different, places = np.unique(pairs, return_inverse=True)
    codes = []
    listed = set(question.options) if question.kind == "choice" else set()
    for pair in different:
        query, url = query_text(int(pair) // width), url_text(int(pair) // width, int(pair) % width)
        if question.kind == "records":
            codes.append(question.encode((query, url))[0])
        elif question.name == "query":
            codes.append(question.encode(query)[0])
        else:
            option = record_option(query, url)
            codes.append(question.encode(option if option in listed else record_option(query, WILDCARD))[0])
    return np.array(codes)[places]
