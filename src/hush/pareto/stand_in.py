"""Stand-in search: the front of an adaptive mechanism on a public or invented table that resembles the private one.

The error of an adaptive mechanism, such as scout, AIM or DAWA, depends on the data, so it is known only by running it.
The search runs the mechanism on a stand-in with seeded noise, over epsilon and its settings, and computes the workload
error, a mean over tables, or the largest error of any answer. The front is that of the stand-in; it holds for the
private table as far as the two are similar and of equal size.

Privacy: errors are computed without protection, and every run has a seed. A table that a ledger protects is refused.
With `front_not_private` the table is accepted, nothing is charged, and the front is stamped as private as its rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from hush.core.errors import SearchError, WorkloadError
from hush.core.validation import check_choice, check_number
from hush.evaluation.workload_error import Tables, check_compared, largest_error, workload_error
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.rap import RAP
from hush.mechanisms.registry import mechanism_of
from hush.pareto.front import Front
from hush.pareto.plan_curves import budget_of
from hush.pareto.search import search
from hush.pareto.space import ChoiceSetting, IntegerSetting, RealSetting, Setting, Settings, Space
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.ledger import Ledger
from hush.tables.table import Table
from hush.workloads import Workload
from hush.workloads.workload_text import parse_workload

PUBLIC_STAMP = "Made from a stand-in table: it holds for the private table as far as the two are alike"
PRIVATE_STAMP = "PRIVATE: made from private rows, without noise and without charge; not for release"
ERRORS: dict[str, tuple[str, Callable[[Workload, Tables, Tables], float]]] = {  # the name on fronts, and the function
    "workload": ("workload error", workload_error),
    "largest": ("largest error", largest_error),
}
TUNED_SETTINGS: dict[str, tuple[Setting, ...]] = {  # of each mechanism
    "aim": (RealSetting("share", 0.5, 0.95), RealSetting("max_size_mb", 0.25, 16.0, log=True)),
    "rap": (
        ChoiceSetting("measure", ("auto", "tables")),
        IntegerSetting("rounds", 2, 64, log=True),
        IntegerSetting("queries", 1, 8, log=True),
        RealSetting("column_share", 0.05, 0.7),
        RealSetting("choice_share", 0.05, 0.6),
    ),
    "gem": (IntegerSetting("rounds", 2, 64, log=True), RealSetting("choice_share", 0.05, 0.6)),
    "dawa": (),
    "mst": (),
    "mwem": (IntegerSetting("rounds", 2, 64, log=True),),
    "privbayes": (RealSetting("choice_share", 0.05, 0.6), RealSetting("usefulness", 1.0, 16.0, log=True)),
    "privmrf": (),
    "privsyn": (),
    "swift": (),
    "dualquery": (RealSetting("column_share", 0.02, 0.5), RealSetting("accuracy", 0.005, 0.1, log=True)),
}
DAWA_ONE_COLUMN_SETTINGS = (  # with pure epsilon
    ChoiceSetting("partition", ("grids", "noisy-costs", "tree")),
    RealSetting("partition_share", 0.05, 0.6),
)
# RAP with measure="auto" decides its rounds and queries itself. A mechanism given with measure="all" has none to
# search, and one given with another measure keeps it.
IDLE_WITH_MEASURE = {"auto": {"rounds", "queries"}}
NOT_SEARCHED_WITH_MEASURE = {"auto": set(), "all": {"measure", "rounds", "queries", "choice_share"}}


def of_stand_in(
    table: Table,
    workload: Workload | str,
    mechanism: str | Mechanism = "aim",
    *,
    settings: Sequence[Setting] | None = None,
    epsilons: tuple[float, float] = (0.1, 10.0),
    delta: float = 1e-9,
    error: str = "workload",
    evaluations: int = 24,
    worst_error: float | None = None,
    ledger: Ledger | str | Path | None = None,
    front_not_private: bool = False,
    **options: Any,
) -> Front:
    """The front of epsilon and error of a mechanism on a stand-in table.

    `error` is "workload", the mean over tables (`hush.evaluation.workload_error`), or "largest", the worst answer's as
    a share of the rows (`hush.evaluation.largest_error`). Errors above `worst_error` are of no interest; by default 1,
    or the error of all-zero answers if larger. `settings` are the fields of the mechanism to search beside epsilon, by
    default those that matter. A table with a `ledger` is refused, unless `front_not_private` says that the front will
    be kept as private as the rows; the front is then stamped so. The other options are those of `hush.pareto.search`.

    Privacy: see the module; the front is stamped.
    """
    chosen = mechanism_of(mechanism)
    asked = _checked_problem(table, workload, error, protected=ledger is not None and not front_not_private)
    # a row adds up to its L1 sensitivity to the answers of a term, so all-zero answers have at most this error
    zeros = sum(term.weight * term.sensitivity(1) for term in asked) / len(asked) if error == "workload" else 0.0
    worst = max(1.0, zeros) if worst_error is None else check_number(SearchError, "worst_error", worst_error, above=0)
    tuned = usual_settings(chosen, asked, delta) if settings is None else tuple(settings)
    known = {field.name for field in fields(chosen)}
    for setting in tuned:
        if setting.name not in known:
            raise SearchError(f"{chosen.name} has no setting {setting.name!r}; it has {', '.join(sorted(known))}")
    front = search(
        Space([RealSetting("epsilon", *epsilons, log=True), *tuned]),
        stated_epsilon,
        StandInError(table, asked, chosen, delta, error),
        reference=(epsilons[1] * 1.001, worst),
        evaluations=evaluations,
        name=chosen.name,
        measure=ERRORS[error][0],
        stamp=PRIVATE_STAMP if front_not_private else PUBLIC_STAMP,
        delta=delta,
        **options,
    )
    return replace(front, evaluations=[replace(e, settings=without_idle(e.settings)) for e in front.evaluations])


def _checked_problem(table: Table, workload: Workload | str, error: str, *, protected: bool) -> Workload:
    """The workload, if its error can be searched on this table."""
    if protected:
        raise SearchError(
            "a ledger protects this table, and a front made from it is not private; search on a public or invented "
            "table, or say front_not_private=True and keep the front to those who may see the rows"
        )
    if not isinstance(table, Table):
        raise SearchError("table: expected a stand-in table, as hush.read returns it")
    asked = parse_workload(table.schema, workload) if isinstance(workload, str) else workload
    if asked.domain != table.domain:
        raise WorkloadError("the workload has other columns than the stand-in table; make it with the same schema")
    check_choice(SearchError, "error", error, ERRORS)
    check_compared(asked)
    if not table.counts([()])[()]:
        raise SearchError("the stand-in table has no rows, so it has no errors; use a table about as large as yours")
    return asked


def without_idle(settings: Settings) -> Settings:
    """Settings without those that another setting makes idle, as a mechanism takes them."""
    idle = IDLE_WITH_MEASURE.get(settings.get("measure", ""), set())
    return {name: value for name, value in settings.items() if name not in idle}


def usual_settings(mechanism: Mechanism, workload: Workload, delta: float) -> tuple[Setting, ...]:
    """The settings to search beside epsilon unless others are given; their ranges include the defaults."""
    columns = {name for clique in workload.cliques for name in clique}
    if mechanism.name == "dawa" and delta == 0 and len(columns) == 1:
        return DAWA_ONE_COLUMN_SETTINGS
    fixed = NOT_SEARCHED_WITH_MEASURE.get(mechanism.measure, {"measure"}) if isinstance(mechanism, RAP) else ()
    return tuple(setting for setting in TUNED_SETTINGS.get(mechanism.name, ()) if setting.name not in fixed)


def stated_epsilon(settings: Settings) -> float:
    """The privacy oracle of a release: its budget."""
    return float(settings["epsilon"])


stated_epsilon.quick = True  # type: ignore[attr-defined]


@dataclass(frozen=True)
class StandInError:
    """The error oracle: releases the stand-in with seeded noise and compares its answers with the exact ones."""

    table: Table
    workload: Workload
    mechanism: Mechanism
    delta: float
    error: str = "workload"

    @property
    def about(self) -> dict[str, str]:
        """The mechanism, the rows, and the workload with a digest of its texts and weights; a checkpoint must agree."""
        texts = [f"{term.weight:g}*{term.text}" for term in self.workload]
        digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
        rows = f"{int(self.table.counts([()])[()]):,}"
        return {"mechanism": repr(self.mechanism), "workload": f"{self.workload!r}, {digest}", "rows": rows}

    def __call__(self, settings: Settings, generator: np.random.Generator) -> float:
        budget = budget_of(settings["epsilon"], self.delta)
        tuned = {name: value for name, value in without_idle(settings).items() if name != "epsilon"}
        plan = replace(self.mechanism, **tuned).plan(
            self.workload, budget, max_rows_per_unit=self.table.schema.unit.max_rows
        )
        seed = int(generator.integers(2**62))
        release = plan.release(self.table, entropy=NotPrivateEntropy(seed), schema_is_public=True)
        return ERRORS[self.error][1](self.workload, self.table.counts, release.model().tables)
