"""Mechanisms by name: the same names in Python, on the command line and in files."""

from __future__ import annotations

from typing import Any, Protocol

from hush.errors import WorkloadError
from hush.mechanisms.plan import Plan
from hush.mechanisms.residual import NAME as RESIDUAL
from hush.mechanisms.residual import Residual, ResidualPlan, ResidualRelease
from hush.privacy.budget import Budget
from hush.privacy.neighbours import Neighbours
from hush.strategies.losses import Loss
from hush.workloads import Workload


class Mechanism(Protocol):
    """Something that makes a plan of a workload and a budget."""

    def plan(self, workload: Workload, budget: Budget, *, neighbours: Neighbours, max_rows_per_unit: int) -> Plan: ...


PLANS: dict[str, Any] = {RESIDUAL: ResidualPlan}
RELEASES: dict[str, Any] = {RESIDUAL: ResidualRelease}


def mechanism_of(mechanism: str | Mechanism, loss: str | Loss) -> Mechanism:
    """A mechanism by name, or the mechanism itself."""
    if not isinstance(mechanism, str):
        if not hasattr(mechanism, "plan"):
            raise WorkloadError(f"mechanism={mechanism!r}: expected a name or an object with a plan method")
        return mechanism
    if mechanism in ("auto", RESIDUAL):
        return Residual(loss=loss)
    raise WorkloadError(f"mechanism={mechanism!r}: expected one of auto, {', '.join(PLANS)}")
