"""Fronts: their points, questions to them, tables, files and refusals."""

import json
import math
from pathlib import Path

import pytest

from hush.core.errors import ArchiveError, HushError, SearchError
from hush.pareto import Evaluation, Front


def front(**fields) -> Front:
    evaluations = [
        Evaluation(settings={"noise": 4.0, "cap": 2}, epsilon=1.0, errors=(0.3, 0.5)),
        Evaluation(settings={"noise": 2.0, "cap": 3}, epsilon=2.0, errors=(0.2,)),
        Evaluation(settings={"noise": 2.0, "cap": 1}, epsilon=3.0, errors=(0.6,)),
        Evaluation(settings={"noise": 0.1, "cap": 1}, epsilon=0.5, errors=(), problem="1 of 1 runs failed: OSError"),
        Evaluation(settings={"noise": 0.0, "cap": 1}, epsilon=math.inf, problem="epsilon is infinite"),
        Evaluation(settings={"noise": 1.0, "cap": 3}, epsilon=8.0, errors=(0.1,)),
    ]
    return Front(evaluations=evaluations, reference=(10.0, 1.0), **fields)


def test_failed_and_dominated_evaluations_are_off_the_front() -> None:
    assert [point.epsilon for point in front()] == [1.0, 2.0, 8.0]
    assert front().curve() == [(1.0, 0.4), (2.0, 0.2), (8.0, 0.1)]
    assert len(front()) == 3


def test_questions_are_answered_with_the_settings() -> None:
    made = front()
    assert made.best_at(5).settings == {"noise": 2.0, "cap": 3}
    assert made.best_at(2.0).epsilon == 2.0
    assert made.least_epsilon(0.4).settings == {"noise": 4.0, "cap": 2}
    assert made.least_epsilon(0.15).epsilon == 8.0


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda f: f.best_at(0.5), "no point has epsilon <= 0.5; the least is 1"),
        (lambda f: f.least_epsilon(0.01), "no point has error <= 0.01; the least is 0.1"),
        (lambda f: f.best_at("a"), "expected a number"),
        (lambda f: f.hypervolume((0.5, 1.0)), "lies inside the front"),
        (lambda f: f.hypervolume((10, 0.05)), "lies inside the front"),
        (lambda f: f.hypervolume((10,)), "expected the worst epsilon"),
        (lambda f: Front(evaluations=f.evaluations, reference=(0.5, 1.0)).hypervolume(), "least epsilon is 1 with"),
        (lambda f: f.band(0), "share=0"),
        (lambda f: Front(evaluations=[], reference=(1.0, 1.0)).best_at(1), "every evaluation failed"),
        (lambda f: Front(evaluations=[], reference=(0.0, 1.0)), "above 0"),
        (lambda f: Front(evaluations=[], reference=(math.inf, 1.0)), "expected the worst epsilon"),
    ],
)
def test_questions_without_an_answer_say_why(ask, says: str) -> None:
    with pytest.raises(SearchError, match=says) as caught:
        ask(front())
    assert "\n" not in str(caught.value)


def test_the_hypervolume_is_that_of_the_steps() -> None:
    assert front().hypervolume() == pytest.approx(1 * 0.6 + 6 * 0.8 + 2 * 0.9)
    assert front().hypervolume((4.0, 0.5)) == pytest.approx(1 * 0.1 + 2 * 0.3)


def test_the_band_is_of_single_runs() -> None:
    (epsilon, low, high), *_ = front().band(1.0)
    assert (epsilon, low, high) == (1.0, 0.3, 0.5)
    assert front().band(0.5)[0] == (1.0, pytest.approx(0.35), pytest.approx(0.45))


def test_the_table_names_settings_and_failures() -> None:
    text = str(front(name="sparse vector", stamp="Made from a stand-in", measure="1 - F1"))
    assert text.splitlines()[0] == "sparse vector"
    assert "epsilon" in text
    assert "1 - F1" in text
    assert "Made from a stand-in." in text
    assert "2 of 6 evaluations failed" in text
    assert "<table" in front()._repr_html_()


def test_files_hold_everything(tmp_path: Path) -> None:
    made = front(name="n", stamp="s", delta=1e-5, search={"method": "random", "space": ["x"]})
    made.save(tmp_path / "front.json")
    assert Front.load(tmp_path / "front.json") == made
    assert json.loads((tmp_path / "front.json").read_text()) == made.to_dict()
    with pytest.raises(HushError, match="exists already"):
        made.save(tmp_path / "front.json")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda body: body | {"format": "hush front 9"}, "get a newer hush"),
        (lambda body: body | {"more": 1}, "unknown field"),
        (lambda body: {k: v for k, v in body.items() if k != "reference"}, "missing required field"),
        (lambda body: body | {"reference": [0, 1]}, "above 0"),
        (lambda body: body | {"evaluations": [{"settings": {}, "epsilon": -1, "errors": []}]}, "epsilon"),
        (lambda body: body | {"evaluations": [{"settings": {"a": []}, "epsilon": 1, "errors": []}]}, "settings"),
        (lambda body: [], "Expected `object`"),
    ],
)
def test_damaged_files_are_refused_in_one_line(tmp_path: Path, change, says: str) -> None:
    path = tmp_path / "front.json"
    path.write_text(json.dumps(change(front().to_dict())))
    with pytest.raises(ArchiveError, match=says) as caught:
        Front.load(path)
    assert "\n" not in str(caught.value)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="cannot be read"):
        Front.load(tmp_path / "none.json")
    (tmp_path / "text").write_text("{" * 100_000)
    with pytest.raises(ArchiveError, match="is no front"):
        Front.load(tmp_path / "text")


def test_settings_that_no_file_can_hold_are_refused(tmp_path: Path) -> None:
    odd = Front(evaluations=[Evaluation(settings={"a": object()}, epsilon=1.0, errors=(1.0,))], reference=(1.0, 1.0))
    with pytest.raises(SearchError, match="for files hold no other"):
        odd.save(tmp_path / "front.json")
    assert not (tmp_path / "front.json").exists()
