"""Draft: a strategy in floats, as the optimisers find it; rounded to integers before it measures anything."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hush.domain import Clique, Domain
from hush.linops import LinearOperator
from hush.strategies.noise_kind import NoiseKind


class Recovery(StrEnum):
    """How answers to the workload are recovered from noisy answers to the strategy."""

    LOCAL = "local"  # each term from one part, by the pseudo-inverse of that part
    MARGINALS = "marginals"  # from all parts, which share a factor per attribute, by their exact pseudo-inverse
    GLOBAL = "global"  # from all parts, by least squares over the data vector


@dataclass(frozen=True, slots=True, eq=False)
class PartDraft:
    """A Kronecker product of factors, one per group of attributes; everything else is totalled out.

    Each factor has largest column norm one, in the norm of the noise. Groups partition the attributes of the part;
    one after the other they are in domain order. The cells of a group of several attributes are in row-major order.
    """

    groups: tuple[Clique, ...]
    factors: tuple[LinearOperator, ...]
    share: float
    terms: tuple[int, ...] = ()  # for LOCAL: which terms of the workload are answered from it

    @property
    def clique(self) -> Clique:
        """The attributes it measures."""
        return tuple(name for group in self.groups for name in group)


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """Parts whose shares add up to one, and the error that they promise.

    `error` is the weighted sum of variances over all queries of the workload per unit of P (see `NoiseKind`).
    `method` says which operator found it.
    """

    domain: Domain
    parts: tuple[PartDraft, ...]
    noise: NoiseKind
    recovery: Recovery
    error: float
    method: str
