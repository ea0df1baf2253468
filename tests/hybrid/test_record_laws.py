"""Records of two parts: the promise over every pair of records, and the slack that composition leaves."""

import math
from fractions import Fraction

import pytest

from hush.hybrid.client.record_laws import RecordResponse
from hush.testing.enumeration import hockey_stick, matrix_of, within, worst_loss, worst_ratio

SHARE = Fraction(17, 20)
FEW_QUERIES = (40, 40, 1)  # where a keep-probability from the number of records breaks the promise


def matrix(law: RecordResponse) -> list[list[Fraction]]:
    return matrix_of(law, law.outputs())


@pytest.mark.parametrize("sizes", [(3, 2, 4, 1), FEW_QUERIES, (2, 1), (9, 1, 1, 1, 1)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2), Fraction(6)])
def test_every_pair_of_records_keeps_the_promise_and_some_pair_spends_it(
    sizes: tuple[int, ...], epsilon: Fraction
) -> None:
    rows = matrix(RecordResponse(sizes, epsilon, share=SHARE))
    assert {sum(row) for row in rows} == {1}
    assert within(worst_ratio(rows), epsilon)
    assert worst_loss(rows) == pytest.approx(float(epsilon), abs=1e-12)


def test_composition_leaves_slack() -> None:
    """The published example: epsilon_Q = 1.7 and epsilon_U = 0.3 lose 1.9162 at worst, instead of 2."""
    law = RecordResponse((3, 2, 4, 1), Fraction(2), share=SHARE, spend_slack=False)
    assert worst_loss(matrix(law)) == pytest.approx(1.9162, abs=5e-5)


def test_composition_with_delta_stays_within_epsilon_and_delta() -> None:
    law = RecordResponse((3, 2, 4, 1), Fraction(2), Fraction(1, 100), share=SHARE, spend_slack=False)
    rows = matrix(law)
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
