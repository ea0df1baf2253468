"""Record a run as points: (seconds since its process started, iterations, loss, peak MB, CPU seconds).

Start-up, imports, compilation and fitting count. Computing the loss for the record does not count.
This module needs only numpy, because the peer's Python imports it too.
"""

from __future__ import annotations

import json
import math
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.graphical_files import Array, Problem

WITHIN = 1.001
STALL, LEAST = 20, 1e-6  # no progress: over STALL checkpoints the gain is below LEAST


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Clock:
    """Seconds since the process was requested, without the time spent on the record."""

    def __init__(self, started: float) -> None:
        self._started, self._spared = started, 0.0

    def now(self) -> tuple[float, float]:
        """Wall and CPU seconds."""
        return time.time() - self._started, time.process_time() - self._spared

    def forgive(self, since: tuple[float, float]) -> None:
        """Do not count the time from `since` (a value of `now`) to now."""
        wall, cpu = self.now()
        self._started += wall - since[0]
        self._spared += cpu - since[1]


class Trace:
    """The checkpoints of one model, until it reaches the target loss, runs out of time, or stops making progress."""

    def __init__(self, problem: Problem, clock: Clock, limit: float, target: float) -> None:
        self._problem, self._clock, self._limit, self._target = problem, clock, limit, target
        self.points: list[tuple[float, int, float, float, float]] = []
        self.begin = clock.now()

    def add(self, iteration: int, marginal: Callable[[tuple[str, ...]], Array]) -> bool:
        """Record a checkpoint and return whether the run should stop."""
        now, peak = self._clock.now(), peak_mb()
        loss = self._problem.loss(marginal)
        self.points.append((round(now[0], 4), iteration, loss, round(peak, 1), round(now[1], 4)))
        self._clock.forgive(now)
        return self.done or self._stalled()

    @property
    def done(self) -> bool:
        """Whether the last checkpoint is at the target, or beyond the time."""
        wall, _, loss, _, _ = self.points[-1]
        return loss <= self._target or wall > self._limit or math.isnan(loss)

    def _stalled(self) -> bool:
        before, recent = self.points[:-STALL], self.points[-STALL:]
        return bool(before) and min(p[2] for p in recent) > (1 - LEAST) * min(p[2] for p in before)

    def record(self) -> dict[str, Any]:
        return {"model": self._problem.name, "begin": self.begin, "points": self.points}


def reached(points: list[list[float]], best: float) -> list[float] | None:
    """The first checkpoint within 0.1 % of the best loss."""
    return next((point for point in points if point[2] <= WITHIN * best), None)


def write(path: Path, **content: Any) -> None:
    path.write_text(json.dumps({**content, "peak_mb": round(peak_mb(), 1)}))
