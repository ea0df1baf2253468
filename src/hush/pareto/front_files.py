"""Front files: a front or the checkpoint of a search as one JSON file, read back strictly."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec

from hush.core.errors import ArchiveError, SearchError, printable
from hush.files.atomic_write import check_new, write_whole
from hush.files.codec import Finite, NonNegative, Stored
from hush.pareto.evaluation import Evaluation
from hush.pareto.front import Front

FORMAT = "hush front 1"
LARGEST_FILE = 64_000_000  # bytes
Value = str | bool | int | Finite | None


class StoredEvaluation(Stored):
    """One evaluation; an epsilon of None is infinite."""

    settings: dict[str, Value]
    epsilon: NonNegative | None
    errors: list[Finite]
    problem: str = ""


class FrontFile(Stored):
    """A front with all of its evaluations."""

    format: str
    name: str
    measure: str
    stamp: str
    delta: float | None
    reference: tuple[NonNegative, Finite]
    search: dict[str, Any]
    evaluations: list[StoredEvaluation]

    @classmethod
    def of(cls, front: Front) -> FrontFile:
        """The content of a front's file."""
        return cls.from_attributes(
            front,
            format=FORMAT,
            evaluations=[
                StoredEvaluation(
                    settings=dict(evaluation.settings),
                    epsilon=evaluation.epsilon if math.isfinite(evaluation.epsilon) else None,
                    errors=list(evaluation.errors),
                    problem=evaluation.problem,
                )
                for evaluation in front.evaluations
            ],
        )

    def plain(self) -> dict[str, Any]:
        """The content as JSON values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain | {"reference": [*self.reference]}

    def build(self) -> Front:
        """The front."""
        if self.format != FORMAT:
            raise ArchiveError(f"the file says {printable(self.format[:40])!r}, not {FORMAT!r}; get a newer hush")
        evaluations = [
            Evaluation(
                settings=stored.settings,
                epsilon=math.inf if stored.epsilon is None else stored.epsilon,
                errors=tuple(stored.errors),
                problem=stored.problem,
            )
            for stored in self.evaluations
        ]
        return Front(
            evaluations=evaluations,
            reference=self.reference,
            name=self.name,
            measure=self.measure,
            stamp=self.stamp,
            delta=self.delta,
            search=self.search,
        )


def save_front(front: Front, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a front to a file, whole or not at all."""
    check_new(path, overwrite=overwrite)
    try:
        text = json.dumps(front.to_dict(), indent=1, allow_nan=False)
    except (TypeError, ValueError):
        raise SearchError("settings must be numbers, texts, true, false or none, as files can hold") from None
    write_whole(path, (text + "\n").encode())


def load_front(path: str | Path) -> Front:
    """The front of a file; ArchiveError, which says what is wrong, for any other file."""
    try:
        if Path(path).stat().st_size > LARGEST_FILE:
            raise ArchiveError(f"{path} is larger than any front; give the file of a front")
        content = msgspec.json.decode(Path(path).read_bytes(), type=FrontFile)
    except OSError as error:
        raise ArchiveError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ArchiveError(f"{path} is no front: {printable(str(error)[:200])}; make it anew") from None
    try:
        return content.build()
    except SearchError as error:
        raise ArchiveError(f"{path} is no front: {error}") from None
