"""Reordered: queries on a table whose axes stand in another order.

Measurement: noisy numbers about one marginal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np

from hush.arrays import Floats
from hush.domain import Clique, Domain
from hush.errors import DataError, DomainError, WorkloadError, shown
from hush.inference.factors import check_axes
from hush.linops import Identity, Kronecker, LinearOperator, Total
from hush.linops.combination import Transposed


@dataclass(frozen=True, slots=True)
class Reordered(LinearOperator):
    """A asked of a table of the given shape after its axes are put in the given order: x -> A transpose(x, axes).

    Like `Permuted` with the cells in the new order, which is never written down.

    >>> from hush.linops import Prefix
    >>> Reordered(Prefix(4), (2, 2), (1, 0)).dense().tolist()
    [[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    """

    operator: LinearOperator
    sizes: tuple[int, ...]  # of the table as it comes
    axes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.operator.shape

    @property
    def queries(self) -> int:
        return self.operator.queries

    def matmat(self, x: Floats) -> Floats:
        k = len(self.axes)
        moved = x.reshape((*self.sizes, x.shape[1])).transpose((*self.axes, k))
        return self.operator.matmat(moved.reshape(x.shape))

    def transpose(self) -> LinearOperator:
        return Transposed(self)

    def adjoint(self, y: Floats) -> Floats:
        return self._back(self.operator.transpose().matmat(y))

    def column_norms(self, p: int) -> Floats:
        return self._back(self.operator.column_norms(p)[:, None])[:, 0]

    def sensitivity(self, p: int) -> float:
        return self.operator.sensitivity(p)

    def _back(self, x: Floats) -> Floats:
        """Columns over cells in the operator's order, put in the order of the table."""
        k = len(self.axes)
        own = [self.sizes[axis] for axis in self.axes]
        back = sorted(range(k), key=self.axes.__getitem__)
        return x.reshape((*own, x.shape[1])).transpose((*back, k)).reshape(math.prod(own), x.shape[1])


Noise: TypeAlias = Literal["gaussian", "laplace"]
Block: TypeAlias = Callable[[int], LinearOperator] | LinearOperator

NOISES = ("gaussian", "laplace")
LABELLED = ("to_numpy", "__dataframe__")  # what pandas, polars and Arrow objects have, and plain arrays do not
EXTREME = 1e60  # squares of larger numbers over smaller deviations could not be computed as floats


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """Noisy numbers y = Q mu + noise about the marginal mu over a clique, from any mechanism or from outside.

    `clique` names attributes in any order. Without a `query`, `values` is the noisy table over the clique in that
    order, or the same flat (row-major), with levels in the order of the domain's codes. A `query` Q is a `hush.linops`
    operator on that flat table, or a block of `hush.queries` for each attribute, whose product it is; `values` then
    holds one number per query. `stddev` is the standard deviation of the noise of every number; for Laplace noise that
    is sqrt(2) times its scale.

    Privacy: holds noisy numbers only; whatever is computed from them is post-processing.
    Reference: [HDMM, sec. 4.2].

    >>> noisy = Measurement(("sex", "smokes"), [[40.2, 11.7], [35.9, 9.1]], stddev=2.0)
    >>> noisy.on(Domain({"smokes": 2, "sex": 2})).values.tolist()
    [[40.2, 35.9], [11.7, 9.1]]
    >>> from hush import queries
    >>> Measurement(("age",), [3.0, 5.5, 9.9], stddev=1.0, query={"age": queries.prefix}).numbers
    3
    """

    clique: Clique
    values: Any  # Floats once made
    stddev: float
    query: LinearOperator | Mapping[str, Block] | None = None
    noise: Noise = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "clique", _names(self.clique))
        object.__setattr__(self, "values", _numbers(self.values, self.clique))
        object.__setattr__(self, "stddev", _deviation(self.stddev, self.clique))
        if self.noise not in NOISES:
            raise DataError(f"noise={shown(self.noise)} of {self._what}: expected 'gaussian' or 'laplace'")
        if isinstance(self.query, Mapping):
            if set(self.query) != set(self.clique):
                raise WorkloadError(
                    f"the query of {self._what} has blocks for {shown(tuple(self.query))}: expected one for each "
                    "attribute of the clique; use queries.total for those that are summed out"
                )
            object.__setattr__(self, "query", dict(self.query))
        elif isinstance(self.query, LinearOperator):
            self._check_rows(self.query)
        elif self.query is not None:
            raise WorkloadError(
                f"the query of {self._what} is {shown(self.query)}: expected an operator of hush.linops, or a block of "
                "hush.queries for each attribute; wrap a matrix as hush.linops.Dense"
            )

    @property
    def numbers(self) -> int:
        """How many noisy numbers."""
        return int(self.values.size)

    @property
    def variance(self) -> float:
        """stddev^2."""
        return self.stddev**2

    def on(self, domain: Domain) -> Measurement:
        """The same evidence with its clique in domain order; refuses what does not fit the domain.

        Its `query` is None, with `values` of shape `domain.sizes(clique)`, or an operator on the flat table in domain
        order, with `values` a vector. Attributes that blocks sum out are left out of the clique.
        """
        sizes = domain.sizes(self.clique)
        if isinstance(self.query, Mapping):
            return self._blocks_on(domain, self._made(sizes))
        ordered = domain.clique(self.clique)
        axes = [self.clique.index(name) for name in ordered]
        if self.query is None:
            check_axes(ordered)
            table = self._shaped(sizes).transpose(axes)
            return self._with(ordered, table, None)
        if self.query.shape[1] != math.prod(sizes):
            raise WorkloadError(
                f"the query of {self._what} has {self.query.shape[1]} columns: expected {math.prod(sizes)}, "
                f"one for each cell of a table of sizes {sizes}"
            )
        if isinstance(self.query, Identity | Total):
            return self._blocks_on(domain, [type(self.query)(size) for size in sizes])
        if isinstance(self.query, Kronecker) and [f.shape[1] for f in self.query.factors] == list(sizes):
            return self._blocks_on(domain, list(self.query.factors))
        check_axes(ordered)
        flat = self.values.ravel()
        if ordered == self.clique:
            return self._with(ordered, flat, self.query)
        back = tuple(ordered.index(name) for name in self.clique)
        return self._with(ordered, flat, Reordered(self.query, domain.sizes(ordered), back))

    def _made(self, sizes: tuple[int, ...]) -> list[LinearOperator]:
        """The operator of every block, in the clique's order."""
        made = []
        for name, size in zip(self.clique, sizes, strict=True):
            block = self.query[name]  # type: ignore[index]
            operator = block if isinstance(block, LinearOperator) or not callable(block) else block(size)
            if not isinstance(operator, LinearOperator):
                raise WorkloadError(
                    f"the block of {name!r} in {self._what} is {shown(block)}: expected one of hush.queries"
                )
            if operator.shape[1] != size:
                raise WorkloadError(
                    f"attribute {name!r} has {size} levels, its block in {self._what} {operator.shape[1]} columns"
                )
            made.append(operator)
        return made

    def _blocks_on(self, domain: Domain, blocks: list[LinearOperator]) -> Measurement:
        """A product of blocks: its factors move with the attributes, its values with them."""
        rows = [block.shape[0] for block in blocks]
        if math.prod(rows) != self.numbers:
            raise DataError(f"{self.numbers} values of {self._what}: expected {math.prod(rows)}, one per query")
        kept = {n: b for n, b in zip(self.clique, blocks, strict=True) if not isinstance(b, Total)}
        clique = domain.clique(kept)
        check_axes(clique)
        long = {name: count for name, count in zip(self.clique, rows, strict=True) if count > 1}
        axes = [list(long).index(name) for name in domain.clique(long)]
        moved = self.values.reshape(list(long.values())).transpose(axes)
        if all(isinstance(block, Identity) for block in kept.values()):
            return self._with(clique, moved.reshape(domain.sizes(clique)), None)
        return self._with(clique, moved.ravel(), Kronecker([kept[name] for name in clique]))

    def _shaped(self, sizes: tuple[int, ...]) -> Floats:
        if self.values.shape not in (sizes, (math.prod(sizes),)):
            raise DataError(
                f"values of {self._what} have shape {self.values.shape}: expected {sizes}, one axis for each attribute "
                f"in the order given, or {math.prod(sizes)} numbers in a row"
            )
        return np.asarray(self.values.reshape(sizes))

    def _with(self, clique: Clique, values: Floats, query: LinearOperator | None) -> Measurement:
        return replace(self, clique=clique, values=np.ascontiguousarray(values).reshape(values.shape), query=query)

    def _check_rows(self, query: LinearOperator) -> None:
        if query.shape[0] != self.numbers:
            raise DataError(f"{self.numbers} values of {self._what}: expected {query.shape[0]}, one per query")

    @property
    def _what(self) -> str:
        return f"the measurement of {shown(self.clique)}"

    def __repr__(self) -> str:
        query = "" if self.query is None else ", with a query"
        return f"Measurement({self.clique!r}, {self.numbers} numbers, stddev={self.stddev:g}, {self.noise}{query})"


def _names(clique: Iterable[str]) -> Clique:
    if isinstance(clique, str):
        parts = tuple(part.strip() for part in clique.split(","))
        raise DomainError(f"clique {clique!r}: expected a tuple of names, such as {parts!r}")
    try:
        names = tuple(clique)
    except TypeError:
        raise DomainError(f"clique {shown(clique)}: expected a tuple of attribute names") from None
    if not all(isinstance(name, str) for name in names):
        raise DomainError(f"clique {shown(names)}: expected a tuple of attribute names")
    if len(set(names)) != len(names):
        raise DomainError(f"clique {shown(names)} names an attribute twice; give each name once")
    return names


def _numbers(values: Any, clique: Clique) -> Floats:
    """The values as a read-only array of floats of their own."""
    what = f"values of the measurement of {shown(clique)}"
    rows = values if isinstance(values, list | tuple) else ()
    if any(hasattr(one, mark) for one in (values, *rows[:1]) for mark in LABELLED):
        kind = type(values).__name__ if not rows else f"a list of {type(rows[0]).__name__}"
        raise DataError(
            f"{what} are {kind}, whose labels are not read: give a plain array, such as .to_numpy(), with the levels "
            "of each attribute in the order of the schema or domain"
        )
    if any(isinstance(one, np.ma.MaskedArray) and np.ma.is_masked(one) for one in (values, *rows)):
        raise DataError(f"{what} hold masked values: expected a number for every cell; leave the measurement out")
    try:
        given = np.asarray(values)
    except ValueError:
        raise DataError(f"{what} are no array: expected real numbers, every row of one length") from None
    if given.dtype.kind not in "iuf":
        raise DataError(f"{what} are of type {given.dtype}: expected real numbers")
    if not given.size:
        raise DataError(f"{what} are empty: expected at least one number; leave the measurement out")
    made = np.array(given, dtype=np.float64, order="C")
    if not np.isfinite(made).all():
        raise DataError(f"{what} hold NaN or infinite numbers: expected finite ones; leave the measurement out")
    if np.abs(made).max() > EXTREME:
        raise DataError(f"{what} are beyond {EXTREME:g} in size; bring values and stddev to another scale")
    made.setflags(write=False)
    return made


def _deviation(stddev: Any, clique: Clique) -> float:
    what = f"stddev={shown(stddev)} of the measurement of {shown(clique)}"
    if isinstance(stddev, bool | np.bool_) or not isinstance(stddev, Real):
        raise DataError(f"{what}: expected one number > 0, the standard deviation of the noise of every value")
    given = float(stddev)
    if not (math.isfinite(given) and given > 0):
        raise DataError(
            f"{what}: expected a finite number > 0; for values without noise give a small one, such as 0.001"
        )
    if not 1 / EXTREME <= given <= EXTREME:
        raise DataError(f"{what}: expected {1 / EXTREME:g} .. {EXTREME:g}; bring values and stddev to another scale")
    return given
