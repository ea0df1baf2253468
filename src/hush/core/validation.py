"""Validation: the checks of single arguments, with one wording for every message.

Each check takes the error to raise, the name of the argument and its value, and returns the value, so that a
constructor can check and assign in one line. A message names the argument, the value, the rule and, where `hint` gives
one, the next step. Arguments are public; private values never reach a check.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, TypeGuard

from hush.core.errors import HushError, close_match, shown


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is an integer, of Python or numpy; booleans are not.

    >>> is_whole(3), is_whole(True), is_whole(3.0)
    (True, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number that a float can hold, so neither NaN nor infinite; booleans are not.

    >>> is_number(0.5), is_number(float("nan")), is_number(10**400), is_number(True)
    (True, False, False, False)
    """
    if type(value) is float:  # edges of bins come by the million, and the test for any kind of number takes long
        return math.isfinite(value)
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer or a fraction beyond the largest float
        return False


def check_whole(
    error: type[HushError], name: str, value: Any, *, least: int | None = None, most: int | None = None, hint: str = ""
) -> int:
    """The value, if it is an integer from `least` to `most`.

    >>> from hush.core.errors import WorkloadError
    >>> check_whole(WorkloadError, "rounds", 0, least=1, hint="; omit it to use 16 per attribute")
    Traceback (most recent call last):
    hush.core.errors.WorkloadError: rounds=0: expected a whole number of at least 1; omit it to use 16 per attribute
    """
    if is_whole(value):
        number = int(value)
        if (least is None or number >= least) and (most is None or number <= most):
            return number
    raise error(f"{name}={shown(value)}: expected a whole number{_range(least, None, most, None)}{hint}")


def check_number(
    error: type[HushError],
    name: str,
    value: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    hint: str = "",
) -> float:
    """The value as a float, if it is a finite number with `least <= value <= most` and `above < value < below`.

    `above` and `below` hold for the float too: a positive fraction that rounds to 0.0 is refused by `above=0`.

    >>> from hush.core.errors import BudgetError
    >>> check_number(BudgetError, "share", 1.5, above=0, below=1, hint=", such as 0.9")
    Traceback (most recent call last):
    hush.core.errors.BudgetError: share=1.5: expected a number between 0 and 1, such as 0.9
    """
    if is_number(value) and (
        (least is None or value >= least)
        and (above is None or (value > above and float(value) > above))
        and (most is None or value <= most)
        and (below is None or (value < below and float(value) < below))
    ):
        return float(value)
    # NaN has no order and infinity may well be in the range, so the message names the rule that they break.
    finite = "finite " if isinstance(value, Real) and not is_number(value) and not isinstance(value, bool) else ""
    raise error(f"{name}={shown(value)}: expected a {finite}number{_range(least, above, most, below)}{hint}")


def check_flag(error: type[HushError], name: str, value: Any, *, hint: str = "") -> bool:
    """The value, if it is True or False.

    >>> check_flag(HushError, "paper", "yes")
    Traceback (most recent call last):
    hush.core.errors.HushError: paper='yes': expected True or False
    """
    if not isinstance(value, bool):
        raise error(f"{name}={shown(value)}: expected True or False{hint}")
    return value


def check_choice(error: type[HushError], name: str, value: Any, choices: Iterable[str], *, hint: str = "") -> str:
    """The value, if it is one of a few words; a misspelt word gets a suggestion.

    >>> check_choice(HushError, "loss", "rmsee", ("rmse", "maxvar"))
    Traceback (most recent call last):
    hush.core.errors.HushError: loss='rmsee': expected one of 'rmse', 'maxvar'; did you mean 'rmse'?
    """
    words = list(choices)
    if isinstance(value, str) and value in words:
        return str(value)
    near = close_match(value, words) if isinstance(value, str) else None
    suggestion = f"; did you mean {near!r}?" if near else ""
    raise error(f"{name}={shown(value)}: expected one of {', '.join(map(repr, words))}{suggestion}{hint}")


def _range(least: float | None, above: float | None, most: float | None, below: float | None) -> str:
    """The words for a range: " of at least 1", " above 0 and at most 1", " from 1 to 10", " between 0 and 1"."""
    if least is not None and most is not None:
        return f" from {_bound(least)} to {_bound(most)}"
    if above is not None and below is not None:
        return f" between {_bound(above)} and {_bound(below)}"
    low = (
        f" of at least {_bound(least)}" if least is not None else f" above {_bound(above)}" if above is not None else ""
    )
    high = f"at most {_bound(most)}" if most is not None else f"below {_bound(below)}" if below is not None else ""
    return f"{low} and {high}" if low and high else f" of {high}" if most is not None else low or f" {high}".rstrip()


def _bound(bound: float) -> str:
    """A bound as a person writes it: 1,000,000 and not 1000000.0, 1e-9 and not 1e-09, 1/3 for a fraction."""
    if isinstance(bound, Fraction) and bound.denominator > 1:
        return str(bound)
    if bound == int(bound) and abs(bound) < (1e22 if isinstance(bound, int) else 1e15):
        return f"{int(bound):,}"
    return re.sub(r"e([+-])0*", lambda match: "e" + match[1].strip("+"), f"{float(bound)!r}")
