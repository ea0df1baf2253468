"""Normalised scores move by at most one between neighbours, whatever their weights."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from hush import Domain, Neighbours
from hush.errors import BudgetError
from hush.mechanisms.candidates import GeneralizedScorer, MisfitScorer, check_epsilon, on_grid
from hush.privacy.selection import ExponentialMechanism, Scores
from hush.testing import TinyTable, neighbours_of
from hush.testing.laws import check_selection_privacy

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
CLIQUES = tuple(clique for k in (1, 2) for clique in combinations(DOMAIN, k))
TABLES = [
    TinyTable(DOMAIN, []),
    TinyTable(DOMAIN, [(0, 0, 0), (1, 2, 1), (1, 2, 0)]),
    TinyTable(DOMAIN, [(1, 1, 1)] * 4),
]
LAW = ExponentialMechanism.for_rho(0.3)


def scorer(weights: list[float], seed: int = 0) -> GeneralizedScorer:
    random = np.random.Generator(np.random.PCG64(seed))
    model = on_grid({clique: random.gamma(1.0, 2.0, size=DOMAIN.sizes(clique)) for clique in CLIQUES})
    return GeneralizedScorer(MisfitScorer(CLIQUES, model, np.array(weights), np.linspace(0, 2, 6)), LAW.epsilon)


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("weights", [[1.0] * 6, [1.0, 2.0, 3.0, 3.0, 4.0, 5.0], [1.0, 1.0, 1.0, 50.0, 90.0, 0.01]])
@pytest.mark.parametrize("table", TABLES, ids=["empty", "mixed", "all alike"])
def test_no_neighbour_moves_a_normalised_score_by_more_than_one(table, weights, relation):
    generalized = scorer(weights)
    before = generalized.scores(table.counts(CLIQUES), max_rows=1, neighbours=relation)
    assert before.sensitivity == 1.0
    assert before.values.max() == 0.0
    for other in neighbours_of(table, relation):
        after = generalized.scores(other.counts(CLIQUES), max_rows=1, neighbours=relation)
        assert np.abs(before.values - after.values).max() <= 1 + 2 * before.error
        assert after.error == before.error


def test_choices_are_as_private_as_they_are_charged_for():
    generalized, table = scorer([1.0, 2.0, 3.0, 3.0, 4.0, 5.0]), TABLES[1]

    def scores(other: TinyTable) -> Scores:
        return generalized.scores(other.counts(CLIQUES), max_rows=1, neighbours=Neighbours.ADD_REMOVE)

    assert 0 < check_selection_privacy(LAW, scores, table, list(neighbours_of(table))[::2]) <= 1


def test_scores_too_large_for_the_least_weight_are_cut_off_and_not_told_of():
    generalized, table = scorer([1e-12, 1.0, 1.0, 1.0, 1.0, 1e4]), TinyTable(DOMAIN, [(0, 0, 0)] * 200)
    scores = generalized.scores(table.counts(CLIQUES), max_rows=1, neighbours=Neighbours.ADD_REMOVE)
    assert np.isfinite(scores.values).all()
    assert scores.values.max() == 0.0


def test_reads_what_the_plain_scores_read():
    generalized = GeneralizedScorer(scorer([1.0] * 6).scorer, Fraction(1))
    assert (generalized.cliques, generalized.candidates) == (CLIQUES, 6)


def test_an_epsilon_too_small_to_draw_by_is_refused_before_a_choice():
    plain, least = scorer([1.0] * 6).scorer, Fraction(2 * np.log(6 / 0.05)) / 2**40
    table = TinyTable(DOMAIN, [(0, 0, 0)] * 200)
    scores = GeneralizedScorer(plain, least * 2).scores(
        table.counts(CLIQUES), max_rows=1, neighbours=Neighbours.REPLACE
    )
    scores.steps()
    with pytest.raises(BudgetError, match="among 6 tables is too small.*raise the budget"):
        GeneralizedScorer(plain, least / 2)
    with pytest.raises(BudgetError, match="too small"):
        check_epsilon(Fraction(1, 10**12), 6)
