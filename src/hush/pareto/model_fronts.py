"""ModelFronts: the fronts of several models in one picture, and which model is best at each epsilon.

Reference: [DPareto, sec. 3.4.3], versatility: fronts of several models over each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hush.core.errors import SearchError, shown
from hush.pareto.evaluation import Evaluation
from hush.pareto.front import Front, WithPage, digits
from hush.render.text_table import TextColumn, TextTable, number_columns


@dataclass(frozen=True, slots=True)
class ModelFronts(WithPage):
    """Named fronts of the same error; `print` shows where each front is best, `write_page` draws all in one picture.

    >>> def front(*points):
    ...     runs = [Evaluation(settings={"noise": 1 / e}, epsilon=e, errors=(y,)) for e, y in points]
    ...     return Front(evaluations=runs, reference=(10.0, 1.0))
    >>> models = ModelFronts({"small": front((1.0, 0.4), (4.0, 0.3)), "large": front((2.0, 0.6), (3.0, 0.1))})
    >>> models.best_at(2.5)[0], models.best_at(3.0)[0]
    ('small', 'large')
    >>> [(name, point.epsilon) for name, point in models.joint()]
    [('small', 1.0), ('large', 3.0)]
    """

    fronts: Mapping[str, Front]

    def __post_init__(self) -> None:
        if not isinstance(self.fronts, Mapping) or not self.fronts:
            raise SearchError(f'fronts={shown(self.fronts)}: expected names and fronts, such as {{"svm": front}}')
        for name, front in self.fronts.items():
            if not isinstance(name, str) or not name or not isinstance(front, Front):
                raise SearchError(f"fronts[{shown(name)}]: expected the front of a search, under a name")
        if len(measures := {front.measure for front in self.fronts.values()}) > 1:
            raise SearchError(
                f"the fronts have different errors, {', '.join(sorted(measures))}; compare like with like"
            )
        if len({front.delta for front in self.fronts.values()}) > 1:
            raise SearchError("the fronts have different deltas, so their epsilons cannot be compared; search with one")
        object.__setattr__(self, "fronts", dict(self.fronts))

    def best_at(self, epsilon: float) -> tuple[str, Evaluation]:
        """The model of least error among those with a setting of at most this epsilon, and its setting."""
        found, problem = [], None
        for name, front in self.fronts.items():
            try:
                found.append((name, front.best_at(epsilon)))
            except SearchError as error:
                problem = error
        if not found:
            raise problem or SearchError("there is no front")
        return min(found, key=lambda pair: pair[1].error)

    def joint(self) -> list[tuple[str, Evaluation]]:
        """The front of all models together, by rising epsilon, each point with its model."""
        points = [(name, point) for name, front in self.fronts.items() for point in front]
        points.sort(key=lambda pair: (pair[1].epsilon, pair[1].error))
        joint: list[tuple[str, Evaluation]] = []
        for name, point in points:
            if not joint or point.error < joint[-1][1].error:
                joint.append((name, point))
        return joint

    def hypervolumes(self, reference: Sequence[float]) -> dict[str, float]:
        """The area between each front and one reference point."""
        return {name: front.hypervolume(reference) for name, front in self.fronts.items()}

    def table(self) -> TextTable:
        """The joint front: epsilon, error, and the model that reaches it."""
        measure = next(iter(self.fronts.values())).measure
        columns = (*number_columns("epsilon", measure), TextColumn(heading="model", fit="clip"))
        rows = [(digits(point.epsilon), digits(point.error), name) for name, point in self.joint()]
        return TextTable(columns=columns, rows=rows, title="The best model at each epsilon")

    def html(self, *, about: Mapping[str, str] | None = None, answers: Sequence[str] = ()) -> str:
        """A page with all fronts in one picture, then the table of each."""
        from hush.pareto.front_page import fronts_html

        named = [replace(front, name=name) for name, front in self.fronts.items()]
        return fronts_html(named, title="Privacy and error of several models", about=about, answers=answers)
