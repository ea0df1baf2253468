"""What a measured release from a file must account for: its tables, its choices, its cost, and what scores say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from hush.errors import BudgetError
from hush.privacy.events import ComposedEvent, Event, GaussianEvent, SelectionEvent, price
from hush.privacy.selection import BETA
from hush.privacy.sensitivity import ONE_CELL, Sensitivity, sensitivity
from hush.release.rounds import Round, Scored
from hush.release.statement import Statement
from hush.release.taken import Taken

ROUNDING = Fraction(1, 10**9)  # another version may turn the same epsilon into a rho that differs in the last digits
LARGEST_EPSILON = 2**64


def unaccounted(statement: Statement, taken: Iterable[Taken], rounds: Iterable[Round]) -> str | None:
    """What of the tables and choices the statement does not pay for; a stopped run may have paid for more."""
    parts = Counter(dict(event_parts(statement.event)))
    bound = unit_bound(statement)
    for one in taken:
        own = GaussianEvent(one.variance, bound.l2_squared, bound.single_cell)
        if parts[own] < 1:
            return "it holds a table whose noise it does not account for"
        parts[own] -= 1
    choices: Counter[float] = Counter()
    for part, count in parts.items():
        if isinstance(part, SelectionEvent) and part.epsilon < LARGEST_EPSILON:
            choices[float(part.epsilon)] += count
    for played in rounds:
        if played.epsilon > 0 and choices[played.epsilon] < 1:
            return "it holds a choice that it does not account for"
        choices[played.epsilon] -= 1
    return None


def beyond_budget(statement: Statement) -> str | None:
    """Whether what was spent exceeds the budget that is stated."""
    try:
        spent = statement.budget.spent(price(statement.event))
    except BudgetError as error:
        return str(error)
    return "it spent more than its budget" if spent > statement.budget.limit * (1 + ROUNDING) else None


def too_sure(statement: Statement, rounds: Sequence[Round], scored: Scored, *, generalized: bool) -> str | None:
    """Whether scores promise more than a choice by the epsilon of their round can.

    With d = 2 unit / epsilon, v = w_t / w_r for the chosen t, and k candidates, the exponential mechanism has
    slope = d max w / w_r >= d max(1, v) and slack = slope log k; the generalised one slope = d (1 + v) and
    slack = d ((1 + v) log k + (1 - v) log(k / beta)).
    """
    used = np.flatnonzero(scored.rounds >= 0)
    chosen = [rounds[number] for number in scored.rounds[used].tolist()]
    if any(one.epsilon <= 0 or one.candidates < 1 for one in chosen):
        return "it holds scores of a round without a choice"
    d = 2 * float(unit_bound(statement).l1) / np.array([one.epsilon for one in chosen])
    k = np.array([float(one.candidates) for one in chosen])
    v = np.array([one.weight for one in chosen]) / scored.weights[used]
    slope = d * (1 + v) if generalized else d * np.maximum(1, v)
    slack = d * ((1 + v) * np.log(k) + (1 - v) * np.log(np.maximum(k, 2) / BETA)) if generalized else slope * np.log(k)
    room = 1e-9 * d * (1 + v) * (1 + np.log(k / BETA))
    sound = (scored.slopes[used] >= slope - room).all() and (scored.slacks[used] >= slack - room).all()
    return None if sound else "its scores promise more than its choices can"


def event_parts(event: Event) -> tuple[tuple[Event, int], ...]:
    """What an event is made of, each with how often."""
    return tuple(event.parts) if isinstance(event, ComposedEvent) else ((event, 1),)


def unit_bound(statement: Statement) -> Sensitivity:
    """How far a unit of the statement moves a table."""
    return sensitivity(ONE_CELL, max_rows=statement.unit.max_rows, neighbours=statement.neighbours)
