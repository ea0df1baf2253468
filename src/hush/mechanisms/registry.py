"""Mechanisms by name: the same names in Python, on the command line and in files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from hush.errors import WorkloadError
from hush.mechanisms import (
    aim,
    auto,
    direct,
    dualquery,
    gaussian,
    hdmm,
    independent,
    matrix,
    mst,
    mwem,
    privbayes,
    residual,
)
from hush.mechanisms.plan import Plan
from hush.privacy.budget import Budget
from hush.privacy.neighbours import Neighbours
from hush.strategies.losses import Loss, SumOfVariances, loss_of
from hush.workloads import Workload


class Mechanism(Protocol):
    """Something that makes a plan of a workload and a budget."""

    def plan(self, workload: Workload, budget: Budget, *, neighbours: Neighbours, max_rows_per_unit: int) -> Plan: ...


PLANS: dict[str, Any] = {
    residual.NAME: residual.ResidualPlan,
    hdmm.NAME: hdmm.HDMMPlan,
    matrix.NAME: matrix.MatrixPlan,
    direct.NAME: direct.DirectPlan,
    aim.NAME: aim.AIMPlan,
    independent.NAME: independent.IndependentPlan,
    gaussian.NAME: gaussian.GaussianPlan,
    mwem.NAME: mwem.MWEMPlan,
    mst.NAME: mst.MSTPlan,
    privbayes.NAME: privbayes.PrivBayesPlan,
    dualquery.NAME: dualquery.DualQueryPlan,
}
RELEASES: dict[str, Any] = {
    residual.NAME: residual.ResidualRelease,
    hdmm.NAME: hdmm.HDMMRelease,
    matrix.NAME: matrix.MatrixRelease,
    direct.NAME: direct.DirectRelease,
    aim.NAME: aim.AIMRelease,
    independent.NAME: independent.IndependentRelease,
    gaussian.NAME: gaussian.GaussianRelease,
    mwem.NAME: mwem.MWEMRelease,
    mst.NAME: mst.MSTRelease,
    privbayes.NAME: privbayes.PrivBayesRelease,
    dualquery.NAME: dualquery.DualQueryRelease,
}
MECHANISMS: dict[str, Callable[[str | Loss], Mechanism]] = {
    auto.NAME: lambda loss: auto.Auto(loss=loss),
    residual.NAME: lambda loss: residual.Residual(loss=loss),
    hdmm.NAME: lambda loss: _for_rmse(hdmm.NAME, loss, hdmm.HDMM()),
    matrix.NAME: lambda loss: matrix.Matrix(loss=loss),
    direct.NAME: lambda loss: _for_rmse(direct.NAME, loss, direct.Direct()),
    aim.NAME: lambda loss: _for_rmse(aim.NAME, loss, aim.AIM()),
    independent.NAME: lambda loss: _for_rmse(independent.NAME, loss, independent.Independent()),
    gaussian.NAME: lambda loss: _for_rmse(gaussian.NAME, loss, gaussian.Gaussian()),
    mwem.NAME: lambda loss: _for_rmse(mwem.NAME, loss, mwem.MWEM()),
    mst.NAME: lambda loss: _for_rmse(mst.NAME, loss, mst.MST()),
    privbayes.NAME: lambda loss: _for_rmse(privbayes.NAME, loss, privbayes.PrivBayes()),
    dualquery.NAME: lambda loss: _for_rmse(dualquery.NAME, loss, dualquery.DualQuery()),
}


def mechanism_of(mechanism: str | Mechanism, loss: str | Loss) -> Mechanism:
    """A mechanism by name, or the mechanism itself."""
    if not isinstance(mechanism, str):
        if not hasattr(mechanism, "plan"):
            raise WorkloadError(f"mechanism={mechanism!r}: expected a name or an object with a plan method")
        if isinstance(mechanism, type):
            raise WorkloadError(f"mechanism={mechanism.__name__}: expected an object; write {mechanism.__name__}()")
        if loss != "rmse" and getattr(mechanism, "loss", "rmse") != loss:
            raise WorkloadError(f"loss={loss!r} beside a mechanism object, which has its own; give it to that object")
        return mechanism
    if mechanism not in MECHANISMS:
        raise WorkloadError(f"mechanism={mechanism!r}: expected one of {', '.join(MECHANISMS)}")
    return MECHANISMS[mechanism](loss)


def _for_rmse(name: str, loss: str | Loss, mechanism: Mechanism) -> Mechanism:
    if not isinstance(loss_of(loss), SumOfVariances):
        raise WorkloadError(f"mechanism={name!r} makes 'rmse' small, nothing else; use 'residual' or 'matrix'")
    return mechanism
