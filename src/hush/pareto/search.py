"""Searches for the front of privacy and error: by a model, at random, or on a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from hush.core.errors import SearchError, shown
from hush.pareto.bayesian_choice import BayesianChoice, Method
from hush.pareto.evaluation import ErrorOracle, Evaluation, PrivacyOracle
from hush.pareto.front import Front, checked_reference
from hush.pareto.sampling_laws import Law, draw_settings
from hush.pareto.search_loop import Progress, SearchLoop
from hush.pareto.space import Settings, Space

LABELS = {"name", "measure", "stamp", "delta"}


def search(
    space: Space,
    privacy: PrivacyOracle,
    error: ErrorOracle,
    *,
    reference: Sequence[float],
    evaluations: int = 64,
    runs: int = 1,
    initial: int | Sequence[Settings] | None = None,
    method: Method = "improvement",
    batch: int = 1,
    seconds: float | None = None,
    seed: int = 0,
    executor: Executor | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    name: str = "",
    measure: str = "error",
    stamp: str = "",
    delta: float | None = None,
) -> Front:
    """The front of epsilon and error over a space of settings, in few evaluations.

    `privacy(settings)` is epsilon, exactly; a function with an attribute `quick` that is true is asked about every
    candidate, any other about few. `error(settings, generator)` is the error of one run, to be small; an evaluation is
    the mean of `runs` of them. `reference` is the worst epsilon and error that are of interest. After `initial` points
    (or those that are given) a model chooses `batch` points at a time, which an `executor` may run at once. The search
    ends after that many `evaluations`, or `seconds`. A `checkpoint` file is written after each evaluation, and a search
    whose checkpoint exists goes on from there.

    Privacy: reads nothing itself, but the front is as private as what `error` reads.

    >>> from hush.pareto import Space, RealSetting
    >>> space = Space([RealSetting("noise", 0.1, 10, log=True)])
    >>> found = search(
    ...     space,
    ...     lambda settings: 1 / settings["noise"],
    ...     lambda settings, generator: settings["noise"] / 10,
    ...     reference=(10.0, 1.0),
    ...     evaluations=12,
    ... )
    >>> found.best_at(1.0).settings["noise"] < 2
    True
    """
    worst = checked_reference(reference)
    loop = SearchLoop(
        space=space,
        privacy=privacy,
        error=error,
        reference=worst,
        evaluations=evaluations,
        runs=runs,
        batch=batch,
        seconds=seconds,
        seed=seed,
        executor=executor,
        checkpoint=checkpoint,
        progress=progress,
        labels={"name": name, "measure": measure, "stamp": stamp, "delta": delta},
    )
    chooser = BayesianChoice(space, privacy, worst, initial=initial, method=method, seed=seed)
    if evaluations < chooser.initial:
        raise SearchError(
            f"evaluations={evaluations}: fewer than the {chooser.initial} initial points; raise it, or in Python give "
            "fewer with initial="
        )
    return loop.run(chooser)


def random_search(
    space: Space,
    privacy: PrivacyOracle,
    error: ErrorOracle,
    *,
    reference: Sequence[float],
    evaluations: int = 64,
    laws: Mapping[str, Law] | None = None,
    seed: int = 0,
    **options: Any,
) -> Front:
    """Settings at random: by the laws that are given, and evenly over the range of every other setting.

    The other options are those of `search`.
    """
    loop = _loop(space, privacy, error, reference, evaluations, seed, options)
    return loop.run(RandomChoice(space, laws or {}, seed))


def grid_search(
    space: Space,
    privacy: PrivacyOracle,
    error: ErrorOracle,
    *,
    reference: Sequence[float],
    values: int = 3,
    seed: int = 0,
    **options: Any,
) -> Front:
    """All combinations of `values` values of each setting, at equal distances on its scale.

    The other options are those of `search`.
    """
    points = space.grid(values) if isinstance(space, Space) else []
    return _loop(space, privacy, error, reference, len(points), seed, options).run(GridChoice(points))


def _loop(
    space: Space,
    privacy: PrivacyOracle,
    error: ErrorOracle,
    reference: Sequence[float],
    evaluations: int,
    seed: int,
    options: dict[str, Any],
) -> SearchLoop:
    labels: dict[str, Any] = {key: options.pop(key) for key in [*options] if key in LABELS}
    unknown = set(options) - {"runs", "batch", "seconds", "executor", "checkpoint", "progress"}
    if unknown:
        raise SearchError(f"unknown option {', '.join(sorted(unknown))}; see hush.pareto.search")
    return SearchLoop(
        space=space,
        privacy=privacy,
        error=error,
        reference=checked_reference(reference),
        evaluations=evaluations,
        seed=seed,
        labels=labels,
        **options,
    )


class RandomChoice:
    """Chooses every point by itself."""

    def __init__(self, space: Space, laws: Mapping[str, Law], seed: int) -> None:
        if unknown := set(laws) - set(space.names):
            raise SearchError(f"a law for {shown(sorted(unknown))}: expected names of {', '.join(space.names)}")
        for name, law in laws.items():
            if not callable(getattr(law, "draw", None)):
                raise SearchError(f"the law {shown(law)} of {name}: expected one such as UniformLaw(1, 64)")
        self.space, self.laws, self.seed = space, laws, seed

    def describe(self) -> dict[str, Any]:
        return {"method": "random", "laws": {name: repr(law) for name, law in self.laws.items()}}

    def next(self, evaluations: Sequence[Evaluation], count: int) -> list[Settings]:
        numbers = range(len(evaluations), len(evaluations) + count)
        generators = [np.random.Generator(np.random.PCG64([self.seed, 1, number])) for number in numbers]
        return [draw_settings(self.space, self.laws, generator) for generator in generators]


class GridChoice:
    """Takes the points of a grid one after the other."""

    def __init__(self, points: list[Settings]) -> None:
        self.points = points

    def describe(self) -> dict[str, Any]:
        return {"method": "grid", "points": len(self.points)}

    def next(self, evaluations: Sequence[Evaluation], count: int) -> list[Settings]:
        return self.points[len(evaluations) : len(evaluations) + count]
