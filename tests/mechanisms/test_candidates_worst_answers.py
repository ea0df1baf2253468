"""Scores of worst cells and of single answers: no neighbour moves them further than their norms say."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hush import Domain, Neighbours
from hush.mechanisms.candidates import LARGEST_MISFIT, TargetScorer, WorstCellScorer, threshold_answers
from hush.privacy.selection import ExponentialMechanism
from hush.schema import Unit
from hush.testing import TinyTable, neighbours_of
from hush.testing.laws import check_selection_privacy, scores_of
from hush.workloads.threshold_term import TargetQuery

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
ROWS = [(0, 0, 0), (1, 2, 1), (0, 1, 1)]


def scorers() -> list[Any]:
    tables = {("a", "b"): np.full((2, 3), 0.5), ("b", "c"): np.full((3, 2), 0.25)}
    kept = {"a": 2, "b": 2, "c": 2}
    triple = ("a", "b", "c")
    answers = tuple(threshold_answers(np.full((2, 3, 2), 0.5), r) for r in (1, 2, 3))
    asked = tuple((triple, r) for r in (1, 2, 3))
    return [
        WorstCellScorer(tuple(tables), tables, kept, np.zeros(2)),
        TargetScorer(asked, answers, kept, (0, 5)),
    ]


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("scorer", scorers(), ids=["tables", "targets"])
def test_a_neighbour_moves_a_score_by_the_sensitivity_and_no_further(scorer: Any, relation: Neighbours) -> None:
    """The sensitivity is that which the gate derives from the norms."""
    table = TinyTable(DOMAIN, ROWS)
    before = scores_of(scorer, table, relation)
    moved = [before.distance(scores_of(scorer, other, relation)) for other in neighbours_of(table, relation)]
    assert max(moved) == before.sensitivity == 1


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("scorer", scorers(), ids=["tables", "targets"])
def test_a_unit_of_three_rows_moves_a_score_by_three(scorer: Any, relation: Neighbours) -> None:
    unit = Unit(column="id", max_rows=3)
    units = [ROWS, [*ROWS, *[(0, 0, 0)] * 3], [*ROWS, *[(1, 2, 1)] * 3]]
    ids = [[0, 1, 2], *[[0, 1, 2, 3, 3, 3]] * 2]
    none, zeros, ones = (TinyTable(DOMAIN, rows, unit=unit, units=i) for rows, i in zip(units, ids, strict=True))
    first, second = (none, zeros) if relation is Neighbours.ADD_REMOVE else (zeros, ones)
    before, after = (scores_of(scorer, table, relation) for table in (first, second))
    assert 2 < before.distance(after) <= before.sensitivity == 3


@pytest.mark.parametrize("scorer", scorers(), ids=["tables", "targets"])
def test_choices_are_as_private_as_they_are_charged(scorer: Any) -> None:
    """Exact divergences over all neighbours; at half the sensitivity the largest would be about four times as far."""
    law, table = ExponentialMechanism(Fraction(1)), TinyTable(DOMAIN, ROWS)
    nearby = list(neighbours_of(table))[::2]
    assert 0.05 < check_selection_privacy(law, lambda t: scores_of(scorer, t), table, nearby, alphas=(2.0,)) <= 1


@pytest.mark.parametrize("scorer", scorers(), ids=["tables", "targets"])
def test_counts_far_from_the_model_are_cut_off_and_not_told_of(scorer: Any) -> None:
    """Larger scores could not be drawn from, and a choice that fails after its charge would tell of them."""
    far = {clique: np.full(DOMAIN.sizes(clique), 2**50, dtype=np.int64) for clique in scorer.cliques}
    scores = scorer.scores(far, Fraction(1))
    np.testing.assert_array_equal(scores.values, LARGEST_MISFIT)
    scores.steps()


def test_positions_stay_those_of_their_answers() -> None:
    """An answer keeps its name when others are left out: compacted positions would name a neighbour."""
    scorer = scorers()[1]
    table = TinyTable(DOMAIN, [(0, 0, 0), (1, 2, 1), (0, 1, 1), (1, 1, 0)])
    counts = table.counts(scorer.cliques)
    values = scorer.scores(counts, Fraction(1)).values
    for value, position in zip(values, scorer.positions(), strict=True):
        clique, at_least, levels = scorer.target(int(position))
        query = TargetQuery(clique, (2, 3, 2), levels, at_least)
        model = threshold_answers(np.full((2, 3, 2), 0.5), at_least)[levels]
        assert value == abs(int(query.answer(counts)[0]) - model)
    assert {0, 5}.isdisjoint(scorer.positions().tolist())
