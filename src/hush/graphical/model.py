"""GraphicalModel: one consistent distribution behind noisy marginals, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from hush.constraints import Constraint, merge
from hush.domain import Clique, Domain
from hush.errors import DomainError
from hush.graphical.belief import Belief, Floats
from hush.graphical.factors import Factors
from hush.graphical.given import Given, Impossible, codes_of, constraints_of
from hush.graphical.information import entropy, log_probability
from hush.graphical.junction_tree import JunctionTree
from hush.graphical.marginals import Marginals
from hush.graphical.synthesis import Codes, Method, draw_rows
from hush.linops import LinearOperator
from hush.memory import readable

LEAST_PROBABILITY = 1e-200  # of evidence that is entered by sums rather than by logarithms
_PREPARING = Lock()  # of the module, so that models can be copied and pickled


class _Prepared(NamedTuple):
    """A belief whose cells are p(rest | separator), these as tables, and the shares of every node's separator."""

    belief: Belief
    conditionals: list[Floats]
    shares: list[Floats]


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
        self._ready: _Prepared | None = None

    @property
    def _prepared(self) -> _Prepared:
        """What everything is computed from, made once: the passes work in place, on buffers that threads share."""
        if self._ready is None:
            with _PREPARING:
                if self._ready is None:
                    self._ready = self._prepare()
        return self._ready

    def _prepare(self) -> _Prepared:
        made = self._given or Belief(self.tree, self.factors, fixed_tables(self.tree.domain, self.constraints))
        made.condition(self.potentials)
        if made.log_partition == -np.inf:
            raise DomainError(
                "the constraints contradict each other: no combination of levels is left; look for a loop of "
                "[[forbidden]], [[allowed]] or [[depends]] that excludes every row"
            )
        conditionals = made.conditionals()
        return _Prepared(made, conditionals, [own.copy() for own in made.separators(1.0)])

    @property
    def belief(self) -> Belief:
        """The junction tree at these potentials."""
        return self._prepared.belief

    @property
    def conditionals(self) -> list[Floats]:
        """p(rest | separator) of every node of the tree."""
        return self._prepared.conditionals

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

    @cached_property
    def separators(self) -> list[Floats]:
        """The counts of every node's separator."""
        return [self.total * own for own in self._prepared.shares]

    @cached_property
    def marginals(self) -> Marginals:
        """What tables are computed from."""
        return Marginals(self.domain, self.tree, self.conditionals, self.separators)

    def counts(self, clique: Iterable[str]) -> Floats:
        """The table of counts over any clique, with axes in the order given; see `Marginals.counts`."""
        return self.marginals.counts(clique)

    def many(self, cliques: Iterable[Iterable[str]]) -> dict[Clique, Floats]:
        """The tables of many cliques at once, which is faster than one by one; see `Marginals.many`."""
        return self.marginals.many(cliques)

    def product(self, clique: Iterable[str], blocks: Sequence[LinearOperator]) -> Floats:
        """Answers to a product of query blocks, one per attribute; see `Marginals.product`."""
        return self.marginals.product(clique, blocks)

    def conditional(self, clique: Iterable[str], given: Given) -> Floats:
        """p(clique | given): probabilities where other attributes have the given code, or one of several."""
        names = self.domain.check(clique)
        table = self.marginals.restricted(names, codes_of(self.domain, given, names))
        if not table.sum() > LEAST_PROBABILITY * self.total:
            table = self._conditioned(given, 1.0).counts(names)
        return np.asarray(table / table.sum())

    def conditioned(self, given: Given) -> GraphicalModel:
        """The model of the records that have the given code, or one of several, in each of some attributes.

        Its total is what the model counts of them; rows drawn from it all have the evidence.
        """
        return self._conditioned(given)

    def _conditioned(self, given: Given, total: float | None = None) -> GraphicalModel:
        evidence = constraints_of(self.domain, given)
        belief = Belief(self.tree, self.factors, fixed_tables(self.tree.domain, [*self.constraints, *evidence]))
        belief.condition(self.potentials)
        if belief.log_partition == -np.inf:
            belief.condition(np.zeros_like(self.potentials))
            raise Impossible(given, excluded=belief.log_partition == -np.inf)
        if total is None:
            total = self.total * float(np.exp(belief.log_partition - self.belief.log_partition))
        constraints = merge(self.domain, [*self.constraints, *evidence])
        return GraphicalModel(self.domain, self.tree, self.factors, self.potentials, total, constraints)

    def entropy(self) -> float:
        """-sum_x p(x) log p(x), in nats."""
        return entropy(self.tree, self.conditionals, self._prepared.shares)

    def log_probability(self, codes: Mapping[str, np.ndarray[Any, Any]]) -> Floats:
        """log p(x) of every row, -inf where the model excludes it.

        Privacy: where the rows are private, so is the result.
        """
        return log_probability(self.tree, self.conditionals, codes)

    def log_likelihood(self, codes: Mapping[str, np.ndarray[Any, Any]]) -> float:
        """The sum of log p(x) over rows; -inf where the model excludes one.

        Privacy: where the rows are private, so is the result.
        """
        return float(self.log_probability(codes).sum())

    def synthesize_codes(self, rows: int, generator: np.random.Generator, *, method: Method = "rounding") -> Codes:
        """Rows of the model as codes, one array per attribute in domain order; see `draw_rows`."""
        codes = draw_rows(self.tree, self.conditionals, rows, generator, method=method)
        return {name: codes[name] for name in self.domain}

    def __repr__(self) -> str:
        return (
            f"GraphicalModel({len(self.factors)} cliques over {len(self.domain)} attributes, "
            f"{readable(1e6 * self.size_mb)}, total {self.total:,.0f})"
        )


def fixed_tables(domain: Domain, constraints: Iterable[Constraint]) -> list[tuple[Clique, Floats]]:
    """Constraints as tables of logarithms with axes in the order of a domain."""
    made = []
    for constraint in constraints:
        own = domain.clique(constraint.clique)
        axes = [constraint.clique.index(name) for name in own]
        made.append((own, np.ascontiguousarray(constraint.potentials().transpose(axes))))
    return made
