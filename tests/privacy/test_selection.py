import itertools
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from hush.core.domain import Domain
from hush.core.errors import BudgetError, ConvergenceError
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.selection import (
    ExponentialMechanism,
    GeneralizedExponentialMechanism,
    Scores,
    TopK,
    choose_by_weights,
)
from hush.testing import TinyTable, check_selection_privacy, neighbours_of, renyi_divergence, selection_law
from hush.testing.laws import DivergenceError

DOMAIN = Domain({"a": 2, "b": 2})
CLIQUES = [("a",), ("b",), ("a", "b"), ()]
MODEL = {
    ("a",): np.array([2.0, 1.0]),
    ("b",): np.array([1.5, 1.5]),
    ("a", "b"): np.full((2, 2), 0.75),
    (): np.array(3.0),
}
TABLES = [
    TinyTable(DOMAIN, rows)
    for rows in (
        [],
        [(0, 0)],
        [(0, 0), (1, 1)],
        [(0, 1), (0, 1), (1, 0)],
        [(1, 1)] * 4,
        [(0, 0), (0, 1), (1, 0), (1, 1)],
    )
]


def l1_errors(table: TinyTable) -> np.ndarray:
    """The score of AIM and MWEM: how far the model is from each marginal. Not monotone in the rows."""
    counts = table.counts(CLIQUES)
    return np.array([float(np.abs(counts[clique] - MODEL[clique]).sum()) for clique in CLIQUES])


def chi_square(draws: Counter, law: dict, total: int) -> float:
    outcomes = [outcome for outcome in law if float(law[outcome]) * total > 5]
    observed = [draws[outcome] for outcome in outcomes]
    expected = np.array([float(law[outcome]) for outcome in outcomes]) * total
    rest = total - sum(observed)
    if rest or total - expected.sum() > 5:
        observed.append(rest)
        expected = np.append(expected, max(total - expected.sum(), 1e-9))
    return float(stats.chisquare(observed, expected / expected.sum() * total).pvalue)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(8)])
def test_divergence_over_all_neighbours_is_within_the_charge(epsilon: Fraction) -> None:
    law = ExponentialMechanism(epsilon)
    ratios = [
        check_selection_privacy(law, lambda t: Scores(l1_errors(t), 1.0), table, neighbours_of(table))
        for table in TABLES
    ]
    assert 0.2 < max(ratios) <= 1


@pytest.mark.parametrize("count", [1, 2, 3])
def test_divergence_of_top_k_is_within_the_charge(count: int) -> None:
    law = TopK(count, Fraction(1, 2))
    ratios = [
        check_selection_privacy(law, lambda t: Scores(l1_errors(t), 1.0), table, neighbours_of(table))
        for table in TABLES
    ]
    assert 0.05 < max(ratios) <= 1


def test_divergence_check_catches_a_halved_sensitivity() -> None:
    """The negative control: what a monotone flag, or a forgotten factor two, would do."""
    law = ExponentialMechanism(Fraction(1))
    with pytest.raises(DivergenceError):
        for table in TABLES:
            check_selection_privacy(law, lambda t: Scores(l1_errors(t), 0.5), table, neighbours_of(table))


def test_the_score_is_not_monotone() -> None:
    """One added row lowers one score and raises another, so no flag may assume otherwise."""
    moves = [
        l1_errors(other) - l1_errors(table)
        for table in TABLES
        for other in neighbours_of(table)
        if len(other.rows) > len(table.rows)
    ]
    assert any((move > 0).any() and (move < 0).any() for move in moves)


def test_generalized_scores_move_by_at_most_one() -> None:
    """Candidate i's score is scaled to sensitivity Delta_i; the normalised ones must have sensitivity 1."""
    law = GeneralizedExponentialMechanism(Fraction(1))
    deltas = np.array([1.0, 3.0, 0.5, 10.0])

    def scores(table: TinyTable) -> Scores:
        return Scores(l1_errors(table) * deltas, 10.0, own=deltas)

    moves = [
        np.abs(law.normalised(scores(table)).values - law.normalised(scores(other)).values).max()
        for table in TABLES
        for other in neighbours_of(table)
    ]
    assert 0.3 < max(moves) <= 1 + 1e-9
    for table in TABLES:
        assert check_selection_privacy(law, scores, table, neighbours_of(table)) <= 1


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 10**6)])
def test_generalized_scores_admit_the_error_of_floats_and_of_the_scores_given(epsilon: Fraction) -> None:
    """Against exact fractions. A score that is off by `error` moves the normalised ones by `error` / Delta at most."""
    law, deltas = GeneralizedExponentialMechanism(epsilon), np.array([1.0, 3.0, 0.7, 11.0, 0.3])
    values = np.random.default_rng(3).uniform(-1e6, 1e6, 5)
    floats = law.normalised(Scores(values, 11.0, own=deltas))
    shift = 2 / epsilon * Fraction(math.log(5 / law.beta))
    shifted = [Fraction(q) - shift * Fraction(delta) for q, delta in zip(values, deltas, strict=True)]
    exact = [
        min((mine - other) / Fraction(delta + own) for other, own in zip(shifted, deltas, strict=True))
        for mine, delta in zip(shifted, deltas, strict=True)
    ]
    off = [abs(Fraction(float(s)) - wanted) for s, wanted in zip(floats.values, exact, strict=True)]
    assert 0 < max(off) <= Fraction(floats.error)
    wide = law.normalised(Scores(values, 11.0, error=0.25, own=deltas))
    assert wide.error - floats.error == pytest.approx(0.25 / 0.3)


def test_generalized_mechanism_finds_a_small_good_candidate_that_the_plain_one_drowns() -> None:
    values, deltas = np.array([100.0, 0.0, 0.0]), np.array([1.0, 1000.0, 1000.0])
    law, entropy = GeneralizedExponentialMechanism(Fraction(1)), NotPrivateEntropy(1)
    hits = sum(law.choose(Scores(values, 1000.0, own=deltas), entropy) == 0 for _ in range(300))
    plain = sum(ExponentialMechanism(Fraction(1)).choose(Scores(values, 1000.0), entropy) == 0 for _ in range(300))
    assert hits > 280
    assert plain < 150


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(4)])
def test_draws_have_the_exact_law(epsilon: Fraction) -> None:
    scores = Scores(np.array([0.0, 1.0, 2.5, 2.5, -40.0, 3.0]), 1.0)
    entropy, law = NotPrivateEntropy(2), ExponentialMechanism(epsilon)
    draws = Counter(law.choose(scores, entropy) for _ in range(20_000))
    assert chi_square(draws, selection_law(law, scores), 20_000) > 1e-9
    assert chi_square(draws, selection_law(ExponentialMechanism(epsilon * 5 / 4), scores), 20_000) < 1e-9


def test_generalized_draws_have_the_exact_law() -> None:
    """With 4,000 draws, a law at 5/4 of the epsilon is told apart with a chi-square above 80 of 4 degrees."""
    values, deltas = np.array([0.0, 6.0, 9.0, 2.0, 15.0]), np.array([1.0, 2.0, 3.0, 1.0, 4.0])
    scores, epsilon = Scores(values, 4.0, own=deltas), Fraction(4)
    entropy, law = NotPrivateEntropy(6), GeneralizedExponentialMechanism(epsilon)
    draws = Counter(law.choose(scores, entropy) for _ in range(4_000))
    assert chi_square(draws, selection_law(law, scores), 4_000) > 1e-9
    steeper = selection_law(ExponentialMechanism(epsilon * 5 / 4), law.normalised(scores))
    assert chi_square(draws, steeper, 4_000) < 1e-9


@pytest.mark.slow
def test_forced_fallbacks_have_the_same_law() -> None:
    steps, rate = np.array([0, 3, 5, 8]), Fraction(2, 7)
    entropy = NotPrivateEntropy(3)
    draws = Counter(choose_by_weights(steps, rate, entropy, slack=0.9) for _ in range(20_000))
    weights = {i: math.exp(float(rate) * int(step)) for i, step in enumerate(steps)}
    law = {i: weight / sum(weights.values()) for i, weight in weights.items()}
    assert chi_square(draws, law, 20_000) > 1e-9


@pytest.mark.slow
def test_top_k_draws_have_the_exact_law() -> None:
    scores = Scores(np.array([0.0, 1.0, 2.0, 4.0]), 1.0)
    law, entropy = TopK(2, Fraction(2)), NotPrivateEntropy(4)
    draws = Counter(tuple(law.choose(scores, entropy)) for _ in range(20_000))
    exact = selection_law(law, scores)
    assert len(exact) == 12
    assert chi_square(draws, exact, 20_000) > 1e-9
    reversed_law = {outcome[::-1]: p for outcome, p in exact.items()}
    assert chi_square(draws, reversed_law, 20_000) < 1e-9


def test_a_hopeless_candidate_keeps_a_probability() -> None:
    """A float softmax gives exp(-2000) = 0 on one neighbour only, which is an infinite divergence."""
    law = ExponentialMechanism(Fraction(4))
    far, near = (selection_law(law, Scores(np.array([0.0, gap]), 1.0)) for gap in (1001.0, 1000.0))
    assert far[0] > 0
    assert renyi_divergence(near, far, 64.0) <= 64 * 4**2 / 8
    assert math.exp(-2002.0) == 0.0


@pytest.mark.parametrize("rho", [1e-30, 1e-6, 0.01, 1.0, 1e4])
def test_epsilon_for_a_budget_fits_it_closely(rho: float) -> None:
    cost = ExponentialMechanism.for_rho(rho).event().cost.rho
    assert cost is not None
    assert Fraction(rho) * (1 - Fraction(1, 2**48)) <= cost <= Fraction(rho)


def test_rounding_and_numerical_error_are_paid_for() -> None:
    plain, wide = Scores(np.array([1.0, 2.0]), 1.0), Scores(np.array([1.0, 2.0]), 1.0, error=0.25)
    assert plain.steps()[1] == 2**20 + 2
    assert wide.steps()[1] == 2**20 + 2 + 2**19


@pytest.mark.parametrize("scale", [1.0, 2.0**33])
def test_steps_are_near_the_scores_on_both_routes(scale: float) -> None:
    values = np.array([0.3, -7.7, 123.456]) * scale
    steps, _ = Scores(values, 1.0).steps()
    assert all(
        abs(Fraction(int(step)) - Fraction(float(value)) * 2**20) <= Fraction(5, 8)
        for step, value in zip(steps, values, strict=True)
    )


@pytest.mark.parametrize(
    ("scores", "error", "text"),
    [
        (lambda: Scores(np.array([1.0, np.nan]), 1.0).steps(), ConvergenceError, "finite"),
        (lambda: Scores(np.array([1e300]), 1e-300).steps(), ConvergenceError, "too large|finite"),
        (lambda: Scores(np.array([]), 1.0), BudgetError, "no candidates"),
        (lambda: Scores(np.array([1.0]), 0.0), BudgetError, "sensitivity=0.0"),
        (lambda: Scores(np.array([1.0]), math.nan), BudgetError, "sensitivity=nan"),
        (lambda: Scores(np.array([1.0]), 1.0, error=-1.0), BudgetError, "error=-1.0"),
        (lambda: ExponentialMechanism(Fraction(0)), BudgetError, "epsilon=0"),
        (lambda: TopK(0, Fraction(1)), BudgetError, "count=0"),
        (
            lambda: TopK(3, Fraction(1)).choose(Scores(np.ones(2), 1.0), NotPrivateEntropy(1)),
            BudgetError,
            "count=3 of 2",
        ),
        (lambda: ExponentialMechanism.for_rho(0.0), BudgetError, "rho=0.0"),
        (lambda: GeneralizedExponentialMechanism(Fraction(1), beta=0), BudgetError, "beta=0"),
        (lambda: Scores(np.ones(2), 1.0, own=np.array([1.0, 0.0])), BudgetError, "own"),
        (lambda: Scores(np.ones(2), 1.0, own=np.array([0.5, 0.5])), BudgetError, "own"),
        (lambda: Scores(np.ones(2), 1.0, own=np.ones(1)), BudgetError, "own"),
    ],
)
def test_bad_input_is_refused(scores: object, error: type, text: str) -> None:
    with np.errstate(all="ignore"), pytest.raises(error, match=text):
        scores()  # type: ignore[operator]


@dataclass(frozen=True)
class Wide:
    size: int


def test_many_candidates_and_one_candidate() -> None:
    entropy = NotPrivateEntropy(9)
    law = ExponentialMechanism(Fraction(1))
    assert law.choose(Scores(np.array([5.0]), 1.0), entropy) == 0
    values = np.zeros(3000)
    values[1234] = 100.0
    assert all(law.choose(Scores(values, 1.0), entropy) == 1234 for _ in itertools.repeat(None, 20))


class AllZero:
    """Random bits that are all zero: the uniform number below every probability."""

    private = False

    def words(self, count: int) -> np.ndarray:
        return np.zeros(count, dtype=np.uint64)


def test_the_least_uniform_number_reaches_the_worst_candidate() -> None:
    """Candidate 0 has weight exp(-2000), which a float cannot hold; it must be reachable all the same."""
    scores = Scores(np.array([0.0, 1000.0]), 1.0)
    assert ExponentialMechanism(Fraction(4)).choose(scores, AllZero()) == 0


def test_a_sensitivity_too_small_for_a_grid_is_refused() -> None:
    with pytest.raises(BudgetError, match="too small for a grid"):
        Scores(np.array([1e-320]), 5e-324).steps()
