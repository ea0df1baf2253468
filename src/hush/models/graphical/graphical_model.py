"""GraphicalModel: a fitted distribution, its tables, conditionals, entropy, log-probabilities and synthetic rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from hush.core.arrays import Floats, Integers, NamedTable, reordered
from hush.core.constraints import Constraint, merge
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, DomainError, shown
from hush.core.memory import readable
from hush.inference.factors import Factors
from hush.linops import LinearOperator
from hush.models.graphical.belief_propagation import Belief
from hush.models.graphical.junction_tree import JunctionTree
from hush.models.graphical.marginals import Marginals
from hush.models.graphical.synthetic_rows import Codes, Method, draw_rows

Given: TypeAlias = Mapping[str, int | Iterable[int]]

CHUNK_CELLS = 1 << 18  # of a table whose logarithms are held at a time
LEAST_PROBABILITY = 1e-200  # of evidence, for conditionals computed from sums; below, they are computed from logarithms
PREPARING_LOCK = Lock()  # of the module rather than of each model, so that models can be copied and pickled


def entropy(
    tree: JunctionTree,
    conditionals: Sequence[Floats],  # of every node, (cells of the separator, cells of the rest)
    separators: Sequence[Floats],  # counts of every node's separator, or shares
) -> float:
    """H = -sum_x p(x) log p(x) in nats, as sum_k sum_s p(s) H(rest_k | separator_k = s); 0 log 0 = 0.

    Equal to the entropies of nodes minus those of separators, but all terms are positive and nothing cancels.

    >>> from hush.core.domain import Domain
    >>> tree = JunctionTree.build(Domain({"sex": 2}), [("sex",)])
    >>> round(entropy(tree, [np.array([[0.5, 0.5]])], [np.array([80.0])]), 6)
    0.693147
    """
    total = 0.0
    for table, counts in zip(conditionals, separators, strict=True):
        step = max(1, CHUNK_CELLS // table.shape[1])
        weights = counts / counts.sum()
        for start in range(0, len(table), step):
            p = table[start : start + step]
            logs = np.log(p, out=np.zeros(p.shape), where=p > 0)
            total -= float(weights[start : start + step] @ (p * logs).sum(axis=1))
    return total + 0.0  # never -0.0


def log_probability(
    tree: JunctionTree, conditionals: Sequence[Floats], codes: Mapping[str, np.ndarray[Any, Any]]
) -> Floats:
    """log p(x) of every row, as sum_k log p(rest_k | separator_k); -inf for a row that the model excludes.

    Privacy: not post-processing of the model alone; if the rows are private, so is the result.
    """
    # Check the codes.
    if not hasattr(codes, "keys"):
        raise DataError(f"codes = {shown(codes)}: expected an array of codes for every attribute, by name")
    columns = {}
    for name in tree.domain:
        if name not in codes:
            raise DataError(f"no codes of attribute {name!r}; give an array of codes for every attribute")
        column = np.asarray(codes[name])
        if column.ndim != 1 or column.dtype.kind not in "iu":
            raise DataError(
                f"codes of {name!r}: expected one integer per row, found {column.dtype} with {column.ndim} axes"
            )
        if column.size and not (column.min() >= 0 and column.max() < tree.domain[name]):
            raise DataError(f"codes of {name!r}: expected 0 .. {tree.domain[name] - 1} in every row")
        columns[name] = column
    lengths = sorted({len(column) for column in columns.values()})
    if len(lengths) > 1:
        raise DataError(f"attributes have {shown(lengths)} rows; give every attribute the same rows")

    # Add up the logarithms of every node's conditional probabilities.
    rows = lengths[0] if lengths else 0
    logs = np.zeros(rows)
    for node, table in zip(tree.nodes, conditionals, strict=True):
        cells = np.zeros(rows, dtype=np.int64)
        for name in node.axes:
            cells *= tree.domain[name]
            cells += columns[name]
        with np.errstate(divide="ignore"):
            logs += np.log(table.reshape(-1)[cells])
    return logs


class _Prepared(NamedTuple):
    """A calibrated belief, its tables p(rest | separator), and the shares of every node's separator."""

    belief: Belief
    conditionals: list[Floats]
    shares: list[Floats]


class GraphicalModel:
    """p(x) = exp(sum_r theta_r(x_r)) / Z over a domain, times a total number of records N.

    Of all distributions that fit the measurements equally well, it has the largest entropy: attributes that were not
    measured together are independent given those that were. `tree`, `factors` and `potentials` are in tree order.

    Privacy: post-processing of public noisy values.
    Reference: [HDMM, sec. 4.2].
    """

    exact = True

    def __init__(
        self,
        domain: Domain,
        tree: JunctionTree,
        factors: Factors,
        potentials: Floats,
        total: float,
        constraints: Sequence[Constraint] = (),
        belief: Belief | None = None,
    ) -> None:
        self.domain = domain
        self.tree = tree
        self.factors = factors
        self.potentials = potentials
        self.potentials.setflags(write=False)
        self.total = total
        self.constraints = tuple(constraints)
        self._given = belief
        self._ready: _Prepared | None = None

    @property
    def _prepared(self) -> _Prepared:
        """What all answers are computed from, prepared once: passes overwrite buffers that threads share."""
        if self._ready is None:
            with PREPARING_LOCK:
                if self._ready is None:
                    fixed = fixed_tables(self.tree.domain, self.constraints)
                    belief = self._given or Belief(self.tree, self.factors, fixed)
                    condition_possible(belief, self.potentials)
                    conditionals = belief.conditionals()
                    shares = [shares.copy() for shares in belief.separators(1.0)]
                    self._ready = _Prepared(belief, conditionals, shares)
        return self._ready

    @property
    def belief(self) -> Belief:
        """The junction tree at these potentials."""
        return self._prepared.belief

    @property
    def conditionals(self) -> list[Floats]:
        """p(rest | separator) of every node of the tree."""
        return self._prepared.conditionals

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques that have potentials, in domain order."""
        return tuple(self.domain.clique(clique) for clique in self.factors.cliques)

    @property
    def size_mb(self) -> float:
        """Megabytes of the model's tables."""
        return self.tree.size_mb

    @cached_property
    def tables(self) -> Mapping[Clique, Floats]:
        """The potentials of every clique, over its axes in tree order."""
        known = {clique: self.factors.table(self.potentials, i) for i, clique in enumerate(self.factors.cliques)}
        return MappingProxyType(known)

    def covers(self, clique: Iterable[str]) -> bool:
        """Whether a table can be computed: any can, within memory."""
        self.domain.check(clique)
        return True

    @cached_property
    def separators(self) -> list[Floats]:
        """The counts of every node's separator."""
        return [self.total * shares for shares in self._prepared.shares]

    @cached_property
    def marginals(self) -> Marginals:
        """The calculator of tables."""
        return Marginals(self.domain, self.tree, self.conditionals, self.separators)

    def counts(self, clique: Iterable[str]) -> Floats:
        """The table of counts over any clique, with axes in the order given; see `Marginals.counts`."""
        return self.marginals.counts(clique)

    def many(self, cliques: Iterable[Iterable[str]]) -> dict[Clique, Floats]:
        """The tables of many cliques at once, faster than one by one; see `Marginals.many`."""
        return self.marginals.many(cliques)

    def product(self, clique: Iterable[str], blocks: Sequence[LinearOperator]) -> Floats:
        """Answers to a product of query blocks, one per attribute; see `Marginals.product`."""
        return self.marginals.product(clique, blocks)

    def conditional(self, clique: Iterable[str], given: Given) -> Floats:
        """p(clique | given), where each given attribute has the given code, or one of several."""
        names = self.domain.check(clique)
        table = self.marginals.restricted(names, codes_of(self.domain, given, names))
        if not table.sum() > LEAST_PROBABILITY * self.total:
            table = self._conditioned(given, 1.0).counts(names)
        return np.asarray(table / table.sum())

    def conditioned(self, given: Given) -> GraphicalModel:
        """The model of the records in which each given attribute has the given code, or one of several.

        Its total is the model's count of such records.
        """
        return self._conditioned(given)

    def _conditioned(self, given: Given, total: float | None = None) -> GraphicalModel:
        """`conditioned`, with a given total; the codes enter as constraints."""
        evidence = constraints_of(self.domain, given)
        belief = Belief(self.tree, self.factors, fixed_tables(self.tree.domain, [*self.constraints, *evidence]))
        belief.condition(self.potentials)
        if belief.log_partition == -np.inf:
            belief.condition(np.zeros_like(self.potentials))
            raise Impossible(given, excluded=belief.log_partition == -np.inf)
        if total is None:
            total = self.total * float(np.exp(belief.log_partition - self.belief.log_partition))
        constraints = merge(self.domain, [*self.constraints, *evidence])
        return GraphicalModel(self.domain, self.tree, self.factors, self.potentials, total, constraints)

    def reweighted(self, clique: Clique, logs: Floats) -> GraphicalModel | None:
        """The model with p(x) multiplied by exp(logs[x_clique]); None if no clique of the model contains it."""
        for index, known in enumerate(self.factors.cliques):
            if set(clique) <= set(known):
                potentials = self.potentials.copy()
                table = self.factors.table(potentials, index)
                table += NamedTable(clique, np.asarray(logs, dtype=np.float64)).spread(known)
                return GraphicalModel(self.domain, self.tree, self.factors, potentials, self.total, self.constraints)
        return None

    def entropy(self) -> float:
        """-sum_x p(x) log p(x), in nats."""
        return entropy(self.tree, self.conditionals, self._prepared.shares)

    def log_probability(self, codes: Mapping[str, np.ndarray[Any, Any]]) -> Floats:
        """log p(x) of every row, -inf if the model excludes it.

        Privacy: if the rows are private, so is the result.
        """
        return log_probability(self.tree, self.conditionals, codes)

    def log_likelihood(self, codes: Mapping[str, np.ndarray[Any, Any]]) -> float:
        """The sum of log p(x) over rows; -inf if the model excludes one.

        Privacy: if the rows are private, so is the result.
        """
        return float(self.log_probability(codes).sum())

    def synthesize_codes(self, rows: int, generator: np.random.Generator, *, method: Method = "rounding") -> Codes:
        """Rows of the model as codes, one array per attribute in domain order; see `draw_rows`."""
        codes = draw_rows(self.tree, self.conditionals, rows, generator, method=method)
        return {name: codes[name] for name in self.domain}

    def __repr__(self) -> str:
        return (
            f"GraphicalModel({len(self.factors)} cliques over {len(self.domain)} attributes, "
            f"{readable(1e6 * self.size_mb)}, total {self.total:,.0f})"
        )


def condition_possible(belief: Belief, potentials: Floats) -> None:
    """Condition a belief on potentials; refuse constraints that leave no combination of levels possible."""
    belief.condition(potentials)
    if belief.log_partition == -np.inf:
        raise DomainError(
            "the constraints contradict each other: no combination of levels is possible; look for [[forbidden]], "
            "[[allowed]] or [[depends]] rules that together exclude every row"
        )


def fixed_tables(domain: Domain, constraints: Iterable[Constraint]) -> list[tuple[Clique, Floats]]:
    """Constraints as tables of logarithms (0 or -inf), with axes in the order of a domain."""
    tables = []
    for constraint in constraints:
        clique = domain.clique(constraint.clique)
        tables.append((clique, np.ascontiguousarray(reordered(constraint.potentials(), constraint.clique, clique))))
    return tables


def codes_of(domain: Domain, given: Given, asked: Clique = ()) -> dict[str, Integers]:
    """The codes that each given attribute may have, in order and once each.

    >>> codes_of(Domain({"age": 85, "sex": 2}), {"sex": 1, "age": [30, 29]})
    {'sex': array([1]), 'age': array([29, 30])}
    """
    if not isinstance(given, Mapping):
        raise DomainError(f'given = {shown(given)}: expected names and codes, such as {{"sex": 1}}')
    both = [name for name in domain.check(given) if name in asked]
    if both:
        raise DomainError(f"attribute {both[0]!r} is both asked for and given; leave it out of the clique")
    listed = {}
    for name, value in given.items():
        values = value if isinstance(value, np.ndarray) or not isinstance(value, Iterable) else list(value)
        codes, size = np.atleast_1d(np.asarray(values)), domain[name]
        if codes.ndim != 1 or codes.dtype.kind not in "iu" or not codes.size:
            raise DomainError(f"given {name!r} = {shown(value)}: expected a code 0 .. {size - 1}, or several of them")
        outside = codes[(codes < 0) | (codes >= size)]
        if outside.size:
            raise DomainError(f"given {name!r} = {outside[0]}: expected codes 0 .. {size - 1}")
        listed[name] = np.unique(codes.astype(np.int64))
    return listed


def constraints_of(domain: Domain, given: Given) -> list[Constraint]:
    """One constraint for every given attribute."""
    return [Constraint.allow(domain, (name,), codes[:, None]) for name, codes in codes_of(domain, given).items()]


class Impossible(DomainError):
    """Evidence of probability zero; `excluded` if constraints rule it out."""

    def __init__(self, given: Mapping[str, Any], *, excluded: bool) -> None:
        reason = "the constraints exclude it" if excluded else "the model has no such row"
        super().__init__(
            f"given = {shown(dict(given))} has probability zero under the model: {reason}; give other values, or fewer"
        )
        self.excluded = excluded


def excluded(constraints: Iterable[Constraint], codes: Mapping[str, Integers]) -> bool:
    """Whether a single constraint forbids all combinations with the given codes."""
    for constraint in constraints:
        table = constraint.allowed
        for axis, name in enumerate(constraint.clique):
            table = table.take(codes[name], axis=axis) if name in codes else table
        if not table.any():
            return True
    return False
