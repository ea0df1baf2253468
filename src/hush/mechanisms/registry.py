"""Taxonomy: what each mechanism takes into account, what it gives, and where it comes from.

Mechanisms by name: the same names in Python, on the command line and in files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
from hush.privacy.sensitivity import Neighbours
from hush.strategies.losses import Loss, SumOfVariances, loss_of
from hush.workloads import Workload

_BEFOREHAND = "all, known beforehand"
_MEASURED = "measured tables"
_BOUNDED = "measured; others bounded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taxonomy:
    """One mechanism among the others.

    `workload_aware`: what it measures reflects what is asked. `data_aware`: it is chosen by looking at the data,
    within the budget. `budget_aware`: how many tables and how large they are follows the budget. `efficiency_aware`:
    what it measures is kept such that a model of it stays small. `synthetic`: its release holds a distribution that
    rows are drawn from; releases of the others fit one when they are asked for rows. `errors`: which answers are
    unbiased, with exact standard errors, and whether bounds are known for tables that were not measured.

    Reference: [AIM, Table 1].
    """

    name: str
    description: str
    workload_aware: bool = False
    data_aware: bool = False
    budget_aware: bool = False
    efficiency_aware: bool = False
    synthetic: bool = False
    noise: str
    errors: str
    reference: str

    def to_dict(self) -> dict[str, Any]:
        """Every field by its name, for JSON.

        >>> TAXONOMY["aim"].to_dict()["workload_aware"]
        True
        """
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


_ALL = (
    Taxonomy(
        name="auto",
        description="the one of residual, hdmm, matrix and direct that predicts the least error",
        workload_aware=True,
        noise="Gaussian or Laplace",
        errors=_BEFOREHAND,
        reference="",
    ),
    Taxonomy(
        name="residual",
        description="residuals of every subset of the asked tables; the least error for marginals",
        workload_aware=True,
        noise="Gaussian",
        errors=_BEFOREHAND,
        reference="ResidualPlanner",
    ),
    Taxonomy(
        name="hdmm",
        description="the best of products, unions of products and weighted marginals that it finds",
        workload_aware=True,
        noise="Gaussian or Laplace",
        errors=_BEFOREHAND,
        reference="HDMM",
    ),
    Taxonomy(
        name="matrix",
        description="an explicit strategy over few cells, at its certified optimum",
        workload_aware=True,
        noise="Gaussian or Laplace",
        errors=_BEFOREHAND,
        reference="Li 2013",
    ),
    Taxonomy(
        name="direct",
        description="the asked queries themselves; a yardstick",
        workload_aware=True,
        noise="Gaussian or Laplace",
        errors=_BEFOREHAND,
        reference="Li 2013, Prop. 2.5",
    ),
    Taxonomy(
        name="aim",
        description="round by round, the table that the model gets most wrong for its size and the budget",
        workload_aware=True,
        data_aware=True,
        budget_aware=True,
        efficiency_aware=True,
        synthetic=True,
        noise="Gaussian",
        errors=_BOUNDED,
        reference="AIM",
    ),
    Taxonomy(
        name="mst",
        description="every column, then the pairs of columns of a maximum spanning tree",
        data_aware=True,
        efficiency_aware=True,
        synthetic=True,
        noise="Gaussian",
        errors=_BOUNDED,
        reference="McKenna et al. 2021",
    ),
    Taxonomy(
        name="mwem",
        description="round by round, the asked table that the model gets most wrong; rounds are given",
        workload_aware=True,
        data_aware=True,
        synthetic=True,
        noise="Gaussian",
        errors=_BOUNDED,
        reference="AIM, Alg. 1",
    ),
    Taxonomy(
        name="privbayes",
        description="a network in which every column depends on a few others, then its tables",
        data_aware=True,
        budget_aware=True,
        efficiency_aware=True,
        synthetic=True,
        noise="Gaussian",
        errors=_MEASURED,
        reference="Zhang et al. 2017",
    ),
    Taxonomy(
        name="dualquery",
        description="every column, then queries that made-up rows answer badly, drawn in a private game",
        workload_aware=True,
        data_aware=True,
        budget_aware=True,
        efficiency_aware=True,
        synthetic=True,
        noise="Gaussian, and choices",
        errors="columns",
        reference="Gaboardi et al. 2014",
    ),
    Taxonomy(
        name="independent",
        description="every column by itself, as if none depended on another; a yardstick",
        efficiency_aware=True,
        synthetic=True,
        noise="Gaussian",
        errors=_MEASURED,
        reference="AIM, Table 1",
    ),
    Taxonomy(
        name="gaussian",
        description="every asked table, each with the share of the budget that suits it; a yardstick",
        workload_aware=True,
        noise="Gaussian",
        errors=_BEFOREHAND,
        reference="AIM, Table 1",
    ),
)
TAXONOMY: dict[str, Taxonomy] = {one.name: one for one in _ALL}


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
