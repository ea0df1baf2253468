"""Blending: weights by variance, the simplex, and the order of a list."""

import json
from pathlib import Path

import numpy as np
import pytest

from hush.core.errors import BudgetError, DataError
from hush.hybrid.blender import (
    GroupShares,
    blend,
    blend_shares,
    find_head_list,
    head_list_questions,
)
from hush.hybrid.client import Device, Question
from hush.hybrid.collection import ReportCounts, collect
from hush.hybrid.head_list import OptInEstimates
from hush.hybrid.opt_in import OptInRecords
from hush.hybrid.promises import Promise
from hush.hybrid.simulated_reports import generator_of, simulate_reports

PROMISE = Promise.of(4, 1e-5)
COUNTED = OptInEstimates(
    records=(("news", "a"), ("news", "b"), ("news", "*"), ("mail", "c"), ("mail", "*"), ("*", "*")),
    estimate=np.array([0.2, 0.1, 0.0, 0.2, 0.05, 0.45]),
    noise=0.5,
    rows=500,
)


def test_weights_are_one_over_the_variance() -> None:
    groups = [
        GroupShares(estimate=np.array([0.3]), slope=1.0, floor=0.0, people=100),
        GroupShares(estimate=np.array([0.5]), slope=0.5, floor=0.2, people=1000),
    ]
    shares, variances, weights = blend_shares(groups, rounds=30)
    each = np.array([group.variance(shares)[0] for group in groups])
    assert weights[:, 0] == pytest.approx(1 / each / (1 / each).sum())
    assert variances[0] == pytest.approx(each.prod() / each.sum())
    assert shares[0] == pytest.approx(weights[:, 0] @ [0.3, 0.5])


@pytest.mark.slow
@pytest.mark.parametrize("form", ["split", "two-stage"])
def test_a_blend_is_nearer_than_either_group_and_its_intervals_hold(form: str) -> None:
    """400 runs at a fixed seed: squared error below both groups', and 95 % intervals cover 92 to 98 % of the shares."""
    questions = head_list_questions(COUNTED.head_list, Promise.of(2, 1e-5), form=form)  # type: ignore[arg-type]
    generator = generator_of(7)
    flat = np.array([0.22, 0.08, 0.02, 0.2, 0.05, 0.43])  # in the order of the records of the list
    codes = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0]])
    truth = {"news": 0.32, "mail": 0.25}
    blended, groups, covered = [], [], []
    for _ in range(400):
        noisy = generator.multinomial(500, flat) + generator.laplace(0, 0.5, 6)
        opt_in = OptInEstimates(records=COUNTED.records, estimate=noisy / 500, noise=0.5, rows=500)
        reports: dict[str, ReportCounts] = {}
        for question in questions.questions:
            held = generator.choice(6, 2000, p=flat)
            values = held if question.name == "record" and form == "split" else codes[held]
            reports[question.id] = simulate_reports(
                question, values[:, 0] if question.name == "query" else values, generator
            )
        found = blend(opt_in, questions, reports)
        wanted = np.array([truth[query] for query in found.queries])
        lower, upper = found.interval()
        covered.append((lower <= wanted) & (wanted <= upper))
        blended.append((found.shares - wanted) ** 2)
        groups.append(((found.query_groups - wanted) ** 2).sum(axis=1))
        assert found.groups == ("opt-in", "clients")
    assert np.sum(blended) / 400 < np.mean(groups, axis=0).min()
    assert 0.92 <= np.mean(covered) <= 0.98


def test_without_reports_the_list_is_that_of_opt_in_people() -> None:
    questions = head_list_questions(COUNTED.head_list, PROMISE)
    found = blend(COUNTED, questions)
    assert found.groups == ("opt-in",)
    assert found.queries == ("news", "mail")
    assert found.shares == pytest.approx([0.3, 0.25])
    assert found.head_list == {"news": ["a", "b"], "mail": ["c"]}
    urls = json.loads(json.dumps(found.to_dict()))["queries"][0]["urls"]
    assert urls == pytest.approx({"a": 0.2, "b": 0.1})
    assert "news" in repr(found)


def test_reports_on_another_list_are_refused() -> None:
    questions = head_list_questions(COUNTED.head_list, PROMISE)
    other = Question.choice("query", ["x"], epsilon=4, other=True)
    counts = ReportCounts(question=other, total=10, counts=np.array([5, 5]))
    with pytest.raises(DataError, match="not about this head list"):
        blend(COUNTED, questions, {other.id: counts})
    with pytest.raises(DataError, match="another head list"):
        blend(COUNTED, head_list_questions({"x": ["y"]}, PROMISE))


def test_an_empty_list_is_an_answer() -> None:
    people = OptInRecords([[(f"rare {i}", "x")] for i in range(40)])
    counted = find_head_list(people, PROMISE, most_queries=5)
    questions = head_list_questions(counted.head_list, PROMISE)
    assert questions.questions == ()
    found = blend(counted, questions)
    assert (found.queries, found.wildcard) == ((), 1.0)
    assert "All else" in repr(found)


def test_most_queries_must_be_positive() -> None:
    with pytest.raises(DataError, match="most_queries=0"):
        find_head_list(OptInRecords([["a"], ["b"]]), PROMISE, most_queries=0)


def test_several_records_of_everybody_share_the_promise_and_give_shares_of_places(tmp_path: Path) -> None:
    """4,000 people hold "news"; half also hold "mail", and the others leave their second place empty."""
    listed = {"news": ["a"], "mail": ["c"]}
    held = [[("news", "a"), ("mail", "c")], [("news", "a")]]
    promise = Promise.of(8, 1e-5, ledger=str(tmp_path / "budget.db"))
    people = OptInRecords(held * 500, max_records=2)
    counted = find_head_list(people, promise, most_queries=2)
    assert counted.head_list == listed
    assert counted.estimate.sum() == pytest.approx(1)
    questions = head_list_questions(counted.head_list, promise, places=2)
    asked = questions.queries
    assert asked is not None
    assert asked.epsilon == 4
    promise.record_question(asked, places=2)
    with pytest.raises(BudgetError):
        promise.record_question(asked)
    devices = [(Device(limit=8), held[person % 2]) for person in range(3000)]
    reports = [r for device, own in devices for r in device.answer_places(asked, [query for query, _ in own], 2)]
    found = blend(counted, questions, {asked.id: collect(asked, reports)})
    shares = dict(zip(found.queries, found.shares, strict=True))
    assert shares["news"] == pytest.approx(1 / 2, abs=0.04)
    assert shares["mail"] == pytest.approx(1 / 4, abs=0.04)
    assert found.wildcard == pytest.approx(1 / 4, abs=0.04)
