"""Which noise goes with which budget."""

from __future__ import annotations

from fractions import Fraction

from hush.errors import BudgetError
from hush.mechanisms.plan import rows_per_unit
from hush.privacy.budget import Budget
from hush.strategies.noise_kind import NoiseKind

NOISES = ("auto", *NoiseKind)


def choose_noise(noise: str, budget: Budget) -> tuple[NoiseKind, Budget]:
    """The kind of noise, and the budget as that noise is accounted: zCDP for Gaussian, pure epsilon for Laplace.

    "auto" takes Laplace noise for pure epsilon and Gaussian noise otherwise. Laplace noise asked for under
    (epsilon, delta) is planned as pure epsilon, which is the stronger promise.
    """
    if noise not in NOISES:
        raise BudgetError(f"noise={noise!r}: expected one of {', '.join(NOISES)}")
    kind = NoiseKind(noise) if noise != "auto" else (NoiseKind.LAPLACE if budget.pure else NoiseKind.GAUSSIAN)
    if kind is NoiseKind.LAPLACE:
        if budget.epsilon is None:
            raise BudgetError(
                f"Laplace noise is accounted in pure epsilon, and the budget states {budget}; "
                "state Budget(epsilon=...), or use Gaussian noise"
            )
        return kind, Budget(epsilon=budget.epsilon)
    budget.rho  # noqa: B018 - refuses pure epsilon, with the remedy
    return kind, budget


def per_row(kind: NoiseKind, budget: Budget, max_rows_per_unit: int) -> Fraction:
    """What may be spent as if a unit were one row: rho / m^2, or epsilon / m, for units of m rows."""
    m = rows_per_unit(max_rows_per_unit)
    if kind is NoiseKind.LAPLACE:
        return Fraction(budget.epsilon or 0.0) / m
    return Fraction(budget.rho) / m**2
