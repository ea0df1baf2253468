"""Front: evaluated settings, those that nothing else beats, answers to questions about them, and front files.

A front is as private as the data that its errors were computed from. A front file, which is also the checkpoint of a
search, is one JSON file, read back strictly.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import ArchiveError, SearchError, printable, shown
from hush.core.validation import check_number, is_number
from hush.files.atomic_write import check_new, write_whole
from hush.files.codec import Finite, NonNegative, Stored
from hush.pareto.evaluation import Evaluation, merged
from hush.pareto.hypervolume import front_indices, hypervolume
from hush.render.labels import compact
from hush.render.text_table import TextColumn, TextTable, number_columns

if TYPE_CHECKING:
    from hush.pareto.plan_curves import PlanCurves
    from hush.render.markup import Markup

FRONT_FORMAT = "hush front 1"
LARGEST_FRONT_FILE = 64_000_000  # bytes


class WithPage(ABC):
    """Results that print as a table and can be written as an HTML page."""

    __slots__ = ()

    @abstractmethod
    def table(self) -> TextTable:
        """The results as a table."""

    @abstractmethod
    def html(self, *, about: Mapping[str, str] | None = None, answers: Sequence[str] = ()) -> str:
        """The results as the text of an HTML page."""

    def write_page(
        self, path: str | Path, *, about: Mapping[str, str] | None = None, answers: Sequence[str] = ()
    ) -> None:
        """Write the page of `html` to a file, replacing any other."""
        write_whole(path, self.html(about=about, answers=answers).encode())

    def __str__(self) -> str:
        return self.table().text()


@dataclass(frozen=True, slots=True, kw_only=True)
class Front(WithPage):
    """All evaluations of a search, and the front that they form; `print` shows it as a table.

    `reference` is the worst (epsilon, error) of interest, `measure` names the error, `stamp` says what the errors were
    computed from, and `search` how the settings were chosen.

    >>> points = [("a", 1.0, 0.4), ("b", 2.0, 0.5), ("c", 4.0, 0.1)]
    >>> front = Front(
    ...     evaluations=[Evaluation(settings={"name": n}, epsilon=e, errors=(y,)) for n, e, y in points],
    ...     reference=(10.0, 1.0),
    ... )
    >>> [point.settings["name"] for point in front]
    ['a', 'c']
    >>> front.best_at(3.0).settings, front.least_epsilon(0.2).epsilon
    ({'name': 'a'}, 4.0)
    >>> round(front.hypervolume(), 9)
    7.2
    """

    evaluations: Sequence[Evaluation]
    reference: tuple[float, float]
    name: str = ""
    measure: str = "error"
    stamp: str = ""
    delta: float | None = None
    search: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "evaluations", tuple(self.evaluations))
        object.__setattr__(self, "reference", checked_reference(self.reference))

    @property
    def points(self) -> list[Evaluation]:
        """The evaluations on the front, by rising epsilon; runs of equal settings count together."""
        usable = [evaluation for evaluation in merged(self.evaluations) if evaluation.usable]
        pairs = np.array([(point.epsilon, point.error) for point in usable]).reshape(-1, 2)
        return [usable[index] for index in front_indices(pairs)]

    def __iter__(self) -> Iterator[Evaluation]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def pairs(self) -> Floats:
        """(epsilon, error) of the points on the front, (n, 2)."""
        return np.array([(point.epsilon, point.error) for point in self.points]).reshape(-1, 2)

    def hypervolume(self, reference: Sequence[float] | None = None) -> float:
        """The area between the front and a reference point, by default that of the front; 0 if all evaluations failed.

        A reference point is refused if no point is better in both epsilon and error.
        """
        worst, pairs = self.reference if reference is None else checked_reference(reference), self.pairs
        if len(pairs) and not (pairs < worst).all(axis=1).any():
            raise SearchError(
                f"reference=({worst[0]:g}, {worst[1]:g}) lies inside the front: no evaluation is better in both; the "
                f"least epsilon is {pairs[0, 0]:.3g} with an error of {pairs[0, 1]:.3g}, the least error "
                f"{pairs[-1, 1]:.3g} with an epsilon of {pairs[-1, 0]:.3g}; give a larger epsilon or error"
            )
        return hypervolume(pairs, worst)

    def best_at(self, epsilon: float) -> Evaluation:
        """The evaluation of least error among those with at most this epsilon."""
        return self._within("epsilon", epsilon)[-1]

    def least_epsilon(self, error: float) -> Evaluation:
        """The evaluation of least epsilon among those with at most this error."""
        return self._within("error", error)[0]

    def _within(self, objective: str, bound: float) -> list[Evaluation]:
        """The points of the front with at most this epsilon or this error."""
        check_number(SearchError, objective, bound)
        points = self.points
        if not points:
            raise SearchError("the front has no points: every evaluation failed; see front.evaluations")
        inside = [point for point in points if getattr(point, objective) <= bound]
        if not inside:
            least = min(getattr(point, objective) for point in points)
            raise SearchError(f"no point has {objective} <= {bound:g}; the least is {least:.3g}")
        return inside

    def curve(self) -> list[tuple[float, float]]:
        """The front as steps: the least error from each epsilon on."""
        return [(point.epsilon, point.error) for point in self.points]

    def band(self, share: float = 0.9) -> list[tuple[float, float, float]]:
        """The spread of single runs at each point: epsilon, and the range of the middle `share` of errors."""
        check_number(SearchError, "share", share, above=0, most=1)
        low, high = (1 - share) / 2, (1 + share) / 2
        return [(point.epsilon, point.quantile(low), point.quantile(high)) for point in self.points]

    def table(self) -> TextTable:
        """The front as a table: epsilon, error, its spread, and the settings."""
        names = list(dict.fromkeys(name for point in self.points for name in point.settings if name != "epsilon"))
        columns = (
            *number_columns("epsilon", self.measure, "+/-", "runs"),
            *(TextColumn(heading=name, align="right", fit="clip") for name in names),
        )
        rows = [
            (
                digits(point.epsilon),
                digits(point.error),
                f"{point.standard_error:.2g}" if len(point.errors) > 1 else "",
                str(len(point.errors)),
                *(value_text(point.settings.get(name, "")) for name in names),
            )
            for point in self.points
        ]
        failed = sum(bool(evaluation.problem) for evaluation in self.evaluations)
        notes = [f"{self.stamp}."] if self.stamp else []
        notes += [f"{failed} of {len(self.evaluations)} evaluations failed"] if failed else []
        notes += [] if rows else ["No point was found."]
        return TextTable(columns=columns, rows=rows, title=self.name, notes=notes)

    def to_dict(self) -> dict[str, Any]:
        """Every evaluation as plain data for JSON; `load` reads it back from a file."""
        plain: dict[str, Any] = msgspec.to_builtins(FrontFile.of(self))
        return plain | {"reference": [*self.reference]}

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write every evaluation to a JSON file, whole or not at all."""
        check_new(path, overwrite=overwrite)
        try:
            text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        except (TypeError, ValueError):
            raise SearchError(
                "settings: expected numbers, texts, True, False or None, for files hold no other"
            ) from None
        write_whole(path, (text + "\n").encode())

    @classmethod
    def load(cls, path: str | Path) -> Front:
        """The front in a file that `save` or a search wrote; ArchiveError for any other file."""
        try:
            if Path(path).stat().st_size > LARGEST_FRONT_FILE:
                raise ArchiveError(f"{path} is larger than any front; give the file of a front")
            content = msgspec.json.decode(Path(path).read_bytes(), type=FrontFile)
            return content.build()
        except OSError as error:
            raise ArchiveError(f"{path} cannot be read: {error.strerror}") from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise ArchiveError(f"{path} is no front: {printable(str(error)[:200])}; make it anew") from None
        except SearchError as error:
            raise ArchiveError(f"{path} is no front: {error}") from None

    def html(self, *, about: Mapping[str, str] | None = None, answers: Sequence[str] = ()) -> str:
        """The front as the text of an HTML page.

        `about` has facts about the data and the questions, and `answers` are the first sentences of the page, by
        default the least error up to epsilon 1.
        """
        from hush.pareto.front_page import fronts_html

        facts = {
            "Workload": self.search.get("workload", "").rpartition(",")[0],
            "Rows": self.search.get("rows", ""),
            "Delta": "" if self.delta is None else f"{self.delta:g}",
        }
        if not answers and (points := self.points):
            answers = front_answers(self, at_epsilon=max(1.0, points[0].epsilon))
        return fronts_html([self], about={**(about or {}), **facts, **(about or {})}, answers=answers)

    def _repr_html_(self) -> Markup:
        return self.table().html()


def checked_reference(reference: Sequence[float]) -> tuple[float, float]:
    """A reference point: the worst epsilon, above 0, and the worst error, both finite."""
    pair = tuple(reference) if isinstance(reference, Sequence | np.ndarray) else ()
    if len(pair) != 2 or not all(is_number(value) for value in pair) or pair[0] <= 0:
        raise SearchError(f"reference={shown(reference)}: expected the worst epsilon, above 0, and the worst error")
    return float(pair[0]), float(pair[1])


class StoredEvaluation(Stored):
    """One evaluation of a front file; None stands for an infinite epsilon."""

    settings: dict[str, str | bool | int | Finite | None]
    epsilon: NonNegative | None
    errors: list[Finite]
    problem: str = ""


class FrontFile(Stored):
    """The content of a front file: a front with all of its evaluations."""

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
            format=FRONT_FORMAT,
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

    def build(self) -> Front:
        """The front in the file."""
        if self.format != FRONT_FORMAT:
            raise ArchiveError(f"the file says {printable(self.format[:40])!r}, not {FRONT_FORMAT!r}; get a newer hush")
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


def front_answers(
    front: Front | PlanCurves, *, at_epsilon: float | None = None, for_error: float | None = None
) -> list[str]:
    """One sentence with the least error at an epsilon, and one with the least epsilon for an error, as asked."""

    def in_brackets(point: Evaluation) -> str:
        settings = settings_text(point.settings)
        return f" ({settings})" if settings else ""

    sentences = []
    if at_epsilon is not None:
        point = front.best_at(at_epsilon)
        exactly = point.epsilon == at_epsilon
        where = "" if exactly else f" at epsilon {digits(point.epsilon)}"
        sentences.append(
            f"{'At' if exactly else 'Up to'} epsilon {digits(at_epsilon)}, the best {front.measure} is "
            f"{digits(point.error)}{where}{in_brackets(point)}."
        )
    if for_error is not None:
        point = front.least_epsilon(for_error)
        # rounded up: with less epsilon the error would be larger than asked
        needed = compact(float(Context(prec=3, rounding=ROUND_CEILING).create_decimal_from_float(point.epsilon)))
        sentences.append(
            f"To keep the {front.measure} at {digits(for_error)} or below takes epsilon {needed}{in_brackets(point)}."
        )
    return sentences


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings in one line, without epsilon; a mechanism is its name.

    >>> settings_text({"epsilon": 0.5, "share": 0.81234, "rounds": 4}), settings_text({"mechanism": "hdmm"})
    ('share=0.812, rounds=4', 'hdmm')
    """
    others = {name: value for name, value in settings.items() if name != "epsilon"}
    if [*others] == ["mechanism"]:
        return str(others["mechanism"])
    return ", ".join(f"{name}={value_text(value)}" for name, value in others.items())


def value_text(value: Any) -> str:
    """The value of a setting."""
    return digits(value) if isinstance(value, float) else str(value)


def digits(number: float) -> str:
    """A number in three digits.

    >>> [digits(x) for x in (0.019953, 0.84573, 513.6, 10_384.0, 5.0)]
    ['0.02', '0.846', '514', '10,400', '5']
    """
    return compact(float(f"{number:.3g}"))
