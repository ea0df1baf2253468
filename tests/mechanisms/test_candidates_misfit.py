"""Scores of misfit: exact sums, no further apart than they say on any neighbour, and never an error that tells."""

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush import Budget, Domain, Neighbours, Workload
from hush.core.errors import ConvergenceError
from hush.mechanisms import AIM, MST, MWEM
from hush.mechanisms.candidates import LARGEST_MISFIT, MODEL_COUNT_STEP, MisfitScorer, on_grid
from hush.privacy.gate import watch
from hush.privacy.selection import ExponentialMechanism, Scores
from hush.schema import ROW, Unit
from hush.strategies.rare_levels import Merging
from hush.testing import TinyTable, neighbours_of
from hush.testing.laws import DivergenceError, check_selection_privacy, scores_of
from hush.testing.replay import Recorder

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
CLIQUES = tuple(clique for k in (1, 2) for clique in combinations(DOMAIN, k))
ROWS = [(0, 0, 0), (1, 2, 1), (1, 2, 0), (0, 1, 1)]
WEIGHTS = np.array([1.0, 2.0, 0.7, 3.0, 2.5, 1.9])
PENALTIES = np.linspace(0.3, 2.1, 6)


def tables(seed: int, scale: float = 3.0) -> dict:
    random = np.random.Generator(np.random.PCG64(seed))
    return on_grid({clique: random.gamma(1.0, scale, size=DOMAIN.sizes(clique)) for clique in CLIQUES})


@given(st.integers(0, 10**6), st.floats(0.1, 1e9))
def test_sums_are_exact(seed, scale):
    model = tables(seed, scale)
    random = np.random.Generator(np.random.PCG64(seed + 1))
    counts = {clique: random.integers(0, int(scale) + 2, size=DOMAIN.sizes(clique)) for clique in CLIQUES}
    misfits = MisfitScorer(CLIQUES, model, WEIGHTS, PENALTIES).misfits(counts)
    for clique, value in zip(CLIQUES, misfits, strict=True):
        cells = zip(counts[clique].ravel().tolist(), model[clique].ravel().tolist(), strict=True)
        assert Fraction(float(value)) == sum(abs(Fraction(count) - Fraction(cell)) for count, cell in cells)


@given(st.integers(0, 10**6), st.floats(0.1, 1e8))
def test_scores_are_within_the_error_that_they_admit(seed, scale):
    model = tables(seed, scale)
    counts = TinyTable(DOMAIN, ROWS).counts(CLIQUES)
    scorer = MisfitScorer(CLIQUES, model, WEIGHTS, PENALTIES)
    scores = scorer.scores(counts, Fraction(float(WEIGHTS.max())))
    for k, value in enumerate(scores.values):
        misfit = Fraction(float(scorer.misfits(counts)[k]))
        exact = Fraction(float(WEIGHTS[k])) * (misfit - Fraction(float(PENALTIES[k])))
        assert abs(Fraction(float(value)) - exact) <= Fraction(scores.error)
    assert scores.error < 1e-3 * scores.sensitivity


@given(st.floats(0.0, 2.0**40))
def test_models_are_rounded_by_half_a_step_at_most(value):
    rounded = on_grid({("a",): np.array([value, 1.0])})[("a",)][0]
    assert abs(rounded - value) <= MODEL_COUNT_STEP / 2
    assert (Fraction(float(rounded)) / Fraction(MODEL_COUNT_STEP)).denominator == 1


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("merging", [None, Merging({"b": np.array([1, 0, 1])})], ids=["whole", "merged"])
@pytest.mark.parametrize("max_rows", [1, 3])
def test_no_neighbour_moves_a_score_further_than_its_sensitivity(relation, merging, max_rows):
    model = tables(5)
    if merging is not None:
        model = on_grid({clique: merging.table(clique, table) for clique, table in model.items()})
    scorer = MisfitScorer(CLIQUES, model, WEIGHTS, PENALTIES, merging)

    def scores(table: TinyTable) -> Scores:
        return scores_of(scorer, table, relation)

    table = TinyTable(DOMAIN, ROWS, unit=ROW if max_rows == 1 else Unit(column="id", max_rows=max_rows))
    before, moved = scores(table), np.zeros(len(CLIQUES))
    others = list(neighbours_of(table, relation))
    for other in others:
        moved = np.maximum(moved, np.abs(scores(other).values - before.values))
    per_row = 2 if relation is Neighbours.REPLACE else 1
    assert before.sensitivity == max_rows * per_row * WEIGHTS.max()
    assert (moved <= per_row * WEIGHTS * (1 + 1e-9)).all()
    assert moved.max() >= 0.9 * per_row * WEIGHTS.max()  # the claim is no larger than it must be


def chosen_by(weights: np.ndarray, claimed: np.ndarray) -> float:
    scorer = MisfitScorer(CLIQUES, tables(5), weights, PENALTIES)
    table = TinyTable(DOMAIN, ROWS)

    def scores(other: TinyTable) -> Scores:
        honest = scores_of(scorer, other)
        return Scores(honest.values, float(claimed.max()), honest.error)

    nearby = list(neighbours_of(table))[::2]
    return check_selection_privacy(ExponentialMechanism.for_rho(0.2), scores, table, nearby)


def test_choices_are_as_private_as_they_are_charged_for():
    assert 0 < chosen_by(WEIGHTS, WEIGHTS) <= 1


def test_a_sensitivity_that_is_too_small_is_found():
    with pytest.raises(DivergenceError):
        chosen_by(WEIGHTS, WEIGHTS / 4)


def test_misfits_beyond_what_is_exact_are_cut_off_and_not_told_of():
    far = {clique: np.full(DOMAIN.sizes(clique), 2.0**38) for clique in CLIQUES}
    scorer = MisfitScorer(CLIQUES, far, WEIGHTS, PENALTIES)
    scores = scores_of(scorer, TinyTable(DOMAIN, ROWS))
    np.testing.assert_allclose(scores.values, WEIGHTS * LARGEST_MISFIT)


def test_a_penalty_beyond_what_is_exact_is_refused_before_counts_are_looked_at():
    scorer = MisfitScorer(CLIQUES, tables(1), WEIGHTS, 2.0**40 * PENALTIES)
    with pytest.raises(ConvergenceError, match="penalty"):
        scorer.scores({}, Fraction(1))


class Watching(Recorder):
    """Keeps the scorers that choices are made by."""

    def __init__(self) -> None:
        super().__init__()
        self.scorers: list[Any] = []

    def selected(self, scorer: Any, law: Any, scores: Any, draw: Any) -> Any:
        self.scorers.append(scorer)
        return draw()


@pytest.mark.parametrize("mechanism", [AIM(rounds=4), AIM(rounds=4, merge_rare=True), MWEM(rounds=2), MST()], ids=str)
def test_every_mechanism_scores_models_on_the_grid(mechanism):
    """Off the grid, sums of floats depend on their order, and the error that scores admit to would not hold."""
    watcher = Watching()
    with watch(watcher):
        mechanism.plan(Workload.kway(DOMAIN, 2), Budget(rho=0.4)).release(TinyTable(DOMAIN, ROWS))
    assert watcher.scorers
    for table in (table for scorer in watcher.scorers for table in scorer.tables.values()):
        assert (table / MODEL_COUNT_STEP == np.rint(table / MODEL_COUNT_STEP)).all()
