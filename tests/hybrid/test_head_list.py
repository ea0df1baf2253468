"""Head lists of opt-in people: published thresholds, unbiased shares, charges to the ledger, and who may be asked."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from hush.core.errors import BudgetError, DataError
from hush.hybrid.blender import head_list_questions
from hush.hybrid.client import Question
from hush.hybrid.collection import count_reports
from hush.hybrid.head_list import discover, discovery_law, estimate_opt_in
from hush.hybrid.opt_in import OptInNumbers, OptInRecords, StepSum, noisy_mean
from hush.hybrid.promises import CLIENTS, DISCOVERY, ESTIMATION, Promise
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import LaplaceEvent, LocalEvent
from hush.privacy.ledger import Ledger
from hush.testing import check_replay

PROMISE = Promise.of(4, 1e-5)
RECORDS = [("news", "a"), ("news", "b"), ("mail", "c")]


def people(*numbers: int, rare: int = 5) -> OptInRecords:
    held = [record for record, number in zip(RECORDS, numbers, strict=True) for _ in range(number)]
    return OptInRecords([[record] for record in [*held, *((f"rare {i}", "x") for i in range(rare))]])


def paper_threshold(epsilon: float, delta: float, max_records: int = 1) -> float:
    """The threshold of [Avent 2023, Alg. 2.2]: max(b (ln(e^(eps/2) + m - 1) - ln delta), 1) with b = 2 m/eps.

    With Laplace noise of scale b, a record of one person passes it with probability e^(-(tau - 1)/b)/2 = delta/2 at
    m = 1. For comparison; `discover` draws by an exact table instead.
    """
    scale = 2 * max_records / epsilon
    return max(scale * (math.log(math.exp(epsilon / 2) + max_records - 1) - math.log(delta)), 1.0)


@pytest.mark.parametrize(
    ("epsilon", "delta", "tau"),
    [(4, 1e-5, 6.756463), (4, 1e-7, 9.059048), (3, 1e-5, 8.675284), (1, 1e-5, 24.025851)],
)
def test_the_published_thresholds_release_one_persons_record_with_half_delta(
    epsilon: float, delta: float, tau: float
) -> None:
    assert paper_threshold(epsilon, delta) == pytest.approx(tau, abs=5e-7)
    assert math.exp(-(tau - 1) * epsilon / 2) / 2 == pytest.approx(delta / 2, rel=1e-6)
    law = discovery_law(Promise.of(epsilon, delta))
    assert law.probability(1) == Fraction(repr(delta)) / 2
    assert abs(law.usual - tau) < 1.5


def test_our_table_releases_records_at_least_as_often_as_the_published_threshold() -> None:
    """Of two laws with the same promise, pi(n) of the table is never below the Laplace tail at n."""
    law, tau = discovery_law(PROMISE), paper_threshold(4, 1e-5)
    for units in range(1, 20):
        gap = units - tau
        tail = 1 - math.exp(-2 * gap) / 2 if gap >= 0 else math.exp(2 * gap) / 2
        assert float(law.probability(units)) >= tail * (1 - 1e-9)


def test_common_records_are_found_and_rare_ones_are_not() -> None:
    assert discover(people(40, 30, 25), PROMISE) == (("mail", "c"), ("news", "a"), ("news", "b"))


def test_several_records_of_a_person_share_the_promise() -> None:
    held = OptInRecords([RECORDS[:2] for _ in range(60)], max_records=2)
    law = discovery_law(PROMISE, 2)
    assert law.event(4).cost.epsilon == 4
    assert law.event(4).cost.delta == Fraction("1e-5")
    assert set(discover(held, PROMISE)) == set(RECORDS[:2])


@pytest.mark.slow
def test_shares_and_variances_of_opt_in_people_are_unbiased() -> None:
    """4,000 runs of 50 people: means of shares within 5 standard errors, mean variance within 12 %."""
    generator = np.random.default_rng(2)
    truth = np.array([0.5, 0.2, 0.1, 0.2])
    held = [RECORDS[0], RECORDS[1], RECORDS[2], ("mail", "elsewhere")]
    estimates, variances = [], []
    for _ in range(4000):
        counts = generator.multinomial(50, truth)
        group = OptInRecords([record] for record, number in zip(held, counts, strict=True) for _ in range(number))
        found = estimate_opt_in(group, tuple(RECORDS), Promise.of(2))
        assert found.records[3:] == (("news", "*"), ("mail", "*"), ("*", "*"))
        estimates.append(found.estimate[[0, 1, 2, 4]])
        variances.append(found.variance()[[0, 1, 2, 4]])
    spread = np.var(estimates, axis=0)
    assert np.mean(estimates, axis=0) == pytest.approx(truth, abs=5 * np.sqrt(spread.max() / 4000))
    assert np.mean(variances, axis=0) == pytest.approx(spread, rel=0.12)
    assert np.mean(variances, axis=0) != pytest.approx(truth * (1 - truth) / 50, rel=0.12)


def test_queries_beyond_the_most_count_for_the_wildcard() -> None:
    found = estimate_opt_in(people(40, 30, 25), tuple(RECORDS), PROMISE)
    short = found.shortened(1)
    assert short.records == (("news", "a"), ("news", "b"), ("news", "*"), ("*", "*"))
    assert short.estimate.sum() == pytest.approx(found.estimate.sum())
    gone = [i for i, (query, _) in enumerate(found.records) if query in ("mail", "*")]
    assert short.estimate[-1] == pytest.approx(found.estimate[gone].sum())
    assert short.head_list == {"news": ["a", "b"]}


def test_replay_of_estimates_finds_nothing_beside_the_gate() -> None:
    def run(held: OptInRecords) -> list[float]:
        return [*map(float, estimate_opt_in(held, tuple(RECORDS), PROMISE).estimate)]

    assert check_replay(run, people(5, 3, 2), [people(4, 4, 2), people(5, 3, 1, rare=6)]) == 2


def test_replay_of_a_mean_finds_nothing_beside_the_gate() -> None:
    def run(held: OptInNumbers) -> float:
        return noisy_mean(held, Fraction(1), Allowance(Budget(epsilon=1.0))).mean

    assert check_replay(run, OptInNumbers([0, 5, 10], 0, 10), [OptInNumbers([10, 5, 10], 0, 10)]) == 1


def test_a_noisy_mean_costs_epsilon_and_has_its_noise() -> None:
    """2,000 means: the spread of the noise is off by 12 % with a chance below 1e-5."""
    allowance = Allowance(Budget(epsilon=1.0))
    noisy_mean(OptInNumbers([1, 2, 3, 4], 0, 8), Fraction(1), allowance)
    (event,) = allowance.events
    assert isinstance(event, LaplaceEvent)
    assert allowance.cost.epsilon is not None
    assert 1 - Fraction(1, 10**9) < allowance.cost.epsilon <= 1
    held = OptInNumbers([1, 2, 3, 4], 0, 8)
    drawn = [noisy_mean(held, Fraction(1), Allowance(Budget(epsilon=1.0))) for _ in range(2000)]
    assert np.mean([one.mean for one in drawn]) == pytest.approx(2.5, abs=5 * math.sqrt(drawn[0].noise / 2000))
    assert np.var([one.mean for one in drawn]) == pytest.approx(drawn[0].noise, rel=0.25)
    assert drawn[0].noise == pytest.approx(2 * (8 / 4) ** 2, rel=1e-3)


def test_one_person_moves_a_sum_by_no_more_than_declared() -> None:
    query = StepSum(10)
    low, high = OptInNumbers([0.0], 0, 1, steps=10), OptInNumbers([1.0], 0, 1, steps=10)
    gap = query.answer(high.counts([("step",)]))[0] - query.answer(low.counts([("step",)]))[0]
    assert gap == query.row_norms.gap_l1 == 10


def test_curators_take_opt_in_people_only() -> None:
    reports = count_reports(Question.yes_no("q", epsilon=1), [0, 1])
    for call in (
        lambda: discover(reports, PROMISE),  # type: ignore[arg-type]
        lambda: estimate_opt_in(reports, (), PROMISE),  # type: ignore[arg-type]
        lambda: noisy_mean(reports, Fraction(1), Allowance(Budget(epsilon=1.0))),  # type: ignore[arg-type]
    ):
        with pytest.raises(DataError, match="a curator may use only people who opted in"):
            call()


def test_both_groups_are_in_one_ledger(tmp_path: Path) -> None:
    file = str(tmp_path / "budget.db")
    promise = Promise.of(4, 1e-5, ledger=file, release="search")
    found = discover(people(40, 30, 25), promise)
    estimate_opt_in(people(40, 30, 25), found, promise)
    question = Question.choice("query", ["news", "mail"], epsilon=4, other=True)
    promise.record_question(question)
    books = {ledger.dataset: ledger for ledger in Ledger.open_all(file)}
    assert set(books) == {DISCOVERY, ESTIMATION, CLIENTS}
    assert books[CLIENTS].events() == [LocalEvent(Fraction(4), Fraction(0))]
    assert books[CLIENTS].entries()[-1].release == f"question {question.id}"
    assert books[DISCOVERY].total.delta == Fraction("1e-5")
    assert books[ESTIMATION].total.delta == 0
    with pytest.raises(BudgetError, match="exceeds what is allowed: nothing is left"):
        promise.record_question(Question.yes_no("another", epsilon=1))
    with pytest.raises(BudgetError):
        discover(people(40, 30, 25), promise)
    for book in books.values():
        book.verify()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: OptInRecords([]), "nobody opted in"),
        (lambda: OptInNumbers([], 0, 1), "nobody opted in"),
        (lambda: OptInNumbers([math.nan], 0, 1), "expected finite numbers"),
        (lambda: OptInNumbers([1.0], 1, 0), "lower below upper"),
        (lambda: OptInRecords([["a"]], max_records=0), "max_records=0: expected a whole number"),
        (lambda: OptInRecords(["ab"]), "put a single record in a list"),
        (lambda: people(2, 0, 0, rare=0).split(0.9), "too few to split"),
        (lambda: people(9, 9, 9).split(1.0), "share=1.0: expected a number between"),
        (lambda: discover(people(9, 9, 9), Promise.of(1)), "needs a delta"),
    ],
)
def test_bad_input_is_refused(call, message) -> None:
    with pytest.raises(DataError, match=message):
        call()


def test_a_promise_out_of_range_is_refused() -> None:
    for epsilon, delta in ((0, 0), (-1, 0), (1, 0.7), (1, -0.1)):
        with pytest.raises(BudgetError, match="expected epsilon above 0"):
            Promise.of(epsilon, delta)


def test_records_that_no_question_can_list_are_not_found() -> None:
    """Common queries and URLs that are empty or the wildcard count for the wildcard, and questions can be asked."""
    held = [("news", "a"), ("*", "a"), ("news", "*"), ("", "a"), ("mail", "")]
    group = OptInRecords([record] for record in held * 40)
    found = discover(group, PROMISE)
    assert found == (("news", "a"),)
    counted = estimate_opt_in(group, found, PROMISE)
    assert counted.records == (("news", "a"), ("news", "*"), ("*", "*"))
    assert counted.estimate == pytest.approx([0.2, 0.2, 0.6], abs=0.1)  # noise exceeds this with a chance below 1e-8
    assert len(head_list_questions(counted.head_list, PROMISE).questions) == 2


def test_a_split_depends_on_places_alone_and_shares_nobody() -> None:
    first, second = people(40, 30, 25).split(0.75)
    assert (len(first), len(second)) == (75, 25)
    assert [
        a + b for a, b in zip(*[[g.key_counts().get(r, 0) for r in RECORDS] for g in (first, second)], strict=True)
    ] == [40, 30, 25]
