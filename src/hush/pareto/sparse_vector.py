"""Sparse vector: which of many yes-no questions are answered yes, until a cap of positives is reached.

With b_1 = b / (1 + (2C)^(1/3)) and b_2 = b - b_1: the threshold is 1/2 + Lap(b_1), drawn once; question i is positive
if q_i + Lap(b_2) is at least that; the run ends after C positives. For queries of sensitivity 1 it is epsilon-DP with

    epsilon = 1 / b_1 + 2C / b_2 = (1 + (2C)^(1/3)) (1 + (2C)^(2/3)) / b.

Privacy: the noise is floating-point noise and its bits come from numpy, so this is a model of the mechanism, to find
out what it costs and gives; nothing here passes the gate. Run it on invented or public answers.

Reference: [DPareto, Alg. 3.1]; [Lyu et al. 2017, Alg. 7] with epsilon_1 = 1 / b_1, epsilon_2 = 2C / b_2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.core.arrays import Booleans, Floats
from hush.core.errors import SearchError, shown
from hush.core.validation import is_number
from hush.pareto.space import IntegerSetting, RealSetting, Space

QUERIES, POSITIVES = 100, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector:
    """The mechanism with noise b and a cap C on positives.

    >>> round(SparseVector(noise=0.1, cap=5).epsilon, 4)
    177.9602
    """

    noise: float
    cap: int

    def __post_init__(self) -> None:
        if not (is_number(self.noise) and self.noise > 0):
            raise SearchError(f"noise={shown(self.noise)}: expected a number above 0")
        if not (isinstance(self.cap, int) and self.cap >= 1):
            raise SearchError(f"cap={shown(self.cap)}: expected a whole number of at least 1")

    @property
    def scales(self) -> tuple[float, float]:
        """The Laplace scales of the threshold and of each question."""
        first = self.noise / (1 + (2 * self.cap) ** (1 / 3))
        return first, self.noise - first

    @property
    def epsilon(self) -> float:
        """The pure epsilon of one run."""
        root = float((2 * self.cap) ** (1 / 3))
        return (1 + root) * (1 + root**2) / self.noise

    def positives(self, answers: Floats, generator: np.random.Generator) -> Booleans:
        """Which questions are called positive, from their exact answers between 0 and 1."""
        for_threshold, for_each = self.scales
        threshold = 0.5 + generator.laplace(scale=for_threshold)
        above = answers + generator.laplace(scale=for_each, size=len(answers)) >= threshold
        return np.asarray(above & (np.cumsum(above) <= self.cap))


def sparse_vector_space() -> Space:
    """The document's domain: a cap of 1 to 30, and noise from 0.01 to 100 on a log scale."""
    return Space([RealSetting("noise", 1e-2, 1e2, log=True), IntegerSetting("cap", 1, 30)])


def sparse_vector_epsilon(settings: Mapping[str, Any]) -> float:
    """The privacy oracle: epsilon in closed form."""
    return SparseVector(noise=settings["noise"], cap=settings["cap"]).epsilon


sparse_vector_epsilon.quick = True  # type: ignore[attr-defined]


def sparse_vector_error(settings: Mapping[str, Any], generator: np.random.Generator) -> float:
    """The error oracle, 1 - F1 of one run on 100 questions in random order, 10 of which are true."""
    answers = np.zeros(QUERIES)
    answers[generator.choice(QUERIES, POSITIVES, replace=False)] = 1.0
    called = SparseVector(noise=settings["noise"], cap=settings["cap"]).positives(answers, generator)
    found = float(called @ answers)
    return 1.0 - (2 * found / (called.sum() + POSITIVES) if found else 0.0)
