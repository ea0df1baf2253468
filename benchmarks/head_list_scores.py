"""Scores of an ordered head list against the true shares: l1 distance, NDCG, nested NDCG, and regressions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from hush.hybrid.blender_simulation import BlenderRun, l1_distance

Shares = Mapping[str, float]


def scores(run: BlenderRun) -> dict[str, float]:
    """l1 and nested NDCG of the top 10, for the blend and for each group alone."""
    blended, true = run.blended, run.log.true_shares(5000)
    queries = blended.queries
    shares = dict(zip(queries, map(float, blended.shares), strict=True))
    head = {*shares, *list(true)[: run.most_queries]}  # also over the true head that is not listed, as 0
    errors = {f"l1 {group}": error for group, error in run.share_errors().items()}
    found = {
        "l1": errors.pop("l1 both"),
        "l1 head": l1_distance(shares, {q: sum(true.get(q, {}).values()) for q in head}),
    }
    found |= errors
    for name, ranked in (("NDCG", blended), ("NDCG opt-in", run.opt_in)):
        found[name] = nested_ndcg(ranked.queries, ranked.urls, true, 10)
    perfect = sorted(queries, key=lambda query: -sum(true.get(query, {}).values()))
    urls = {q: sorted(blended.urls[q], key=lambda u: -true.get(q, {}).get(u, 0.0)) for q in queries}
    found["NDCG at best"] = nested_ndcg(perfect, urls, true, 10)
    return found


def dcg(relevances: Sequence[float], factors: Sequence[float] | None = None) -> float:
    """sum over places i of (2^rel_i - 1)/log2(i + 1), each times its factor.

    Differs from [Avent 2023, sec. 2.2.4]: the exponent is printed as rel - 1, by which a missing item would count.
    """
    scale = [1.0] * len(relevances) if factors is None else factors
    return math.fsum(
        factor * (2.0**relevance - 1) / math.log2(place + 2)
        for place, (relevance, factor) in enumerate(zip(relevances, scale, strict=True))
    )


def ndcg(ranked: Sequence[str], true: Shares, top: int | None = None, factors: Sequence[float] | None = None) -> float:
    """The DCG of a ranking over that of the ideal one; relevances are true shares over those of the ideal top.

    >>> ndcg(["a", "b"], {"a": 0.6, "b": 0.3, "c": 0.1})  # one is missing
    0.9...
    """
    top = len(true) if top is None else top
    ideal = sorted(true.values(), reverse=True)[:top]
    total = math.fsum(ideal)
    if total <= 0:
        return 1.0
    relevances = [true.get(item, 0.0) / total for item in ranked[:top]]
    scale = None if factors is None else factors[:top]
    return dcg(relevances, scale) / dcg([share / total for share in ideal])


def nested_ndcg(
    ranked: Sequence[str], urls: Mapping[str, Sequence[str]], true: Mapping[str, Shares], top: int | None = None
) -> float:
    """NDCG of queries, in which each query counts by the NDCG of its URLs.

    `true` holds the shares of the URLs of each query.
    """
    queries = {query: math.fsum(shares.values()) for query, shares in true.items()}
    factors = [ndcg(urls.get(query, ()), true[query]) if query in true else 0.0 for query in ranked]
    return ndcg(ranked, queries, top, factors)


def regressions(ranked: Sequence[str], true: Shares) -> int:
    """The number of neighbours in a ranking that are in the wrong order."""
    shares = [true.get(item, 0.0) for item in ranked]
    return sum(first < second for first, second in itertools.pairwise(shares))
