"""The contract that ships with the package: every mechanism of hush keeps it, and those that break it are found."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, cast

import pytest

from hush import Budget, Domain, Workload, queries
from hush.core.errors import ReplayError
from hush.mechanisms import (
    AIM,
    DAWA,
    GEM,
    HDMM,
    MST,
    MWEM,
    RAP,
    SWIFT,
    AllZero,
    Direct,
    DualQuery,
    Gaussian,
    Independent,
    Matrix,
    PrivBayes,
    PrivMRF,
    PrivSyn,
    Residual,
    Scout,
)
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.plan import Plan
from hush.mechanisms.registry import BUILT_IN
from hush.mechanisms.session import Session
from hush.release.record import ZeroRecord
from hush.testing import MechanismError, TinyTable, check_mechanism

EVERY: dict[str, Mechanism] = {
    "residual": Residual(),
    "residual, maxvar": Residual(loss="maxvar"),
    "hdmm": HDMM(restarts=1),
    "matrix": Matrix(),
    "direct": Direct(),
    "gaussian": Gaussian(),
    "aim": AIM(),
    "aim, generalized": AIM(selection="generalized"),
    "aim, merging": AIM(merge_rare=True),
    "aim, relaxed": AIM(estimator="relaxed", rows=20, rounds=9),
    "mst": MST(),
    "mst, merging": MST(merge_rare=True),
    "mst, one pair fits": MST(max_size_mb=6.5e-5),
    "mwem": MWEM(),
    "mwem, one round": MWEM(rounds=1),
    "privbayes": PrivBayes(usefulness=1e-3),
    "privmrf": PrivMRF(usefulness=1e-3, rounds=2),
    "privsyn": PrivSyn(),
    "swift": SWIFT(),
    "scout": Scout(),  # measures all tables at once
    "dualquery": DualQuery(turns=3, draws=2),
    "rap": RAP(rounds=3, rows=20),
    "rap, two at once": RAP(rounds=2, queries=2, rows=20),
    "rap, cells": RAP(measure="cells", rounds=2, queries=2, rows=20),
    "rap, all": RAP(measure="all", rows=20),
    "rap, as its noise decides": RAP(rows=20),
    "rap, as published": RAP(paper=True, rounds=2, queries=2, rows=20),
    "rap, as published, one after the other": RAP(paper=True, rounds=2, queries=2, rows=20, selection="iterative"),
    "rap, as published, all": RAP(paper=True, measure="all", rows=20),
    "gem": GEM(rounds=3, rows=20, hidden=8),
    "independent": Independent(),
    "all-zero": AllZero(),
    "dawa": DAWA(),
}


@pytest.mark.parametrize("mechanism", EVERY.values(), ids=EVERY)
def test_the_contract_is_kept(mechanism: Mechanism) -> None:
    check_mechanism(mechanism)


def test_every_mechanism_is_under_contract() -> None:
    assert {mechanism.name for mechanism in EVERY.values()} == set(BUILT_IN) - {"auto"}


@pytest.mark.parametrize("mechanism", [HDMM(restarts=1), Direct()], ids=str)
def test_the_contract_is_kept_under_pure_epsilon(mechanism: Mechanism) -> None:
    check_mechanism(mechanism, budget=Budget(epsilon=1.0))


@pytest.mark.parametrize("columns", [("a",), ("a", "b")], ids=["one column", "a map"])
def test_the_contract_is_kept_by_dawa_as_published(columns: tuple[str, ...]) -> None:
    domain = Domain({"a": 8, "b": 3})
    workload = Workload.product(domain, dict.fromkeys(columns, queries.prefix))
    rows = [(0, 0), (1, 0), (1, 1), (7, 1), (3, 2), (3, 0), (5, 1), (6, 0)]
    check_mechanism(DAWA(paper=True), domain=domain, rows=rows, workload=workload, budget=Budget(epsilon=0.9))


def test_the_contract_is_kept_by_scout_when_it_surveys() -> None:
    domain, settings, budget = Domain({"a": 6, "b": 5}), Scout(survey_share=0.4, tree_share=0.1), Budget(rho=100)
    rows = [(0, 0), (3, 2), (5, 4), (1, 1)]
    release = settings.plan(Workload.kway(domain, 2), budget).release(cast(Any, TinyTable(domain, rows)))
    assert len(release.record.surveys) == 2  # type: ignore[attr-defined]
    check_mechanism(settings, domain=domain, rows=rows, workload=Workload.kway(domain, 2), budget=budget)


def test_the_contract_is_kept_on_thresholds() -> None:
    domain = Domain({"a": 2, "b": 3, "c": 2})
    check_mechanism(Direct(), workload=Workload.thresholds(domain, 3, 2) + Workload.kway(domain, 2))


@pytest.mark.parametrize("mechanism", [AIM(), MWEM(), Residual()], ids=str)
def test_the_contract_is_kept_on_prefix_sums(mechanism: Mechanism) -> None:
    domain = Domain({"a": 2, "b": 3, "c": 2})
    check_mechanism(mechanism, workload=Workload.product(domain, {"b": queries.prefix, "a": queries.identity}))


@dataclass(frozen=True)
class Careless(Mechanism):
    """Measures all columns, and breaks its contract in one way."""

    name: ClassVar[str] = "careless"

    def run(self, session: Session, plan: Plan) -> None:
        columns = [(name,) for name in session.domain]
        session.measure(columns, self.share(session) / len(columns), note="columns")
        session.fit()

    def share(self, session: Session) -> Fraction:
        return session.remaining

    def work(self, workload: Workload) -> str:
        return "little"


class Peeking(Careless):
    """Spends as much as the exact number of rows says."""

    def share(self, session: Session) -> Fraction:
        rows = int(session.gate._table.counts([()])[()])
        return session.remaining / (2 + rows % 2)


class Silent(Careless):
    """Says nothing about its work."""

    def work(self, workload: Workload) -> str:
        return ""


class Forgetful(Careless):
    """Leaves a table that it paid for out of its release."""

    def run(self, session: Session, plan: Plan) -> None:
        super().run(session, plan)
        session.noisy_tables.pop()


class Sly(Careless):
    """Says that it measures nothing, and does."""

    measures: ClassVar[bool] = False
    adaptive: ClassVar[bool] = False


class SlyAndSilent(Sly):
    """Does so, and drops what it measured from its record."""

    def run(self, session: Session, plan: Plan) -> None:
        super().run(session, plan)
        session.record = ZeroRecord()


@pytest.mark.parametrize(
    ("mechanism", "error"),
    [
        (Peeking(), ReplayError),
        (Silent(), MechanismError),
        (Forgetful(), MechanismError),
        (Sly(), MechanismError),
        (SlyAndSilent(), MechanismError),
    ],
    ids=str,
)
def test_what_breaks_the_contract_is_found(
    mechanism: Mechanism, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUILT_IN, "careless", type(mechanism))
    with pytest.raises(error):
        check_mechanism(mechanism)


def test_a_mechanism_of_a_few_lines_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILT_IN, "careless", Careless)
    check_mechanism(Careless())
