"""Which marginals to measure under Laplace noise: a search over supports.

A marginal with share zero stays at zero under any small step, since its own privacy cost is of first order and its use
of second, so every support has a local optimum of its own. The search fits the shares of a support, then tries to add
a marginal, drop one, give or take one attribute of one, or replace two by their union, and keeps what helps.

Reference: [HDMM, sec. 3.5.5] for the problem and random starts; the search is ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import optimize

from hush.strategies.marginal_system import MarginalSystem, SomeSets

Floats = np.ndarray[Any, np.dtype[np.float64]]
Support = dict[int, float]  # places of candidates and their shares

_NEGLIGIBLE = 1e-4  # shares that a fit drops if that does not hurt
_STEPS = (0.01, 0.03, 0.1, 0.3)  # shares that a new marginal is tried with
_TRIED = 12
_BETTER = 1e-6
_LARGEST_SUPPORT = 400


def fit_shares(system: MarginalSystem, start: Floats, *, iterations: int = 300) -> Floats:
    """The shares with the smallest error found from a start; they add up to one."""
    floor = np.maximum(start / start.sum(), 1e-12)
    options = {"maxiter": iterations, "ftol": 1e-12, "gtol": 1e-9, "maxcor": 20}
    found = optimize.minimize(system.log_error, np.log(floor), jac=True, method="L-BFGS-B", options=options)
    c = np.exp(found.x - found.x.max())
    return np.asarray(c / c.sum())


def search_support(system: SomeSets, start: Support, *, rounds: int) -> tuple[float, Support]:
    """The best support reached from one by single changes."""
    value, support = _fitted(system, start)
    for _ in range(rounds):
        if len(support) > _LARGEST_SUPPORT:
            break
        changes = sorted(_changes(system, support), key=lambda change: change[0])[:_TRIED]
        for _, changed in changes:
            trial, fitted = _fitted(system, changed)
            if trial < value * (1 - _BETTER):
                value, support = trial, fitted
                break
        else:
            break
    return value, support


def _fitted(system: SomeSets, support: Support) -> tuple[float, Support]:
    """Shares fitted on a support, without those that do not help."""
    places = list(support)
    own = system.only(places)
    c = fit_shares(own, np.array([support[k] for k in places]))
    value = own.error(c)
    kept = c > _NEGLIGIBLE
    if not kept.all() and own.error(np.where(kept, c, 0.0)) < np.inf:
        smaller = own.only(np.flatnonzero(kept).tolist())
        fewer = fit_shares(smaller, c[kept])
        if smaller.error(fewer) <= value * (1 + 1e-9):
            return smaller.error(fewer), {
                k: float(v) for k, v in zip(np.array(places)[kept].tolist(), fewer, strict=True)
            }
    return value, {k: float(v) for k, v in zip(places, c.tolist(), strict=True)}


def _changes(system: SomeSets, support: Support) -> Iterator[tuple[float, Support]]:
    """Supports one change away, each with its error before shares are fitted anew."""
    place = {b: k for k, b in enumerate(system.sets)}
    u = np.zeros(len(system.sets))
    u[list(support)] = np.array(list(support.values())) ** 2
    q = system.precision(u)
    yield from _additions(system, support, q)

    def moved(old: tuple[int, ...], new: int, share: float) -> tuple[float, Support]:
        changed = {k: v for k, v in support.items() if k not in old}
        changed[new] = changed.get(new, 0.0) + share
        return _partial_cost(system, support, changed, q), changed

    attributes = max(system.sets).bit_length()
    for k, share in support.items():
        rest = {j: v for j, v in support.items() if j != k}
        if rest:
            yield _partial_cost(system, support, rest, q), rest
        for i in range(attributes):
            other = place.get(system.sets[k] ^ 1 << i)
            if other is not None:
                yield moved((k,), other, share)
    listed = list(support.items())
    for x, (k, share) in enumerate(listed):
        for j, other_share in listed[:x]:
            union = place.get(system.sets[k] | system.sets[j])
            if union is not None:
                yield moved((k, j), union, max(share, other_share))
                yield moved((k, j), union, share + other_share)


def _partial_cost(system: SomeSets, old: Support, new: Support, q: Floats) -> float:
    """F of a changed support, from the precisions of the old one."""
    now = q.copy()
    for k in old.keys() | new.keys():
        change = new.get(k, 0.0) ** 2 - old.get(k, 0.0) ** 2
        if change:
            rows, data = system.column(k)
            now[rows] += data * change
    if (now <= 1e-12 * q).any():
        return float("inf")
    return float(sum(new.values()) ** 2 * np.sum(system.act / now))


def _additions(system: SomeSets, support: Support, q: Floats) -> Iterator[tuple[float, Support]]:
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
        for k in np.argsort(values, kind="stable")[:_TRIED].tolist():
            found.append((float(values[k]), k, t))
    for value, k, t in sorted(found)[: 2 * _TRIED]:
        yield value, {**support, k: support.get(k, 0.0) + t}
