"""What a device needs: the standard library, a moment, its memory; and what it refuses."""

import json
import subprocess
import sys
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import hush
from hush.core.errors import HushError
from hush.hybrid.client import AnswerError, Device, Question, QuestionError, Report
from hush.hybrid.client.question import best_number_law, kary_is_better

QUESTIONS = [
    Question.yes_no("smoker", epsilon="0.5"),
    Question.choice("colour", ["red", "green"], epsilon=2, delta="0.00001", other=True),
    Question.choice("long", [f"q{i}" for i in range(60)], epsilon=1, other=True),
    Question.records("search", {"news": ["a.org", "b.org"], "mail": ["c.org"]}, epsilon=4),
    Question.records("search", {"news": ["a.org"]}, epsilon=4, delta="1e-5", spend_slack=False),
    Question.number("sleep", 0, 12, epsilon=1),
    Question.number("sleep", -0.5, "1/3", epsilon=3, mechanism="laplace", steps=16),
    Question.cluster("near", [[0.25, 0.25], [0.75, 0.75]], epsilon=1),
]
VALUES: list[Any] = ["yes", "blue", "q7", ("news", "b.org"), ("nothing", "x"), 7.5, 0.25, (0.1, 0.2)]


def test_a_bare_interpreter_needs_nothing_but_the_standard_library() -> None:
    """Without site-packages, the client answers a question; what it loads of hush is itself and two small files."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(hush.__file__).parent.parent)!r})\n"
        "from hush.hybrid.client import Device, Question\n"
        "Device().answer(Question.number('x', 0, 1, epsilon=1), 0.5)\n"
        "known = set(sys.stdlib_module_names) | {'hush', '__main__'}\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} - known))\n"
        "print(' '.join(name for name in sys.modules if name.startswith('hush')))"
    )
    run = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    strangers, ours = run.stdout.splitlines()
    assert strangers == "[]"
    others = {name for name in ours.split() if not name.startswith("hush.hybrid.client")}
    assert others == {"hush", "hush._version", "hush.core", "hush.core.errors", "hush.hybrid"}


@pytest.mark.parametrize(("question", "value"), list(zip(QUESTIONS, VALUES, strict=True)))
def test_questions_and_reports_survive_their_text(question: Question, value: Any) -> None:
    again = Question.from_json(question.as_json())
    assert (again.id, again.name, again.epsilon, again.delta) == (
        question.id,
        question.name,
        question.epsilon,
        question.delta,
    )
    report = Device().answer(again, value)
    read = Report.from_json(report.as_json())
    assert (read.id, read.question, read.value) == (report.id, question.id, report.value)


@pytest.mark.parametrize(("question", "value"), list(zip(QUESTIONS, VALUES, strict=True)))
def test_asking_twice_spends_once(question: Question, value: Any) -> None:
    memory: dict[str, str] = {}
    first = Device(memory).answer(question, value)
    renamed = Question.from_json(question.as_json().replace(f'"{question.name}"', '"another name"'))
    again = [Device(json.loads(json.dumps(memory))).answer(asked, value) for asked in (question, renamed)]
    assert {report.as_json() for report in again} == {first.as_json()}
    assert Device(memory).spent == question.epsilon


@pytest.mark.parametrize(
    ("question", "values"),
    [
        (QUESTIONS[5], (7, 7.0, Fraction(7))),
        (QUESTIONS[5], (12, 13, 1e9)),
        (QUESTIONS[1], ("fig", "kiwi", "*")),
        (QUESTIONS[3], (("weather", "a.org"), ["cars", "b.org"])),
        (QUESTIONS[7], ((0.1, 0.1), (0.2, 0.1))),
    ],
)
def test_values_that_a_question_does_not_tell_apart_spend_once(question: Question, values: Any) -> None:
    device = Device()
    assert len({device.answer(question, value).id for value in values}) == 1
    assert device.spent == question.epsilon


def test_memory_holds_no_values() -> None:
    memory: dict[str, str] = {}
    Device(memory).answer(Question.choice("q", ["xyzzy", "b"], epsilon=1), "xyzzy")
    assert "xyzzy" not in json.dumps(memory)


def test_another_value_spends_again_up_to_the_owners_limit() -> None:
    device, question = Device(limit=2.5), Question.yes_no("smoker", epsilon=1)
    device.answer(question, "no")
    device.answer(question, "yes")
    assert device.spent == 2
    with pytest.raises(AnswerError, match="beyond its limit of 5/2; nothing is sent"):
        device.answer(Question.yes_no("pet owner", epsilon="1.1"), "no")
    assert device.spent == 2


def test_a_large_delta_reads_nothing_from_a_device_with_a_limit() -> None:
    """At delta = 1/2 a yes or no is true five times out of eight, for a millionth of an epsilon."""
    question = Question.yes_no("smoker", epsilon="0.000001", delta="0.5")
    assert question.law.probability(1, 1) > 0.62
    device = Device(limit=1)
    with pytest.raises(AnswerError, match=r"an answer at delta=0\.5 would .* nothing is sent"):
        device.answer(question, "yes")
    with pytest.raises(AnswerError, match=r"beyond its limit of 0\.0001"):
        device.answer_places(Question.choice("q", ["a", "b"], epsilon=0.1, delta=6e-5, other=True), ["a"], 2)
    assert (device.spent, device.spent_delta) == (0, 0)
    device.answer(Question.number("sleep", 0, 12, epsilon=1, delta=6e-5, mechanism="gaussian"), 7)
    assert float(device.spent_delta) == 6e-5
    with pytest.raises(AnswerError, match="beyond its limit"):
        Device(device.memory, limit=3).answer(Question.yes_no("smoker", epsilon=1, delta=6e-5), "no")
    assert Device(device.memory, limit=3, delta_limit=1e-3).answer(Question.yes_no("s", epsilon=1, delta=6e-5), "no")


class Failing(dict[str, str]):
    """A memory that fails after some writes, as a phone that is switched off."""

    writes_left = 0

    def __setitem__(self, key: str, value: str) -> None:
        if not self.writes_left:
            raise OSError("switched off")
        self.writes_left -= 1
        super().__setitem__(key, value)


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_no_answer_is_kept_that_was_not_paid_for(writes: int) -> None:
    """Wherever a memory fails, what it holds can be sent later, so its epsilon is spent already."""
    question, memory = Question.yes_no("smoker", epsilon=1), Failing()
    device = Device(memory)
    memory.writes_left = writes
    with suppress(OSError):
        device.answer(question, "yes")
    answers = [text for text in memory.values() if "report" in text]
    assert len(answers) == (writes == 2)
    assert Device(memory).spent == (writes > 0)


def test_numbers_outside_the_bounds_are_moved_and_only_the_owner_can_know() -> None:
    question = Question.number("sleep", 0, 12, epsilon=1)
    assert question.encode(1e300) == (question.body["steps"], True)
    assert question.encode(-5) == (0, True)
    assert question.encode(12) == (question.body["steps"], False)


def test_a_report_holds_what_is_sent_and_nothing_else() -> None:
    assert set(Report.__slots__) == {"id", "question", "value"}
    assert not hasattr(Device().answer(QUESTIONS[5], 13), "__dict__")


@pytest.mark.parametrize(
    ("question", "value"),
    [
        (QUESTIONS[0], "maybe"),
        (QUESTIONS[0], 1),
        (QUESTIONS[5], float("nan")),
        (QUESTIONS[5], float("inf")),
        (QUESTIONS[5], True),
        (QUESTIONS[5], "7"),
        (QUESTIONS[5], object()),
        (QUESTIONS[3], "news"),
        (QUESTIONS[7], (0.1,)),
        (QUESTIONS[7], (0.1, float("nan"))),
    ],
)
def test_values_of_the_wrong_kind_are_not_sent_or_quoted_or_paid_for(question: Question, value: Any) -> None:
    device = Device()
    with pytest.raises(AnswerError) as caught:
        device.answer(question, value)
    assert "maybe" not in str(caught.value)
    assert device.spent == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Question.choice("q", ["a"], epsilon=1), "one option alone tells nothing"),
        (lambda: Question.choice("q", [], epsilon=1, other=True), "one option alone tells nothing"),
        (lambda: Question.choice("q", ["a", "a"], epsilon=1), "listed twice"),
        (
            lambda: Question.choice("q", ["a", "*"], epsilon=1, other=True),
            "'\\*' stands for everything",
        ),
        (lambda: Question.choice("q", ["a", "b"], epsilon=0), "epsilon=0: expected a number above 0"),
        (lambda: Question.choice("q", ["a", "b"], epsilon=33), "epsilon=33: expected .* at most 32"),
        (lambda: Question.choice("q", ["a", "b"], epsilon="inf"), "epsilon='inf': expected a number"),
        (lambda: Question.choice("q", ["a", "b"], epsilon=float("nan")), "epsilon='nan': expected a number"),
        (lambda: Question.choice("q", ["a", "b"], epsilon=1, delta=0.6), "delta=0.6: expected a probability"),
        (lambda: Question.choice("q", ["a", "b"], epsilon=1, delta=-0.1), "delta=-0.1: expected a probability"),
        (lambda: Question.choice("q", ["a", "b"], epsilon=1, delta=0.1, mechanism="unary"), "leave delta out"),
        (lambda: Question.choice("q", ["a", "b"], epsilon=1, mechanism="magic"), "one of kary, unary"),
        (lambda: Question.records("q", {}, epsilon=1), "an empty list asks nothing"),
        (lambda: Question.records("q", {"*": ["a"]}, epsilon=1), "stands for everything that is not listed"),
        (lambda: Question.records("q", {"a": ["b"]}, epsilon=1, share=1), "share=1: expected a number between"),
        (lambda: Question.records("q", {"a": ["b"]}, epsilon=1, delta="1e-5"), "set spend_slack=False"),
        (lambda: Question.number("q", 1, 1, epsilon=1), "expected lower below upper"),
        (lambda: Question.number("q", 0, float("inf"), epsilon=1), "upper='inf': expected a number"),
        (lambda: Question.number("q", 0, 1, epsilon=1, steps=0), "steps=0: expected a whole number from 1"),
        (lambda: Question.cluster("q", [[0.0]], epsilon=1), "at least two points"),
        (lambda: Question.cluster("q", [[0.0], [0.0, 1.0]], epsilon=1), "equally many finite numbers"),
        (lambda: Question.yes_no("", epsilon=1), "expected a printable text"),
        (lambda: Question.yes_no("q", epsilon="1e999999999"), "expected a number"),
        (lambda: Question.yes_no("q", epsilon="1e-999999999"), "expected a number"),
        (lambda: Question.yes_no("q", epsilon="1e-7"), "below 0.000001 no estimate is possible"),
        (lambda: Question.number("q", 0, 1, epsilon="0.001", mechanism="laplace"), "use fewer steps"),
        (lambda: Question.cluster("q", [[1e200], [0.0]], epsilon=1), "below 1e100"),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(make: Any, message: str) -> None:
    with pytest.raises(QuestionError, match=message) as caught:
        make()
    assert isinstance(caught.value, HushError)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version 2 is not 1"),
        ({"epsilon": "9"}, "its id does not match its content"),
        ({"epsilon": 0.5}, "epsilon must be a text"),
        ({"options": ["no", "yes", "maybe"]}, "its id does not match its content"),
        ({"hush": "report"}, 'expected a JSON object with "hush": "question"'),
        ({"extra": 1}, "has the fields"),
        ({"kind": "nothing"}, "kind='nothing'"),
        ({"kind": ["choice"]}, "kind=''"),
    ],
)
def test_questions_that_were_changed_are_refused(change: dict[str, Any], message: str) -> None:
    body = json.loads(QUESTIONS[0].as_json()) | change
    with pytest.raises(QuestionError, match=message):
        Question.from_json(json.dumps(body))


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"hush": "question", "version": NaN}', "[" * 100_000])
def test_texts_that_are_no_questions_are_refused(text: str) -> None:
    with pytest.raises(QuestionError):
        Question.from_json(text)


def test_lists_choose_their_law_by_variance() -> None:
    assert kary_is_better(51, Fraction(4))
    assert not kary_is_better(501, Fraction(4))
    assert [best_number_law(Fraction(e)) for e in ("1/2", "6/5", "7/5", "4")] == ["duchi", "duchi", *["piecewise"] * 2]


def test_values_that_are_not_listed_become_the_wildcard() -> None:
    question = QUESTIONS[3]
    assert question.encode(("news", "elsewhere.org")) == ((0, 2), False)
    assert question.encode(("weather", "a.org")) == ((2, 0), False)
    assert QUESTIONS[1].encode("blue") == (2, False)


def test_a_cluster_is_that_of_the_nearest_centre() -> None:
    assert QUESTIONS[7].encode((0.6, 0.9)) == (1, False)


ODD: list[Any] = [None, True, -1, 0, 10**400, 1.5, "", "x", "1e99", "9" * 90, [], [[]], [None], {}, {"a": 1}, "\ud800"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_odd_field_of_a_question_brings_another_error(question: Question) -> None:
    """Every field replaced by every odd value: refused as a question, or the same question; left out: refused."""
    body = json.loads(question.as_json())
    for field in body:
        for odd in ODD:
            with suppress(QuestionError):
                assert Question.from_json(json.dumps(body | {field: odd})).id == question.id
        with pytest.raises(QuestionError):
            Question.from_json(json.dumps({key: value for key, value in body.items() if key != field}))


def test_gaussian_questions_promise_what_their_law_keeps() -> None:
    asked = Question.number("x", 0, 12, epsilon=1, delta="1e-6", mechanism="gaussian", steps=16)
    assert Question.from_json(asked.as_json()).id == asked.id
    with pytest.raises(QuestionError, match="noise so narrow does not keep epsilon=1, delta=0.000001"):
        Question(
            name="x", kind="number", mechanism="gaussian", epsilon=1, delta="1e-6", body=asked.body | {"spread": "60"}
        )
    with pytest.raises(QuestionError, match="delta=0: Gaussian noise needs a delta"):
        Question.number("x", 0, 12, epsilon=1, mechanism="gaussian")
    with pytest.raises(QuestionError, match="expected from 1 to 16,384; change steps"):
        Question.number("x", 0, 12, epsilon="0.01", delta="1e-6", mechanism="gaussian", steps=256)
    with pytest.raises(QuestionError, match="has the fields lower, spread, steps, upper"):
        Question(name="x", kind="number", mechanism="gaussian", epsilon=1, delta="1e-6", body={"lower": "0"})


LISTED = Question.choice("query", ["a", "b", "c"], epsilon=1, other=True)


def test_the_number_of_reports_does_not_depend_on_the_number_of_values() -> None:
    for values in ([], ["a"], ["a", "a"], ["a", "b"], ["a", "b", "c", "z"]):
        device = Device(limit=3)
        reports = device.answer_places(LISTED, values, 3)
        assert len({report.id for report in reports}) == 3
        assert device.spent == 3
        assert [r.id for r in device.answer_places(LISTED, values, 3)] == [r.id for r in reports]
        assert device.spent == 3


def test_places_hold_the_different_values_and_then_the_wildcard() -> None:
    """At epsilon 32 every report is true, but for a chance of 1e-12."""
    sure = Question.choice("query", ["a", "b", "c"], epsilon=32, other=True)
    given = {("a", "a", "b"): [0, 1, 3], (): [3, 3, 3], ("c", "b", "a", "z"): [2, 1, 0], ("z", "y"): [3, 3, 3]}
    for values, expected in given.items():
        assert [report.value for report in Device().answer_places(sure, values, 3)] == expected
    pairs = Question.records("record", {"q": ["u"]}, epsilon=32)
    assert [r.value for r in Device().answer_places(pairs, [("q", "u")], 2)] == [[0, 0], [1, 0]]


def test_all_places_stay_within_the_limit_or_nothing_is_drawn() -> None:
    device = Device(limit=2)
    with pytest.raises(AnswerError, match="would bring this device to 3, beyond its limit of 2; nothing is sent"):
        device.answer_places(LISTED, ["a"], 3)
    assert device.spent == 0
    with pytest.raises(AnswerError, match="places=0: expected a whole number"):
        device.answer_places(LISTED, ["a"], 0)
    with pytest.raises(AnswerError, match="put a single value in a list"):
        device.answer_places(LISTED, "a", 2)
    with pytest.raises(AnswerError, match="needs other=True"):
        device.answer_places(Question.yes_no("q", epsilon=1), ["yes"], 2)
