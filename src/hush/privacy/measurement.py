"""Measurement: noisy numbers about one table, from the gate or from outside hush; Measurements: those of a strategy.

A measurement holds the query, the law of its noise and the attributes. The gate returns measurements, files store them,
and every estimator takes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from hush.core.arrays import Floats, Integers, reordered
from hush.core.constraints import check_axes
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, DomainError, SizeError, WorkloadError, shown
from hush.core.memory import available_memory, readable
from hush.core.validation import check_choice, check_number
from hush.linops import Identity, Kronecker, LinearOperator, Total
from hush.linops.combination import Reordered

if TYPE_CHECKING:
    from hush.privacy.gate import DeclaredStatistic, LinearQuery, Query
    from hush.privacy.noise import Noise

NoiseName: TypeAlias = Literal["gaussian", "laplace"]
Block: TypeAlias = Callable[[int], LinearOperator] | LinearOperator

NOISE_NAMES = ("gaussian", "laplace")
DATA_FRAME_MARKS = ("to_numpy", "__dataframe__")  # attributes of pandas, polars and Arrow objects, not of plain arrays
LARGEST_MAGNITUDE = 1e60  # of values and 1 / stddev, so that squares of their products are finite floats
_UNCHECKED_BYTES = 1 << 23  # measurements below this size are taken without a look at free memory


@dataclass(frozen=True, slots=True)
class StatedNoise:
    """Noise known only by its kind and standard deviation."""

    stddev: float
    name: NoiseName = "gaussian"


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Measurement:
    """Noisy numbers y = Q mu + noise about the marginal mu over a clique, from any mechanism or from outside hush.

    `clique` names attributes in any order. Without a `query`, `values` is the noisy table over the clique in that
    order, or the same table flattened (row-major), with levels in the order of the domain's codes. A `query` Q is a
    `hush.linops` operator on the flat table, or a block of `hush.queries` for each attribute, which stands for their
    product; `values` then holds one number per query. `stddev` is the standard deviation of the noise of every number;
    for Laplace noise it is sqrt(2) times the scale.

    Answers of the gate have an exact `law` and `raw` integers; `values` are the raw integers divided by the query's
    scale.

    Privacy: holds noisy numbers only; everything computed from them is post-processing.
    Reference: [HDMM, sec. 4.2].

    >>> noisy = Measurement(("sex", "smokes"), [[40.2, 11.7], [35.9, 9.1]], stddev=2.0)
    >>> noisy.on(Domain({"smokes": 2, "sex": 2})).values.tolist()
    [[40.2, 35.9], [11.7, 9.1]]
    >>> from hush import queries
    >>> Measurement(("age",), [3.0, 5.5, 9.9], stddev=1.0, query={"age": queries.prefix}).numbers
    3
    """

    __slots__ = ("asked", "clique", "law", "raw")
    clique: Clique
    raw: np.ndarray[Any, Any]  # int64 from the gate, floats from elsewhere
    law: Noise | StatedNoise  # of the raw numbers
    asked: Query | DeclaredStatistic | LinearOperator | Mapping[str, Block] | None

    def __init__(
        self,
        clique: Iterable[str],
        values: Any,
        stddev: float,
        query: LinearOperator | Mapping[str, Block] | None = None,
        noise: NoiseName = "gaussian",
    ) -> None:
        names = _names(clique)
        numbers = _numbers(values, names)
        deviation = check_number(
            DataError,
            f"{_what(names)}: stddev",
            stddev,
            least=1e-60,
            most=LARGEST_MAGNITUDE,
            hint=", the standard deviation of the noise of every value; without noise give a small one, such as 0.001",
        )
        check_choice(DataError, f"{_what(names)}: noise", noise, NOISE_NAMES)
        if isinstance(query, Mapping):
            if set(query) != set(names):
                raise WorkloadError(
                    f"the query of {_what(names)} has blocks for {shown(tuple(query))}: expected one for each "
                    "attribute of the clique; use queries.total for attributes that are summed out"
                )
            query = dict(query)
        elif isinstance(query, LinearOperator):
            if query.shape[0] != numbers.size:
                raise DataError(f"{numbers.size} values of {_what(names)}: expected {query.shape[0]}, one per query")
        elif query is not None:
            raise WorkloadError(
                f"the query of {_what(names)} is {shown(query)}: expected an operator of hush.linops, or a block of "
                "hush.queries for each attribute; wrap a matrix as hush.linops.Dense"
            )
        self._set(names, numbers, StatedNoise(deviation, noise), query)

    def _set(
        self,
        clique: Clique,
        raw: np.ndarray[Any, Any],
        law: Noise | StatedNoise,
        asked: Query | DeclaredStatistic | LinearOperator | Mapping[str, Block] | None,
    ) -> None:
        object.__setattr__(self, "clique", clique)
        object.__setattr__(self, "raw", raw)
        object.__setattr__(self, "law", law)
        object.__setattr__(self, "asked", asked)

    @classmethod
    def _unchecked(cls, *fields: Any) -> Measurement:
        measurement = object.__new__(cls)
        measurement._set(*fields)
        return measurement

    def __reduce__(self) -> tuple[Any, ...]:
        return self._unchecked, (self.clique, self.raw, self.law, self.asked)

    @classmethod
    def of(cls, query: Query | DeclaredStatistic, integers: Integers, law: Noise | StatedNoise) -> Measurement:
        """The exact answers to a query of the gate plus noise of a law; not checked."""
        cliques = query.cliques
        clique = cliques[0] if len(cliques) == 1 else tuple(dict.fromkeys(name for names in cliques for name in names))
        return cls._unchecked(clique, integers, law, query)

    @property
    def query(self) -> LinearOperator | Mapping[str, Block] | None:
        """The queries on the table over the clique; None for the table itself."""
        asked = self.asked
        if asked is None or isinstance(asked, LinearOperator | Mapping):
            return asked
        if not hasattr(asked, "operator"):
            raise WorkloadError(f"{_what(self.clique)} answers no linear query of counts, so no estimate can use it")
        operator: LinearOperator | None = asked.operator  # type: ignore[union-attr]
        return operator

    @property
    def scale(self) -> int:
        """The factor by which the raw numbers exceed the answers to `query`."""
        return getattr(self.asked, "scale", 1) if self._from_gate else 1

    @property
    def values(self) -> np.ndarray[Any, Any]:
        """The noisy numbers in the units of `query`."""
        return self.raw if self.scale == 1 else self.raw / self.scale

    @property
    def stddev(self) -> float:
        """The standard deviation of the noise of every value."""
        return self.law.stddev / self.scale

    @property
    def variance(self) -> float:
        """stddev^2."""
        return self.stddev**2

    @property
    def noise(self) -> NoiseName:
        """The kind of noise."""
        return self.law.name

    @property
    def numbers(self) -> int:
        """The number of noisy values."""
        return int(self.raw.size)

    def floored(self, stddev: float) -> Measurement:
        """The same numbers, with a standard deviation of at least `stddev`."""
        if self.stddev >= stddev:
            return self
        law = StatedNoise(stddev * self.scale, self.noise)
        return self._unchecked(self.clique, self.raw, law, self.asked)

    def on(self, domain: Domain) -> Measurement:
        """The same measurement with its clique in domain order; refuses a clique or query that does not fit the domain.

        Its `values` are floats. Its `query` is None, with `values` of shape `domain.sizes(clique)`, or an operator on
        the flat table in domain order, with `values` a vector. Attributes that blocks sum out leave the clique.
        """
        sizes = domain.sizes(self.clique)
        query, values = self.query, np.asarray(self.values, dtype=np.float64)
        if isinstance(query, Mapping):
            return self._blocks_on(domain, values, self._operators(query, sizes))
        ordered = domain.clique(self.clique)
        if query is None:
            check_axes(ordered)
            if values.shape not in (sizes, (math.prod(sizes),)) and not self._from_gate:
                raise DataError(
                    f"values of {_what(self.clique)} have shape {values.shape}: expected {sizes}, one axis for each "
                    f"attribute in the order given, or {math.prod(sizes)} numbers in a row"
                )
            return self._placed(ordered, reordered(values.reshape(sizes), self.clique, ordered), None)
        if query.shape[1] != math.prod(sizes):
            raise WorkloadError(
                f"the query of {_what(self.clique)} has {query.shape[1]} columns: expected {math.prod(sizes)}, "
                f"one for each cell of a table of sizes {sizes}"
            )
        if isinstance(query, Identity | Total):
            return self._blocks_on(domain, values, [type(query)(size) for size in sizes])
        if isinstance(query, Kronecker) and [f.shape[1] for f in query.factors] == list(sizes):
            return self._blocks_on(domain, values, list(query.factors))
        check_axes(ordered)
        if ordered != self.clique:
            back = tuple(ordered.index(name) for name in self.clique)
            query = Reordered(query, domain.sizes(ordered), back)
        return self._placed(ordered, values.ravel(), query)

    def _operators(self, blocks: Mapping[str, Block], sizes: tuple[int, ...]) -> list[LinearOperator]:
        """The operator of every block, in the clique's order."""
        operators = []
        for name, size in zip(self.clique, sizes, strict=True):
            block = blocks[name]
            operator = block if isinstance(block, LinearOperator) or not callable(block) else block(size)
            if not isinstance(operator, LinearOperator):
                raise WorkloadError(
                    f"the block of {name!r} in {_what(self.clique)} is {shown(block)}: expected one of hush.queries"
                )
            if operator.shape[1] != size:
                raise WorkloadError(
                    f"attribute {name!r} has {size} levels, its block in {_what(self.clique)} "
                    f"{operator.shape[1]} columns"
                )
            operators.append(operator)
        return operators

    def _blocks_on(self, domain: Domain, values: Floats, blocks: list[LinearOperator]) -> Measurement:
        """A product of blocks, with its factors and the axes of its values in domain order."""
        rows = [block.shape[0] for block in blocks]
        if math.prod(rows) != self.numbers:
            raise DataError(f"{self.numbers} values of {_what(self.clique)}: expected {math.prod(rows)}, one per query")
        not_summed = {n: b for n, b in zip(self.clique, blocks, strict=True) if not isinstance(b, Total)}
        clique = domain.clique(not_summed)
        check_axes(clique)
        # Axes of length 1 are dropped first: an array has at most 64 axes, and a clique may have more attributes.
        long_axes = {name: count for name, count in zip(self.clique, rows, strict=True) if count > 1}
        moved = reordered(values.reshape(list(long_axes.values())), list(long_axes), domain.clique(long_axes))
        if all(isinstance(block, Identity) for block in not_summed.values()):
            return self._placed(clique, moved.reshape(domain.sizes(clique)), None)
        return self._placed(clique, moved.ravel(), Kronecker([not_summed[name] for name in clique]))

    def _placed(self, clique: Clique, values: Floats, query: LinearOperator | None) -> Measurement:
        law = self.law if self.scale == 1 else StatedNoise(self.stddev, self.noise)
        numbers = np.ascontiguousarray(values).reshape(values.shape)
        return self._unchecked(clique, numbers, law, query)

    @property
    def _from_gate(self) -> bool:
        return not (self.asked is None or isinstance(self.asked, LinearOperator | Mapping))

    def __repr__(self) -> str:
        query = "" if getattr(self.asked, "operator", self.asked) is None else ", with a query"
        return f"Measurement({self.clique!r}, {self.numbers} numbers, stddev={self.stddev:g}, {self.noise}{query})"


def listed_measurements(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Measurements as a list; refuses a single measurement, an empty list and anything else."""
    if isinstance(measurements, Measurement):
        raise DataError("a single measurement: expected a list of measurements, such as [measurement]")
    if not isinstance(measurements, Iterable):
        raise DataError(f"measurements={shown(measurements)}: expected a list of hush.Measurement")
    listed = list(measurements)
    for item in listed:
        if not isinstance(item, Measurement):
            raise DataError(f"{shown(item)} is not a measurement: expected hush.Measurement(clique, values, stddev)")
    if not listed:
        raise DataError("no measurements: expected at least one hush.Measurement(clique, values, stddev)")
    return listed


def placed(domain: Domain, measurements: Iterable[Measurement]) -> list[Measurement]:
    """Measurements in domain order, each checked."""
    listed = listed_measurements(measurements)
    needed, free = 16 * sum(measurement.numbers for measurement in listed), available_memory()
    if needed > _UNCHECKED_BYTES and needed > 0.8 * free:
        raise SizeError(f"the measurements take {readable(needed)}, more than is free; use smaller cliques")
    return [measurement.on(domain) for measurement in listed]


class Measurable(Protocol):
    """The part of a strategy that `Measurements` needs: queries in a fixed order, each with the noise of its answer."""

    @property
    def cells(self) -> np.ndarray[Any, Any]:
        """The size of each answer: (queries,)."""

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of one answer."""

    def query(self, index: int) -> LinearQuery:
        """The query of one answer."""

    def noise_law(self, index: int) -> Noise | StatedNoise:
        """The noise of one answer, in its integers."""


Measured = TypeVar("Measured", bound=Measurable)


class Measurements(Generic[Measured]):
    """The noisy answers to the queries of a strategy, in one array that is filled as they are measured.

    `filled` says which answers are there; answer i is `flat[starts[i] : starts[i + 1]]`. The array is allocated before
    anything is charged, so it is known to fit. `combined` answers are floats: averages of several measurements.

    >>> from hush.strategies.select_residual import select_residual
    >>> from hush.workloads import Workload
    >>> measured = Measurements(select_residual(Workload.kway(Domain({"a": 2}), 1), rho=0.5).value)
    >>> measured[0] = np.array(10)
    >>> measured, measured.measurement(0).clique, measured.filled.tolist()
    (Measurements(1 of 2 answers, 3 numbers), (), [True, False])
    """

    def __init__(self, strategy: Measured, *, combined: bool = False) -> None:
        needed, free = 8 * int(strategy.cells.sum()), available_memory()
        if needed > 0.8 * free:
            raise SizeError(
                f"the noisy answers to {len(strategy.cells):,} queries take {readable(needed)}, more than the "
                f"{readable(0.8 * free)} available; drop an attribute, use wider bins or combine fewer attributes"
            )
        self.strategy = strategy
        self.starts = np.concatenate([[0], np.cumsum(strategy.cells)]).astype(np.int64)
        self.flat: np.ndarray[Any, Any] = np.zeros(int(self.starts[-1]), dtype=np.float64 if combined else np.int64)
        self.filled = np.zeros(len(strategy.cells), dtype=bool)

    def __setitem__(self, index: int, values: Any) -> None:
        array, shape = np.asarray(values), self.strategy.shape(index)
        if array.shape != shape or not np.can_cast(array.dtype, self.flat.dtype):
            kind = "numbers" if self.flat.dtype.kind == "f" else "integers"
            raise DataError(
                f"noisy answers over {self._clique(index)!r}: expected {kind} of shape {shape}, "
                f"got {array.dtype} of shape {array.shape}"
            )
        self.flat[self.starts[index] : self.starts[index + 1]] = array.ravel()
        self.filled[index] = True

    def __getitem__(self, index: int) -> np.ndarray[Any, Any]:
        """The integers of one answer, as a view."""
        if not self.filled[index]:
            raise DataError(self.missing(index))
        return self.flat[self.starts[index] : self.starts[index + 1]].reshape(self.strategy.shape(index))

    def measurement(self, index: int) -> Measurement:
        """One answer, with its query and noise."""
        return Measurement.of(self.strategy.query(index), self[index], self.strategy.noise_law(index))

    def __iter__(self) -> Iterator[Measurement]:
        return (self.measurement(index) for index in np.flatnonzero(self.filled).tolist())

    def __len__(self) -> int:
        return int(self.filled.sum())

    def missing(self, index: int) -> str:
        """The message for an answer that is not there."""
        return f"the noisy answers over {self._clique(index)!r} are missing; measure them, or load the whole release"

    def _clique(self, index: int) -> Clique:
        return self.strategy.query(index).cliques[0]

    def __repr__(self) -> str:
        return f"Measurements({len(self)} of {len(self.filled)} answers, {len(self.flat)} numbers)"


def _what(clique: Clique) -> str:
    return f"the measurement of {shown(clique)}"


def _names(clique: Iterable[str]) -> Clique:
    if isinstance(clique, str):
        suggestion = tuple(name.strip() for name in clique.split(","))
        raise DomainError(f"clique {clique!r}: expected a tuple of names, such as {suggestion!r}")
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
    """The values as a read-only copy in floats."""
    what = f"values of {_what(clique)}"
    rows = values if isinstance(values, list | tuple) else ()
    if any(hasattr(item, mark) for item in (values, *rows[:1]) for mark in DATA_FRAME_MARKS):
        kind = type(values).__name__ if not rows else f"a list of {type(rows[0]).__name__}"
        raise DataError(
            f"{what} are {kind}, whose labels hush does not read: give a plain array, such as .to_numpy(), with the "
            "levels of each attribute in the order of the schema or domain"
        )
    if any(isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in (values, *rows)):
        raise DataError(f"{what} hold masked values: expected a number for every cell; leave the measurement out")
    try:
        array = np.asarray(values)
    except ValueError:
        raise DataError(f"{what} are not an array: expected real numbers, every row of one length") from None
    if array.dtype.kind not in "iuf":
        raise DataError(f"{what} are of type {array.dtype}: expected real numbers")
    if not array.size:
        raise DataError(f"{what} are empty: expected at least one number; leave the measurement out")
    numbers = np.array(array, dtype=np.float64, order="C")
    if not np.isfinite(numbers).all():
        raise DataError(f"{what} hold NaN or infinite numbers: expected finite ones; leave the measurement out")
    if np.abs(numbers).max() > LARGEST_MAGNITUDE:
        raise DataError(f"{what} exceed {LARGEST_MAGNITUDE:g} in absolute value; rescale values and stddev")
    numbers.setflags(write=False)
    return numbers
