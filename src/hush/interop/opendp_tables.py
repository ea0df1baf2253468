"""OpenDP: the noisy tables behind a `ContingencyTable` of `opendp.extras.mbi`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.core.domain import Domain
from hush.core.errors import DataError
from hush.interop.mbi_objects import from_mbi_measurements
from hush.linops import Dense
from hush.privacy.measurement import Measurement
from hush.schema import Categorical, Schema
from hush.schema.column import canonical


def from_opendp_table(table: Any) -> tuple[Schema, list[Measurement]]:
    """The schema and the measured tables; `hush.fit(schema, measurements)` then fits one model to them.

    The levels are the table's keys, and for columns with cuts the labels of its bins. OpenDP counts missing, unknown
    and rare values as one null, which becomes missing here. A column whose keys OpenDP found has noisy counts of these
    keys alone, and none of null; they become a measurement with a matrix.
    """
    keys = {name: list(series) for name, series in table.keys.items()}
    columns = []
    for name, levels in keys.items():
        known = [level for level in levels if level is not None]
        if len(known) + 1 < len(levels):
            raise DataError(f"column {name!r} of the table has several nulls among its keys; make the table anew")
        columns.append(Categorical(name=name, values=tuple(map(canonical, known)), missing=len(known) < len(levels)))
    schema = Schema(columns)
    # OpenDP's order of levels has null anywhere; ours has missing last.
    order = {name: _missing_last(levels) for name, levels in keys.items()}
    theirs, taken = Domain({name: len(levels) for name, levels in keys.items()}), []
    for measurement in from_mbi_measurements(table.marginals.flatten(), theirs):
        clique, values, query = measurement.clique, measurement.values, measurement.query
        cells = np.arange(math.prod(theirs.sizes(clique))).reshape(theirs.sizes(clique))
        ours = cells[np.ix_(*(order[name] for name in clique))]
        if not isinstance(query, Dense):  # a whole table
            taken.append(Measurement(clique, values.ravel()[ours], measurement.stddev))
        else:
            taken.append(Measurement(clique, values, measurement.stddev, query=Dense(query.dense()[:, ours.ravel()])))
    return schema, taken


def _missing_last(levels: Sequence[Any]) -> list[int]:
    """The positions of the levels, null after all others."""
    return sorted(range(len(levels)), key=lambda at: levels[at] is None)
