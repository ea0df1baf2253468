"""Mechanisms by name, the same in Python, on the command line and in files; other packages may add theirs.

A package offers a mechanism in the entry-point group `hush.mechanisms`, under the `name` of its class. It is imported
only when its name is asked for or all mechanisms are listed. A broken one never affects the others; `problems` says
what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from hush.core.errors import WorkloadError, close_match, printable
from hush.mechanisms.aim import AIM
from hush.mechanisms.auto import Auto
from hush.mechanisms.baselines import AllZero, Direct, Gaussian, Independent
from hush.mechanisms.dawa import DAWA
from hush.mechanisms.hdmm import HDMM
from hush.mechanisms.matrix import Matrix
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.mst import MST
from hush.mechanisms.published.dualquery import DualQuery
from hush.mechanisms.published.gem import GEM
from hush.mechanisms.published.mwem import MWEM
from hush.mechanisms.published.privbayes import PrivBayes
from hush.mechanisms.published.privmrf import PrivMRF
from hush.mechanisms.published.privsyn import PrivSyn
from hush.mechanisms.published.swift import SWIFT
from hush.mechanisms.rap import RAP
from hush.mechanisms.residual import Residual
from hush.mechanisms.scout import Scout
from hush.strategies.noise_allocation import Loss, SumOfVariances, loss_of

ENTRY_POINT_GROUP = "hush.mechanisms"
_OURS: tuple[type[Mechanism], ...] = (
    Auto, Residual, HDMM, Matrix, Direct, DAWA, Scout, AIM, MST, MWEM, PrivBayes, PrivMRF, PrivSyn, DualQuery,
    SWIFT, RAP, GEM, Independent, Gaussian, AllZero,
)  # fmt: skip
BUILT_IN: dict[str, type[Mechanism]] = {kind.name: kind for kind in _OURS}


def mechanism_of(mechanism: str | Mechanism, loss: str | Loss = "rmse") -> Mechanism:
    """A mechanism by name, or the mechanism itself."""
    if isinstance(mechanism, str):
        kind = mechanism_class(mechanism)
        if any(field.name == "loss" for field in fields(kind)):
            return kind(loss=loss)  # type: ignore[call-arg]
        if not isinstance(loss_of(loss), SumOfVariances):
            raise WorkloadError(f"mechanism={mechanism!r} makes 'rmse' small, nothing else; use 'residual' or 'matrix'")
        return kind()
    if isinstance(mechanism, type):
        raise WorkloadError(f"mechanism={mechanism.__name__}: expected an object; write {mechanism.__name__}()")
    if not isinstance(mechanism, Mechanism):
        raise WorkloadError(f"mechanism={mechanism!r}: expected a name or a Mechanism object")
    if loss != "rmse" and getattr(mechanism, "loss", "rmse") != loss:
        raise WorkloadError(f"loss={loss!r} beside a mechanism object, which has its own; give it to that object")
    return mechanism


def mechanism_class(name: str) -> type[Mechanism]:
    """The mechanism of a name, in any case; WorkloadError if there is none, or if it cannot be used."""
    if name not in mechanism_names():
        alike = [known for known in mechanism_names() if known.casefold() == name.casefold()]
        if len(alike) != 1:
            near = close_match(name, mechanism_names())
            hint = f"did you mean {near!r}? " if near else ""
            raise WorkloadError(f"mechanism={name!r}: {hint}expected one of {', '.join(mechanism_names())}")
        name = alike[0]
    if name in BUILT_IN:
        return BUILT_IN[name]
    offered = [entry for entry in _entry_points() if entry.name == name]
    kind, problem = _loaded(name, offered)
    if kind is None:
        raise WorkloadError(f"mechanism={name!r} cannot be used: {problem}")
    return kind


def mechanism_names() -> list[str]:
    """All names, without importing other packages."""
    return list(dict.fromkeys([*BUILT_IN, *sorted(entry.name for entry in _entry_points())]))


def mechanisms() -> dict[str, type[Mechanism]]:
    """All mechanisms that can be used, by name."""
    return {name: kind for name in mechanism_names() if (kind := _known(name)[0]) is not None}


def problems() -> list[str]:
    """Why mechanisms that other packages offer cannot be used, one line each."""
    clashing = [
        f"{_package(entry)} offers the mechanism {entry.name!r}, a name of hush's own; that package must rename it"
        for entry in _entry_points()
        if entry.name in BUILT_IN
    ]
    broken = [
        f"mechanism {name!r} cannot be used: {problem}"
        for name in mechanism_names()
        if (problem := _known(name)[1]) is not None
    ]
    return [printable(line) for line in (*clashing, *broken)]


def _known(name: str) -> tuple[type[Mechanism] | None, str | None]:
    if name in BUILT_IN:
        return BUILT_IN[name], None
    return _loaded(name, [entry for entry in _entry_points() if entry.name == name])


def _loaded(name: str, offered: Iterable[EntryPoint]) -> tuple[type[Mechanism] | None, str | None]:
    """The class offered under a name, or what is wrong with it; a plug-in may fail in any way."""
    entry, *others = offered
    if others:
        packages = ", ".join(sorted({_package(other) for other in (entry, *others)}))
        return None, f"{packages} offer it together; uninstall all but one of them"
    try:
        kind = entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a stranger's import raises, SystemExit too
        return None, f"{_package(entry)} fails to load it: {type(error).__name__}: {error}"
    if not (isinstance(kind, type) and issubclass(kind, Mechanism)):
        return None, f"{_package(entry)} offers {entry.value}, which is no subclass of hush.mechanisms.Mechanism"
    if getattr(kind, "name", None) != name:
        return None, f"{entry.value} of {_package(entry)} calls itself {getattr(kind, 'name', None)!r}"
    return kind, None


def _package(entry: EntryPoint) -> str:
    return "an unnamed package" if entry.dist is None else f"the package {entry.dist.name}"


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=ENTRY_POINT_GROUP))
