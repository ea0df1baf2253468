"""A release pays for what it measured: the cost is computed again from its file, and no edited statement loads."""

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Neighbours, Workload, queries
from hush.core.errors import ArchiveError, InterruptedRelease
from hush.core.unit import ROW
from hush.files.archive import ArchiveReader, write_archive
from hush.mechanisms import (
    AIM,
    DAWA,
    GEM,
    HDMM,
    MST,
    MWEM,
    RAP,
    SWIFT,
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
from hush.mechanisms.registry import BUILT_IN
from hush.mechanisms.release_job import ReleaseJob, partial_file
from hush.privacy.events import (
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    NoisyChoiceEvent,
    SelectionEvent,
    compose,
    event_from_dict,
    price,
)
from hush.privacy.sensitivity import sensitivity
from hush.release.statement import Statement, event_parts, measured_event, unmatched
from hush.schema import Unit
from hush.strategies.select_residual import select_residual
from hush.testing import TinyTable

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
ROWS = [(i % 2, (i % 2) + (i % 5 == 0), (i // 2) % 2) for i in range(40)]
TABLE: Any = TinyTable(DOMAIN, ROWS)
MECHANISMS: dict[str, tuple[Mechanism, Budget]] = {
    "residual": (Residual(), Budget(rho=0.5)),
    "hdmm": (HDMM(restarts=1), Budget(rho=0.5)),
    "hdmm, Laplace": (HDMM(restarts=1), Budget(epsilon=1.0)),
    "matrix": (Matrix(), Budget(epsilon=1.0, delta=1e-9)),
    "matrix, Laplace": (Matrix(), Budget(epsilon=1.0)),
    "direct": (Direct(), Budget(mu=1.0)),
    "direct, Laplace": (Direct(), Budget(epsilon=1.0)),
    "gaussian": (Gaussian(), Budget(rho=0.5)),
    "aim": (AIM(), Budget(rho=0.5)),
    "aim, generalized": (AIM(selection="generalized"), Budget(rho=5.0)),
    "mst": (MST(), Budget(rho=0.5)),
    "mwem": (MWEM(rounds=2), Budget(rho=0.5)),
    "privbayes": (PrivBayes(usefulness=1e-3), Budget(rho=0.5)),
    "privmrf": (PrivMRF(usefulness=1e-3), Budget(rho=0.5)),
    "privsyn": (PrivSyn(), Budget(rho=0.5)),
    "swift": (SWIFT(), Budget(rho=0.5)),
    "scout": (Scout(), Budget(rho=0.5)),
    "dualquery": (DualQuery(turns=3, draws=2), Budget(rho=0.5)),
    "rap": (RAP(rounds=3, rows=20), Budget(rho=0.5)),
    "gem": (GEM(rounds=3, rows=20, hidden=8), Budget(rho=0.5)),
    "rap, cells": (RAP(measure="cells", rounds=2, queries=2, rows=20), Budget(rho=0.5)),
    "independent": (Independent(), Budget(rho=0.5)),
    "dawa": (DAWA(), Budget(rho=0.5)),
    "dawa, Laplace": (DAWA(), Budget(epsilon=1.0)),
}
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module", params=MECHANISMS, ids=MECHANISMS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[hush.Release, Path]:
    """A release, and its file."""
    mechanism, budget = MECHANISMS[request.param]
    path = tmp_path_factory.mktemp("released") / "x.hush"
    release = mechanism.plan(Workload.upto(DOMAIN, 2), budget).release(TABLE)
    release.save(path)
    return release, path


def edited(path: Path, target: Path, change: Change) -> Path:
    """The file with another privacy statement, and every digest right."""
    with ArchiveReader(path, versions={"release": 2}) as archive:
        manifest = {name: copy.deepcopy(archive.manifest[name]) for name in archive.manifest}
        arrays = {name: archive.array(name) for name in archive.names()}
    for name in ("hush", "digests", "version", "kind"):
        manifest.pop(name, None)
    change(manifest["privacy"])
    write_archive(target, kind="release", version=2, manifest=manifest, arrays=arrays)
    return target


def parts(privacy: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a statement as a list that may be changed in place."""
    if "parts" not in privacy["event"]:
        privacy["event"] = {"kind": "composition", "parts": [{"count": 1, "event": privacy["event"]}]}
    listed: list[dict[str, Any]] = privacy["event"]["parts"]
    return listed


def scaled(value: str, factor: Fraction) -> str:
    product = Fraction(value) * factor
    return f"{product.numerator}/{product.denominator}"


def quieter(privacy: dict[str, Any]) -> None:
    """All noise is said to be a thousand times as wide."""
    for part in parts(privacy):
        for name in {"variance", "scale"} & part["event"].keys():
            part["event"][name] = scaled(part["event"][name], Fraction(1000))


def slightly_quieter(privacy: dict[str, Any]) -> None:
    """One table is said to have a millionth more noise."""
    part = next(part for part in parts(privacy) if part["event"]["kind"] != "exponential mechanism")
    part["count"] -= 1
    event, name = part["event"], "variance" if "variance" in part["event"] else "scale"
    parts(privacy).append({"count": 1, "event": event | {name: scaled(event[name], 1 + Fraction(1, 10**6))}})
    parts(privacy)[:] = [part for part in parts(privacy) if part["count"]]


def less_sensitive(privacy: dict[str, Any]) -> None:
    for part in parts(privacy):
        for name in {"sensitivity_l2_squared", "sensitivity_l1"} & part["event"].keys():
            part["event"][name] = scaled(part["event"][name], Fraction(1, 2))
        part["event"] |= {"single_cell": False} if "single_cell" in part["event"] else {}


def other_noise(privacy: dict[str, Any]) -> None:
    """The other kind of noise, at the same or a larger cost in zCDP."""
    for part in parts(privacy):
        event = event_from_dict(part["event"])
        rho = price(event).rho
        assert rho is not None
        if isinstance(event, LaplaceEvent):
            part["event"] = GaussianEvent(1 / (2 * rho), Fraction(1)).to_dict()
        elif isinstance(event, GaussianEvent):
            part["event"] = LaplaceEvent(Fraction(1, 10), Fraction(1)).to_dict()
    privacy["budget"] = {"rho": 1e6}


def one_lost(privacy: dict[str, Any]) -> None:
    """One event is left out."""
    parts(privacy)[-1]["count"] -= 1
    parts(privacy)[:] = [part for part in parts(privacy) if part["count"]]


def replaced(event: dict[str, Any]) -> Change:
    def change(privacy: dict[str, Any]) -> None:
        privacy["event"] = event

    return change


def endless(privacy: dict[str, Any]) -> None:
    parts(privacy)[0]["count"] = 10**4000


def endless_and_cheap(privacy: dict[str, Any]) -> None:
    """Events that no budget would notice."""
    cheap = GaussianEvent(Fraction(10**4010), Fraction(1)).to_dict()
    parts(privacy).append({"count": 10**4000, "event": cheap})


def other_neighbours(privacy: dict[str, Any]) -> None:
    privacy["neighbours"] = Neighbours.REPLACE.value


def larger_units(privacy: dict[str, Any]) -> None:
    privacy["unit"] = {"column": "id", "max_rows": 3}


def smaller_budget(privacy: dict[str, Any]) -> None:
    name = next(name for name in ("epsilon", "rho", "mu") if name in privacy["budget"])
    privacy["budget"][name] *= 0.999


def smaller_delta(privacy: dict[str, Any]) -> None:
    privacy["budget"] = {"epsilon": 1e-3, "delta": 1e-12}


def no_noise(privacy: dict[str, Any]) -> None:
    parts(privacy).append({"count": 1, "event": {"kind": "non-private", "reason": ""}})


EDITS: dict[str, Change] = {
    "cheap": replaced(GaussianEvent(Fraction(10**6), Fraction(1), True).to_dict()),
    "cheap choice": replaced(SelectionEvent(Fraction(1, 1000)).to_dict()),
    "nothing": replaced({"kind": "composition", "parts": []}),
} | {
    change.__name__: change
    for change in (
        quieter, slightly_quieter, less_sensitive, other_noise, one_lost, endless, endless_and_cheap, other_neighbours,
        larger_units, smaller_budget, smaller_delta, no_noise,
    )
}  # fmt: skip


def test_every_mechanism_is_tried() -> None:
    """But for `all-zero`, without noise or cost to lower; `test_record_zeros.py` edits its files otherwise."""
    assert {mechanism.name for mechanism, _ in MECHANISMS.values()} == set(BUILT_IN) - {"auto", "all-zero"}


def test_a_file_as_it_was_saved_loads(saved: tuple[hush.Release, Path], tmp_path: Path) -> None:
    release, path = saved
    same = hush.load(edited(path, tmp_path / "same.hush", lambda privacy: None))
    assert isinstance(same, hush.Release)
    assert same.statement == release.statement


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
def test_no_edited_statement_loads(saved: tuple[hush.Release, Path], tmp_path: Path, change: Change) -> None:
    with pytest.raises(ArchiveError, match="get the release again"):
        hush.load(edited(saved[1], tmp_path / "edited.hush", change))


def test_the_measurements_cost_what_was_charged(saved: tuple[hush.Release, Path]) -> None:
    release = saved[0]
    measured, stated = measured_event(release.statement, release.record).cost, price(release.statement.event)
    assert measured.rho is not None
    assert stated.rho is not None
    assert abs(measured.rho / stated.rho - 1) < Fraction(1, 10**12)  # choices are on record as floats
    assert (measured.epsilon is None) == (stated.epsilon is None)


@pytest.mark.parametrize("name", ["residual", "direct, Laplace", "aim", "dualquery"])
@pytest.mark.parametrize("relation", list(Neighbours))
def test_units_of_several_rows_are_accounted_for(name: str, relation: Neighbours, tmp_path: Path) -> None:
    mechanism, budget = MECHANISMS[name]
    unit = Unit(column="id", max_rows=3)
    table: Any = TinyTable(DOMAIN, ROWS, unit=unit, units=[i // 3 for i in range(len(ROWS))])
    plan = mechanism.plan(Workload.upto(DOMAIN, 2), budget, neighbours=relation, max_rows_per_unit=3)
    plan.release(table).save(tmp_path / "x.hush")
    assert hush.load(tmp_path / "x.hush").statement.unit == unit  # type: ignore[union-attr]

    def fewer(privacy: dict[str, Any]) -> None:
        privacy["unit"]["max_rows"] = 2

    with pytest.raises(ArchiveError, match="another privacy unit than its schema"):
        hush.load(edited(tmp_path / "x.hush", tmp_path / "y.hush", fewer))


@pytest.mark.parametrize("change", [quieter, one_lost, endless, larger_units, smaller_delta], ids=lambda c: c.__name__)
def test_no_edited_partial_file_loads(change: Change, tmp_path: Path) -> None:
    job = ReleaseJob(MWEM(rounds=3).plan(Workload.upto(DOMAIN, 2), Budget(rho=0.5)), output=tmp_path / "x.hush")
    partial, kept = partial_file(tmp_path / "x.hush"), tmp_path / "kept.partial"

    def stop(*_: Any) -> None:
        kept.write_bytes(partial.read_bytes())
        job.stop()

    with pytest.raises(InterruptedRelease):
        job.run(TABLE, on_round=stop)
    for path in (tmp_path / "x.hush", kept):
        loaded = hush.load(path)
        assert isinstance(loaded, hush.Release)
        assert not loaded.complete
        with pytest.raises(ArchiveError, match="get the release again"):
            hush.load(edited(path, tmp_path / "edited.hush", change))


def test_charges_whose_answers_were_lost_may_be_stated(tmp_path: Path) -> None:
    release = MWEM(rounds=2).plan(Workload.upto(DOMAIN, 2), Budget(rho=0.5)).release(TABLE)
    lost = [GaussianEvent(Fraction(10**6), Fraction(1), True), SelectionEvent(Fraction(1, 1000))]
    release.statement = replace(
        release.statement, event=compose([release.statement.event, *lost]), budget=Budget(rho=0.6)
    )
    release.save(tmp_path / "x.hush")
    assert isinstance(hush.load(tmp_path / "x.hush"), hush.Release)


def test_a_choice_by_noisy_scores_leaves_no_numbers_to_account_for(tmp_path: Path) -> None:
    """Even a fixed release may state one: it is no noise that the file would have to hold."""
    release = Direct().plan(Workload.upto(DOMAIN, 2), Budget(rho=0.5)).release(TABLE)
    more = compose([release.statement.event, NoisyChoiceEvent(Fraction(1, 10))])
    release.statement = replace(release.statement, event=more, budget=Budget(rho=0.6))
    release.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    assert isinstance(loaded, hush.Release)
    assert "choices by noisy scores" in str(loaded.statement)


def test_a_fixed_release_states_no_noise_that_it_does_not_hold(tmp_path: Path) -> None:
    release = Direct().plan(Workload.upto(DOMAIN, 2), Budget(rho=0.5)).release(TABLE)
    more = compose([release.statement.event, GaussianEvent(Fraction(10**6), Fraction(1), True)])
    release.statement = replace(release.statement, event=more, budget=Budget(rho=0.6))
    release.save(tmp_path / "x.hush")
    with pytest.raises(ArchiveError, match="it accounts for noise that it does not hold"):
        hush.load(tmp_path / "x.hush")


def test_noise_that_differs_in_its_last_digits_is_the_same() -> None:
    def noise(variance: Fraction) -> GaussianEvent:
        return GaussianEvent(variance, Fraction(1))

    tiny = Fraction(1, 10**12)
    measured = Counter({noise(Fraction(4)): 3, noise(Fraction(4) + tiny): 2, noise(Fraction(9)): 1})
    stated = Counter({noise(Fraction(4) - tiny): 4, noise(Fraction(4)): 1, noise(Fraction(9) + tiny): 1})
    assert unmatched(measured, stated) == (Counter(), Counter())
    left, over = unmatched(measured, stated + Counter({noise(Fraction(1)): 7}))
    assert (left, over) == (Counter(), Counter({noise(Fraction(1)): 7}))
    left, over = unmatched(measured + Counter({noise(Fraction(2)): 1}), stated)
    assert (left, over) == (Counter({noise(Fraction(2)): 1}), Counter())
    left, _ = unmatched(measured, Counter({LaplaceEvent(Fraction(4), Fraction(1)): 9}))
    assert left == measured


@pytest.mark.parametrize("relation", list(Neighbours))
def test_sets_that_are_alike_are_counted_as_their_requests(relation: Neighbours) -> None:
    """The grouped laws of a residual strategy against one request after another."""
    domain = Domain({"a": 2, "b": 3, "c": 2, "d": 5, "e": 3})
    workload = Workload.upto(domain, 3) + Workload.product(domain, {"d": queries.prefix})
    strategy = select_residual(workload, rho=0.5, neighbours=relation).value
    requests = strategy.requests()
    assert strategy.law_counts() == Counter((request.query.row_norms, request.noise) for request in requests)
    assert strategy.law_counts().total() == len(requests) == len(strategy.closure)
    assert len(strategy.law_counts()) < len(requests)


def test_what_the_gate_charged_is_what_is_accounted() -> None:
    """Event by event, for a fixed and an adaptive release."""
    for mechanism in (Residual(), MST()):
        release = mechanism.plan(Workload.upto(DOMAIN, 2), Budget(rho=0.5)).release(TABLE)
        stated = dict(event_parts(release.statement.event))
        noise = {
            law.event(sensitivity(norms, max_rows=1, neighbours=Neighbours.ADD_REMOVE)): count
            for (norms, law), count in release.record.law_counts().items()
        }
        assert noise == {event: count for event, count in stated.items() if not isinstance(event, SelectionEvent)}
        assert np.sum(list(noise.values())) == release.record.tables


def test_a_release_of_every_pair_of_a_hundred_columns_can_be_read_again() -> None:
    """Every table has a noise of its own, so no two costs share a denominator; reading them takes under a second."""
    variances = [Fraction(2 * k + 2**36 + 1, 2**25) for k in range(4950)]
    event = compose([GaussianEvent(variance, Fraction(20)) for variance in variances])
    statement = Statement(budget=Budget(rho=5.0), neighbours=Neighbours.ADD_REMOVE, unit=ROW, event=event, seeded=False)
    assert Statement.from_dict(statement.to_dict()) == statement


def test_a_statement_whose_costs_would_take_days_to_add_up_is_refused() -> None:
    variances = [Fraction(10**300 + k, 10**290 + 1) for k in range(3000)]
    event = ComposedEvent(tuple((GaussianEvent(variance, Fraction(1)), 1) for variance in variances))
    statement = Statement(budget=Budget(rho=5.0), neighbours=Neighbours.ADD_REMOVE, unit=ROW, event=event, seeded=False)
    body = statement.to_dict()
    with pytest.raises(ArchiveError, match="privacy statement cannot be read"):
        Statement.from_dict(body)
