"""Searches for the front of privacy and error: by a model, at random, or on a grid.

All three run one loop: choose settings, ask the oracles, write a checkpoint, until the evaluations or the seconds are
used up. A chooser sees all evaluations so far and names the next settings. Its random draws depend only on the seed and
the number of evaluations so far, so an interrupted search resumes exactly where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from hush.core.errors import SearchError, shown
from hush.core.validation import check_number, check_whole
from hush.pareto.bayesian_choice import BayesianChoice, Method
from hush.pareto.evaluation import ErrorOracle, Evaluation, PrivacyOracle, evaluate
from hush.pareto.front import Front, checked_reference
from hush.pareto.space import Law, Settings, Space, draw_settings

Progress: TypeAlias = Callable[[float], None]
EVALUATIONS_TO_SUCCEED = 16  # a search stops if all of its first evaluations failed


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

    `privacy(settings)` returns epsilon, exactly. A function with a true attribute `quick` is asked about every
    candidate, any other about few. `error(settings, generator)` returns the error of one run, smaller is better; an
    evaluation is the mean of `runs` runs. `reference` is the worst epsilon and error of interest. After `initial`
    points (a number, or the settings themselves) a model chooses `batch` points at a time, which an `executor` may run
    in parallel. The search ends after `evaluations`, or after `seconds`. It writes a `checkpoint` file after each
    evaluation, and resumes from a checkpoint that exists.

    Privacy: reads nothing itself, but the front is as private as the data that `error` reads.

    >>> from hush.pareto import sparse_vector_epsilon, sparse_vector_error, sparse_vector_space
    >>> problem = sparse_vector_space(), sparse_vector_epsilon, sparse_vector_error
    >>> search(*problem, reference=(100.0, 1.0), evaluations=12, runs=5).best_at(80.0).epsilon <= 80
    True
    """
    # both check their arguments, before anything is evaluated
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
    hint = ", the number of initial points (in Python, initial= sets it)"
    check_whole(SearchError, "evaluations", evaluations, least=chooser.initial, hint=hint)
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
    """Settings at random: by the laws that are given, and uniformly on the scale of every other setting.

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
    """The loop of a search that takes its other options by name."""
    labels = {key: options.pop(key) for key in [*options] if key in ("name", "measure", "stamp", "delta")}
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


class SettingsChooser(Protocol):
    """A way to choose settings."""

    def next(self, evaluations: Sequence[Evaluation], count: int) -> list[Settings]:
        """Up to `count` settings to evaluate next; none if there is nothing left to try."""

    def describe(self) -> dict[str, Any]:
        """How settings are chosen, as plain values; a checkpoint must agree."""


class RandomChoice:
    """Draws every point independently."""

    def __init__(self, space: Space, laws: Mapping[str, Law], seed: int) -> None:
        if unknown := set(laws) - set(space.names):
            raise SearchError(f"a law for {shown(sorted(unknown))}: expected names of {', '.join(space.names)}")
        for name, law in laws.items():
            if not callable(getattr(law, "draw", None)):
                raise SearchError(f"the law {shown(law)} of {name}: expected a law such as UniformLaw(1, 64)")
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


@dataclass(frozen=True, kw_only=True)
class SearchLoop:
    """The problem and the limits of a search; the fields are arguments of `search`."""

    space: Space
    privacy: PrivacyOracle
    error: ErrorOracle
    reference: tuple[float, float]
    evaluations: int
    runs: int = 1
    batch: int = 1
    seconds: float | None = None
    seed: int = 0
    executor: Executor | None = None
    checkpoint: str | Path | None = None
    progress: Progress | None = None
    labels: dict[str, Any] = field(default_factory=dict)  # name, measure, stamp and delta of the front

    def __post_init__(self) -> None:
        if not isinstance(self.space, Space):
            raise SearchError(f"space={shown(self.space)}: expected Space([...]) with the settings to choose")
        for name in ("evaluations", "runs", "batch"):
            check_whole(SearchError, name, getattr(self, name), least=1)
        check_whole(SearchError, "seed", self.seed, least=0)
        if self.seconds is not None:
            check_number(SearchError, "seconds", self.seconds, above=0, hint=", or None")
        if not (callable(self.privacy) and callable(self.error)):
            raise SearchError("privacy and error: expected two functions of settings; see hush.pareto.search")

    def run(self, chooser: SettingsChooser) -> Front:
        """The front of all evaluations, including those of a checkpoint."""
        began = time.monotonic()
        method = {"space": [repr(s) for s in self.space], "runs": self.runs, "seed": self.seed} | chooser.describe()
        method |= getattr(self.error, "about", {})
        done = self._resumed(method)

        def spent() -> float:
            return 0.0 if self.seconds is None else (time.monotonic() - began) / self.seconds

        while len(done) < self.evaluations and not (done and spent() >= 1):
            chosen = chooser.next(done, min(self.batch, self.evaluations - len(done)))
            if not chosen:
                break
            for evaluation in self._evaluated(chosen, len(done)):
                done.append(evaluation)
                if self.checkpoint is not None:
                    self._front(done, method).save(self.checkpoint, overwrite=True)
                if self.progress is not None:
                    self.progress(min(max(len(done) / self.evaluations, spent()), 1.0))
            tried_enough = len(done) >= min(EVALUATIONS_TO_SUCCEED, self.evaluations)
            if tried_enough and not any(evaluation.errors for evaluation in done):
                reason = next((e.problem for e in done if e.problem), "no error was returned")
                raise SearchError(f"all of the first {len(done)} evaluations failed: {reason}")
        front = self._front(done, method)
        front.hypervolume()  # refuses a reference inside the front
        return front

    def _evaluated(self, chosen: list[Settings], start: int) -> Iterable[Evaluation]:
        """Evaluate settings one by one or, with an executor, in parallel; `start` is the number of the first."""
        tasks = [
            (self.privacy, self.error, settings, [(self.seed, start + i, run) for run in range(self.runs)])
            for i, settings in enumerate(chosen)
        ]
        if self.executor is None:
            return (evaluate(*task) for task in tasks)
        return self.executor.map(evaluate, *zip(*tasks, strict=True))

    def _front(self, done: Sequence[Evaluation], method: dict[str, Any]) -> Front:
        return Front(evaluations=list(done), reference=self.reference, search=method, **self.labels)

    def _resumed(self, method: dict[str, Any]) -> list[Evaluation]:
        """The evaluations of the checkpoint, if there is one; a checkpoint of another search is refused."""
        if self.checkpoint is None or not Path(self.checkpoint).exists():
            return []
        front = Front.load(self.checkpoint)
        differing = sorted(name for name in {*method, *front.search} if method.get(name) != front.search.get(name))
        differing += [name for name, value in self.labels.items() if getattr(front, name) != value]
        if differing or front.reference != self.reference:
            difference = ", ".join(differing) or "reference"
            raise SearchError(
                f"{self.checkpoint} is of another search: {difference} differs; choose another name or remove the file"
            )
        return list(front.evaluations)[: self.evaluations]
