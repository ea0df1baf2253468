"""Front: evaluated settings, those of them that nothing else beats, and what one asks of them.

A front is as private as what its errors were computed from: made from private rows, it is private too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import SearchError, shown
from hush.core.validation import is_number
from hush.files.atomic_write import write_whole
from hush.pareto import hypervolume
from hush.pareto.evaluation import Evaluation, merged
from hush.pareto.front_text import answers as answers_of
from hush.pareto.front_text import digits, value_text
from hush.render.text_table import TextColumn, TextTable, number_columns

if TYPE_CHECKING:
    from hush.render.markup import Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """All evaluations of a search, and the front that they form; `print` shows it as a table.

    `reference` is the worst (epsilon, error) that is of interest, `measure` names the error, `stamp` says what the
    errors were computed from, and `search` how the settings were chosen.

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
        """The evaluations on the front, from the least epsilon; runs of equal settings count together."""
        usable = [evaluation for evaluation in merged(self.evaluations) if evaluation.usable]
        pairs = np.array([(point.epsilon, point.error) for point in usable]).reshape(-1, 2)
        return [usable[index] for index in hypervolume.front_indices(pairs)]

    def __iter__(self) -> Iterator[Evaluation]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def pairs(self) -> Floats:
        """(epsilon, error) of the points on the front, (n, 2)."""
        return np.array([(point.epsilon, point.error) for point in self.points]).reshape(-1, 2)

    def hypervolume(self, reference: Sequence[float] | None = None) -> float:
        """What the front dominates within a reference point; that of the front if none is given.

        It is 0 if every evaluation failed. A reference point that no point is better than in both is refused.
        """
        worst, pairs = self.reference if reference is None else checked_reference(reference), self.pairs
        if len(pairs) and not (pairs < worst).all(axis=1).any():
            raise SearchError(
                f"reference=({worst[0]:g}, {worst[1]:g}) lies inside the front: nothing that was tried is better "
                f"in both; the least epsilon is {pairs[0, 0]:.4g} with an error of {pairs[0, 1]:.4g}, the least error "
                f"{pairs[-1, 1]:.4g} with an epsilon of {pairs[-1, 0]:.4g}; give a larger epsilon or error"
            )
        return hypervolume.hypervolume(pairs, worst)

    def best_at(self, epsilon: float) -> Evaluation:
        """The settings of least error among those with at most this epsilon."""
        return self._within("epsilon", epsilon)[-1]

    def least_epsilon(self, error: float) -> Evaluation:
        """The settings of least epsilon among those with at most this error."""
        return self._within("error", error)[0]

    def _within(self, what: str, bound: float) -> list[Evaluation]:
        if not is_number(bound):
            raise SearchError(f"{what}={shown(bound)}: expected a number")
        points = self.points
        if not points:
            raise SearchError("the front has no points: every evaluation failed; look at front.evaluations")
        enough = [point for point in points if getattr(point, what) <= bound]
        if not enough:
            least = min(getattr(point, what) for point in points)
            raise SearchError(f"no point has {what} <= {bound:g}; the least that was found is {least:.4g}")
        return enough

    def curve(self) -> list[tuple[float, float]]:
        """The front as steps: from each epsilon on, the least error."""
        return [(point.epsilon, point.error) for point in self.points]

    def band(self, share: float = 0.9) -> list[tuple[float, float, float]]:
        """What one run attains by chance at the settings of each point: epsilon, and the middle `share` of errors."""
        if not 0 < share <= 1:
            raise SearchError(f"share={shown(share)}: expected a share above 0 and at most 1")
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
        notes = [f"{failed} of {len(self.evaluations)} evaluations failed"] if failed else []
        return TextTable(
            columns=columns,
            rows=rows,
            title=self.name,
            notes=[*([f"{self.stamp}."] if self.stamp else []), *notes, *([] if rows else ["No point was found."])],
        )

    def __str__(self) -> str:
        return self.table().text()

    def to_dict(self) -> dict[str, Any]:
        """The front as plain data for JSON; infinite epsilon is None."""
        from hush.pareto.front_files import FrontFile

        return FrontFile.of(self).plain()

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write every evaluation to a JSON file."""
        from hush.pareto.front_files import save_front

        save_front(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Front:
        """The front of a file that `save` or a checkpoint wrote."""
        from hush.pareto.front_files import load_front

        return load_front(path)

    def html(self, *, about: Mapping[str, str] | None = None, answers: Sequence[str] = ()) -> str:
        """The front as the text of an HTML page.

        `about` has what the page says of the data and the questions, and `answers` are its first sentences, by default
        the least error up to epsilon 1.
        """
        from hush.pareto.front_page import fronts_html

        facts = {
            "Workload": self.search.get("workload", "").rpartition(",")[0],
            "Rows": self.search.get("rows", ""),
            "Delta": "" if self.delta is None else f"{self.delta:g}",
        }
        return fronts_html(
            [self], about={**(about or {}), **facts, **(about or {})}, answers=answers or self._usual_answer()
        )

    def _usual_answer(self) -> list[str]:
        points = self.points
        return answers_of(self, at_epsilon=max(1.0, points[0].epsilon)) if points else []

    def write_page(
        self, path: str | Path, *, about: Mapping[str, str] | None = None, answers: Sequence[str] = ()
    ) -> None:
        """Write the page of `html` to a file, replacing any other."""
        write_whole(path, self.html(about=about, answers=answers).encode())

    def _repr_html_(self) -> Markup:
        return self.table().html()


def checked_reference(reference: Sequence[float]) -> tuple[float, float]:
    """Two finite numbers; the epsilon is above 0."""
    pair = tuple(reference) if isinstance(reference, Sequence | np.ndarray) else ()
    if len(pair) != 2 or not all(is_number(value) for value in pair) or pair[0] <= 0:
        raise SearchError(f"reference={shown(reference)}: expected the worst epsilon, above 0, and the worst error")
    return float(pair[0]), float(pair[1])
