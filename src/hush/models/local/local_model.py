"""LocalModel: tables that agree on all they share, without a distribution behind them, and what they answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hush.core.arrays import Floats, apply_each, reordered, summed
from hush.core.constraints import Constraint, check_axes
from hush.core.domain import Clique, Domain, maximal_cliques
from hush.core.errors import WorkloadError, shown
from hush.core.memory import require_memory
from hush.core.solution import Solution
from hush.inference.factors import Factors
from hush.linops import LinearOperator
from hush.models.graphical.graphical_model import Given, GraphicalModel
from hush.models.graphical.synthetic_rows import Codes, Method
from hush.models.local.local_rows import MAX_SIZE_MB, fit_rows, mean_error, proportional_fit, repaired

PASSES = 3


class LocalModel:
    """Non-negative tables over cliques that add up to one total and agree on whatever they share. Approximate.

    Guaranteed: every table inside one of `cliques` is the same whichever clique it is computed from, is non-negative,
    adds up to `total`, and is zero where constraints say so. Not guaranteed: that any distribution, or any data set,
    has all these tables; where cliques form loops there may be none. So tables that are inside no clique, and rows,
    are estimates beyond what was fitted, and meet the tables only approximately.

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
        """Keep the tables that are inside no other."""
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
        """Whether the table over a clique is inside one that was fitted; others are estimated from several."""
        return self._home(self.domain.check(clique)) >= 0

    def counts(self, clique: Iterable[str]) -> Floats:
        """Counts over a clique, one axis per attribute in the order given.

        Inside a fitted clique, its margin. Otherwise an estimate: of all tables over the clique with the fitted margins
        over what it shares with every fitted clique, the one of the largest entropy, by `proportional_fit`; it meets
        these margins only as well as a joint table can. Attributes of no clique are uniform and independent.
        """
        names = self.domain.check(clique)
        check_axes(names)
        ordered = self.domain.clique(names)
        home = self._home(ordered)
        table = self._margin(home, ordered) if home >= 0 else self._estimate(ordered)
        return reordered(table, ordered, names)

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
        """The records that have the given codes, by the exact model that rows are drawn from; see `row_model`."""
        return self.row_model().value.conditioned(given)

    def table(self, index: int) -> Floats:
        """The table of a clique by its index in `cliques`, in domain order."""
        return self.factors.table(self._tables, index)

    def row_model(self, max_size_mb: float = MAX_SIZE_MB) -> Solution[GraphicalModel]:
        """The exact model of some of the cliques that rows are drawn from, fitted once; see `Chooser`, `fit_rows`."""
        if isinstance(max_size_mb, bool) or not isinstance(max_size_mb, int | float) or not max_size_mb > 0:
            raise WorkloadError(f"max_size_mb={shown(max_size_mb)}: expected a number > 0")
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
        passes: int = PASSES,
    ) -> Codes:
        """Rows as codes, one array per attribute in domain order, whose tables are near those of the model.

        Drawn from `row_model`, an exact model of the cliques that fit in `max_size_mb`, and then moved towards the
        tables of all cliques in up to `passes` passes, as long as that lowers `row_error`; see `repaired`. With
        passes=0 rows are those of the row model alone.
        """
        if isinstance(passes, bool) or not isinstance(passes, int) or passes < 0:
            raise WorkloadError(f"passes={shown(passes)}: expected a whole number >= 0")
        codes = self.row_model(max_size_mb).value.synthesize_codes(rows, generator, method=method)
        if not passes or not rows:
            return codes
        return repaired(self, codes, generator, passes=passes, copies_only=bool(self.constraints))

    def row_error(self, codes: Codes) -> float:
        """How far rows are from all tables: the mean over cliques of sum |n_c / rows - mu_c / N| / 2."""
        return mean_error(self, codes)

    def _home(self, clique: Clique) -> int:
        """The smallest fitted table that holds a clique; -1 where none does."""
        if not clique:
            return 0
        candidates = min((self._holders[name] for name in clique), key=len)
        return next((i for i in candidates if set(clique) <= set(self.cliques[i])), -1)

    def _margin(self, index: int, clique: Clique) -> Floats:
        return np.asarray(summed(self.table(index), self.cliques[index], clique))

    def _estimate(self, clique: Clique) -> Floats:
        require_memory(24 * self.domain.size(clique), f"a table over {shown(clique)}", "ask for fewer attributes")
        wanted = set(clique)
        shared = {tuple(name for name in fitted if name in wanted) for fitted in self.cliques} - {()}
        margins = [(kept, self._margin(self._home(kept), kept)) for kept in maximal_cliques(sorted(shared))]
        return proportional_fit(clique, margins, self.domain.sizes(clique), self.total)

    def __repr__(self) -> str:
        return (
            f"LocalModel(approximate: {len(self.factors)} locally consistent tables over {len(self.domain)} "
            f"attributes, {self.factors.size} cells, total {self.total:,.0f})"
        )
