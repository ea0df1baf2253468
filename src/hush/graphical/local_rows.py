"""Rows from tables that agree only locally: an exact model of some tables, then rows moved towards the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.constraints import Constraint
from hush.domain import Clique, Domain
from hush.errors import DataError
from hush.graphical._synthesis import group_rows
from hush.graphical.factors import Array
from hush.graphical.fitting import fit_model
from hush.graphical.local_choice import Chooser
from hush.graphical.measurement import Measurement
from hush.graphical.model import GraphicalModel
from hush.graphical.synthesis import Codes
from hush.solution import Solution

if TYPE_CHECKING:
    from hush.graphical.local_model import LocalModel

Integers = np.ndarray[Any, np.dtype[np.int64]]

MAX_SIZE_MB = 1.0
TOLERANCE = 0.1  # of what rows can tell: about one row, or the square root of the rows of a cell
PACE = 0.1  # of the rows that are too many in a cell, moved at a time


def fit_rows(
    model: LocalModel, constraints: Sequence[Constraint] = (), *, max_size_mb: float = MAX_SIZE_MB, seed: int = 0
) -> Solution[GraphicalModel]:
    """The graphical model of some of the cliques, chosen so that it fits, with the local tables as its measurements.

    Constraints hold in it exactly; their cliques count towards its size. `stats` has the number of `cliques` chosen.
    """
    domain = model.domain
    chooser = Chooser(domain, model.counts, model.cliques, max_size_mb=max_size_mb, seed=seed)
    chosen = chooser.choose([one.clique for one in constraints])
    covered = {name for clique in chosen for name in clique}
    chosen += [(name,) for name in domain if name not in covered and model.covers((name,))]
    known = [clique for clique in chosen if model.covers(clique)] or [()]
    tables = [
        Measurement(clique, model.counts(clique), math.sqrt(max(1.0, model.total / domain.size(clique))))
        for clique in known
    ]
    found = fit_model(domain, tables, total=model.total, constraints=constraints, tolerance=TOLERANCE, seed=seed)
    return Solution(value=found.value, status=found.status, stats={**found.stats, "cliques": float(len(chosen))})


def mean_error(model: LocalModel, codes: Codes) -> float:
    """The mean over cliques of the distance between shares, sum |n_c / rows - mu_c / N| / 2, which is within [0, 1]."""
    rows = _row_count(model.domain, codes)
    errors = []
    for index, clique in enumerate(model.cliques):
        size = model.domain.size(clique)
        found = np.bincount(_places(model.domain, clique, codes, rows), minlength=size) / rows
        errors.append(0.5 * float(np.abs(found - model.table(index).ravel() / model.total).sum()))
    return float(np.mean(errors))


def repaired(
    model: LocalModel, codes: Codes, generator: np.random.Generator, *, passes: int, copies_only: bool = False
) -> Codes:
    """Rows moved towards all tables, one clique after the other in random order, as long as that lowers `mean_error`.

    A tenth of the rows that are too many in a cell become rows of cells that have too few: copies of rows that are
    there, or, where there are none, the same rows with other values for the attributes of the clique. With
    `copies_only` no combination of values arises that was not there, so that constraints stay as they were. Rows are
    then no longer independent; the state with the least error is returned, at worst the rows as they came.

    Reference: the gradual update of [PrivSyn, sec. 4.2], with a pace of its own and the least error kept.
    """
    best, least = codes, mean_error(model, codes)
    rows = _row_count(model.domain, codes)
    columns = {name: codes[name].copy() for name in model.domain}
    for _ in range(passes):
        for index in generator.permutation(len(model.cliques)):
            _move(model, int(index), columns, rows, generator, copies_only)
        error = mean_error(model, columns)
        if error >= least:
            break
        best, least = {name: column.copy() for name, column in columns.items()}, error
    return best


def _move(
    model: LocalModel, index: int, columns: Codes, rows: int, generator: np.random.Generator, copies_only: bool
) -> None:
    """Move rows towards the table of one clique."""
    domain, clique = model.domain, model.cliques[index]
    keys = _places(domain, clique, columns, rows)
    starts, order = np.zeros(domain.size(clique) + 1, dtype=np.int64), np.empty(rows, dtype=np.int64)
    group_rows(keys, starts, order)
    have = np.diff(starts)
    missing = PACE * (model.table(index).ravel() * (rows / model.total) - have)
    leaving = _rounded(np.maximum(-missing, 0.0), generator)
    wanted = np.where(have > 0, np.maximum(missing, 0.0), 0.0) if copies_only else np.maximum(missing, 0.0)
    count, sum_wanted = int(leaving.sum()), float(wanted.sum())
    if not count or sum_wanted <= 0.0:
        return
    cells = np.repeat(np.arange(have.size), _rounded(wanted * (count / sum_wanted), generator))
    offset = (generator.random(have.size) * (have - leaving + 1)).astype(np.int64)  # where in a cell rows are taken
    within = np.arange(count) - np.repeat(np.cumsum(leaving) - leaving, leaving)
    movers = generator.permutation(order[np.repeat(starts[:-1] + offset, leaving) + within])[: cells.size]
    cells = cells[: movers.size]
    copied = have[cells] > 0
    inside = starts[cells[copied]] + (generator.random(int(copied.sum())) * have[cells[copied]]).astype(np.int64)
    for column in columns.values():
        column[movers[copied]] = column[order[inside]]
    if not copied.all():
        levels = np.unravel_index(cells[~copied], domain.sizes(clique))
        for name, own in zip(clique, levels, strict=True):
            columns[name][movers[~copied]] = own


def _rounded(expected: Array, generator: np.random.Generator) -> Integers:
    """Whole numbers with these means, whose running sums are off by less than one: systematic sampling."""
    sums = np.floor(np.cumsum(expected) + generator.random()).astype(np.int64)
    return np.diff(sums, prepend=0)


def _places(domain: Domain, clique: Clique, codes: Codes, rows: int) -> Integers:
    """The cell of every row in the table over a clique."""
    places = np.zeros(rows, dtype=np.int64)
    for name in clique:
        places *= domain[name]
        places += codes[name]
    return places


def _row_count(domain: Domain, codes: Codes) -> int:
    lengths = {len(codes[name]) for name in domain if name in codes}
    if len(lengths) != 1 or 0 in lengths or any(name not in codes for name in domain):
        raise DataError("codes: expected an array for every attribute, all of one length, with at least one row")
    return lengths.pop()
