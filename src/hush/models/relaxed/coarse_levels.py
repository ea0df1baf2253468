"""Coarse levels: the levels of a column that no noisy answer over several columns tells apart are kept as one.

A fit of relaxed rows needs one number for each of them rather than one for each level. How the rows of a coarse level
are spread over its levels is the same for all relaxed rows, and known from the column's own noisy table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Domain
from hush.linops import Identity, Kronecker, LevelSums, LinearOperator
from hush.privacy.measurement import Measurement
from hush.workloads.decision_diagram import FormulaRow
from hush.workloads.threshold_target import TargetRow

MOST_DENSE = 1 << 22  # entries of a factor that is looked at; a larger one tells all levels apart


@dataclass(frozen=True, slots=True, eq=False)
class CoarseLevels:
    """For every attribute the coarse level of each code, and its share of that; coarse levels are in order of codes.

    >>> codes, shares = np.array([0, 1, 0, 0]), np.array([0.5, 1, 0.5, 0])
    >>> coarse = CoarseLevels(Domain({"city": 4}), {"city": codes}, {"city": shares})
    >>> coarse.sizes, coarse.spread("city", np.array([[0.2, 0.8]])).tolist()
    ((2,), [[0.1, 0.8, 0.1, 0.0]])
    """

    domain: Domain
    codes: Mapping[str, Integers]
    shares: Mapping[str, Floats]

    @classmethod
    def even(cls, domain: Domain, codes: Mapping[str, Integers]) -> CoarseLevels:
        """Levels of one coarse level in equal shares."""
        shares = {name: 1.0 / np.bincount(codes[name])[codes[name]] for name in domain}
        return cls(domain, dict(codes), shares)

    @classmethod
    def of(cls, domain: Domain, measurements: Iterable[Measurement]) -> CoarseLevels:
        """What placed measurements leave together; a column's own noisy table tells none of its levels apart."""
        codes = {name: np.zeros(domain[name], dtype=np.int64) for name in domain}
        seen: set[tuple[str, LinearOperator | None]] = set()
        for measurement in measurements:
            if measurement.query is None and len(measurement.clique) <= 1:
                continue
            query, sizes = measurement.query, domain.sizes(measurement.clique)
            if isinstance(query, TargetRow):
                for name, code in zip(measurement.clique, query.target, strict=True):
                    codes[name] = _ordered(codes[name], (np.arange(domain[name]) == code).astype(np.int64))
                continue
            if isinstance(query, FormulaRow):
                for name, classes in zip(measurement.clique, query.diagram.classes, strict=True):
                    codes[name] = _ordered(codes[name], classes)
                continue
            for name, factor in zip(measurement.clique, factors_of(measurement, sizes), strict=True):
                if (name, factor) in seen:
                    continue
                seen.add((name, factor))
                codes[name] = _ordered(codes[name], _told_apart(factor, domain[name]))
        return cls.even(domain, codes)

    def size(self, name: str) -> int:
        """The number of coarse levels of an attribute."""
        return int(self.codes[name].max()) + 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """Those of all attributes, in domain order."""
        return tuple(self.size(name) for name in self.domain)

    @property
    def offsets(self) -> Integers:
        """Where the coarse levels of each attribute start if they stand side by side: (attributes + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    def firsts(self, name: str) -> Integers:
        """The first code of every coarse level."""
        return np.unique(self.codes[name], return_index=True)[1]

    def merged(self, name: str, values: Floats) -> Floats:
        """The sums over the codes of each coarse level."""
        return np.asarray(np.bincount(self.codes[name], weights=values, minlength=self.size(name)), dtype=np.float64)

    def regrouped(self, name: str, block: Floats, codes: Integers | None) -> Floats:
        """Numbers of coarse levels, on the last axis, as those of other groups of levels; None for all levels."""
        if codes is None:
            return self.spread(name, block)
        shape = self.size(name), int(codes.max()) + 1
        pairs, inverse = np.unique(self.codes[name] * shape[1] + codes, return_inverse=True)
        shares = np.bincount(inverse.reshape(-1), weights=self.shares[name])
        regrouped = np.zeros((*block.shape[:-1], shape[1]))
        order = np.argsort(pairs % shape[1], kind="stable")
        levels, starts = np.unique(pairs[order] % shape[1], return_index=True)
        parts = block[..., pairs[order] // shape[1]] * shares[order]
        regrouped[..., levels] = np.add.reduceat(parts, starts, axis=-1)
        return regrouped

    def spread(self, name: str, block: Floats) -> Floats:
        """Numbers of coarse levels, on the last axis, as those of all levels."""
        return np.asarray(block[..., self.codes[name]] * self.shares[name])


def factors_of(measurement: Measurement, sizes: Sequence[int]) -> list[LinearOperator | None]:
    """The factor of a placed measurement on every attribute; None where it tells all levels apart."""
    query = measurement.query
    if isinstance(query, Kronecker) and [factor.shape[1] for factor in query.factors] == list(sizes):
        return [None if isinstance(factor, Identity) else factor for factor in query.factors]
    if isinstance(query, LinearOperator) and len(sizes) == 1:
        return [query]
    return [None] * len(sizes)


def _told_apart(factor: LinearOperator | None, levels: int) -> Integers:
    if isinstance(factor, LevelSums):
        return factor.codes
    if factor is None or factor.shape[0] * levels > MOST_DENSE:
        return np.arange(levels)
    return np.unique(factor.dense(), axis=1, return_inverse=True)[1].reshape(-1)


def _ordered(first: Integers, second: Integers) -> Integers:
    """Codes that tell apart what either does, numbered in the order in which they first appear."""
    joint = first * (int(second.max()) + 1) + second
    _, starts, inverse = np.unique(joint, return_index=True, return_inverse=True)
    rank = np.empty(len(starts), dtype=np.int64)
    rank[np.argsort(starts)] = np.arange(len(starts))
    return np.asarray(rank[inverse.reshape(-1)])
