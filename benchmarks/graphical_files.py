"""Store fitting problems as files that any program can read, and compute the loss by which all programs are judged.

A problem has two files: `<name>.npz` (y0, y1, ...: noisy values, C order over the clique as written) and `<name>.json`
(domain, cliques, stddev, and `first`: how many measurements the first model of a growing sequence has). The total is
unknown. This module needs only numpy, because the peer's Python imports it too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Noisy marginals: measurement i is the marginal over cliques[i] plus Gaussian noise of stddev[i]."""

    name: str
    sizes: Mapping[str, int]
    cliques: Sequence[tuple[str, ...]]
    values: Sequence[Array]
    stddev: Sequence[float]
    first: int = 0  # in a growing sequence, the number of measurements of the first model; each next one has one more
    notes: Mapping[str, Any] = field(default_factory=dict)

    def shape(self, index: int) -> tuple[int, ...]:
        return tuple(self.sizes[name] for name in self.cliques[index])

    def total(self) -> float:
        """The inverse-variance estimate of the total, the same for everyone: [HDMM, sec. 4.2]."""
        weights = [1 / (s**2 * y.size) for s, y in zip(self.stddev, self.values, strict=True)]
        return max(1.0, float(np.average([y.sum() for y in self.values], weights=weights)))

    def loss(self, marginal: Callable[[tuple[str, ...]], Array]) -> float:
        """sum_i ||mu_i - y_i||^2 / (2 stddev_i^2) in float64; `marginal` gives mu of a measured clique."""
        terms = []
        for clique, y, s in zip(self.cliques, self.values, self.stddev, strict=True):
            mu = np.asarray(marginal(clique), dtype=np.float64)
            terms.append(float(np.sum((mu.reshape(y.shape) - y) ** 2)) / (2 * s**2))
        return math.fsum(terms)

    def prefix(self, count: int) -> Problem:
        """The problem with only the first `count` measurements."""
        return Problem(
            name=f"{self.name}[{count}]",
            sizes=self.sizes,
            cliques=self.cliques[:count],
            values=self.values[:count],
            stddev=self.stddev[:count],
        )

    def models(self) -> list[Problem]:
        """The models of a growing sequence, or the one model of any other problem."""
        return [self.prefix(count) for count in range(self.first, len(self.cliques) + 1)] if self.first else [self]

    def save(self, folder: Path) -> None:
        values: dict[str, Any] = {f"y{i}": y for i, y in enumerate(self.values)}
        np.savez(folder / f"{self.name}.npz", **values)
        text = {
            "domain": dict(self.sizes),
            "cliques": self.cliques,
            "stddev": list(self.stddev),
            "first": self.first,
            "notes": dict(self.notes),
        }
        (folder / f"{self.name}.json").write_text(json.dumps(text, indent=1))

    @classmethod
    def load(cls, folder: Path, name: str) -> Problem:
        text = json.loads((folder / f"{name}.json").read_text())
        with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
            values = [file[f"y{i}"] for i in range(len(text["cliques"]))]
        return cls(
            name=name,
            sizes=text["domain"],
            cliques=[tuple(clique) for clique in text["cliques"]],
            values=values,
            stddev=text["stddev"],
            first=text["first"],
            notes=text["notes"],
        )


def summed(table: Array, axes: Sequence[str], clique: Sequence[str]) -> Array:
    """The marginal over `clique` of a table over `axes`."""
    kept = [name for name in axes if name in clique]
    table = table.sum(axis=tuple(i for i, name in enumerate(axes) if name not in clique))
    return table.transpose([kept.index(name) for name in clique])
