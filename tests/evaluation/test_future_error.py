"""Future error: the mean of largest errors of drawn questions, padding, and studies on public tables."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Workload, queries
from hush.core.errors import DataError, SizeError, WorkloadError
from hush.evaluation import ColumnChances, FutureError, drawn_thresholds, future_error, future_study, padded
from hush.evaluation.workload_error import largest_errors
from hush.mechanisms.plan import Plan

DOMAIN = Domain({"a": 2, "b": 3, "c": 4, "d": 2})
SCHEMA = hush.datasets.people_schema()
HISTORY = "sex,region; sex,employed; 2-of sex,region,education"


def tables(seed: int):
    counts = np.random.Generator(np.random.PCG64(seed)).integers(0, 9, DOMAIN.shape).astype(float)
    names = DOMAIN.attributes
    return lambda cliques: {
        clique: counts.sum(axis=tuple(i for i, name in enumerate(names) if name not in clique)) for clique in cliques
    }


@functools.cache
def people():
    return hush.read(hush.datasets.people(1500, seed=2), SCHEMA)


def test_the_error_of_one_question_is_its_largest() -> None:
    future = Workload.thresholds(DOMAIN, 3, 2, [("a", "b", "c")])
    term = future.terms[0]
    truth, estimate = (each([term.clique])[term.clique] for each in (tables(1), tables(2)))
    expected = np.abs(term.exact_answers(truth) - term.exact_answers(estimate)).max() / truth.sum()
    found = future_error(tables(1), tables(2), future)
    assert found.mean == pytest.approx(expected)
    assert np.isnan(found.interval).all()  # one question says nothing of others


def test_questions_count_as_often_as_they_were_drawn() -> None:
    future = Workload.thresholds(DOMAIN, 2, 1, [("a", "b")]) * 3 + Workload.thresholds(DOMAIN, 2, 1, [("c", "d")])
    errors = largest_errors(future, tables(1), tables(2))
    found = future_error(tables(1), tables(2), future)
    assert found.mean == pytest.approx((3 * errors[0] + errors[1]) / 4)
    zero = future_error(tables(1), lambda cliques: {c: np.zeros(DOMAIN.sizes(c)) for c in cliques}, future)
    largest = [t.exact_answers(tables(1)([t.clique])[t.clique]).max() for t in future]
    assert zero.mean == pytest.approx((3 * largest[0] + largest[1]) / 4 / tables(1)([()])[()])


def test_the_interval_is_students() -> None:
    """Of 400 studies of 5 normal runs, 95 % hold the mean; fewer than 350 fail by chance below 1e-8."""
    random = np.random.Generator(np.random.PCG64(3))
    inside = 0
    for _ in range(400):
        low, high = FutureError(tuple(random.normal(1.0, 0.2, 5).tolist()), ((0.0,),) * 5).interval
        inside += low <= 1.0 <= high
    assert 350 < inside < 400
    single = FutureError((2.0,), ((1.0, 2.0, 3.0),))
    assert single.interval == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5), abs=1e-5)


def test_drawn_thresholds_have_weights() -> None:
    chances = ColumnChances.geometric(DOMAIN)
    different = drawn_thresholds(DOMAIN, chances, 2, 1, 5, seed=1)
    assert len(different) == 5
    assert set(different.weights) == {1.0}
    again = drawn_thresholds(DOMAIN, chances, 2, 1, 50, seed=1, different=False)
    assert sum(again.weights) == 50
    assert len(again) <= 6
    assert drawn_thresholds(DOMAIN, chances, 2, 2, 3).plain


def test_a_short_history_is_padded_with_its_own_kinds() -> None:
    history = 2 * Workload.thresholds(DOMAIN, 3, 2, [("a", "b", "c")]) + Workload.marginals(DOMAIN, [("a", "d")])
    longer = padded(history, 8, seed=4)
    assert len(longer) == 8
    assert longer.terms[:2] == history.terms
    kinds = {(len(term.clique), getattr(term, "at_least", len(term.clique))) for term in longer}
    assert kinds == {(3, 2), (2, 2)}
    assert padded(history, 2) == history
    assert padded(history, 8, seed=4) == longer
    with pytest.raises(WorkloadError, match="pad=99: expected a whole number from 1 to 10: there are no more"):
        padded(history, 99)
    with_total = history + Workload.marginals(DOMAIN, [()])
    assert len(padded(with_total, 11)) == 11
    with pytest.raises(WorkloadError, match="is neither a table over some columns nor a threshold; leave it out"):
        padded(Workload.formulas(DOMAIN, queries.test("a", 1)), 3)


def test_a_study_says_what_drift_costs_and_where_it_was_made() -> None:
    study = future_study(
        people(), HISTORY, Budget(rho=0.5), mechanism="independent", drifts=(0.0, 1.0), draws=8, runs=2
    )
    assert [row.drift for row in study.rows] == [0.0, 1.0]
    assert study.rows[0].distance == 0.0
    assert study.rows[1].distance > 0.3
    assert all(row.error.mean < row.zeros for row in study.rows)
    for row in study.rows:
        low, high = row.error.interval
        assert low <= row.error.mean <= high
    assert "Made from a public or invented table" in repr(study)
    again = future_study(
        people(), HISTORY, Budget(rho=0.5), mechanism="independent", drifts=(0.0, 1.0), draws=8, runs=2
    )
    assert again.to_dict() == study.to_dict()
    assert study.to_dict()["table_rows"] == 1500
    assert "on 1,500 rows: 2 releases, 8 future questions" in " ".join(repr(study).split())
    assert study.to_dict()["drifts"][0].keys() == {"drift", "distance", "error", "lower", "upper", "all_zero"}


def test_a_study_may_be_padded_and_have_other_chances() -> None:
    plain = {"mechanism": "independent", "drifts": (0.0,), "draws": 4, "runs": 1}
    chances = ColumnChances.uniform(["sex", "region", "employed"])
    study = future_study(people(), HISTORY, Budget(rho=0.5), chances=chances, pad=6, **plain)
    assert study.runs == 1


def test_questions_that_were_all_asked_before_have_the_errors_of_yesterday() -> None:
    plain = {"mechanism": "independent", "drifts": (0.0, 0.5), "draws": 3, "runs": 2}
    chances = ColumnChances.given({"sex": 5, "region": 1})
    study = future_study(people(), "sex,region", Budget(rho=0.05), chances=chances, **plain)
    for row in study.rows:
        assert row.error.mean == pytest.approx(study.present)
        assert row.zeros == people().counts([("sex", "region")])[("sex", "region")].max() / 1500
        assert len(set(row.error.means)) == 2  # each run has noise of its own
    (single,) = future_study(people(), "sex,region", Budget(rho=0.05), chances=chances, **plain | {"runs": 1}).rows[:1]
    assert single.error.interval == pytest.approx((single.error.mean,) * 2)


def test_the_questions_of_yesterday_count_as_often_as_they_were_asked() -> None:
    plain = {"mechanism": "independent", "drifts": (0.0,), "draws": 1, "runs": 1}
    once, often = "1-of sex,region", "sex,employed"
    alone = [future_study(people(), asked, Budget(rho=0.05), **plain).present for asked in (once, often)]
    both = future_study(people(), f"{once} + 3*{often}", Budget(rho=0.05), **plain)
    assert both.present == pytest.approx((alone[0] + 3 * alone[1]) / 4)


def test_the_total_in_a_history_is_no_question_to_draw() -> None:
    plain = {"mechanism": "independent", "drifts": (0.0,), "draws": 4, "runs": 1}
    assert future_study(people(), "<=1-way", Budget(rho=0.5), **plain).rows[0].error.mean < 0.1


def test_what_cannot_be_asked_is_refused_before_anything_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "release", lambda *_, **__: pytest.fail("a release was made"))
    wide = hush.Schema.from_domain(Domain(dict.fromkeys("abcd", 5000)))
    table = hush.read(hush.datasets.invented(wide, 10, seed=1), wide)
    options = {"mechanism": "independent", "drifts": (0.0,), "draws": 2, "runs": 1}
    with pytest.raises(SizeError, match=r"a future question is too large: .* give chances without the columns"):
        future_study(table, "1-of a,b,c,d", Budget(rho=0.5), **options)
    few = ColumnChances.uniform(["sex", "region"])
    with pytest.raises(WorkloadError, match="size=3: expected a whole number from 1 to 2, the columns that"):
        future_study(people(), "2-of sex,region,education", Budget(rho=0.5), chances=few, **options)
    empty = hush.read(hush.datasets.people(0, seed=1), SCHEMA)
    with pytest.raises(DataError, match="no rows"):
        future_study(empty, HISTORY, Budget(rho=0.5), **options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"history": ["sex"]}, "history of type list: expected a Workload, or a text"),
        ({"history": "<=0-way"}, "asks for the total alone"),
        ({"table": 3}, "table of type int: expected a public table"),
        ({"budget": 1.0}, r"budget=1.0: expected a Budget, such as Budget\(epsilon"),
        ({"chances": "zipf"}, "chances='zipf': expected ColumnChances"),
        ({"seed": -1}, "seed=-1: expected a whole number of at least 0"),
        ({"level": "high"}, "level='high': expected a number between 0 and 1"),
        ({"drifts": 0.5}, "drifts=0.5: expected a list"),
        ({"pad": 0}, "pad=0: expected a whole number from 1 to 56"),
        ({"history": Workload.kway(DOMAIN, 1)}, "over other columns than the table"),
        ({"draws": 0}, "draws=0: expected a whole number of at least 1"),
        ({"runs": 0}, "runs=0: expected a whole number of at least 1"),
        ({"drifts": (2.0,)}, "drift=2.0: expected a number from 0"),
        ({"drifts": ()}, "some drifts"),
        ({"history": "age:prefix"}, "is neither a table over some columns nor a threshold"),
    ],
)
def test_bad_studies_are_refused(changes, message) -> None:
    options = {"mechanism": "independent", "draws": 2, "runs": 1, "drifts": (0.0,)}
    options |= {"table": people(), "history": HISTORY, "budget": Budget(rho=0.5)} | changes
    with pytest.raises(WorkloadError, match=message):
        future_study(**options)
