"""Which marginals to measure under Laplace noise: a search over supports.

A marginal with share zero stays at zero under any small step, since its own privacy cost is of first order and its use
of second, so every support has a local optimum of its own. The search fits the shares of a support, then tries to add
a marginal, drop one, give or take one attribute of one, or replace two by their union, and keeps what helps.

Reference: [HDMM, sec. 3.5.5] for the problem and random starts; the search is ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy

from hush.strategies.marginal_system import MarginalSystem, SomeSets

Floats = np.ndarray[Any, np.dtype[np.float64]]
Support = dict[int, float]  # places of candidates and their shares
Change = dict[int, float]  # places of candidates and their new shares, zero for those that go

_NEGLIGIBLE = 1e-4  # shares that a fit drops if that does not hurt
_STEPS = (0.01, 0.03, 0.1, 0.3)  # shares that a new marginal is tried with
_TRIED = 12
_TRIAL_ITERATIONS = 15
_BETTER = 1e-6
_LARGEST_SUPPORT = 1000
_FEW = 60  # marginals up to which any two are tried as one; beyond, those that differ by one attribute


def fit_shares(system: MarginalSystem, start: Floats, *, iterations: int = 300) -> Floats:
    """The shares with the smallest error found from a start; they add up to one."""
    floor = np.maximum(start / start.sum(), 1e-12)
    options = {"maxiter": iterations, "ftol": 1e-12, "gtol": 1e-9, "maxcor": 20}
    found = scipy.optimize.minimize(system.log_error, np.log(floor), jac=True, method="L-BFGS-B", options=options)
    c = np.exp(found.x - found.x.max())
    return np.asarray(c / c.sum())


def search_support(system: SomeSets, start: Support, *, rounds: int) -> tuple[float, Support]:
    """The best support reached from one by single changes."""
    value, support = _fitted(system, start)
    for _ in range(rounds):
        if len(support) > _LARGEST_SUPPORT:
            break
        changes = sorted(_changes(system, support), key=lambda change: change[0])
        trials = [_together(system, support, value, changes), *(change for _, change in changes[:_TRIED])]
        for change in trials:
            changed = {k: share for k, share in {**support, **change}.items() if share > 0}
            if not change or not _supports(system, changed):
                continue
            trial, fitted = _fitted(system, changed, iterations=_TRIAL_ITERATIONS)
            if trial < value * (1 - _BETTER):
                value, support = trial, fitted
                break
        else:
            break
    return _fitted(system, support)


def _together(system: SomeSets, support: Support, value: float, changes: Sequence[tuple[float, Change]]) -> Change:
    """All changes that lower the error without a fit, one after the other, as long as each still does."""
    made: Change = {}
    now = dict(support)
    for predicted, change in changes:
        if not predicted < value:
            break
        if made.keys() & change.keys():
            continue
        u = np.zeros(len(system.sets))
        trial = {**now, **change}
        u[list(trial)] = np.array(list(trial.values()))
        if (error := system.error(u)) < value:
            value, now, made = error, trial, {**made, **change}
    return made


def _supports(system: SomeSets, support: Support) -> bool:
    return system.only(list(support)).error(np.array(list(support.values()))) < np.inf


def _fitted(system: SomeSets, support: Support, *, iterations: int = 300) -> tuple[float, Support]:
    """Shares fitted on a support, without those that do not help."""
    places = list(support)
    own = system.only(places)
    c = fit_shares(own, np.array([support[k] for k in places]), iterations=iterations)
    value = own.error(c)
    kept = c > _NEGLIGIBLE
    if not kept.all() and own.error(np.where(kept, c, 0.0)) < np.inf:
        smaller = own.only(np.flatnonzero(kept).tolist())
        fewer = fit_shares(smaller, c[kept], iterations=iterations)
        if smaller.error(fewer) <= value * (1 + 1e-9):
            return smaller.error(fewer), {
                k: float(v) for k, v in zip(np.array(places)[kept].tolist(), fewer, strict=True)
            }
    return value, {k: float(v) for k, v in zip(places, c.tolist(), strict=True)}


def _changes(system: SomeSets, support: Support) -> Iterator[tuple[float, Change]]:
    """Changes of a support, each with the error that it leads to before shares are fitted anew."""
    place = {b: k for k, b in enumerate(system.sets)}
    u = np.zeros(len(system.sets))
    u[list(support)] = np.array(list(support.values())) ** 2
    q = system.precision(u)
    yield from _additions(system, support, q)
    total = sum(support.values())
    attributes = max(system.sets).bit_length()
    listed = list(support.items())
    for x, (k, share) in enumerate(listed):
        changes: list[Change] = [{k: 0.0}]
        for i in range(attributes):
            other = place.get(system.sets[k] ^ 1 << i)
            if other is not None:
                changes.append({k: 0.0, other: support.get(other, 0.0) + share})
        for j, other_share in listed[:x]:
            both = system.sets[k] | system.sets[j]
            grown = both.bit_count() - max(system.sets[k].bit_count(), system.sets[j].bit_count())
            union = place.get(both) if grown <= 1 or len(support) <= _FEW else None
            if union is not None:
                changes.append({k: 0.0, j: 0.0, union: max(share, other_share)})
                changes.append({k: 0.0, j: 0.0, union: share + other_share})
        for change in changes:
            yield _changed_error(system, support, change, q, total), change


def _changed_error(system: SomeSets, support: Support, change: Change, q: Floats, total: float) -> float:
    """F after a change, from the precisions before it."""
    now = q.copy()
    for k, share in change.items():
        old = support.get(k, 0.0)
        total += share - old
        rows, data = system.column(k)
        now[rows] += data * (share**2 - old**2)
    if now.min() <= 0 or (now <= 1e-12 * q).any():
        return float("inf")
    return float(total**2 * (system.act / now).sum())


def _additions(system: SomeSets, support: Support, q: Floats) -> Iterator[tuple[float, Change]]:
    """The few marginals whose addition lowers the error most, all candidates and several shares at a time."""
    total = sum(support.values())
    m = system.matrix
    columns = np.repeat(np.arange(m.shape[1]), np.diff(m.indptr))
    now = float(np.sum(system.act / q))
    act, old = system.act[m.indices], q[m.indices]
    found: list[tuple[float, int, float]] = []
    for step in _STEPS:
        t = step * total
        saved = np.bincount(columns, act / old - act / (old + t**2 * m.data), m.shape[1])
        values = (total + t) ** 2 * (now - saved)
        found += [(float(values[k]), k, t) for k in np.argsort(values, kind="stable")[:_TRIED].tolist()]
    for value, k, t in sorted(found)[: 2 * _TRIED]:
        yield value, {k: support.get(k, 0.0) + t}
