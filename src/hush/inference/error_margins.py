"""ErrorMargins: half the widths of the intervals of many sums at once; sums with the same law share it.

Where the noise treats the levels of an attribute alike, sums that differ only by the order of its levels have the same
law, so that a whole table of cells often has one. Where laws differ and there are too many to compute, or the law is
not known, the margin is z standard errors plus half a count for each unit of the largest coefficient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hush.arrays import Floats, Integers
from hush.domain import Clique
from hush.inference.error_law import ErrorLaw, two_sided_quantile
from hush.inference.estimates import Estimates
from hush.linops import LinearOperator

MOST_WORK = 1 << 23  # cells visited to find the laws of one answer
MOST_LAWS = 512
BATCH = 2**20  # numbers of a block held at once


@dataclass(frozen=True, slots=True, eq=False)
class ErrorMargins:
    """The margins of some sums: `laws[places[i]]` is the law of sum i, unknown where the place is -1."""

    std_error: Floats  # (sums,)
    half_steps: Floats  # (sums,)
    laws: tuple[ErrorLaw, ...] = ()
    places: Integers | None = None  # (sums,); without it no law is known
    laplace: bool = False

    def at(self, level: float) -> Floats:
        """Half the width of the interval of each sum: it contains the truth with probability at least `level`."""
        margins = two_sided_quantile(level, laplace=self.laplace) * self.std_error + self.half_steps
        if self.places is None or not self.laws:
            return margins
        exact = np.array([law.margin(level) for law in self.laws])
        return np.where(self.places < 0, margins, exact[self.places])

    def take(self, rows: Any) -> ErrorMargins:
        """The chosen sums, in the order given."""
        places = None if self.places is None else self.places[rows]
        return ErrorMargins(self.std_error[rows], self.half_steps[rows], self.laws, places, self.laplace)


def sum_margins(
    estimates: Estimates, clique: Clique, coefficients: Floats, groups: int, std_error: Floats
) -> ErrorMargins:
    """The margins of sums over the cells of a clique, for every combination of levels of the first `groups` attributes.

    The sums are those of `Estimates.covariance`; `std_error` has their standard errors.
    """
    sizes = estimates.domain.sizes(clique)
    shape = sizes[:groups]
    sums = np.broadcast_to(coefficients, sizes).reshape(math.prod(shape), -1)
    unknown = ErrorMargins(std_error.ravel(), np.abs(sums).max(axis=1, initial=0.0) / 2, laplace=estimates.laplace)
    named = zip(clique[:groups], shape, strict=True)
    places = _crossed([np.zeros(n, int) if estimates.alike(name) else np.arange(n) for name, n in named])
    if not (sums == sums[:1]).all():
        if sums.size > MOST_WORK:
            return unknown
        places = _kinds(np.column_stack([places, _kinds(sums)]))

    def law(row: int) -> ErrorLaw | None:
        alone = np.zeros(sums.shape)
        alone[row] = sums[row]
        return estimates.error_law(clique, alone.reshape(sizes))

    return _with_laws(unknown, places, law, sums.size)


def product_margins(
    estimates: Estimates, clique: Clique, blocks: Sequence[LinearOperator], std_error: Floats
) -> ErrorMargins:
    """The margins of every query of a product of blocks on a clique, in row-major order."""
    half_steps = np.full(1, 0.5)
    for block in blocks:
        half_steps = np.multiply.outer(half_steps, largest_coefficients(block)).ravel()
    unknown = ErrorMargins(std_error.ravel(), half_steps, laplace=estimates.laplace)
    if sum(block.shape[0] * block.shape[1] for block in blocks) > MOST_WORK:
        return unknown
    rows = [block.dense() for block in blocks]
    kinds = [_kinds(np.sort(r, axis=1) if estimates.alike(n) else r) for n, r in zip(clique, rows, strict=True)]
    shape = tuple(len(r) for r in rows)

    def law(row: int) -> ErrorLaw | None:
        query: Floats = np.ones(())
        for axis, position in enumerate(np.unravel_index(row, shape)):
            query = np.multiply.outer(query, rows[axis][position])
        return estimates.error_law(clique, query, blocks)

    return _with_laws(unknown, _crossed(kinds), law, estimates.domain.size(clique))


def largest_coefficients(block: LinearOperator) -> Floats:
    """The largest absolute coefficient of every query of a block, (rows,)."""
    rows, columns = block.shape
    step = max(1, BATCH // rows)
    largest = np.zeros(rows)
    for start in range(0, columns, step):
        width = min(step, columns - start)
        picked = np.zeros((columns, width))
        picked[np.arange(start, start + width), np.arange(width)] = 1.0
        np.maximum(largest, np.abs(block.matmat(picked)).max(axis=1), out=largest)
    return largest


def _with_laws(
    unknown: ErrorMargins, kinds: Integers, law: Callable[[int], ErrorLaw | None], cells: int
) -> ErrorMargins:
    """Margins with one law for each kind of sum, unless there are too many."""
    _, firsts, places = np.unique(kinds, return_index=True, return_inverse=True)
    if len(firsts) > MOST_LAWS or len(firsts) * cells > MOST_WORK:
        return unknown
    laws = [law(int(row)) for row in firsts]
    known = [found for found in laws if found is not None]
    return replace(unknown, laws=tuple(known), places=places.ravel()) if len(known) == len(laws) else unknown


def _kinds(rows: Floats) -> Integers:
    """The number of each row among the different ones."""
    return np.asarray(np.unique(rows, axis=0, return_inverse=True)[1].ravel())


def _crossed(kinds: Sequence[Integers]) -> Integers:
    """One number for every combination of kinds, in row-major order."""
    total = np.zeros(1, dtype=np.int64)
    for numbers in kinds:
        total = np.add.outer(total * (int(numbers.max(initial=0)) + 1), numbers).ravel()
    return total
