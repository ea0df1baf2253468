"""CapacityMechanism: adaptive mechanisms whose model must stay within a size, stated by a preset or in megabytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.domain import Clique, Domain
from hush.errors import SizeError, WorkloadError, is_number, shown
from hush.graphical.junction_tree import JunctionTree
from hush.graphical.model_size import sizes_with
from hush.graphical.program import with_domain
from hush.mechanisms.adaptive import AdaptiveMechanism

Floats = np.ndarray[Any, np.dtype[np.float64]]
PRESETS = {"fast": 4.0, "balanced": 16.0, "best": 80.0}  # megabytes
CELL_MB = 8e-6


@dataclass(frozen=True, kw_only=True)
class CapacityMechanism(AdaptiveMechanism):
    """Settings of a mechanism that measures no table which would take its model beyond `max_size_mb`."""

    preset: str = "balanced"
    max_size_mb: float | None = None

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise WorkloadError(f"preset={shown(self.preset)}: expected one of {', '.join(PRESETS)}")
        if self.max_size_mb is not None and not (is_number(self.max_size_mb) and self.max_size_mb > 0):
            raise SizeError(f"max_size_mb={shown(self.max_size_mb)}: expected megabytes, a number above 0")

    @property
    def limit_mb(self) -> float:
        """The size of the model, at most."""
        return PRESETS[self.preset] if self.max_size_mb is None else float(self.max_size_mb)

    def sizes_mb(
        self,
        domain: Domain,
        known: Sequence[Clique],
        candidates: Sequence[Clique],
        tree: JunctionTree | None = None,
        *,
        limit_mb: float | None = None,
    ) -> Floats:
        """The size of the model of `known` tables, whose tree may be given, with each candidate in it.

        It may be a little above the true one where that is within the limit anyway.
        """
        own = None if tree is None else with_domain(tree, domain)
        enough = (self.limit_mb if limit_mb is None else limit_mb) / CELL_MB
        return CELL_MB * np.array(sizes_with(domain, known, candidates, tree=own, enough=enough), dtype=np.float64)


def check_flag(**flags: object) -> None:
    """Refuse a setting that is neither True nor False."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise WorkloadError(f"{name}={shown(value)}: expected True or False")
