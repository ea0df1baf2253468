"""Search problems: spaces and oracles of the sparse vector technique and of private training, as in [DPareto].

The sparse vector technique tells which of many yes-no questions are answered yes, until C were called positive. With
b_1 = b / (1 + (2C)^(1/3)) and b_2 = b - b_1, the threshold is 1/2 + Lap(b_1), drawn once, and question i is positive if
q_i + Lap(b_2) reaches the threshold. For questions of sensitivity 1 this is epsilon-DP with

    epsilon = 1 / b_1 + 2C / b_2 = (1 + (2C)^(1/3)) (1 + (2C)^(2/3)) / b.

Privacy: the noise is numpy's floating-point noise, so `SparseVector` is a model of the mechanism, for studies of its
cost and error. Nothing here passes the gate. Run it on invented or public answers.

Reference: [DPareto, Alg. 3.1 and Tables 3.1 to 3.3]; [Lyu et al. 2017, Alg. 7] with epsilon_1 = 1 / b_1 and
epsilon_2 = 2C / b_2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.core.arrays import Booleans, Floats
from hush.core.errors import SearchError
from hush.core.validation import check_number, check_whole
from hush.pareto.space import ExponentialLaw, IntegerSetting, Law, NormalLaw, RealSetting, Space, UniformLaw
from hush.training.private_estimators import PrivateEstimator, PrivateLinear
from hush.training.private_training import SparseRows, checked_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector:
    """The sparse vector technique with noise b and a cap C on positives.

    >>> round(SparseVector(noise=0.1, cap=5).epsilon, 4)
    177.9602
    """

    noise: float
    cap: int

    def __post_init__(self) -> None:
        check_number(SearchError, "noise", self.noise, above=0)
        check_whole(SearchError, "cap", self.cap, least=1)

    @property
    def scales(self) -> tuple[float, float]:
        """The Laplace scales of the threshold and of each question."""
        threshold_scale = self.noise / (1 + (2 * self.cap) ** (1 / 3))
        return threshold_scale, self.noise - threshold_scale

    @property
    def epsilon(self) -> float:
        """The pure epsilon of one run."""
        root = float((2 * self.cap) ** (1 / 3))
        return (1 + root) * (1 + root**2) / self.noise

    def positives(self, answers: Floats, generator: np.random.Generator) -> Booleans:
        """Which questions are called positive, from their exact answers between 0 and 1."""
        threshold_scale, question_scale = self.scales
        threshold = 0.5 + generator.laplace(scale=threshold_scale)
        above = answers + generator.laplace(scale=question_scale, size=len(answers)) >= threshold
        return np.asarray(above & (np.cumsum(above) <= self.cap))


def sparse_vector_space() -> Space:
    """The paper's space: a cap of 1 to 30, and noise from 0.01 to 100 on a log scale."""
    return Space([RealSetting("noise", 1e-2, 1e2, log=True), IntegerSetting("cap", 1, 30)])


def sparse_vector_epsilon(settings: Mapping[str, Any]) -> float:
    """The privacy oracle: epsilon in closed form."""
    return SparseVector(noise=settings["noise"], cap=settings["cap"]).epsilon


sparse_vector_epsilon.quick = True  # type: ignore[attr-defined]


def sparse_vector_error(settings: Mapping[str, Any], generator: np.random.Generator) -> float:
    """The error oracle: 1 - F1 of one run on 100 questions in random order, 10 of which are true."""
    questions, true = 100, 10
    answers = np.zeros(questions)
    answers[generator.choice(questions, true, replace=False)] = 1.0
    called = SparseVector(noise=settings["noise"], cap=settings["cap"]).positives(answers, generator)
    true_positives = float(called @ answers)
    return 1.0 - (2 * true_positives / (called.sum() + true) if true_positives else 0.0)


@dataclass(frozen=True)
class TrainingError:
    """The error oracle of private training: the share of test rows that a model with these settings gets wrong."""

    estimator: PrivateEstimator
    features: Any
    labels: Any
    test_features: Any
    test_labels: Any

    def __post_init__(self) -> None:
        if isinstance(self.estimator, PrivateLinear):  # rows are made sparse once, not in each run
            object.__setattr__(self, "features", SparseRows.of(checked_rows(self.features)))

    def __call__(self, settings: Mapping[str, Any], generator: np.random.Generator) -> float:
        parameters = self.estimator.get_params() | dict(settings) | {"seed": int(generator.integers(2**62))}
        model: Any = type(self.estimator)(**parameters)
        model.fit(self.features, self.labels)
        scores = model.decision_function(self.test_features)
        if not np.isfinite(scores).all():
            return float("nan")
        return 1 - float(np.mean(model.classes_at(scores) == np.asarray(self.test_labels)))


def adult_space() -> Space:
    """The paper's space for the Adult data, on linear scales; `noise` is the noise multiplier."""
    return Space(
        [
            IntegerSetting("epochs", 1, 64),
            IntegerSetting("lot", 8, 512),
            RealSetting("learning_rate", 5e-4, 5e-2),
            RealSetting("noise", 0.1, 16.0),
            RealSetting("clip", 0.1, 4.0),
        ]
    )


def mnist_space() -> Space:
    """The paper's space for MNIST, on linear scales."""
    return Space(
        [
            IntegerSetting("epochs", 1, 400),
            IntegerSetting("lot", 16, 4000),
            RealSetting("learning_rate", 1e-3, 0.5),
            RealSetting("noise", 0.1, 16.0),
            RealSetting("clip", 0.1, 12.0),
        ]
    )


ADULT_LAWS: Mapping[str, Law] = {
    "epochs": UniformLaw(1, 64),
    "lot": NormalLaw(128, 64, 8, 512),
    "learning_rate": ExponentialLaw(10, 1e-3, 1e-1),
    "noise": ExponentialLaw(0.1, 0.1, 16),
    "clip": ExponentialLaw(0.1, 0.1, 4),
}
MNIST_LAWS: Mapping[str, Law] = {
    "epochs": UniformLaw(1, 400),
    "lot": NormalLaw(800, 800, 16, 4000),
    "learning_rate": ExponentialLaw(10, 1e-3, 0.5),
    "noise": ExponentialLaw(0.5, 0.1, 16),
    "clip": ExponentialLaw(0.5, 0.1, 12),
}
