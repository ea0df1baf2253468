"""mbi (Private-PGM): domains, datasets and measurements, in and out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hush.core.domain import Domain, domain_of
from hush.core.errors import DataError, DomainError, HushError, SizeError
from hush.linops import Dense
from hush.linops.operator import LinearOperator
from hush.privacy.measurement import Measurement
from hush.release.model import Model
from hush.schema import Schema

LARGEST_QUERY = 2**24  # entries of a query that is written out as a matrix


def _mbi() -> Any:
    try:
        import mbi
    except ImportError:
        raise HushError("objects of mbi need mbi, which is not installed; run pip install mbi") from None
    return mbi


def mbi_domain(domain: Domain | Schema) -> Any:
    """The same attributes and sizes as an `mbi.Domain`; the labels of a schema go with it."""
    mbi, sizes = _mbi(), domain_of(domain, DomainError)
    labels = None
    if isinstance(domain, Schema):
        labels = tuple(tuple(column.label(code) for code in range(column.size)) for column in domain)
    return mbi.Domain(tuple(sizes), sizes.shape, labels)


def from_mbi_domain(domain: Any) -> Domain:
    """The same attributes and sizes as a `hush.Domain`."""
    return Domain(dict(zip(domain.attributes, domain.shape, strict=True)))


def mbi_dataset(model: Model, rows: int, *, seed: int | None = None) -> Any:
    """Synthetic rows of a model as an `mbi.Dataset` of codes.

    For rows of codes from mbi, read them: `hush.read(pa.table(dataset.to_dict()), domain)`.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    codes = model.distribution.synthesize_codes(rows, generator)
    return _mbi().Dataset({name: np.asarray(codes[name]) for name in model.domain}, mbi_domain(model.domain))


def mbi_measurements(measurements: Iterable[Measurement], domain: Domain | Schema) -> list[Any]:
    """Each measurement as an `mbi.LinearMeasurement`, such as those of `release.measurements()`."""
    mbi, sizes = _mbi(), domain_of(domain, DomainError)
    written = []
    for measurement in measurements:
        ordered = measurement.on(sizes)
        noisy, options = np.asarray(ordered.values, dtype=np.float64).ravel(), {}
        if ordered.query is not None:
            if not isinstance(ordered.query, LinearOperator):
                raise DataError(f"the query of {ordered.clique} is no linear operator, so mbi cannot take it")
            if math.prod(ordered.query.shape) > LARGEST_QUERY:
                raise SizeError(
                    f"the query of {ordered.clique} has {math.prod(ordered.query.shape):,} entries, too many"
                )
            options["query"] = _DenseQuery(ordered.query.dense())
        written.append(mbi.LinearMeasurement(noisy, ordered.clique, ordered.stddev, **options))
    return written


class _DenseQuery:
    """A linear query on a factor of mbi, as a matrix."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    def __call__(self, factor: Any) -> Any:
        return self.matrix @ factor.datavector()


def from_mbi_measurements(measurements: Iterable[Any], domain: Domain | Schema) -> list[Measurement]:
    """Each `mbi.LinearMeasurement` as a `hush.Measurement`, for `hush.fit`.

    A query other than the table itself is written out as a matrix, by applying it to every cell alone.
    """
    mbi, sizes = _mbi(), domain_of(domain, DomainError)
    whole = getattr(mbi, "DatavectorQuery", ())  # mbi before 2.0 has no type for it
    read = []
    for measurement in measurements:
        clique, values = tuple(measurement.clique), np.asarray(measurement.noisy_measurement, dtype=np.float64)
        query = measurement.query
        if isinstance(query, whole) or query is mbi.Factor.datavector:
            read.append(Measurement(clique, values.reshape(sizes.sizes(clique)), float(measurement.stddev)))
            continue
        cells = math.prod(sizes.sizes(clique))
        if cells * values.size > LARGEST_QUERY:
            raise SizeError(f"the query of {clique} has {cells * values.size:,} entries; give the table itself")
        part = mbi.Domain(clique, sizes.sizes(clique))
        units = np.eye(cells).reshape(cells, *sizes.sizes(clique))
        matrix = np.stack(
            [np.asarray(query(mbi.Factor(part, unit)), dtype=np.float64).ravel() for unit in units], axis=1
        )
        read.append(Measurement(clique, values.ravel(), float(measurement.stddev), query=Dense(matrix)))
    return read
