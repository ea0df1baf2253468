"""Fronts of several models in one picture."""

from pathlib import Path

import numpy as np
import pytest

from hush.core.errors import SearchError
from hush.pareto import Evaluation, Front, ModelFronts, front_indices

POINTS = {
    "logistic": [(0.5, 0.4), (2.0, 0.2), (8.0, 0.15)],
    "svm": [(0.6, 0.35), (2.5, 0.22), (7.0, 0.1)],
}


def front(points: list[tuple[float, float]], **options: object) -> Front:
    evaluations = [Evaluation(settings={"lot": i}, epsilon=e, errors=(y,)) for i, (e, y) in enumerate(points)]
    return Front(evaluations=evaluations, reference=(10.0, 1.0), **options)  # type: ignore[arg-type]


MODELS = ModelFronts({name: front(points) for name, points in POINTS.items()})


def test_the_joint_front_is_that_of_all_points() -> None:
    every = [point for points in POINTS.values() for point in points]
    expected = [every[i] for i in front_indices(np.array(every))]
    assert [(point.epsilon, point.error) for _, point in MODELS.joint()] == expected
    assert [name for name, _ in MODELS.joint()] == ["logistic", "svm", "logistic", "svm"]


def test_the_best_model_depends_on_epsilon() -> None:
    assert [MODELS.best_at(epsilon)[0] for epsilon in (0.55, 1.0, 3.0, 9.0)] == ["logistic", "svm", "logistic", "svm"]
    with pytest.raises(SearchError, match="no point has epsilon"):
        MODELS.best_at(0.1)
    volumes = MODELS.hypervolumes((10.0, 1.0))
    assert volumes["logistic"] == pytest.approx(MODELS.fronts["logistic"].hypervolume())


def test_one_picture_has_every_front(tmp_path: Path) -> None:
    MODELS.write_page(tmp_path / "fronts.html")
    page = (tmp_path / "fronts.html").read_text(encoding="utf-8")
    assert page.count("<svg") - page.count('aria-hidden="true"') == 1
    assert page.count("logistic") >= 2
    assert page.count("svm") >= 2
    assert "model" in str(MODELS)


@pytest.mark.parametrize(
    ("fronts", "message"),
    [
        ({}, "expected names and fronts"),
        ([], "expected names and fronts"),
        ({"a": 3}, "the front of a search"),
        ({"a": front([(1.0, 0.5)]), "b": front([(1.0, 0.5)], measure="loss")}, "different errors"),
        ({"a": front([(1.0, 0.5)], delta=1e-5), "b": front([(1.0, 0.5)], delta=1e-6)}, "different deltas"),
    ],
)
def test_fronts_that_cannot_be_compared_are_refused(fronts: dict[str, Front], message: str) -> None:
    with pytest.raises(SearchError, match=message):
        ModelFronts(fronts)
