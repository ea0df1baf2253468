"""Cells: one number for every combination of levels of some attributes, and only those that matter."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from hush.arrays import Numbers, axes_outside, spread
from hush.domain import Clique, Domain
from hush.errors import SizeError

LARGEST_TABLE = 2**28


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """An array over the levels of the attributes `names`, which stand in domain order; constant along all others."""

    domain: Domain
    names: Clique
    values: Numbers  # of shape domain.sizes(names)

    @classmethod
    def constant(cls, domain: Domain, value: float, dtype: type = float) -> Cells:
        """The same number everywhere."""
        return cls(domain, (), np.array(value, dtype=dtype))

    @classmethod
    def over(cls, domain: Domain, name: str, values: Numbers) -> Cells:
        """Numbers over the levels of one attribute."""
        return cls(domain, (name,), values).reduced()

    def reduced(self) -> Cells:
        """The same numbers without the axes along which they do not change."""
        names, values = list(self.names), self.values
        for axis in reversed(range(len(names))):
            first = values.take([0], axis)
            same = values == first
            if values.dtype.kind == "f":  # NaN stands for null, and null is like null
                same |= np.isnan(values) & np.isnan(first)
            if same.all():
                values = first.squeeze(axis)
                del names[axis]
        return Cells(self.domain, tuple(names), values)

    def along(self, names: Clique) -> Numbers:
        """The numbers with one axis for each of `names`, in that order; of length 1 where they do not change."""
        return np.asarray(spread(self.values, self.names, names))

    def any_over(self, names: Iterable[str]) -> Cells:
        """Whether anything is true, for every combination of levels of those of `names` that matter."""
        kept = set(names)
        axes = axes_outside(self.names, tuple(kept))
        found = np.asarray(self.values.any(axis=axes))
        return Cells(self.domain, tuple(name for name in self.names if name in kept), found)


def combine(function: Callable[..., Numbers], *parts: Cells) -> Cells:
    """A function of several arrays, cell by cell."""
    domain = parts[0].domain
    names = domain.clique({name for part in parts for name in part.names})
    check_size(domain, names)
    with np.errstate(over="ignore", invalid="ignore"):  # formulas refuse what is not finite
        values = function(*(part.along(names) for part in parts))
    return Cells(domain, names, values).reduced()


def check_size(domain: Domain, names: Clique) -> None:
    """Refuse a table that would not fit, before it is made."""
    cells = domain.size(names)
    if cells > LARGEST_TABLE:
        raise SizeError(
            f"the query needs a table over {', '.join(names)} with {cells:,} cells: at most {LARGEST_TABLE:,} are "
            "possible; name fewer columns, or coarsen their bins in the schema"
        )
