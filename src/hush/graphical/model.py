"""GraphicalModel: one consistent distribution behind noisy marginals, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import numpy as np

from hush.constraints import Constraint
from hush.domain import Clique, Domain
from hush.errors import DomainError
from hush.graphical.belief import Belief, Floats
from hush.graphical.factors import Factors
from hush.graphical.junction_tree import JunctionTree
from hush.graphical.synthesis import Codes, Method, draw_rows


class GraphicalModel:
    """p(x) = exp(sum_r theta_r(x_r)) / Z over a domain, times a total number of records N.

    Of all distributions that fit the measurements as well it has the largest entropy: what was not measured together
    is independent given what was. `tree` is in tree order, `factors` and `potentials` with it.

    Privacy: post-processing of public noisy values.
    Reference: [HDMM, sec. 4.2].
    """

    exact = True

    def __init__(
        self,
        domain: Domain,
        tree: JunctionTree,
        factors: Factors,
        potentials: Floats,
        total: float,
        constraints: Sequence[Constraint] = (),
        belief: Belief | None = None,
    ) -> None:
        self.domain = domain
        self.tree = tree
        self.factors = factors
        self.potentials = potentials
        self.potentials.setflags(write=False)
        self.total = total
        self.constraints = tuple(constraints)
        self._given = belief

    @cached_property
    def belief(self) -> Belief:
        """The junction tree at these potentials."""
        made = self._given or Belief(self.tree, self.factors, fixed_tables(self.tree.domain, self.constraints))
        made.condition(self.potentials)
        if made.log_partition == -np.inf:
            raise DomainError(
                "the constraints contradict each other: no combination of levels is left; look for a loop of "
                "[[forbidden]], [[allowed]] or [[depends]] that excludes every row"
            )
        return made

    @cached_property
    def conditionals(self) -> list[Floats]:
        """p(rest | separator) of every node of the tree."""
        return self.belief.conditionals()

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques that have potentials, in domain order."""
        return tuple(self.domain.clique(clique) for clique in self.factors.cliques)

    @property
    def size_mb(self) -> float:
        """Megabytes of the model's tables."""
        return self.tree.size_mb

    @cached_property
    def tables(self) -> Mapping[Clique, Floats]:
        """The potentials of every clique, over its axes in tree order."""
        known = {clique: self.factors.table(self.potentials, i) for i, clique in enumerate(self.factors.cliques)}
        return MappingProxyType(known)

    def covers(self, clique: Iterable[str]) -> bool:
        """Whether a table can be computed: any can, within memory."""
        self.domain.check(clique)
        return True

    def synthesize_codes(self, rows: int, generator: np.random.Generator, *, method: Method = "rounding") -> Codes:
        """Rows of the model as codes, one array per attribute in domain order; see `draw_rows`."""
        codes = draw_rows(self.tree, self.conditionals, rows, generator, method=method)
        return {name: codes[name] for name in self.domain}

    def __repr__(self) -> str:
        return (
            f"GraphicalModel({len(self.factors)} cliques over {len(self.domain)} attributes, "
            f"{self.size_mb:.3g} MB, total {self.total:,.0f})"
        )


def fixed_tables(domain: Domain, constraints: Iterable[Constraint]) -> list[tuple[Clique, Floats]]:
    """Constraints as tables of logarithms with axes in the order of a domain."""
    made = []
    for constraint in constraints:
        own = domain.clique(constraint.clique)
        axes = [constraint.clique.index(name) for name in own]
        made.append((own, np.ascontiguousarray(constraint.potentials().transpose(axes))))
    return made
