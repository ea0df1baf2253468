"""ResidualAnswers: the noisy integers of every residual set, in one array."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.errors import DataError, SizeError
from hush.memory import available_memory, readable
from hush.strategies.residual import ResidualStrategy


class ResidualAnswers:
    """Noisy residual answers y_A by set, filled one by one as they are measured.

    Held as one int64 array in the order of the closure, so that reconstruction needs no copies. `combined` answers are
    floats: averages of several measurements.

    >>> from hush.domain import Domain
    >>> from hush.strategies.select import select_residual
    >>> from hush.workloads import Workload
    >>> plan = select_residual(Workload.kway(Domain({"a": 2}), 1), rho=0.5).value
    >>> answers = ResidualAnswers(plan)
    >>> answers[()] = np.array(10)
    >>> answers.missing
    [('a',)]
    """

    def __init__(self, strategy: ResidualStrategy, *, combined: bool = False) -> None:
        needed, free = strategy.measurement_bytes, available_memory()
        if needed > 0.8 * free:
            raise SizeError(
                f"the noisy answers of {len(strategy.closure)} sets take {readable(needed)}, more than the "
                f"{readable(0.8 * free)} that can be had; drop an attribute, use wider bins or lower the order"
            )
        self.strategy = strategy
        self.starts = np.concatenate([[0], np.cumsum(strategy.cells)]).astype(np.int64)
        self.flat: np.ndarray[Any, Any] = np.zeros(int(self.starts[-1]), dtype=np.float64 if combined else np.int64)
        self.filled = np.zeros(len(strategy.closure), dtype=bool)

    @classmethod
    def of(cls, strategy: ResidualStrategy, answers: Mapping[Clique, Any]) -> ResidualAnswers:
        """Answers from a mapping of every set, or some, to its integers."""
        made = cls(strategy)
        for clique, values in answers.items():
            made[clique] = values
        return made

    @property
    def missing(self) -> list[Clique]:
        """Sets whose answers are not there."""
        cliques = self.strategy.closure.cliques
        return [cliques[index] for index in np.flatnonzero(~self.filled)]

    def shape(self, clique: Iterable[str]) -> tuple[int, ...]:
        """The shape of a set's answers, in the order of its names."""
        return tuple(basis.rows for basis in self.strategy.clique_bases(clique))

    def __setitem__(self, clique: Iterable[str], values: Any) -> None:
        clique = tuple(clique)
        index = self.strategy.closure.index(clique)
        array, shape = np.asarray(values), self.shape(clique)
        kind = "numbers" if self.flat.dtype.kind == "f" else "integers"
        if array.shape != shape or not np.can_cast(array.dtype, self.flat.dtype):
            raise DataError(
                f"residual answers of {clique!r}: expected {kind} of shape {shape}, "
                f"got {array.dtype} of shape {array.shape}"
            )
        ordered = self.strategy.domain.clique(clique)
        if ordered != clique:
            array = np.transpose(array, [clique.index(name) for name in ordered])
        self.flat[self.starts[index] : self.starts[index + 1]] = array.ravel()
        self.filled[index] = True

    def __getitem__(self, clique: Iterable[str]) -> np.ndarray[Any, Any]:
        clique = tuple(clique)
        index = self.strategy.closure.index(clique)
        if not self.filled[index]:
            raise DataError(f"the residual answers of {clique!r} are missing; measure them, or load the whole release")
        ordered = self.strategy.domain.clique(clique)
        array = self.flat[self.starts[index] : self.starts[index + 1]].reshape(self.shape(ordered))
        return np.transpose(array, [ordered.index(name) for name in clique])

    def __len__(self) -> int:
        return int(self.filled.sum())

    def __repr__(self) -> str:
        return f"ResidualAnswers({len(self)} of {len(self.filled)} sets, {len(self.flat)} numbers)"
