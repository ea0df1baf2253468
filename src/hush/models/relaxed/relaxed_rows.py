"""Relaxed rows: a few hundred rows whose cells are probabilities, a mixture of product distributions.

An ordinary row has one level of each attribute. A relaxed row has a probability for every level, so that the answers to
queries become differentiable functions of the rows, and the model has the same size for any measured cliques.

Levels that no noisy answer over several columns distinguishes are merged into one *coarse level*; a fit then needs one
probability per coarse level. How the records of a coarse level are divided among its levels is the same in all relaxed
rows, and known from the column's own noisy table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats, Integers, apply_each
from hush.core.constraints import Constraint, check_axes
from hush.core.domain import Clique, Domain
from hush.core.errors import WorkloadError
from hush.core.memory import require_memory
from hush.linops import Identity, Kronecker, LevelSums, LinearOperator
from hush.models.graphical.graphical_model import Given, Impossible, constraints_of
from hush.models.graphical.junction_tree import JunctionTree, Node
from hush.models.graphical.synthetic_rows import Codes, Method, draw_rows
from hush.privacy.measurement import Measurement
from hush.workloads.decision_diagram import FormulaRow
from hush.workloads.threshold_term import TargetRow

MOST_DENSE_ENTRIES = 1 << 22  # of a query's factor that is compared column by column; a larger one merges no levels
PRODUCTS_HELD = 1 << 17  # numbers at a time, so that they stay in a core's cache


@dataclass(frozen=True, slots=True, eq=False)
class CoarseLevels:
    """For every attribute, the coarse level of each code and the code's share of it; numbered in order of codes.

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
        """Coarse levels that are divided equally among their codes."""
        shares = {name: 1.0 / np.bincount(codes[name])[codes[name]] for name in domain}
        return cls(domain, dict(codes), shares)

    @classmethod
    def of(cls, domain: Domain, measurements: Iterable[Measurement]) -> CoarseLevels:
        """Merge the levels that placed measurements over several columns do not distinguish."""
        codes = {name: np.zeros(domain[name], dtype=np.int64) for name in domain}
        seen: set[tuple[str, LinearOperator | None]] = set()
        for measurement in measurements:
            if measurement.query is None and len(measurement.clique) <= 1:
                continue
            query, sizes = measurement.query, domain.sizes(measurement.clique)
            if isinstance(query, TargetRow):
                for name, code in zip(measurement.clique, query.target, strict=True):
                    codes[name] = _common_refinement(codes[name], (np.arange(domain[name]) == code).astype(np.int64))
                continue
            if isinstance(query, FormulaRow):
                for name, classes in zip(measurement.clique, query.diagram.classes, strict=True):
                    codes[name] = _common_refinement(codes[name], classes)
                continue
            for name, factor in zip(measurement.clique, factors_of(measurement, sizes), strict=True):
                if (name, factor) in seen:
                    continue
                seen.add((name, factor))
                if isinstance(factor, LevelSums):
                    classes = factor.codes
                elif factor is None or factor.shape[0] * domain[name] > MOST_DENSE_ENTRIES:
                    classes = np.arange(domain[name])
                else:  # levels with equal columns of the factor have equal answers
                    classes = np.unique(factor.dense(), axis=1, return_inverse=True)[1].reshape(-1)
                codes[name] = _common_refinement(codes[name], classes)
        return cls.even(domain, codes)

    @classmethod
    def merged_whole(cls, domain: Domain, shares: Mapping[str, Floats]) -> CoarseLevels:
        """One coarse level per attribute, divided by the given shares."""
        return cls(domain, {name: np.zeros(domain[name], dtype=np.int64) for name in domain}, shares)

    def with_shares(self, columns: Mapping[str, Floats]) -> CoarseLevels:
        """The same coarse levels, divided in proportion to the shares of a column; as before if all of them are 0."""
        shares = {}
        for name in self.domain:
            whole = self.merged(name, columns[name])[self.codes[name]]
            shares[name] = np.where(whole > 0, columns[name] / np.where(whole > 0, whole, 1.0), self.shares[name])
        return CoarseLevels(self.domain, self.codes, shares)

    def size(self, name: str) -> int:
        """The number of coarse levels of an attribute."""
        return int(self.codes[name].max()) + 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of coarse levels of all attributes, in domain order."""
        return tuple(self.size(name) for name in self.domain)

    @property
    def offsets(self) -> Integers:
        """Where the coarse levels of each attribute start in a row: (attributes + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    def firsts(self, name: str) -> Integers:
        """The first code of every coarse level."""
        return np.unique(self.codes[name], return_index=True)[1]

    def merged(self, name: str, values: Floats) -> Floats:
        """The sums over the codes of each coarse level."""
        return np.asarray(np.bincount(self.codes[name], weights=values, minlength=self.size(name)), dtype=np.float64)

    def regrouped(self, name: str, block: Floats, codes: Integers | None) -> Floats:
        """Numbers per coarse level, on the last axis, as numbers per group of levels; None for single levels."""
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
        """Numbers per coarse level, on the last axis, as numbers per level."""
        return np.asarray(block[..., self.codes[name]] * self.shares[name])


def factors_of(measurement: Measurement, sizes: Sequence[int]) -> list[LinearOperator | None]:
    """The factor of a placed measurement on every attribute; None where it distinguishes all levels."""
    query = measurement.query
    if isinstance(query, Kronecker) and [factor.shape[1] for factor in query.factors] == list(sizes):
        return [None if isinstance(factor, Identity) else factor for factor in query.factors]
    if isinstance(query, LinearOperator) and len(sizes) == 1:
        return [query]
    return [None] * len(sizes)


def _common_refinement(first: Integers, second: Integers) -> Integers:
    """Codes that differ wherever either of two does, numbered in the order in which they first appear."""
    joint = first * (int(second.max()) + 1) + second
    _, starts, inverse = np.unique(joint, return_index=True, return_inverse=True)
    rank = np.empty(len(starts), dtype=np.int64)
    rank[np.argsort(starts)] = np.arange(len(starts))
    return np.asarray(rank[inverse.reshape(-1)])


class RelaxedRows:
    """N records distributed as weighted relaxed rows: p(x) = sum_j w_j prod_f p_j(x_f).

    `rows` has a line for every relaxed row, in which the probabilities of each attribute's coarse levels add up to one.
    All tables are marginals of this one distribution, so they agree.

    Privacy: post-processing of public noisy values.
    Reference: [Avent 2023, sec. 4.2]; [Aydore et al. 2021].

    >>> coarse = CoarseLevels.even(Domain({"a": 2, "b": 2}), {"a": np.arange(2), "b": np.arange(2)})
    >>> rows = RelaxedRows(coarse, np.array([[1.0, 0.0, 0.5, 0.5], [0.0, 1.0, 0.0, 1.0]]), 8.0)
    >>> rows.counts(("a", "b")).tolist()
    [[2.0, 2.0], [0.0, 4.0]]
    """

    exact = True
    constraints: tuple[Constraint, ...] = ()

    def __init__(
        self,
        coarse: CoarseLevels,
        rows: Floats,
        total: float,
        *,
        weights: Floats | None = None,
        cliques: Iterable[Clique] = (),
    ) -> None:
        self.coarse = coarse
        self.rows = rows
        self.total = total
        self.weights = np.full(len(rows), 1.0 / len(rows)) if weights is None else weights
        self.cliques = tuple(cliques)
        self._offsets = dict(zip(coarse.domain, coarse.offsets.tolist(), strict=False))
        for array in (self.rows, self.weights):
            array.setflags(write=False)

    @property
    def domain(self) -> Domain:
        return self.coarse.domain

    @property
    def size_mb(self) -> float:
        return 8e-6 * self.rows.size

    def block(self, name: str) -> Floats:
        """The coarse levels of an attribute in every row, as a view."""
        start = self._offsets[name]
        return self.rows[:, start : start + self.coarse.size(name)]

    def counts(self, clique: Iterable[str]) -> Floats:
        """Counts over a clique, one axis per attribute in the order given: non-negative, consistent."""
        names = self.domain.check(clique)
        check_axes(names)
        require_memory(16 * self.domain.size(names), f"a table over {names!r}", "ask for fewer attributes")
        table = self.total * mean_product([self.block(name).T for name in names], self.weights)
        for axis, name in enumerate(names):
            share = self.coarse.shares[name].reshape([-1 if k == axis else 1 for k in range(len(names))])
            table = table.take(self.coarse.codes[name], axis=axis)
            table *= share
        return np.asarray(table)

    def many(self, cliques: Iterable[Iterable[str]]) -> dict[Clique, Floats]:
        """The tables of several cliques."""
        return {names: self.counts(names) for names in (self.domain.check(clique) for clique in cliques)}

    def product(self, clique: Iterable[str], blocks: Sequence[LinearOperator]) -> Floats:
        """The answers to a product of query blocks on the table over a clique, one axis per block.

        Each block is applied to the probabilities of the rows, so that the table itself is never computed.
        """
        names = self.domain.check(clique)
        if len(blocks) != len(names):
            raise WorkloadError(f"{len(blocks)} query blocks for {len(names)} attributes; give one each")
        columns = [
            apply_each([None, block], self.coarse.spread(name, self.block(name))).T
            for name, block in zip(names, blocks, strict=True)
        ]
        return self.total * mean_product(columns, self.weights)

    def conditioned(self, given: Given) -> RelaxedRows:
        """The records that have the given codes: rows reweighted by P(given), and restricted to the given codes."""
        rows, weights, shares = self.rows.copy(), self.weights.copy(), dict(self.coarse.shares)
        for rule in constraints_of(self.domain, given):
            (name,), allowed = rule.clique, rule.allowed
            inside = self.coarse.merged(name, shares[name] * allowed)
            start = self._offsets[name]
            block = rows[:, start : start + len(inside)]
            block *= inside
            probability = block.sum(axis=1)
            weights *= probability
            block /= np.where(probability > 0, probability, 1.0)[:, None]
            block[probability <= 0] = 1.0 / len(inside)
            left = inside[self.coarse.codes[name]]
            shares[name] = np.where(left > 0, shares[name] * allowed / np.where(left > 0, left, 1.0), shares[name])
        given_share = float(weights.sum())
        if not given_share > 0:
            raise Impossible(given, excluded=False)
        coarse = CoarseLevels(self.domain, self.coarse.codes, shares)
        return RelaxedRows(coarse, rows, self.total * given_share, weights=weights / given_share, cliques=self.cliques)

    def synthesize_codes(self, rows: int, generator: np.random.Generator, *, method: Method = "rounding") -> Codes:
        """Records as codes: draw a relaxed row for each record, then a level of every attribute from its probabilities.

        "rounding" draws both systematically: the records of one relaxed row have its shares to within one record. With
        either method, the expected table of the records is that of the model.

        Reference: [Avent 2023, sec. 4.2], randomised rounding.
        """
        hidden = "relaxed row"  # as an attribute, of which all others are independent given its level
        while hidden in self.domain:
            hidden += "'"
        wide = Domain({hidden: len(self.rows), **{name: self.domain[name] for name in self.domain}})
        nodes = [Node((hidden,), (), (hidden,), -1)]
        nodes += [Node((hidden, name), (hidden,), (name,), 0) for name in self.domain]
        tables = [self.weights[None, :], *(self.coarse.spread(name, self.block(name)) for name in self.domain)]
        codes = draw_rows(JunctionTree(wide, nodes), tables, rows, generator, method=method)
        return {name: codes[name] for name in self.domain}

    def __repr__(self) -> str:
        return f"RelaxedRows({len(self.rows)} rows over {len(self.domain)} attributes, total {self.total:,.0f})"


def mean_product(columns: Sequence[Floats], weights: Floats) -> Floats:
    """sum_j w_j prod_i columns_i[x_i, j] for all levels x, one axis for each column, (levels, rows).

    Computed as products of matrices, over as many levels at a time as a core's cache holds.

    >>> a, b = np.array([[1.0, 0.5], [0.0, 0.5]]), np.array([[0.2, 1.0]])
    >>> mean_product([a, b], np.array([0.5, 0.5])).round(2).tolist()
    [[0.35], [0.25]]
    """
    table = np.empty([len(column) for column in columns])
    if columns:
        _fill(columns, weights, table)
    else:
        table[...] = weights.sum()
    return table


def _fill(columns: Sequence[Floats], weights: Floats, table: Floats) -> None:
    """`mean_product` of at least one column, written into `table`."""
    *first, last = columns
    if not first:
        np.matmul(last, weights, out=table)
        return
    inner = len(weights) * math.prod(len(column) for column in first[1:])
    if inner > PRODUCTS_HELD and len(first) > 1:
        for level, part in zip(first[0], table, strict=True):
            _fill(columns[1:], weights * level, part)
        return
    step = max(1, PRODUCTS_HELD // inner)
    for start in range(0, len(first[0]), step):
        part = weights[None]
        for column in (first[0][start : start + step], *first[1:]):
            part = (part[:, None] * column).reshape(-1, len(weights))
        np.matmul(part, last.T, out=table[start : start + step].reshape(len(part), -1))
