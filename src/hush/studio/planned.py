"""Planned: from what a project says to the plan that would be released, and its effect in words.

Optimising a plan takes seconds for many columns, and hardly depends on the budget. So a plan is optimised once for each
schema, question and unit, and another budget only scales its noise (`Plan.with_budget`). That is why the effect of a
budget is shown at once, and why the plan that is confirmed is the one whose effect was shown.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections import OrderedDict
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hush.core.errors import BudgetError, WorkloadError, shown
from hush.mechanisms.plan_errors import OneWay, check_useful, delta_warning, noise_text
from hush.planning import plan
from hush.privacy.budget import Budget, number_text
from hush.release.spent_together import plain_sum, same_promise
from hush.render.labels import named, table_name
from hush.render.text_table import counted
from hush.schema import Integer, Numeric, Schema
from hush.studio.column_draft import schema_of
from hush.studio.project import AskedQuestions, PeopleError, ProjectFile, TypedBudget
from hush.workloads import Workload
from hush.workloads.workload_text import NAME_PATTERN, parse_workload

if TYPE_CHECKING:
    from hush.mechanisms.plan import Plan
    from hush.privacy.ledger import Ledger

TWO_SIDED_95 = 1.959964  # quantile of the normal distribution: a 95 % interval is ± this many standard errors
MOST_PLANS = 4  # that are kept
MOST_LISTED_EFFECTS = 30  # tables
ORDERS = {"0": "", "1": "<=1-way", "2": "<=2-way", "3": "<=3-way"}
SEARCH_STEPS, SEARCH_TOLERANCE = 20, 2e-4  # of a search for the logarithm of epsilon
LONGEST_STEP, LARGEST_LOG = 3.0, 12.0
LEAST_MARGIN = 1e-6
WRITTEN_DIGITS = 4  # of an epsilon that was found


@dataclass(frozen=True, slots=True)
class Effect:
    """What a table of a plan would be like: its size, and the half width of a typical 95 % interval.

    The table of an `average` is that of its groups. Its margin is the least that is possible, since the noise of the
    counts adds to it by an amount that depends on the data.
    """

    name: str
    cells: int
    margin: float | None
    typical_count: float | None  # rows of an average cell, if the number of rows is known
    average: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan of a project, with what it was made from."""

    schema: Schema
    text: str  # of the workload
    goal: str
    label: str | None  # the column that will be predicted from synthetic rows
    plan: Plan
    rows: int | None  # as the owner states, publicly
    picked: frozenset[frozenset[str]] = frozenset()  # tables that the owner chose one by one
    fitted: bool = False  # whether the plan has more noise than it takes alone, since the ledger has no room for less

    @property
    def effects(self) -> list[Effect]:
        """The effect for each table, as far as it is known beforehand; of many tables, those that were picked one by
        one have their own, and the others one for each number of columns.
        """
        plan, margins = self.plan, self.plan.term_variances
        terms = list(zip(plan.workload.terms, margins.tolist(), strict=True))
        alone, grouped = terms, []
        if len(terms) > MOST_LISTED_EFFECTS:
            alone = [pair for pair in terms if frozenset(pair[0].clique) in self.picked][:MOST_LISTED_EFFECTS]
            listed = {term.clique for term, _ in alone}
            grouped = [pair for pair in terms if pair[0].clique not in listed]
        single = [self._effect(str(table_name(term.clique)), term.queries, variance) for term, variance in alone]
        return [*single, *self._by_order(grouped)]

    def _by_order(self, terms: list[tuple[Any, float]]) -> list[Effect]:
        groups: dict[int, list[tuple[Any, float]]] = {}
        for term, variance in terms:
            groups.setdefault(len(term.clique), []).append((term, variance))
        effects = []
        for order, group in sorted(groups.items()):
            cells = sum(term.queries for term, _ in group)
            mean = sum(term.queries * variance for term, variance in group) / cells
            name = "the total" if order == 0 else f"{counted(len(group), 'table')} of {counted(order, 'column')}"
            effects.append(self._effect(name, round(cells / len(group)), mean))
        return effects

    def _effect(self, name: str, cells: int, variance: float) -> Effect:
        margin = TWO_SIDED_95 * math.sqrt(variance) if variance >= 0 else None
        return Effect(name, cells, margin, None if self.rows is None else self.rows / max(cells, 1))

    @property
    def averages(self) -> list[Effect]:
        """The effect for each average; if nobody says how many rows there are, for the sum that it comes from."""
        sums, found = self.plan.sums, []
        pairs = [] if sums is None else list(zip(sums.terms, sums.std_errors.tolist(), strict=True))
        for term, error in pairs:
            if term.grid.power != 1 or term.column in term.clique:  # squares, and where in its bins a value lies
                continue
            groups = math.prod(self.schema.domain.sizes(term.clique))
            count = None if self.rows is None else self.rows / groups
            what = "sum of" if count is None else "average"
            by = f" by {table_name(term.clique)}" if term.clique else ""
            name, margin = f"{what} {named(term.column, 60)}{by}", TWO_SIDED_95 * error / (count or 1.0)
            found.append(Effect(name, groups, margin, count, average=True))
        return found

    @property
    def promised(self) -> tuple[float, float] | None:
        """Epsilon and delta of the release and the discovery of its columns together; None if they do not add up."""
        schema, budget = self.schema, self.plan.budget
        if not same_promise(schema, self.plan.neighbours, schema.unit.column):
            return None
        return plain_sum(budget.epsilon or 0.0, budget.delta or 0.0, schema)

    @property
    def counted(self) -> str:
        """What a count is a number of: a person with several rows is counted once for each."""
        return "people" if self.schema.unit.max_rows == 1 else "rows"

    @property
    def headline(self) -> str:
        """The effect in one sentence."""
        margin = typical_margin(self.plan)
        if margin is None:
            return "How exact the numbers will be depends on the data; every one will come with its interval or bound."
        count = 1200 if self.rows is None else min(1200, max(self.rows // 10, 10))
        best = "at best " if self.plan.strategy is None else ""
        words = f"{best}± {noise_text(margin)} {self.counted} on a count of {count:,}, 19 times in 20"
        variances = [float(variance) for variance in self.plan.term_variances if variance >= 0]
        if len(variances) > 1:
            least, most = (TWO_SIDED_95 * math.sqrt(end(variances)) for end in (min, max))
            words += f"; by table, from ± {noise_text(least)} to ± {noise_text(most)}"
        return f"{words}; the ledger has no room for less noise" if self.fitted else words

    @property
    def warnings(self) -> list[str]:
        """Why the budget is not a good one: useless for so many rows, or with too large a delta."""
        found = []
        if self.rows is not None:
            try:
                check_useful(self.plan, self.rows)
            except BudgetError as error:
                found.append(str(error))
        warning = delta_warning(self.plan.budget, self.rows)
        return [*found, *([warning] if warning else [])]


def typical_margin(plan: Plan) -> float | None:
    """Half the width of a typical 95 % interval: that of the RMSE, or the least if errors depend on the data."""
    if plan.rmse is not None:
        return TWO_SIDED_95 * plan.rmse
    if not (plan.adaptive and plan.settings.told_by_columns):
        return None
    columns = plan.settings.columns(plan.workload)
    return TWO_SIDED_95 * OneWay.of(plan, columns, plan.rho / len(columns)).stddev


class Planner:
    """Makes plans of projects, one at a time, and keeps the last few."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Plan] = OrderedDict()
        self._planning = threading.Lock()

    def planned(self, project: ProjectFile, typed: TypedBudget | None = None, ledger: Ledger | None = None) -> Planned:
        """The plan of a project for its budget, or for another; HushError says what is missing.

        If the ledger has no room for the plan, the plan takes more noise; see `Plan.fitting`.
        """
        typed = project.budget if typed is None else typed
        schema, rows = schema_of(project), stated_rows(project)
        text = workload_text(project.questions, schema)
        workload, label = parse_workload(schema, text), label_of(project.questions, schema)
        first = Budget(epsilon=1.0, delta=number(typed.delta, "delta", "1e-9"))
        goal = project.questions.goal
        base = self._base(schema, workload, text, goal, label, first)
        budget = budget_of(typed, base)
        alone = chosen = base.with_budget(budget)
        if ledger is not None and not alone.payable(ledger):
            alone.alternative = None if base.alternative is None else base.alternative.with_budget(budget)
            chosen = alone.fitting(ledger)
        picked = frozenset(frozenset(table) for table in project.questions.tables)
        return Planned(schema, text, goal, label, chosen, rows, picked, fitted=chosen is not alone)

    def _base(
        self, schema: Schema, workload: Workload, text: str, goal: str, label: str | None, budget: Budget
    ) -> Plan:
        """The optimised plan, for any budget of the same notion of privacy."""
        key = hashlib.sha256("\0".join([schema.to_toml(), text, goal, label or "", str(budget)]).encode()).hexdigest()
        with self._planning:
            if key not in self._kept:
                self._kept[key] = plan(workload, budget, goal=goal, label=label, schema=schema)
                while len(self._kept) > MOST_PLANS:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]


def budget_of(typed: TypedBudget, base: Plan) -> Budget:
    """The budget as typed, or the least one that reaches the accuracy."""
    delta = number(typed.delta, "delta", "1e-9")
    if typed.way == "epsilon":
        return Budget(epsilon=number(typed.epsilon, "epsilon", "1"), delta=delta)
    target = number(typed.accuracy, "accuracy", "45")
    if target <= 0:
        raise BudgetError(f"accuracy: ± {shown(target)}: expected a number above 0, such as 45")
    return budget_for_margin(base, target, delta)


def budget_for_margin(base: Plan, target: float, delta: float) -> Budget:
    """The least epsilon, rounded up to four digits, with which a typical interval is no wider than ± target.

    The secant method on logarithms: the width is nearly a power of epsilon, so a few steps are enough.
    """

    def excess(log_epsilon: float) -> float:
        try:
            margin = typical_margin(base.with_budget(Budget(epsilon=math.exp(log_epsilon), delta=delta)))
        except BudgetError:
            margin = 0.0  # noise so narrow that no mechanism has it
        if margin is None:
            raise BudgetError("how exact this release will be is not known beforehand; set the budget by epsilon")
        return math.log(max(margin, LEAST_MARGIN) / target)

    at, slope = 0.0, -1.0
    here = excess(at)
    for _ in range(SEARCH_STEPS):
        step = min(max(-here / slope, -LONGEST_STEP), LONGEST_STEP)
        if abs(step) < SEARCH_TOLERANCE:
            break
        at, before = min(max(at + step, -LARGEST_LOG), LARGEST_LOG), here
        here = excess(at)
        slope = min((here - before) / step, -0.25)
    # Round up in decimal, so that the number that is shown is the number that is charged.
    for _ in range(SEARCH_STEPS):
        at += SEARCH_TOLERANCE
        digits = WRITTEN_DIGITS - 1 - math.floor(at / math.log(10))
        epsilon = float(f"{math.ceil(math.exp(at) * 10.0**digits) / 10.0**digits:.{WRITTEN_DIGITS}g}")
        if excess(math.log(epsilon)) <= 0 and not _too_narrow(base, epsilon, delta):
            return Budget(epsilon=epsilon, delta=delta)
    raise BudgetError(f"± {noise_text(target)}: no budget reaches that; allow a larger error")


def _too_narrow(base: Plan, epsilon: float, delta: float) -> bool:
    """Whether a budget is so large that no mechanism has noise for it."""
    try:
        base.with_budget(Budget(epsilon=epsilon, delta=delta))
    except BudgetError:
        return True
    return False


def workload_text(questions: AskedQuestions, schema: Schema) -> str:
    """What matters as the text of a workload; for synthetic rows all pairs, if nothing else is said."""
    parts = [ORDERS.get(questions.order, "")]
    tables = ["; ".join(", ".join(map(workload_name, table)) for table in _new_tables(questions))]
    sums = []
    for column, *by in questions.averages:
        if column in schema.domain and not isinstance(schema[column], Integer | Numeric):
            raise WorkloadError(f"the average of {shown(column)}: the column holds no numbers; choose another")
        groups = f" by {', '.join(map(workload_name, by))}" if by else ""
        sums.append(f"sum({workload_name(column)}){groups}")
    text = " + ".join(part for part in (*parts, *tables, "; ".join(sums), questions.more.strip()) if part)
    if not text and questions.goal == "rows":
        return "2-way"
    if not text:
        raise WorkloadError("nothing is asked yet; say on the page of questions what matters")
    return text


def label_of(questions: AskedQuestions, schema: Schema) -> str | None:
    """The column that will be predicted from synthetic rows; None if there is none, or if no rows are asked for."""
    label = questions.label if questions.goal == "rows" else ""
    if label and label not in schema.domain:
        raise WorkloadError(f"the column to predict, {shown(label)}, is no longer used; choose another one, or none")
    return label or None


def _new_tables(questions: AskedQuestions) -> list[list[str]]:
    """The tables that are named, without those that are among all tables of an order."""
    order = int(questions.order) if questions.order in ORDERS else 0
    distinct = {tuple(sorted(table)): table for table in questions.tables}
    return [table for table in distinct.values() if len(table) > order]


def workload_name(name: str) -> str:
    """A column's name in the text of a workload, in quotes where it needs them."""
    plain = NAME_PATTERN.fullmatch(name)
    if plain is not None and plain[2] == name and "*" not in name and "(" not in name and not name[0].isdigit():
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def stated_rows(project: ProjectFile) -> int | None:
    """The expected number of rows, if the owner stated one."""
    text = project.people.rows.replace(",", "").replace("_", "").replace(" ", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**40):
        raise PeopleError(f"about how many rows: {shown(text)}: expected a whole number such as 10000")
    return int(text)


def number(text: str, name: str, example: str) -> float:
    """A number that was typed."""
    try:
        value = float(text.strip().replace(",", ""))
    except ValueError:
        raise BudgetError(f"{name}: {shown(text)}: expected a number such as {example}") from None
    if not math.isfinite(value) or value < 0:
        raise BudgetError(f"{name}: {shown(text)}: expected a number such as {example}")
    return value


def budget_words(budget: Budget) -> str:
    """A budget in the words of the pages."""
    if budget.epsilon is None:
        return str(budget)
    amount = number_text(budget.epsilon)
    return f"epsilon {amount}" if budget.pure else f"epsilon {amount} at delta {number_text(budget.delta or 0.0)}"


def share_words(part: Fraction, whole: Fraction) -> str:
    """A share in percent, rounded to a tenth.

    >>> share_words(Fraction(1), Fraction(8)), share_words(Fraction(1), Fraction(10**6))
    ('12.5 %', 'less than 0.1 %')
    """
    share = float(part / whole)
    return f"{share:.1%}".replace("%", " %") if share == 0 or share >= 0.0005 else "less than 0.1 %"
