"""Choices and records: the matrix of probabilities that is drawn with keeps the promise, and spends all of it."""

import math
from collections import Counter
from fractions import Fraction

import pytest
from scipy import stats

from hush.hybrid.client.choice_laws import KaryResponse, RecordResponse, UnaryResponse
from local_laws import hockey_stick, matrix_of, within, worst_loss, worst_ratio

EPSILONS = [Fraction(1, 100), Fraction(1), Fraction(17, 5), Fraction(12), Fraction(32)]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [2, 3, 7])
def test_kary_matrix_sums_to_one_and_spends_epsilon_exactly(size: int, epsilon: Fraction) -> None:
    matrix = matrix_of(KaryResponse(size, epsilon), range(size))
    assert {sum(row) for row in matrix} == {1}
    assert within(worst_ratio(matrix), epsilon)
    assert worst_loss(matrix) == pytest.approx(float(epsilon), rel=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [2, 5])
def test_unary_matrix_sums_to_one_and_spends_epsilon_exactly(size: int, epsilon: Fraction) -> None:
    matrix = matrix_of(UnaryResponse(size, epsilon), range(size))
    assert {sum(row) for row in matrix} == {1}
    assert within(worst_ratio(matrix), epsilon)
    assert worst_loss(matrix) == pytest.approx(float(epsilon), rel=1e-6)


@pytest.mark.parametrize("size", [2, 3, 9])
def test_kary_with_delta_has_at_most_delta_beyond_epsilon(size: int) -> None:
    epsilon, delta = Fraction(1), Fraction(1, 1000)
    matrix = matrix_of(KaryResponse(size, epsilon, delta), range(size))
    assert {sum(row) for row in matrix} == {1}
    assert float(delta) / 2 * 0.999 < hockey_stick(matrix, epsilon) <= float(delta) / 2
    assert not within(worst_ratio(matrix), epsilon)


def test_one_option_is_constant() -> None:
    assert KaryResponse(1, Fraction(1)).draw(0) == 0
    assert KaryResponse(1, Fraction(1)).probability(0, 0) == 1


@pytest.mark.parametrize(
    ("size", "epsilon", "delta", "keep"),
    [
        (51, Fraction(17, 5), Fraction(85, 10**7), 0.3747220631),  # 0.85 of epsilon 4 and of delta 1e-5
        (501, Fraction(17, 5), Fraction(85, 10**9), 0.0565399077),
        (2, Fraction(3, 5), Fraction(15, 10**7), 0.6456566),
        (3, Fraction(3, 5), Fraction(15, 10**7), 0.4767304),
        (5, Fraction(3, 5), Fraction(15, 10**7), 0.3129654),
        (2, Fraction(1), Fraction(2, 10**5), 0.7310612680),  # the coin with delta 1e-5: (e + delta) / (e + 1)
    ],
)
def test_keep_probabilities_are_the_published_ones(size: int, epsilon: Fraction, delta: Fraction, keep: float) -> None:
    law = KaryResponse(size, epsilon, delta)
    assert float(law.probability(0, 0)) == pytest.approx(keep, abs=5e-8 if keep in (0.6456566, 0.4767304) else 5e-7)


def test_both_ways_to_write_kary_response_are_one_law() -> None:
    """Keep with (e^eps - 1)/(k + e^eps - 1), else uniform over all k: the same as keep or uniform over the others."""
    size, law = 4, KaryResponse(4, Fraction(7, 3))
    ratio = Fraction(law.keep, law.other)
    kept = (ratio - 1) / (size + ratio - 1)
    assert law.probability(2, 2) == kept + (1 - kept) / size
    assert law.probability(2, 0) == (1 - kept) / size


def test_draws_follow_the_matrix_and_not_that_of_another_epsilon() -> None:
    """20,000 draws: false alarms below 1e-6; epsilon off by a tenth is found with a chance above 1 - 1e-9."""
    law, other = KaryResponse(4, Fraction(1)), KaryResponse(4, Fraction(11, 10))
    seen = Counter(law.draw(1) for _ in range(20_000))
    observed = [seen[option] for option in range(4)]
    assert stats.chisquare(observed, [20_000 * float(law.probability(1, o)) for o in range(4)]).pvalue > 1e-6
    assert stats.chisquare(observed, [20_000 * float(other.probability(1, o)) for o in range(4)]).pvalue < 1e-3


def test_unary_draws_follow_the_matrix() -> None:
    """Each of 8 reports of 3 bits, 20,000 draws; false alarms below 1e-6."""
    law, other = UnaryResponse(3, Fraction(1)), UnaryResponse(3, Fraction(3, 2))
    seen = Counter(law.draw(1) for _ in range(20_000))
    observed = [seen[report] for report in range(8)]
    assert stats.chisquare(observed, [20_000 * float(law.probability(1, r)) for r in range(8)]).pvalue > 1e-6
    assert stats.chisquare(observed, [20_000 * float(other.probability(1, r)) for r in range(8)]).pvalue < 1e-6


SHARE = Fraction(17, 20)
FEW_QUERIES = (40, 40, 1)  # where a keep-probability from the number of records breaks the promise


def record_matrix(law: RecordResponse) -> list[list[Fraction]]:
    return matrix_of(law, law.outputs())


@pytest.mark.parametrize("sizes", [(3, 2, 4, 1), FEW_QUERIES, (2, 1), (9, 1, 1, 1, 1)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2), Fraction(6)])
def test_every_pair_of_records_keeps_the_promise_and_some_pair_spends_it(
    sizes: tuple[int, ...], epsilon: Fraction
) -> None:
    rows = record_matrix(RecordResponse(sizes, epsilon, share=SHARE))
    assert {sum(row) for row in rows} == {1}
    assert within(worst_ratio(rows), epsilon)
    assert worst_loss(rows) == pytest.approx(float(epsilon), abs=1e-12)


def test_composition_leaves_slack() -> None:
    """The published example: epsilon_Q = 1.7 and epsilon_U = 0.3 lose 1.9162 at worst, instead of 2."""
    law = RecordResponse((3, 2, 4, 1), Fraction(2), share=SHARE, spend_slack=False)
    assert worst_loss(record_matrix(law)) == pytest.approx(1.9162, abs=5e-5)


def test_composition_with_delta_stays_within_epsilon_and_delta() -> None:
    law = RecordResponse((3, 2, 4, 1), Fraction(2), Fraction(1, 100), share=SHARE, spend_slack=False)
    rows = record_matrix(law)
    assert {sum(row) for row in rows} == {1}
    assert hockey_stick(rows, Fraction(2)) <= 0.01


def test_slack_keeps_urls_more_often() -> None:
    spent = RecordResponse((3, 2, 4, 1), Fraction(2), share=SHARE)
    composed = RecordResponse((3, 2, 4, 1), Fraction(2), share=SHARE, spend_slack=False)
    for query, size in enumerate((3, 2, 4)):
        before, after = (law.urls[query].probability(0, 0) for law in (composed, spent))
        assert after > before
        assert float(spent.urls[query].keep / spent.urls[query].other) > math.exp(0.3) or size == 1
    assert spent.query.probability(0, 0) == composed.query.probability(0, 0)


def test_the_number_of_queries_decides_how_often_a_query_is_kept() -> None:
    law = RecordResponse(FEW_QUERIES, Fraction(1), share=SHARE)
    weight = math.exp(0.85)
    assert float(law.query.probability(0, 0)) == pytest.approx(weight / (weight + len(FEW_QUERIES) - 1))


def test_draws_follow_the_matrix() -> None:
    """30,000 draws of 6 records; false alarms below 1e-6, and those of another query are told apart."""
    from collections import Counter

    from scipy import stats

    law = RecordResponse((3, 2, 1), Fraction(3, 2), share=SHARE)
    seen = Counter(law.draw((0, 1)) for _ in range(30_000))
    records = list(law.outputs())
    observed = [seen[record] for record in records]
    assert stats.chisquare(observed, [30_000 * float(law.probability((0, 1), r)) for r in records]).pvalue > 1e-6
    assert stats.chisquare(observed, [30_000 * float(law.probability((0, 2), r)) for r in records]).pvalue < 1e-6
