"""Evaluation: settings, their exact epsilon, and their error in several noisy runs, as two oracles return them.

A privacy oracle is a function of settings that returns epsilon, never below the true one. An error oracle is a function
of settings and a random generator that returns the error of one run; smaller is better. Failed runs and infinite
epsilons are recorded, and are on no front.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

import numpy as np

from hush.core.errors import HushError, SearchError, shown
from hush.pareto.space import Settings

PrivacyOracle: TypeAlias = Callable[[Settings], float]
ErrorOracle: TypeAlias = Callable[[Settings, np.random.Generator], float]
NO_EPSILON = "epsilon is infinite"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Settings, their epsilon, and the error of each run that worked; with a `problem`, the settings are on no front.

    >>> runs = Evaluation(settings={"noise": 2.0}, epsilon=0.5, errors=(0.2, 0.4))
    >>> round(runs.error, 9), round(runs.deviation, 3), runs.usable
    (0.3, 0.141, True)
    """

    settings: Settings
    epsilon: float
    errors: tuple[float, ...] = ()
    problem: str = ""

    @property
    def usable(self) -> bool:
        """Whether the settings can be on a front."""
        return not self.problem and bool(self.errors) and math.isfinite(self.epsilon)

    @property
    def error(self) -> float:
        """The mean error; NaN if the evaluation failed."""
        return float(np.mean(self.errors)) if self.errors and not self.problem else math.nan

    @property
    def deviation(self) -> float:
        """The standard deviation of the error of one run; NaN for fewer than two runs."""
        return float(np.std(self.errors, ddof=1)) if len(self.errors) > 1 else math.nan

    @property
    def standard_error(self) -> float:
        """The standard error of the mean error."""
        return self.deviation / math.sqrt(len(self.errors)) if len(self.errors) > 1 else math.nan

    def quantile(self, share: float) -> float:
        """The error that this share of the runs did not exceed."""
        return float(np.quantile(self.errors, share)) if self.errors else math.nan

    def joined(self, other: Evaluation) -> Evaluation:
        """Both evaluations of the same settings as one with all of their runs."""
        return Evaluation(
            settings=self.settings,
            epsilon=max(self.epsilon, other.epsilon),
            errors=self.errors + other.errors,
            problem=self.problem or other.problem,
        )


def merged(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """The evaluations, with all runs of equal settings in one."""
    by_settings: dict[tuple[tuple[str, str], ...], Evaluation] = {}
    for evaluation in evaluations:
        key = tuple(sorted((name, repr(value)) for name, value in evaluation.settings.items()))
        by_settings[key] = by_settings[key].joined(evaluation) if key in by_settings else evaluation
    return list(by_settings.values())


def evaluate(
    privacy: PrivacyOracle,
    error: ErrorOracle,
    settings: Settings,
    seeds: Sequence[Sequence[int]],  # of each run
    epsilon: float | None = None,  # if it is known already
) -> Evaluation:
    """Ask both oracles. A failed run is recorded by the type of its error alone, since messages may quote data."""
    known = epsilon_of(privacy, settings) if epsilon is None else epsilon
    if math.isinf(known):
        return Evaluation(settings=settings, epsilon=known, problem=NO_EPSILON)
    errors: list[float] = []
    problems: list[str] = []
    for seed in seeds:
        generator = np.random.Generator(np.random.PCG64(list(seed)))
        try:
            value = error(dict(settings), generator)
        except HushError as failure:
            problems.append(str(failure))
            continue
        except Exception as failure:  # noqa: BLE001 - an oracle may fail in any way
            problems.append(type(failure).__name__)
            continue
        if not isinstance(value, Real) or isinstance(value, bool):  # NaN and infinity are failed runs
            raise SearchError(f"the error oracle returned {shown(value)}; expected a number")
        if math.isfinite(value):
            errors.append(float(value))
        else:
            problems.append(f"an error of {float(value)}")
    problem = f"{len(problems)} of {len(seeds)} runs failed: {problems[0]}" if problems else ""
    return Evaluation(settings=settings, epsilon=known, errors=tuple(errors), problem=problem)


def epsilon_of(privacy: PrivacyOracle, settings: Settings) -> float:
    """The oracle's epsilon; NaN and negative numbers are refused, since they would pass for more privacy."""
    try:
        epsilon = privacy(settings)
    except HushError:
        raise
    except Exception as failure:
        raise SearchError(
            f"the privacy oracle failed with {type(failure).__name__} at {shown(settings)}; return infinity there"
        ) from failure
    if type(epsilon) is float and epsilon >= 0:  # the usual case, without the slower checks
        return epsilon
    if not isinstance(epsilon, Real) or isinstance(epsilon, bool) or not epsilon >= 0:
        raise SearchError(
            f"the privacy oracle returned {shown(epsilon)}; expected an epsilon of at least 0, or infinity"
        )
    return float(epsilon)
