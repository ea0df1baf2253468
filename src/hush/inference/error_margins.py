"""ErrorMargins: half the widths of the intervals of many sums at once; sums with the same error law share it.

If the noise treats the levels of an attribute alike, sums that differ only in the order of its levels have the same
law, so that all cells of a table often share one. If too many laws differ, or a law is unknown, the margin is z
standard errors plus half the largest coefficient, because counts come in steps of 1.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique
from hush.inference.error_law import ErrorLaw, two_sided_quantile
from hush.inference.estimates import Estimates
from hush.linops import LinearOperator
from hush.privacy.noise import Noise

MOST_WORK = 1 << 23  # cells visited to find the laws of one answer
MOST_LAWS = 512
NUMBERS_HELD = 2**20  # of a block, at a time


@dataclass(frozen=True, slots=True, eq=False)
class OtherNoise:
    """Noise besides that of the counts: its coefficients in every sum, its law, and what to add to the margin."""

    coefficients: Floats  # (sums, numbers)
    law: Noise
    slack: Floats  # (sums,)


KnownLaws = tuple[tuple[ErrorLaw, ...], Integers]  # laws, and for each sum the index of its law


class ErrorMargins:
    """The margins of some sums, from their error laws if known; laws are computed when first needed."""

    def __init__(
        self,
        std_error: Floats,  # (sums,)
        half_steps: Floats,  # (sums,)
        find: Callable[[], KnownLaws | None] = lambda: None,
        *,
        laplace: bool = False,
    ) -> None:
        self.std_error = std_error
        self.half_steps = half_steps
        self.laplace = laplace
        self.slack: Floats | float = 0.0  # added to every margin
        self._find = find

    @cached_property
    def known(self) -> KnownLaws | None:
        """The laws, and the index of each sum's law; None if unknown."""
        return self._find()

    def at(self, level: float) -> Floats:
        """Half the width of the interval of each sum: it contains the truth with probability at least `level`."""
        if self.known is None:
            return two_sided_quantile(level, laplace=self.laplace) * self.std_error + self.half_steps + self.slack
        laws, places = self.known
        return np.asarray(np.array([law.margin(level) for law in laws])[places]) + self.slack

    def take(self, rows: Any) -> ErrorMargins:
        """The chosen sums, in the order given."""

        def find() -> KnownLaws | None:
            return None if self.known is None else (self.known[0], self.known[1][rows])

        taken = ErrorMargins(self.std_error[rows], self.half_steps[rows], find, laplace=self.laplace)
        taken.slack = self.slack[rows] if isinstance(self.slack, np.ndarray) else self.slack
        return taken


def sum_margins(
    estimates: Estimates,
    clique: Clique,
    coefficients: Floats,
    groups: int,
    std_error: Floats,
    others: Sequence[OtherNoise] = (),
) -> ErrorMargins:
    """The margins of sums over the cells of a clique, for every combination of levels of the first `groups` attributes.

    The sums are those of `Estimates.covariance`; `std_error` has their standard errors, and `others` the noise in them
    besides that of the counts.
    """
    # One row of coefficients per sum; what to add to the margins.
    sizes = estimates.domain.sizes(clique)
    shape = sizes[:groups]
    sums = np.broadcast_to(coefficients, sizes).reshape(math.prod(shape), -1)
    half_steps = np.abs(sums).max(axis=1, initial=0.0) / 2
    slack = sum((other.slack for other in others), np.zeros(len(sums)))
    beside = [np.sort(np.abs(other.coefficients), axis=1) for other in others]

    # Sums of one kind have the same law: the same levels up to permutation, coefficients, other noise and slack.
    def kinds() -> Integers | None:
        by_counts = kinds_by_counts()
        if not beside or by_counts is None:
            return by_counts
        return _kinds(np.column_stack([by_counts, *beside, slack]))

    def kinds_by_counts() -> Integers | None:
        named = zip(clique[:groups], shape, strict=True)
        places = _crossed([np.zeros(n, int) if estimates.alike(name) else np.arange(n) for name, n in named])
        if (sums == sums[:1]).all():
            return places
        return _kinds(np.column_stack([places, _kinds(sums)])) if sums.size <= MOST_WORK else None

    def law(row: int) -> ErrorLaw | None:
        alone = np.zeros(sums.shape)
        alone[row] = sums[row]
        found = estimates.error_law(clique, alone.reshape(sizes)) if alone.any() else ErrorLaw([])
        if found is None or not others:
            return found
        more = [(other.coefficients[row], np.ones(1), other.law) for other in others]
        return ErrorLaw([*found.parts, *more], found.rounding)

    laplace = estimates.laplace or any(other.law.name == "laplace" for other in others)
    margins = ErrorMargins(std_error.ravel(), half_steps, lambda: _known(kinds(), law, sums.size), laplace=laplace)
    margins.slack = slack
    return margins


def product_margins(
    estimates: Estimates, clique: Clique, blocks: Sequence[LinearOperator], std_error: Floats
) -> ErrorMargins:
    """The margins of every query of a product of blocks on a clique, in row-major order."""
    half_steps = np.full(1, 0.5)
    for block in blocks:
        half_steps = np.multiply.outer(half_steps, largest_coefficients(block)).ravel()
    rows = functools.cache(lambda: [block.dense() for block in blocks])

    def kinds() -> Integers | None:
        if sum(block.shape[0] * block.shape[1] for block in blocks) > MOST_WORK:
            return None
        pairs = zip(clique, rows(), strict=True)
        return _crossed([_kinds(np.sort(r, axis=1) if estimates.alike(name) else r) for name, r in pairs])

    def law(row: int) -> ErrorLaw | None:
        query: Floats = np.ones(())
        for axis, position in enumerate(np.unravel_index(row, [len(r) for r in rows()])):
            query = np.multiply.outer(query, rows()[axis][position])
        return estimates.error_law(clique, query, blocks)

    cells = estimates.domain.size(clique)
    return ErrorMargins(std_error.ravel(), half_steps, lambda: _known(kinds(), law, cells), laplace=estimates.laplace)


def largest_coefficients(block: LinearOperator) -> Floats:
    """The largest absolute coefficient of every query of a block, (rows,)."""
    rows, columns = block.shape
    step = max(1, NUMBERS_HELD // rows)
    largest = np.zeros(rows)
    for start in range(0, columns, step):
        width = min(step, columns - start)
        picked = np.zeros((columns, width))
        picked[np.arange(start, start + width), np.arange(width)] = 1.0
        np.maximum(largest, np.abs(block.matmat(picked)).max(axis=1), out=largest)
    return largest


def _known(kinds: Integers | None, law: Callable[[int], ErrorLaw | None], cells: int) -> KnownLaws | None:
    """One law for each kind of sum; None if one is unknown, or there are too many."""
    if kinds is None:
        return None
    _, firsts, places = np.unique(kinds, return_index=True, return_inverse=True)
    if len(firsts) > MOST_LAWS or len(firsts) * cells > MOST_WORK:
        return None
    laws = [found for row in firsts if (found := law(int(row))) is not None]
    return (tuple(laws), places.ravel()) if len(laws) == len(firsts) else None


def _kinds(rows: Floats) -> Integers:
    """The index of each row among the distinct rows."""
    return np.asarray(np.unique(rows, axis=0, return_inverse=True)[1].ravel())


def _crossed(kinds: Sequence[Integers]) -> Integers:
    """One number for every combination of kinds, in row-major order."""
    total = np.zeros(1, dtype=np.int64)
    for numbers in kinds:
        total = np.add.outer(total * (int(numbers.max(initial=0)) + 1), numbers).ravel()
    return total
