"""LDPMiner: a head list from clients alone, in two phases; the baseline in which nobody trusts the curator."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hush.hybrid import Question, estimate, simulate_reports
from hush.hybrid.blender_simulation import COMMON_QUERIES, SearchLog, query_text
from hush.hybrid.frequency_estimates import Frequencies
from hush.hybrid.simulated_reports import generator_of

CANDIDATES_PER_QUERY = 2  # queries that the first phase passes on, for each that is listed


def mined_shares(log: SearchLog, epsilon: float, *, most_queries: int, seed: int) -> dict[str, float]:
    """Shares of the queries of a list that clients alone find.

    Everybody answers twice, each time with half of epsilon. The first answer is about all queries that several people
    may type; twice as many as are listed go on. The second is about these alone, and the largest shares are listed.

    Reference: [Qin et al. 2016]; [Avent 2023, sec. 2.2.4], which does not state its settings. Differs from [Qin et al.
    2016]: the first phase knows the dictionary, which flatters it, and everybody holds one query.
    """
    generator, half = generator_of(seed), Fraction(repr(float(epsilon))) / 2
    common = log.queries < COMMON_QUERIES
    # phase 1: which queries are frequent
    names = [query_text(code) for code in range(COMMON_QUERIES)]
    asked = Question.choice("query", names, epsilon=half, other=True, mechanism="unary")
    codes = np.where(common, log.queries, COMMON_QUERIES)
    rough = estimate(simulate_reports(asked, codes, generator))
    assert isinstance(rough, Frequencies)
    order = np.argsort(-rough.estimate[:-1], kind="stable")[: CANDIDATES_PER_QUERY * most_queries]
    # phase 2: how frequent these are
    places = np.full(COMMON_QUERIES + 1, len(order))
    places[order] = np.arange(len(order))
    again = Question.choice("query", [names[code] for code in order], epsilon=half, other=True)
    refined = estimate(simulate_reports(again, places[codes], generator))
    assert isinstance(refined, Frequencies)
    best = np.argsort(-refined.estimate[:-1], kind="stable")[:most_queries]
    return {str(refined.labels[i]): float(refined.estimate[i]) for i in best}
