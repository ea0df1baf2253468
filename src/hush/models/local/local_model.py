"""LocalModel: locally consistent tables, and how they answer tables that no fitted clique contains."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from hush.core.arrays import Floats, apply_each, reordered, summed
from hush.core.constraints import Constraint, check_axes
from hush.core.domain import Clique, Domain, maximal_cliques
from hush.core.errors import WorkloadError, shown
from hush.core.memory import require_memory
from hush.core.solution import Solution
from hush.core.validation import check_number, check_whole
from hush.inference.factors import Factors
from hush.linops import LinearOperator
from hush.models.graphical.graphical_model import Given, GraphicalModel
from hush.models.graphical.synthetic_rows import Codes, Method
from hush.models.local.local_rows import MAX_SIZE_MB, fit_rows, mean_error, proportional_fit, repaired

DEFAULT_PASSES = 3


class LocalModel:
    """Non-negative tables over cliques that add up to one total and agree on whatever they share. Approximate.

    Guaranteed: a table inside several cliques is the same computed from any of them, is non-negative, adds up to
    `total`, and is zero where constraints forbid. Not guaranteed: that any distribution or data set has all these
    tables; if cliques form loops there may be none. So tables inside no clique, and rows, are estimates beyond the fit
    and match the fitted tables only approximately.

    Privacy: post-processing of public noisy values.

    >>> factors = Factors(Domain({"a": 2, "b": 2}), [("a",), ("b",)])
    >>> model = LocalModel.of_tables(factors, np.array([2.0, 6.0, 4.0, 4.0]), 8.0)
    >>> model.covers(("a", "b")), model.counts(("b", "a")).tolist()
    (False, [[1.0, 3.0], [1.0, 3.0]])
    """

    exact = False

    def __init__(
        self, factors: Factors, tables: Floats, total: float, constraints: Sequence[Constraint] = (), *, seed: int = 0
    ) -> None:
        self.factors = factors
        self.total = total
        self.constraints = tuple(constraints)
        self._tables = tables
        self._tables.setflags(write=False)
        self.seed = seed
        self._holders: dict[str, list[int]] = {name: [] for name in factors.domain}
        for index in sorted(range(len(factors)), key=lambda i: factors.domain.size(factors.cliques[i])):
            for name in factors.cliques[index]:
                self._holders[name].append(index)
        self._fitted: dict[float, Solution[GraphicalModel]] = {}

    @classmethod
    def of_tables(
        cls, factors: Factors, tables: Floats, total: float, constraints: Sequence[Constraint] = (), *, seed: int = 0
    ) -> LocalModel:
        """A model of the tables that are inside no other."""
        largest = maximal_cliques(factors.cliques)
        kept = np.concatenate([tables[factors.span(factors.index(clique))] for clique in largest])
        return cls(Factors(factors.domain, largest), kept, total, constraints, seed=seed)

    @property
    def domain(self) -> Domain:
        return self.factors.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest cliques that have a table, in domain order."""
        return self.factors.cliques

    @property
    def size_mb(self) -> float:
        return 8e-6 * self.factors.size

    def covers(self, clique: Iterable[str]) -> bool:
        """Whether the table over a clique is inside a fitted one; others are estimated from several."""
        return self._home(self.domain.check(clique)) >= 0

    def counts(self, clique: Iterable[str]) -> Floats:
        """Counts over a clique, one axis per attribute in the order given.

        Inside a fitted clique, the margin of its table. Otherwise an estimate, by `proportional_fit`: the table of
        largest entropy whose margins are those that the clique shares with fitted cliques, or near them where no table
        has them all. Attributes of no clique are uniform and independent.
        """
        names = self.domain.check(clique)
        check_axes(names)
        ordered = self.domain.clique(names)
        home = self._home(ordered)
        if home >= 0:
            return reordered(self._margin(home, ordered), ordered, names)
        require_memory(24 * self.domain.size(ordered), f"a table over {shown(ordered)}", "ask for fewer attributes")
        shared = {tuple(name for name in fitted if name in ordered) for fitted in self.cliques} - {()}
        margins = [(kept, self._margin(self._home(kept), kept)) for kept in maximal_cliques(sorted(shared))]
        return reordered(proportional_fit(ordered, margins, self.domain.sizes(ordered), self.total), ordered, names)

    def many(self, cliques: Iterable[Iterable[str]]) -> dict[Clique, Floats]:
        """The tables of several cliques, each by `counts`."""
        return {names: self.counts(names) for names in (self.domain.check(clique) for clique in cliques)}

    def product(self, clique: Iterable[str], blocks: Sequence[LinearOperator]) -> Floats:
        """The answers to a product of query blocks on the table over a clique, one axis per block."""
        names = self.domain.check(clique)
        if len(blocks) != len(names):
            raise WorkloadError(f"{len(blocks)} query blocks for {len(names)} attributes; give one each")
        return apply_each(blocks, self.counts(names))

    def conditioned(self, given: Given) -> GraphicalModel:
        """The records that have the given codes, by the graphical model that rows are drawn from; see `row_model`."""
        return self.row_model().value.conditioned(given)

    def table(self, index: int) -> Floats:
        """The table of a clique by its index in `cliques`, in domain order."""
        return self.factors.table(self._tables, index)

    def row_model(self, max_size_mb: float = MAX_SIZE_MB) -> Solution[GraphicalModel]:
        """The graphical model of some of the cliques that rows are drawn from, fitted once; see `fit_rows`."""
        if max_size_mb != math.inf:
            check_number(WorkloadError, "max_size_mb", max_size_mb, above=0)
        if max_size_mb not in self._fitted:
            self._fitted[max_size_mb] = fit_rows(self, self.constraints, max_size_mb=max_size_mb, seed=self.seed)
        return self._fitted[max_size_mb]

    def synthesize_codes(
        self,
        rows: int,
        generator: np.random.Generator,
        *,
        method: Method = "rounding",
        max_size_mb: float = MAX_SIZE_MB,
        passes: int = DEFAULT_PASSES,
    ) -> Codes:
        """Rows as codes, one array per attribute in domain order, whose tables are near those of the model.

        Rows are drawn from `row_model`, an exact model of the cliques that fit in `max_size_mb`, and then moved towards
        the tables of all cliques in up to `passes` passes; see `repaired`. With passes=0, rows are those of the row
        model.
        """
        check_whole(WorkloadError, "passes", passes, least=0)
        codes = self.row_model(max_size_mb).value.synthesize_codes(rows, generator, method=method)
        if not passes or not rows:
            return codes
        return repaired(self, codes, generator, passes=passes)

    def row_error(self, codes: Codes) -> float:
        """The distance of rows from the tables: the mean over cliques of sum |n_c / rows - mu_c / N| / 2."""
        return mean_error(self, codes)

    def _home(self, clique: Clique) -> int:
        """The index of the smallest fitted table that contains a clique; -1 if none does."""
        if not clique:
            return 0
        candidates = min((self._holders[name] for name in clique), key=len)
        return next((i for i in candidates if set(clique) <= set(self.cliques[i])), -1)

    def _margin(self, index: int, clique: Clique) -> Floats:
        return np.asarray(summed(self.table(index), self.cliques[index], clique))

    def __repr__(self) -> str:
        return (
            f"LocalModel(approximate: {len(self.factors)} locally consistent tables over {len(self.domain)} "
            f"attributes, {self.factors.size} cells, total {self.total:,.0f})"
        )
