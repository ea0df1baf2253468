"""What a reader must know of numbers that come from a fitted model."""

from __future__ import annotations

import math

from hush.domain import Clique


def bound_note(clique: Clique, bound: float, level: float) -> str:
    """Where a table is from, and how far it can be off as a whole.

    >>> bound_note(("age", "sex"), 1234.4, 0.95)
    'age, sex: from the fitted model; the error of the whole table is at most 1,235, by a bound that holds with 95 %.'
    """
    table = ", ".join(clique) or "the total"
    if math.isnan(bound):
        return f"{table}: from the fitted model; how far it is off is not known."
    return (
        f"{table}: from the fitted model; the error of the whole table is at most {math.ceil(bound):,}, "
        f"by a bound that holds with {100 * level:.6g} %."
    )
