"""Plan curves: the exact error of every mechanism whose error is known beforehand, at every epsilon; no search.

A plan is made once for each mechanism, and its noise scaled to each budget: RMSE falls as 1 / epsilon, and exactly so
but for the rounding of noise to integers. Curves cross where the best mechanism changes.

Privacy: reads no data. What a plan says depends on the workload and the schema alone, and may be published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hush.core.domain import Domain
from hush.core.errors import HushError, SearchError, shown
from hush.core.validation import is_number
from hush.files.atomic_write import write_whole
from hush.mechanisms.auto import plan_candidates
from hush.mechanisms.plan import Plan
from hush.mechanisms.registry import mechanism_of
from hush.pareto.evaluation import Evaluation
from hush.pareto.front import Front
from hush.pareto.front_text import answers as answers_of
from hush.pareto.front_text import digits
from hush.planning import unit_rows, workload_of
from hush.privacy.budget import Budget
from hush.privacy.sensitivity import Neighbours
from hush.render.text_table import TextTable, number_columns
from hush.schema import Schema
from hush.workloads import Workload

EXACT = {"method": "exact"}
HALVINGS = 20  # of an interval in which two curves cross, or one reaches an error
TIE = 1e-3  # errors closer than this are equal
LEAST, MOST, POINTS = 0.01, 10.0, 31
SHOWN = 11  # rows of the table
STEPS = (tuple(range(1, 10)), (1, 2, 5), (1, 3), (1,))  # round numbers within a power of ten


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Where the best mechanism changes: `below` is best up to this epsilon, `above` from there on."""

    epsilon: float
    error: float
    below: str
    above: str

    def __str__(self) -> str:
        place, error = digits(self.epsilon), digits(self.error)
        return f"up to epsilon {place}, {self.below} is best; above, {self.above} (RMSE {error})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCurves:
    """The curves of several plans; `print` shows them as a table.

    >>> curves = of_plan("<=2-way", __import__("hush").datasets.people_schema(), epsilons=(0.1, 10), points=5)
    >>> curves.best_at(1.0).settings
    {'mechanism': 'hdmm with Laplace noise'}
    >>> curves.least_epsilon(15.1).epsilon < 1.01
    True
    """

    measure: ClassVar[str] = "RMSE"
    plans: dict[str, Plan]
    delta: float
    epsilons: tuple[float, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    _known: dict[tuple[str, float], float] = field(default_factory=dict, compare=False, repr=False)

    def error(self, name: str, epsilon: float) -> float:
        """The RMSE of a mechanism at an epsilon, exactly; infinite if its noise cannot be had there."""
        if not (is_number(epsilon) and epsilon > 0):
            raise SearchError(f"epsilon={shown(epsilon)}: expected a number above 0")
        if (name, epsilon) not in self._known:
            try:
                rmse = self.plans[name].with_budget(budget_of(epsilon, self.delta)).rmse
            except HushError:
                rmse = None
            self._known[name, epsilon] = math.inf if rmse is None else rmse
        return self._known[name, epsilon]

    @property
    def fronts(self) -> list[Front]:
        """A front for each mechanism, the best at the largest epsilon first."""
        made = []
        for name in self.plans:
            points = [(epsilon, self.error(name, epsilon)) for epsilon in self.epsilons]
            evaluations = [
                Evaluation(settings={"mechanism": name}, epsilon=epsilon, errors=(error,))
                for epsilon, error in points
                if math.isfinite(error)
            ]
            if evaluations:
                made.append(self._front(name, evaluations))
        return sorted(made, key=lambda front: front.evaluations[-1].error)

    def _front(self, name: str, evaluations: Sequence[Evaluation]) -> Front:
        unlike = [
            Evaluation(settings=e.settings | {"epsilon": e.epsilon}, epsilon=e.epsilon, errors=e.errors)
            for e in evaluations
        ]
        worst = max(e.errors[0] for e in evaluations)
        return Front(
            evaluations=unlike,
            reference=(self.epsilons[-1], worst),
            name=name,
            measure=self.measure,
            delta=self.delta,
            search=EXACT,
        )

    def best_at(self, epsilon: float) -> Evaluation:
        """The mechanism of least error at exactly this epsilon."""
        errors = {name: self.error(name, epsilon) for name in self.plans}
        best = min(errors, key=errors.__getitem__)
        if math.isinf(errors[best]):
            raise SearchError(f"no mechanism can be planned at epsilon={epsilon:g}; take a larger one")
        return Evaluation(settings={"mechanism": best}, epsilon=epsilon, errors=(errors[best],))

    def least_epsilon(self, error: float) -> Evaluation:
        """The mechanism with the least epsilon whose error is at most this, and that epsilon to six digits."""
        if not (is_number(error) and error > 0):
            raise SearchError(f"error={shown(error)}: expected a number above 0")
        low, high = self.epsilons[0], self.epsilons[-1]
        if self.best_at(low).error <= error:
            return self.best_at(low)
        least = self.best_at(high).error
        if least > error:
            raise SearchError(
                f"no mechanism reaches an RMSE of {error:g} by epsilon {high:g}; the least is {digits(least)}"
            )
        _, found = _halved(low, high, lambda epsilon: self.best_at(epsilon).error <= error)
        return self.best_at(found)

    @property
    def crossings(self) -> list[Crossing]:
        """Where the best mechanism changes between the first and the last epsilon, by more than a tie."""
        found = []
        leader = self.best_at(self.epsilons[0]).settings["mechanism"]
        for low, high in pairwise(self.epsilons):
            best = self.best_at(high)
            if best.error < self.error(leader, high) * (1 - TIE):
                above = best.settings["mechanism"]
                _, place = _halved(low, high, partial(self._at_most, above, leader))
                found.append(Crossing(epsilon=place, error=self.error(above, place), below=leader, above=above))
                leader = above
        return found

    def _at_most(self, first: str, second: str, epsilon: float) -> bool:
        return self.error(first, epsilon) <= self.error(second, epsilon)

    def table(self) -> TextTable:
        """The RMSE of every mechanism at some epsilons, and where the best one changes."""
        fronts = self.fronts
        rows = []
        for epsilon in _round_numbers(self.epsilons[0], self.epsilons[-1]):
            errors = [self.error(front.name, epsilon) for front in fronts]
            least = min(errors) * (1 + TIE)
            rows.append((digits(epsilon), *(f"{digits(e)}{' *' if e <= least else '  '}" for e in errors)))
        notes = [f"* the least RMSE at this epsilon, with delta={self.delta:g}." if self.delta else "* the least RMSE."]
        notes += [f"{crossing}." for crossing in self.crossings] or [
            f"{fronts[0].name} is best at every epsilon." if fronts else "No mechanism can be planned."
        ]
        notes += [f"Left out: {name}: {reason}." for name, reason in self.left_out]
        return TextTable(columns=number_columns("epsilon", *(front.name for front in fronts)), rows=rows, notes=notes)

    def __str__(self) -> str:
        return self.table().text()

    def to_dict(self) -> dict[str, Any]:
        """Every curve and crossing as plain data for JSON."""
        return {
            "delta": self.delta,
            "curves": {front.name: [[e, y] for e, y in front.curve()] for front in self.fronts},
            "crossings": [
                {"epsilon": c.epsilon, "rmse": c.error, "below": c.below, "above": c.above} for c in self.crossings
            ],
            "left_out": dict(self.left_out),
        }

    def html(self, *, about: Mapping[str, str] | None = None, answers: Sequence[str] = ()) -> str:
        """The curves and their crossings as the text of an HTML page.

        `about` has what the page says of the data and the questions, and `answers` are its first sentences, by default
        the least error at epsilon 1, or at the end of the curves that is nearest to 1.
        """
        from hush.pareto.front_page import fronts_html

        plan = next(iter(self.plans.values()))
        facts = {
            "Workload": repr(plan.workload),
            "Delta": f"{self.delta:g}" if self.delta else "0 (pure epsilon)",
        }
        return fronts_html(
            self.fronts,
            title="Privacy and error of mechanisms",
            about={**(about or {}), **facts, **(about or {})},
            answers=answers or answers_of(self, at_epsilon=min(max(1.0, self.epsilons[0]), self.epsilons[-1])),
            marks=[(crossing.epsilon, crossing.error, f"{crossing}.") for crossing in self.crossings],
            table=self.table(),
        )

    def write_page(
        self, path: str | Path, *, about: Mapping[str, str] | None = None, answers: Sequence[str] = ()
    ) -> None:
        """Write the page of `html` to a file, replacing any other."""
        write_whole(path, self.html(about=about, answers=answers).encode())


def of_plan(
    workload: Workload | str,
    schema: Schema | Domain | None = None,
    *,
    epsilons: tuple[float, float] = (LEAST, MOST),
    points: int = POINTS,
    delta: float = 1e-9,
    mechanisms: Sequence[str] | None = None,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    max_rows_per_unit: int | None = None,
    thorough: bool = False,
    progress: Callable[[float], None] | None = None,
) -> PlanCurves:
    """The exact curve of RMSE against epsilon for each mechanism whose error is known beforehand.

    `workload` and `schema` are those of `hush.plan`. `epsilons` are the ends of the curves, at a delta of `delta`; with
    a delta of 0, only Laplace noise is left. By default every mechanism that `auto` compares has a curve; `mechanisms`
    names others. `thorough` also tries what takes long.

    Privacy: reads no data.
    """
    asked = workload_of(workload, schema)
    rows = unit_rows(schema, max_rows_per_unit)
    grid = _grid(epsilons, points)
    budget = budget_of(math.sqrt(grid[0] * grid[-1]), delta)
    listed: list[tuple[str, Any, str]]
    if mechanisms is None:
        candidates = plan_candidates(asked, budget, "rmse", thorough=thorough)
        listed = [(candidate.name, candidate.settings, candidate.reason) for candidate in candidates]
    else:
        listed = [(name, mechanism_of(name), "") for name in dict.fromkeys(mechanisms)]
        for name, settings, _ in listed:
            if (settings.adaptive or not settings.measures) and name != "auto":
                raise SearchError(
                    f"mechanism {name!r}: its error depends on the data; search on a stand-in table instead"
                )
    plans: dict[str, Plan] = {}
    left_out: list[tuple[str, str]] = []
    for done, (name, settings, reason) in enumerate(listed):
        if progress is not None:
            progress(done / len(listed))
        if not reason:
            try:
                plans[name] = settings.plan(asked, budget, neighbours=neighbours, max_rows_per_unit=rows)
            except HushError as error:
                reason = str(error)
        if reason:
            left_out.append((name, reason))
    if not plans:
        raise SearchError(f"no mechanism can be planned: {left_out[0][1]}" if left_out else "no mechanism was named")
    return PlanCurves(plans=plans, delta=delta, epsilons=grid, left_out=tuple(left_out))


def budget_of(epsilon: float, delta: float) -> Budget:
    """The budget of an epsilon; pure if delta is 0."""
    return Budget(epsilon=epsilon, delta=delta) if delta else Budget(epsilon=epsilon)


def _grid(epsilons: Sequence[float], points: int) -> tuple[float, ...]:
    ends = tuple(epsilons)
    if len(ends) != 2 or not all(is_number(end) for end in ends) or not 0 < ends[0] < ends[1]:
        raise SearchError(f"epsilons={shown(epsilons)}: expected two numbers above 0, the smaller one first")
    if not (isinstance(points, int) and points >= 2):
        raise SearchError(f"points={shown(points)}: expected a whole number of at least 2")
    return (float(ends[0]), *map(float, np.geomspace(*ends, points)[1:-1]), float(ends[1]))


def _round_numbers(low: float, high: float) -> list[float]:
    """Both ends and round numbers between them: as many as the table has rows for."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in STEPS:
        between = [float(f"{step}e{power}") for power in powers for step in steps]
        found = [low, *(number for number in between if low * (1 + TIE) < number < high * (1 - TIE)), high]
        if len(found) <= SHOWN:
            return found
    every = math.ceil((len(found) - 1) / (SHOWN - 1))
    return [*found[:-1:every], high]


def _halved(low: float, high: float, holds: Callable[[float], bool]) -> tuple[float, float]:
    """The last epsilon at which something does not hold and the first at which it does, by halving on a log scale."""
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high
