"""Every result of the hybrid room, replayed: with noisy numbers frozen, exchanging one person changes nothing.

The whole result is compared, every field of it and its printed form, as is everything public about the people who were
measured. What differs was computed from exact data without noise, such as whether some number was outside the bounds.
"""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hush.cli.main import main
from hush.core.errors import ReplayError
from hush.hybrid import hybrid_kmeans, hybrid_mean
from hush.hybrid.blender import HeadListQuestions, blend, find_head_list, head_list_questions
from hush.hybrid.client import Question
from hush.hybrid.collection import ReportCounts
from hush.hybrid.head_list import discover, estimate_opt_in
from hush.hybrid.kmeans import OptInPoints, SimulatedClients
from hush.hybrid.opt_in import OptInNumbers, OptInRecords
from hush.hybrid.promises import Promise
from hush.hybrid.simulated_reports import generator_of, simulate_reports
from hush.testing import check_replay

NUMBERS = [7.0, 6.5, 8.0, 12.0, 0.0]
OTHER_NUMBERS = (3.0, 12.0, 12.5, -1.0, 1e308)  # in place of the first: inside, at a bound, and beyond the bounds
NEWS, MAIL = ("news", "a.org"), ("mail", "b.org")
LOG = [[NEWS], [MAIL], *[[NEWS]] * 35, *[[MAIL]] * 35]
OTHER_RECORDS: tuple[list[tuple[str, str]], ...] = (
    [MAIL],
    [("typed once", "x")],
    [("news", "typed once")],
    [("*", "a.org")],
    [("news", "*")],
    [NEWS, MAIL, ("typed once", "x")],
    [],
)
POINTS = [[0.2, 0.3], [0.8, 0.7], [0.7, 0.9], [0.1, 0.1]]
OTHER_POINTS = ([0.9, 0.9], [0.2, 1.5], [1e308, -1e308])
QUESTION = Question.number("hours", 0, 12, epsilon=1, mechanism="piecewise")
REPORTS = simulate_reports(QUESTION, [7.0, 5.0, 9.0] * 100, generator_of(1))


def exchanged(people: list[Any], others: Any) -> list[list[Any]]:
    """Neighbours: the first person's data exchanged for other data."""
    return [[other, *people[1:]] for other in others]


def public(people: Any) -> dict[str, Any]:
    """All that can be read off people who opted in without going through the gate."""
    named = {name: value for name, value in vars(people).items() if not name.startswith("_")}
    return named | {"number": len(people), "printed": repr(people) if "__repr__" in vars(type(people)) else ""}


def shown(result: Any, people: Any) -> tuple[Any, ...]:
    return result, repr(result), result.to_dict(), public(people)


def mean(numbers: list[float], weight: Any) -> Any:
    people = OptInNumbers(numbers, 0, 12)
    return shown(hybrid_mean(people, REPORTS, Promise.of(1), weight=weight), people)


def head_list(log: list[Any], form: Any, max_records: int) -> Any:
    people = OptInRecords(log, max_records=max_records)
    promise = Promise.of(8, 1e-3)
    counted = find_head_list(people, promise, most_queries=2)
    questions = head_list_questions(counted.head_list, promise, form=form)
    found = [blend(counted, questions), blend(counted, questions, client_counts(questions))]
    return counted, counted.head_list, questions.head_list, [shown(one, people) for one in found]


def client_counts(questions: HeadListQuestions) -> dict[str, ReportCounts]:
    """Reports of 40 clients who hold the first record or option."""
    held = [question.encode(NEWS)[0] if question.kind == "records" else 0 for question in questions.questions]
    return {
        question.id: simulate_reports(question, [value] * 40, generator_of(2))
        for question, value in zip(questions.questions, held, strict=True)
    }


def counted_records(log: list[Any]) -> Any:
    people = OptInRecords(log)
    estimates = estimate_opt_in(people, (NEWS,), Promise.of(1))
    return discover(people, Promise.of(4, 1e-3)), estimates, estimates.to_dict(), estimates.variance(), public(people)


def centres(points: list[list[float]], *, alone: bool) -> Any:
    people = OptInPoints(points, 0, 1)
    clients = SimulatedClients(POINTS * 20, 0, 1, epsilon=Fraction(1), generator=generator_of(3))
    start = [[0.25, 0.25], [0.75, 0.75]]
    found = hybrid_kmeans(start, 2, Promise.of(3), opt_in=people, clients=None if alone else clients)
    return found, public(people)


def test_every_field_of_a_mean_comes_from_noisy_numbers() -> None:
    for weight in ("variance", "privacy", "size", 0.5):
        assert check_replay(lambda held, by=weight: mean(held, by), NUMBERS, exchanged(NUMBERS, OTHER_NUMBERS)) == 5


@pytest.mark.parametrize(("form", "max_records"), [("split", 1), ("two-stage", 1), ("split", 2)])
def test_every_field_of_a_head_list_comes_from_noisy_numbers(form: str, max_records: int) -> None:
    neighbours = exchanged(LOG, OTHER_RECORDS)
    assert check_replay(lambda log: head_list(log, form, max_records), LOG, neighbours) == 7


def test_every_field_of_opt_in_estimates_comes_from_noisy_numbers() -> None:
    assert check_replay(counted_records, LOG, exchanged(LOG, OTHER_RECORDS)) == 7


@pytest.mark.parametrize("alone", [True, False])
def test_centres_come_from_noisy_numbers(alone: bool) -> None:
    assert check_replay(lambda held: centres(held, alone=alone), POINTS, exchanged(POINTS, OTHER_POINTS)) == 3


def command(write: Callable[[Path, list[Any]], None], folder: Path, words: list[str]) -> Callable[[list[Any]], Any]:
    """A run of a command on a file of opt-in people, with all that it prints and writes."""

    def run(people: list[Any]) -> Any:
        write(folder / "people.txt", people)
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
        return result.output, (folder / "out.json").read_text() if (folder / "out.json").exists() else ""

    return run


def write_numbers(path: Path, numbers: list[float]) -> None:
    path.write_text("\n".join(map(str, numbers)))


def write_log(path: Path, log: list[Any]) -> None:
    """Everybody's records; a person without one has a query without a click."""
    rows = [f"{i}\t{q}\t{u}" for i, records in enumerate(log) for q, u in records or [("nothing", "")]]
    path.write_text("\n".join(["person\tquery\turl", *rows]))


@pytest.mark.parametrize("form", ["table", "json"])
def test_the_command_for_a_mean_says_nothing_else(form: str, tmp_path: Path) -> None:
    question, values, reports = (tmp_path / name for name in ("question.json", "values.txt", "reports.jsonl"))
    question.write_text(QUESTION.as_json())
    values.write_text("7\n" * 30)
    asked = ["hybrid", "report", str(question), "--values", str(values), "-o", str(reports)]
    assert CliRunner().invoke(main, asked).exit_code == 0
    words = ["hybrid", "estimate", str(question), str(reports), "--opt-in", str(tmp_path / "people.txt")]
    run = command(write_numbers, tmp_path, [*words, "--format", form])
    assert check_replay(run, NUMBERS, exchanged(NUMBERS, OTHER_NUMBERS)) == 5


def test_the_command_for_a_head_list_says_nothing_else(tmp_path: Path) -> None:
    words = ["hybrid", "head-list", str(tmp_path / "people.txt"), "--epsilon", "8", "--delta", "0.001"]
    run = command(write_log, tmp_path, [*words, "--force", "-o", str(tmp_path / "out.json")])
    assert check_replay(run, LOG, exchanged(LOG, OTHER_RECORDS)) == 7


def test_a_result_that_says_what_was_moved_is_noticed() -> None:
    def telling(numbers: list[float]) -> Any:
        return mean(numbers, "size"), max(numbers) > 12

    assert check_replay(telling, NUMBERS, exchanged(NUMBERS, OTHER_NUMBERS[:2])) == 2
    with pytest.raises(ReplayError, match="the result depends on the data"):
        check_replay(telling, NUMBERS, exchanged(NUMBERS, OTHER_NUMBERS[2:3]))
