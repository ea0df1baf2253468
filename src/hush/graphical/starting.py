"""Where to start: the independent model of what was measured, or the potentials of a model fitted before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from hush.domain import Clique
from hush.graphical.factors import Array, Factors
from hush.graphical.measurement import Measurement

DAMPING = 8.0
LEAST = 0.3  # of a standard deviation: what a level is started with where less was counted


def independent_start(factors: Factors, measurements: Iterable[Measurement], total: float) -> Array:
    """Potentials of the product of one-way tables, each the inverse-variance mean of all tables that hold it.

    A level with less than 0.3 standard deviations of its own noise starts there, so that every level is possible.
    """
    sums: dict[str, tuple[Array, float]] = {}
    for measurement in measurements:
        if measurement.query is not None:
            continue
        for axis, name in enumerate(measurement.clique):
            others = tuple(k for k in range(len(measurement.clique)) if k != axis)
            table = measurement.values.sum(axis=others)
            precision = table.size / (measurement.values.size * measurement.variance)
            before, weight = sums.get(name, (np.zeros(table.size), 0.0))
            sums[name] = (before + precision * table, weight + precision)
    potentials = np.zeros(factors.size)
    for index, clique in enumerate(factors.cliques):
        for axis, name in enumerate(clique):
            if name in sums:
                weighted, weight = sums.pop(name)
                level = np.maximum(weighted / weight, LEAST / np.sqrt(weight))
                shape = [1] * len(clique)
                shape[axis] = level.size
                factors.table(potentials, index)[...] += np.log(level / total).reshape(shape)
    return potentials


def damped(factors: Factors, potentials: Array) -> Array:
    """The potentials, none more than `DAMPING` below the largest of its table: cells near zero can come back."""
    made = potentials.copy()
    for index in range(len(factors)):
        table = factors.table(made, index)
        np.maximum(table, table.max() - DAMPING, out=table)
    return made


def warm_start(factors: Factors, known: Mapping[Clique, Array]) -> Array:
    """Potentials known for some cliques, damped, and zero for all others.

    A table over a clique that is no longer there goes to the first one that holds it. Undamped, cells that were zero
    for the model before would be so small that the descent does not see that a new measurement wants them.
    """
    potentials = np.zeros(factors.size)
    for clique, table in known.items():
        own = factors.domain.clique(clique)
        moved = np.transpose(table, [clique.index(name) for name in own])
        if own in factors:
            factors.table(potentials, factors.index(own))[...] += moved
            continue
        wider = next((i for i, other in enumerate(factors.cliques) if set(own) <= set(other)), None)
        if wider is not None:
            other = factors.cliques[wider]
            shape = [factors.domain[name] if name in own else 1 for name in other]
            factors.table(potentials, wider)[...] += moved.reshape(shape)
    return damped(factors, potentials)
