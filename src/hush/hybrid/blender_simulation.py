"""A whole run of BLENDER on an invented search log, and its baselines; for planning and benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from hush.core.arrays import Integers
from hush.core.errors import DataError
from hush.hybrid.blender import (
    DISCOVERY_SHARE,
    QUERY_SHARE,
    BlendedHeadList,
    HeadListQuestions,
    blend,
    find_head_list,
    head_list_questions,
    record_option,
)
from hush.hybrid.client.question import WILDCARD, Question
from hush.hybrid.collection import ReportCounts
from hush.hybrid.opt_in import OptInRecords
from hush.hybrid.promises import Promise
from hush.hybrid.ranking_metrics import l1_distance, nested_ndcg
from hush.hybrid.search_logs import SearchLog, query_text, url_text
from hush.hybrid.simulated_reports import generator_of, simulate_reports


@dataclass(frozen=True, slots=True, kw_only=True)
class BlenderRun:
    """A blended list, the lists of each group alone, and the log they came from."""

    log: SearchLog
    blended: BlendedHeadList
    opt_in: BlendedHeadList
    most_queries: int

    @property
    def reached(self) -> bool:
        """Whether as many queries were found as were wanted."""
        return len(self.blended.queries) == self.most_queries

    def l1(self, shares: dict[str, float], true: dict[str, dict[str, float]], *, head: bool = False) -> float:
        """The l1 distance over listed queries; with `head` also over the true head that is not listed, as 0."""
        wanted = {*shares, *(list(true)[: self.most_queries] if head else ())}
        return l1_distance(shares, {query: sum(true.get(query, {}).values()) for query in wanted})

    def scores(self) -> dict[str, float]:
        """l1 and nested NDCG of the top 10, for the blend and for each group alone."""
        blended, alone = self.blended, self.opt_in
        true = self.log.true_shares(5000)
        queries = blended.queries
        by_group = {
            group: dict(zip(queries, map(float, blended.query_groups[i]), strict=True))
            for i, group in enumerate(blended.groups)
        }
        shares = dict(zip(queries, map(float, blended.shares), strict=True))
        scores = {"l1": self.l1(shares, true), "l1 head": self.l1(shares, true, head=True)}
        scores |= {f"l1 {group}": self.l1(alone_shares, true) for group, alone_shares in by_group.items()}
        for name, found in (("NDCG", blended), ("NDCG opt-in", alone)):
            scores[name] = nested_ndcg(found.queries, found.urls, true, 10)
        perfect = sorted(queries, key=lambda query: -sum(true.get(query, {}).values()))
        urls = {q: sorted(blended.urls[q], key=lambda u: -true.get(q, {}).get(u, 0.0)) for q in queries}
        scores["NDCG at best"] = nested_ndcg(perfect, urls, true, 10)
        return scores


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
    """Split people into groups, run every step, and keep what scores need."""
    if not 0 < opt_in_share < 1:
        raise DataError(f"opt_in_share={opt_in_share!r}: expected a number between 0 and 1")
    generator = generator_of(seed)
    order = generator.permutation(len(log))
    opted = order[: int(opt_in_share * len(log))]
    clients = order[len(opted) :]
    people = OptInRecords([record] for record in log.records(opted))
    counted = find_head_list(people, promise, most_queries=most_queries, discovery_share=discovery_share)
    questions = head_list_questions(counted.head_list, promise, form=form, spend_slack=spend_slack)
    reports = _reports(questions, log, clients, query_share, generator)
    return BlenderRun(
        log=log,
        blended=blend(counted, questions, reports),
        opt_in=blend(counted, questions),
        most_queries=most_queries,
    )


def _reports(
    questions: HeadListQuestions,
    log: SearchLog,
    clients: Integers,
    query_share: float,
    generator: np.random.Generator,
) -> dict[str, ReportCounts]:
    """Simulated reports of all clients: each is asked one question."""
    cut = int(query_share * len(clients))
    parts = {"two-stage": clients} if questions.two_stage else {"query": clients[:cut], "record": clients[cut:]}
    asked = {"query": questions.queries, "record": questions.records, "two-stage": questions.two_stage}
    found = {}
    for name, part in parts.items():
        question = asked[name]
        if question is not None:
            found[question.id] = simulate_reports(question, _codes(question, log, part), generator)
    return found


def _codes(question: Question, log: SearchLog, people: Integers) -> Integers:
    """What people hold, as the places of a question's options; texts are made once for each different record."""
    width = int(log.urls.max()) + 1
    pairs = log.queries[people] * width + log.urls[people]
    different, places = np.unique(pairs, return_inverse=True)
    coded = []
    listed = set(question.options) if question.kind == "choice" else set()
    for pair in different:
        query, url = query_text(int(pair) // width), url_text(int(pair) // width, int(pair) % width)
        if question.kind == "records":
            coded.append(question.encode((query, url))[0])
        elif question.name == "query":
            coded.append(question.encode(query)[0])
        else:
            option = record_option(query, url)
            coded.append(question.encode(option if option in listed else record_option(query, WILDCARD))[0])
    return np.array(coded)[places]
