"""Normalised scores move by at most one between neighbours, whatever their weights."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from hush import Domain, Neighbours
from hush.core.errors import BudgetError
from hush.mechanisms.candidates import Candidates, MisfitRounds, MisfitScorer, check_epsilon, on_grid
from hush.privacy.selection import GeneralizedExponentialMechanism
from hush.privacy.sensitivity import Sensitivity
from hush.release.noisy_tables_record import NoisyTablesRecord
from hush.schema import ROW, Unit
from hush.testing import TinyTable, neighbours_of
from hush.testing.laws import DivergenceError, check_selection_privacy, scores_of

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
CLIQUES = tuple(clique for k in (1, 2) for clique in combinations(DOMAIN, k))
TABLES = [
    TinyTable(DOMAIN, []),
    TinyTable(DOMAIN, [(0, 0, 0), (1, 2, 1), (1, 2, 0)]),
    TinyTable(DOMAIN, [(1, 1, 1)] * 4),
]
LAW = GeneralizedExponentialMechanism.for_rho(0.3)
SEVERAL = Unit(column="id", max_rows=3)


def scorer(weights: list[float], seed: int = 0) -> MisfitScorer:
    random = np.random.Generator(np.random.PCG64(seed))
    model = on_grid({clique: random.gamma(1.0, 2.0, size=DOMAIN.sizes(clique)) for clique in CLIQUES})
    return MisfitScorer(CLIQUES, model, np.array(weights), np.linspace(0, 2, 6))


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("weights", [[1.0] * 6, [1.0, 2.0, 3.0, 3.0, 4.0, 5.0], [1.0, 1.0, 1.0, 50.0, 90.0, 0.01]])
@pytest.mark.parametrize("table", TABLES, ids=["empty", "mixed", "all alike"])
def test_no_neighbour_moves_a_normalised_score_by_more_than_one(table, weights, relation):
    plain = scorer(weights)
    before = LAW.normalised(scores_of(plain, table, relation))
    assert before.sensitivity == 1.0
    assert before.values.max() == 0.0
    for other in neighbours_of(table, relation):
        after = LAW.normalised(scores_of(plain, other, relation))
        assert np.abs(before.values - after.values).max() <= 1 + 2 * before.error
        assert after.error == before.error


def test_choices_are_as_private_as_they_are_charged_for():
    plain, table = scorer([1.0, 2.0, 3.0, 3.0, 4.0, 5.0]), TABLES[1]
    assert 0 < check_selection_privacy(LAW, lambda one: scores_of(plain, one), table, neighbours_of(table)) <= 1


def units(count: int, unit: Unit = SEVERAL) -> TinyTable:
    """Some rows of their own, and one unit of several equal rows."""
    rows = [(0, 0, 0), (1, 2, 1)]
    return TinyTable(DOMAIN, rows + [(1, 0, 1)] * count, unit=unit, units=[1, 2] + [3] * count)


def test_choices_are_as_private_for_units_of_several_rows():
    plain = scorer([1.0, 2.0, 3.0, 3.0, 4.0, 5.0])
    assert 0 < check_selection_privacy(LAW, lambda one: scores_of(plain, one), units(0), [units(3)]) <= 1
    once = [scores_of(plain, units(count, ROW)) for count in (0, 3)]  # what a single row would be charged
    with pytest.raises(DivergenceError):
        check_selection_privacy(LAW, lambda one: once[len(one.rows) > 2], units(0), [units(3)])


def test_scores_too_large_for_the_least_weight_are_cut_off_and_not_told_of():
    plain, table = scorer([1e-12, 1.0, 1.0, 1.0, 1.0, 1e4]), TinyTable(DOMAIN, [(0, 0, 0)] * 200)
    scores = LAW.normalised(scores_of(plain, table))
    assert np.isfinite(scores.values).all()
    assert scores.values.max() == 0.0


def test_an_epsilon_too_small_to_draw_by_is_refused_before_a_choice():
    plain, least = scorer([1.0] * 6), Fraction(2 * np.log(6 / 0.05)) / 2**40
    table = TinyTable(DOMAIN, [(0, 0, 0)] * 200)
    GeneralizedExponentialMechanism(2 * least).normalised(scores_of(plain, table, Neighbours.REPLACE)).steps()
    with pytest.raises(BudgetError, match="among 6 tables is too small.*raise the budget"):
        check_epsilon(least / 2, 6)


def test_a_run_refuses_an_epsilon_too_small_before_it_is_charged():
    class Untouched:
        bound, record, merging = Sensitivity(Fraction(1), Fraction(1)), NoisyTablesRecord(DOMAIN), None

        def choice_rho(self, cost: Fraction) -> Fraction:
            return cost

    rounds = MisfitRounds(Untouched(), Candidates(CLIQUES, np.ones(6)), "x", generalized=True)
    with pytest.raises(BudgetError, match="too small for the generalised"):
        rounds.play(np.arange(6), {}, np.zeros(6), np.zeros(6), choosing=Fraction(1, 10**24), measuring=Fraction(1, 10))
