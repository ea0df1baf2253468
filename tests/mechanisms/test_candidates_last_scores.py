"""What was not chosen: both slacks hold as often as they say, and the record keeps each table's last round."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from hush import Domain, Workload
from hush.mechanisms.candidates import Candidates, LastScores, exponential_slack, generalized_slack
from hush.models.graphical.graphical_fit import fit_model
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.measurement import Measurement
from hush.privacy.selection import ExponentialMechanism, GeneralizedExponentialMechanism, Scores
from hush.strategies.rare_levels import Merging

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
POOL = Candidates.of(Workload.kway(DOMAIN, 2))
WEIGHTS = np.array([1.0, 2.0, 2.0, 5.0, 7.0])
RUNS = 1500
FAILURE_PROBABILITY = 0.05


def violations(generalized: bool, failure: float, unit: float, bias: float = 0.0) -> int:
    """How often some candidate's error is above what the slack of the choice allows; errors as unkind as they can be.

    Scores w_r (e_r - p_r) of all candidates but the least are close together, so that any of them may be chosen.
    """
    epsilon = Fraction(1, 2)
    random, entropy, failed = np.random.Generator(np.random.PCG64(3)), NotPrivateEntropy(5), 0
    for _ in range(RUNS):
        errors = random.gamma(2.0, 6.0, size=5) / WEIGHTS * unit
        scores = WEIGHTS * errors
        given = Scores(scores, unit * WEIGHTS.max(), own=unit * WEIGHTS)
        if generalized:
            pick = GeneralizedExponentialMechanism(epsilon, FAILURE_PROBABILITY).choose(given, entropy)
            slack, slope = generalized_slack(WEIGHTS, unit, float(epsilon), FAILURE_PROBABILITY, pick)
        else:
            pick = ExponentialMechanism(epsilon).choose(given, entropy)
            slack, slope = exponential_slack(WEIGHTS, unit, float(epsilon))
        bound = WEIGHTS[pick] / WEIGHTS * errors[pick] + (1 - bias) * (slack - slope * math.log(failure))
        failed += bool((errors > bound).any())
    return failed


@pytest.mark.parametrize("unit", [1.0, 3.0])
@pytest.mark.parametrize("generalized", [False, True])
def test_slacks_hold_as_often_as_they_say(generalized, unit):
    for failure in (0.2, 0.9):
        assert violations(generalized, failure, unit) <= binom.isf(1e-6, RUNS, failure)


@pytest.mark.parametrize("generalized", [False, True])
def test_slacks_that_are_left_out_do_not(generalized):
    assert violations(generalized, 0.2, 1.0, bias=1.0) > binom.isf(1e-6, RUNS, 0.2)


def test_the_exponential_slack_is_that_of_the_paper():
    slack, slope = exponential_slack(WEIGHTS, 2.0, 0.25)
    np.testing.assert_allclose(slope, 2 * 7.0 * 2.0 / (0.25 * WEIGHTS))
    np.testing.assert_allclose(slack, slope * math.log(5))


def test_equal_weights_make_the_generalised_slack_at_most_twice_the_plain_one():
    plain, general = (
        exponential_slack(np.ones(8), 1.0, 0.5),
        generalized_slack(np.ones(8), 1.0, 0.5, FAILURE_PROBABILITY, 3),
    )
    np.testing.assert_allclose(general[0], 2 * plain[0])
    np.testing.assert_allclose(general[1], 2 * plain[1])


def test_small_weights_have_smaller_slack_by_the_generalised_choice():
    weights = np.array([1.0, 1000.0])
    assert (
        generalized_slack(weights, 1.0, 0.5, FAILURE_PROBABILITY, 0)[1][0]
        < exponential_slack(weights, 1.0, 0.5)[1][0] / 100
    )


def noted() -> LastScores:
    last = LastScores(POOL)
    for number, indices in enumerate(([0, 1, 2, 3], [0, 1, 3])):
        tables = {POOL.cliques[i]: np.full(DOMAIN.sizes(POOL.cliques[i]), 1.0 + number) for i in indices}
        penalties = np.array([10.0 * number + i for i in indices])
        last.note(number, np.array(indices), tables, penalties, (penalties + 0.5, penalties + 0.25))
    return last


def test_the_record_holds_the_last_round_of_every_candidate():
    measured = [Measurement((name,), np.full(DOMAIN[name], 12.0 / DOMAIN[name]), 1.0) for name in DOMAIN]
    model = fit_model(DOMAIN, measured).value
    scored = noted().scored(model)
    assert scored.cliques == POOL.cliques
    assert scored.rounds.tolist() == [1, 1, 0, 1, -1, -1]
    assert scored.penalties.tolist() == [10.0, 11.0, 2.0, 13.0, 0.0, 0.0]
    assert scored.slacks[:4].tolist() == [10.5, 11.5, 2.5, 13.5]
    assert scored.slopes[:4].tolist() == [10.25, 11.25, 2.25, 13.25]
    for index, table in [(0, 2.0), (1, 2.0), (2, 1.0), (3, 2.0)]:
        gap = np.abs(model.counts(POOL.cliques[index]) - table).sum()
        assert scored.distances[index] == pytest.approx(gap)
    assert np.isnan(scored.distances[4:]).all()


def test_merged_tables_count_as_never_scored():
    model = fit_model(DOMAIN, [Measurement(("a",), np.array([5.0, 7.0]), 1.0)]).value
    scored = noted().scored(model, Merging({"b": np.array([0, 1, 1])}))
    for clique, number in zip(POOL.cliques, scored.rounds, strict=True):
        assert "b" not in clique or number == -1
    assert scored.rounds[0] == 1
