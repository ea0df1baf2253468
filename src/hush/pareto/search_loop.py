"""Search loop: choose settings, ask the oracles, write a checkpoint, until the evaluations or the seconds are used up.

A chooser sees all evaluations so far and names the next settings. What it draws at random depends on the seed and on
how many evaluations there are, so a search that was interrupted goes on exactly as it would have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from hush.core.errors import SearchError, shown
from hush.core.validation import is_number
from hush.pareto.evaluation import ErrorOracle, Evaluation, PrivacyOracle, evaluate
from hush.pareto.front import Front
from hush.pareto.front_files import load_front, save_front
from hush.pareto.space import Settings, Space

Progress: TypeAlias = Callable[[float], None]


class SettingsChooser(Protocol):
    """A way to choose settings."""

    def next(self, evaluations: Sequence[Evaluation], count: int) -> list[Settings]:
        """Up to `count` settings to evaluate next; none if there is nothing left to try."""

    def describe(self) -> dict[str, Any]:
        """What a checkpoint must agree with, as plain values."""


@dataclass(frozen=True, kw_only=True)
class SearchLoop:
    """What is searched and how long; see `hush.pareto.search` for the fields."""

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
            value = getattr(self, name)
            if not (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
                raise SearchError(f"{name}={shown(value)}: expected a whole number of at least 1")
        if not (isinstance(self.seed, int) and self.seed >= 0):
            raise SearchError(f"seed={shown(self.seed)}: expected a whole number of at least 0")
        if self.seconds is not None and not (is_number(self.seconds) and self.seconds > 0):
            raise SearchError(f"seconds={shown(self.seconds)}: expected a number above 0, or none")
        if not (callable(self.privacy) and callable(self.error)):
            raise SearchError("privacy and error: expected two functions of settings; see hush.pareto.search")

    def run(self, chooser: SettingsChooser) -> Front:
        """The front of all evaluations, those of a checkpoint included."""
        began = time.monotonic()
        how = {"space": [repr(s) for s in self.space], "runs": self.runs, "seed": self.seed} | chooser.describe()
        how |= getattr(self.error, "about", {})
        done = self._resumed(how)
        while len(done) < self.evaluations and not self._late(began, done):
            chosen = chooser.next(done, min(self.batch, self.evaluations - len(done)))
            if not chosen:
                break
            for evaluation in self._evaluated(chosen, len(done)):
                done.append(evaluation)
                if self.checkpoint is not None:
                    save_front(self._front(done, how), self.checkpoint, overwrite=True)
                if self.progress is not None:
                    self.progress(self._share(began, len(done)))
            if len(done) >= min(16, self.evaluations) and not any(evaluation.errors for evaluation in done):
                reason = next((e.problem for e in done if e.problem), "no error was returned")
                raise SearchError(f"none of the first {len(done)} evaluations gave an error to learn from: {reason}")
        front = self._front(done, how)
        front.hypervolume()  # refuses a reference that lies inside the front
        return front

    def _evaluated(self, chosen: list[Settings], start: int) -> Any:
        tasks = [
            (self.privacy, self.error, settings, [(self.seed, start + i, run) for run in range(self.runs)])
            for i, settings in enumerate(chosen)
        ]
        if self.executor is None:
            return (evaluate(*task) for task in tasks)
        return self.executor.map(evaluate, *zip(*tasks, strict=True))

    def _late(self, began: float, done: Sequence[Evaluation]) -> bool:
        return self.seconds is not None and bool(done) and time.monotonic() - began >= self.seconds

    def _share(self, began: float, done: int) -> float:
        spent = 0.0 if self.seconds is None else (time.monotonic() - began) / self.seconds
        return min(max(done / self.evaluations, spent), 1.0)

    def _front(self, done: Sequence[Evaluation], how: dict[str, Any]) -> Front:
        return Front(evaluations=list(done), reference=self.reference, search=how, **self.labels)

    def _resumed(self, how: dict[str, Any]) -> list[Evaluation]:
        if self.checkpoint is None or not Path(self.checkpoint).exists():
            return []
        front = load_front(self.checkpoint)
        differing = sorted(name for name in {*how, *front.search} if how.get(name) != front.search.get(name))
        differing += [name for name, value in self.labels.items() if getattr(front, name) != value]
        if differing or front.reference != self.reference:
            what = ", ".join(differing) or "reference"
            raise SearchError(
                f"{self.checkpoint} is of another search: {what} differs; give it another name or remove it"
            )
        return list(front.evaluations)[: self.evaluations]
