"""Plan curves: the exact error of every non-adaptive mechanism, at every epsilon; no search.

Each mechanism is planned once, and its noise scaled to each budget: RMSE is proportional to 1 / epsilon, except that
noise is rounded to integers. Curves cross where the best mechanism changes.

Privacy: reads no data. A plan depends on the workload and the schema alone, and may be published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from hush.core.domain import Domain
from hush.core.errors import HushError, SearchError, shown
from hush.core.validation import check_number, check_whole, is_number
from hush.mechanisms.auto import plan_candidates
from hush.mechanisms.plan import Plan
from hush.mechanisms.registry import mechanism_of
from hush.pareto.evaluation import Evaluation
from hush.pareto.front import Front, WithPage, digits, front_answers
from hush.planning import unit_rows, workload_of
from hush.privacy.budget import Budget
from hush.privacy.sensitivity import Neighbours
from hush.render.text_table import TextTable, number_columns
from hush.schema import Schema
from hush.workloads import Workload

TIE_SHARE = 1e-3  # errors that differ by less than this share are equal
TABLE_ROWS = 11


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
class PlanCurves(WithPage):
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
        """The exact RMSE of a mechanism at an epsilon; infinite if it cannot be planned there."""
        check_number(SearchError, "epsilon", epsilon, above=0)
        if (name, epsilon) not in self._known:
            try:
                rmse = self.plans[name].with_budget(budget_of(epsilon, self.delta)).rmse
            except HushError:
                rmse = None
            self._known[name, epsilon] = math.inf if rmse is None else rmse
        return self._known[name, epsilon]

    @property
    def fronts(self) -> list[Front]:
        """A front for each mechanism that can be planned, the best at the largest epsilon first."""
        fronts = []
        for name in self.plans:
            errors = {epsilon: self.error(name, epsilon) for epsilon in self.epsilons}
            evaluations = [
                Evaluation(settings={"mechanism": name, "epsilon": epsilon}, epsilon=epsilon, errors=(error,))
                for epsilon, error in errors.items()
                if math.isfinite(error)
            ]
            if evaluations:
                front = Front(
                    evaluations=evaluations,
                    reference=(self.epsilons[-1], max(evaluation.error for evaluation in evaluations)),
                    name=name,
                    measure=self.measure,
                    delta=self.delta,
                    search={"method": "exact"},
                )
                fronts.append(front)
        return sorted(fronts, key=lambda front: front.evaluations[-1].error)

    def best_at(self, epsilon: float) -> Evaluation:
        """The mechanism of least error at exactly this epsilon."""
        errors = {name: self.error(name, epsilon) for name in self.plans}
        best = min(errors, key=errors.__getitem__)
        if math.isinf(errors[best]):
            raise SearchError(f"no mechanism can be planned at epsilon={epsilon:g}; use a larger epsilon")
        return Evaluation(settings={"mechanism": best}, epsilon=epsilon, errors=(errors[best],))

    def least_epsilon(self, error: float) -> Evaluation:
        """The mechanism that reaches at most this error with the least epsilon, and that epsilon to six digits."""
        check_number(SearchError, "error", error, above=0)
        low, high = self.epsilons[0], self.epsilons[-1]
        if self.best_at(low).error <= error:
            return self.best_at(low)
        least = self.best_at(high).error
        if least > error:
            raise SearchError(
                f"no mechanism reaches an RMSE of {error:g} by epsilon {high:g}; the least is {digits(least)}"
            )
        return self.best_at(_first_epsilon(low, high, lambda epsilon: self.best_at(epsilon).error <= error))

    @property
    def crossings(self) -> list[Crossing]:
        """Where the best mechanism changes between the first and the last epsilon; ties do not count."""
        crossings = []
        leader = self.best_at(self.epsilons[0]).settings["mechanism"]
        for low, high in pairwise(self.epsilons):
            best = self.best_at(high)
            if best.error < self.error(leader, high) * (1 - TIE_SHARE):
                above = best.settings["mechanism"]

                def overtakes(epsilon: float, above: str = above, below: str = leader) -> bool:
                    return self.error(above, epsilon) <= self.error(below, epsilon)

                place = _first_epsilon(low, high, overtakes)
                crossings.append(Crossing(epsilon=place, error=self.error(above, place), below=leader, above=above))
                leader = above
        return crossings

    def table(self) -> TextTable:
        """The RMSE of every mechanism at some epsilons, and where the best one changes."""
        fronts = self.fronts
        rows = []
        for epsilon in _round_numbers(self.epsilons[0], self.epsilons[-1]):
            errors = [self.error(front.name, epsilon) for front in fronts]
            least = min(errors) * (1 + TIE_SHARE)
            rows.append((digits(epsilon), *(f"{digits(e)}{' *' if e <= least else '  '}" for e in errors)))
        notes = [f"* the least RMSE at this epsilon, with delta={self.delta:g}." if self.delta else "* the least RMSE."]
        notes += [f"{crossing}." for crossing in self.crossings] or [
            f"{fronts[0].name} is best at every epsilon." if fronts else "No mechanism can be planned."
        ]
        notes += [f"Left out: {name}: {reason}." for name, reason in self.left_out]
        return TextTable(columns=number_columns("epsilon", *(front.name for front in fronts)), rows=rows, notes=notes)

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

        `about` has facts about the data and the questions, and `answers` are the first sentences of the page, by
        default the least error at epsilon 1, or at the end of the curves nearest to 1.
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
            answers=answers or front_answers(self, at_epsilon=min(max(1.0, self.epsilons[0]), self.epsilons[-1])),
            marks=[(crossing.epsilon, crossing.error, f"{crossing}.") for crossing in self.crossings],
            table=self.table(),
        )


def of_plan(
    workload: Workload | str,
    schema: Schema | Domain | None = None,
    *,
    epsilons: tuple[float, float] = (0.01, 10.0),
    points: int = 31,
    delta: float = 1e-9,
    mechanisms: Sequence[str] | None = None,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    max_rows_per_unit: int | None = None,
    thorough: bool = False,
    progress: Callable[[float], None] | None = None,
) -> PlanCurves:
    """The exact curve of RMSE against epsilon for each non-adaptive mechanism.

    `workload` and `schema` are those of `hush.plan`. `epsilons` are the ends of the curves. At `delta=0`, only
    mechanisms with Laplace noise remain. By default every mechanism that `auto` compares has a curve; `mechanisms`
    names others. `thorough` also tries slow ones.

    Privacy: reads no data.
    """
    # the epsilons of the curves, and the budget in their middle, for which mechanisms are planned
    asked = workload_of(workload, schema)
    rows = unit_rows(schema, max_rows_per_unit)
    ends = tuple(epsilons)
    if len(ends) != 2 or not all(is_number(end) for end in ends) or not 0 < ends[0] < ends[1]:
        raise SearchError(f"epsilons={shown(epsilons)}: expected two numbers above 0, the smaller first")
    check_whole(SearchError, "points", points, least=2)
    grid = (float(ends[0]), *map(float, np.geomspace(*ends, points)[1:-1]), float(ends[1]))
    budget = budget_of(math.sqrt(grid[0] * grid[-1]), delta)
    # the mechanisms, each with the reason to leave it out, if there is one
    candidates: list[tuple[str, Any, str]]
    if mechanisms is None:
        compared = plan_candidates(asked, budget, "rmse", thorough=thorough)
        candidates = [(candidate.name, candidate.settings, candidate.reason) for candidate in compared]
    else:
        candidates = [(name, mechanism_of(name), "") for name in dict.fromkeys(mechanisms)]
        for name, settings, _ in candidates:
            if (settings.adaptive or not settings.measures) and name != "auto":
                raise SearchError(
                    f"mechanism {name!r}: its error depends on the data; search on a stand-in table instead"
                )
    # plan each mechanism once
    plans: dict[str, Plan] = {}
    left_out: list[tuple[str, str]] = []
    for number, (name, settings, reason) in enumerate(candidates):
        if progress is not None:
            progress(number / len(candidates))
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


def _round_numbers(low: float, high: float) -> list[float]:
    """Both ends and round numbers between them, as many as the table has rows for."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in (tuple(range(1, 10)), (1, 2, 5), (1, 3), (1,)):  # fewer and fewer within a power of ten
        candidates = [float(f"{step}e{power}") for power in powers for step in steps]
        between = [number for number in candidates if low * (1 + TIE_SHARE) < number < high * (1 - TIE_SHARE)]
        if len(between) + 2 <= TABLE_ROWS:
            return [low, *between, high]
    every = math.ceil((len(between) + 1) / (TABLE_ROWS - 1))
    return [*[low, *between][::every], high]


def _first_epsilon(low: float, high: float, holds: Callable[[float], bool]) -> float:
    """The least epsilon at which something holds, given that it does at `high`; by bisection on a log scale."""
    for _ in range(20):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
