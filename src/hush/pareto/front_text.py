"""Front text: figures of fronts for people, in three digits, and the answers to what was asked of a front."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Context
from typing import TYPE_CHECKING, Any

from hush.render.labels import compact

if TYPE_CHECKING:
    from hush.pareto.evaluation import Evaluation
    from hush.pareto.front import Front
    from hush.pareto.plan_curves import PlanCurves


def digits(number: float) -> str:
    """A number in three digits.

    >>> [digits(x) for x in (0.019953, 0.84573, 513.6, 10_384.0, 5.0)]
    ['0.02', '0.846', '514', '10,400', '5']
    """
    return compact(float(f"{number:.3g}"))


def digits_above(number: float) -> str:
    """A number in three digits, never less than the number itself.

    >>> digits_above(0.84213), digits_above(0.84)
    ('0.843', '0.84')
    """
    return compact(float(Context(prec=3, rounding=ROUND_CEILING).create_decimal_from_float(number)))


def value_text(value: Any) -> str:
    """The value of a setting."""
    return digits(value) if isinstance(value, float) else str(value)


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings in one line; epsilon is left out, and a mechanism is its name.

    >>> settings_text({"epsilon": 0.5, "share": 0.81234, "rounds": 4}), settings_text({"mechanism": "hdmm"})
    ('share=0.812, rounds=4', 'hdmm')
    """
    others = {name: value for name, value in settings.items() if name != "epsilon"}
    if [*others] == ["mechanism"]:
        return str(others["mechanism"])
    return ", ".join(f"{name}={value_text(value)}" for name, value in others.items())


def answers(made: Front | PlanCurves, *, at_epsilon: float | None = None, for_error: float | None = None) -> list[str]:
    """What a front or curves say about an epsilon and about an error, a sentence for each that is asked."""
    said = []
    if at_epsilon is not None:
        point = made.best_at(at_epsilon)
        exactly = point.epsilon == at_epsilon
        where = "" if exactly else f" at epsilon {digits(point.epsilon)}"
        said.append(
            f"{'At' if exactly else 'Up to'} epsilon {digits(at_epsilon)}, the best {made.measure} is "
            f"{digits(point.error)}{where}{_how(point)}."
        )
    if for_error is not None:
        point = made.least_epsilon(for_error)
        needed = digits_above(point.epsilon)
        said.append(f"To keep the {made.measure} at {digits(for_error)} or below takes epsilon {needed}{_how(point)}.")
    return said


def _how(point: Evaluation) -> str:
    settings = settings_text(point.settings)
    return f" ({settings})" if settings else ""
