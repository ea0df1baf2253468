"""How good an ordered head list is, against the true shares: l1 distance, NDCG, nested NDCG, and regressions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

Shares = Mapping[str, float]


def l1_distance(estimated: Shares, true: Shares) -> float:
    """The sum over queries of |estimate - truth|; a query that is not listed is estimated as 0.

    `true` holds the queries that count: the true head and whatever was listed.
    """
    return math.fsum(abs(estimated.get(query, 0.0) - true.get(query, 0.0)) for query in {*estimated, *true})


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
    """NDCG of queries in which each query counts as much as its URLs are in order.

    `true` holds the shares of the URLs of each query.
    """
    queries = {query: math.fsum(shares.values()) for query, shares in true.items()}
    factors = [ndcg(urls.get(query, ()), true[query]) if query in true else 0.0 for query in ranked]
    return ndcg(ranked, queries, top, factors)


def regressions(ranked: Sequence[str], true: Shares) -> int:
    """How many neighbours of a ranking stand in the wrong order."""
    shares = [true.get(item, 0.0) for item in ranked]
    return sum(first < second for first, second in itertools.pairwise(shares))
