"""Synthetic rows from locally consistent tables: drawn from a graphical model of some, then moved towards the rest.

`Chooser` picks the cliques of the graphical model, `fit_rows` fits it, and `repaired` moves its rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hush.core.arrays import Floats, Integers, axes_outside, summed
from hush.core.constraints import Constraint
from hush.core.domain import Clique, Domain, maximal_cliques
from hush.core.errors import DataError
from hush.core.solution import Solution
from hush.core.spanning_tree import spanning_tree
from hush.models.graphical.graphical_fit import fit_model
from hush.models.graphical.graphical_model import GraphicalModel
from hush.models.graphical.junction_tree import BYTES_PER_CELL, JunctionTree
from hush.models.graphical.model_size import sizes_with
from hush.models.graphical.synthetic_rows import Codes
from hush.models.local._kernels import excess_of_rows, move_rows
from hush.privacy.measurement import Measurement

if TYPE_CHECKING:
    from hush.models.local.local_model import LocalModel

Counts = Callable[[Clique], Floats]

LARGEST_MISS = 1e-6  # of the total: proportional fitting stops when all margins are matched this closely
MAX_SIZE_MB = 1.0  # of the graphical model that rows are drawn from
ROW_MODEL_TOLERANCE = 0.1  # of its fit, in standard deviations of about one row, or the square root of a cell's rows
MOST_EVALUATIONS = 1e9  # of a level in a table, in one pass of `repaired`: about a second
LEAST_MET = 0.1  # the excess that a row counts as meeting at least, so that every row may be visited
LEAST_CHANGED = 1e-3  # of the rows that a pass visits: the descent ends if fewer change
IMPLIED_TABLE_SWEEPS = 10  # enough to rank cliques
MOST_REFUSED = 100  # cliques in a row that do not fit, before the search ends
LEAST_GAIN = 1e-9  # nats per row


def proportional_fit(
    clique: Clique,
    margins: Sequence[tuple[Clique, Floats]],
    shape: tuple[int, ...],
    total: float,
    sweeps: int = 200,
    *,
    start: Floats | None = None,
) -> Floats:
    """The table of largest entropy relative to a start, or to a uniform table, with the given margins.

    Iterative proportional fitting: t <- t * margin / (margin of t), one margin after the other, until all match or
    `sweeps` have passed. If no joint table has all margins, the last one matches in the end. The total always matches.

    >>> proportional_fit(("a", "b"), [(("a",), np.array([1.0, 3.0])), (("b",), np.array([2.0, 2.0]))], (2, 2), 4.0)
    array([[0.5, 0.5],
           [1.5, 1.5]])
    """
    cells = int(np.prod(shape))
    table = np.full(shape, total / cells) if start is None else start.astype(np.float64)
    for _ in range(sweeps):
        missed = 0.0
        for kept, margin in margins:
            margin_now = table.sum(axis=axes_outside(clique, kept), keepdims=True)
            goal = margin.reshape(margin_now.shape)
            missed = max(missed, float(np.abs(margin_now - goal).sum()))
            table *= np.divide(goal, margin_now, out=np.zeros_like(margin_now), where=margin_now > 0)
        if missed <= LARGEST_MISS * total:
            break
    sum_of_cells = float(table.sum())
    return table * (total / sum_of_cells) if sum_of_cells > 0 else np.full(shape, total / cells)


class Chooser:
    """Greedy choice of cliques for a graphical model of at most `max_size_mb`; `counts` gives tables of one total.

    First the spanning tree of attributes with the largest mutual information [Chow and Liu 1968], which is cheap and
    connects everything. Then, as long as the junction tree fits, the clique r that adds most to those chosen already,

        score(r) = KL(mu_r | table of largest entropy with the chosen margins inside r) / sqrt(cells of r).

    The subsets of a clique that does not fit become candidates.

    >>> domain = Domain({"a": 2, "b": 2, "c": 2})
    >>> tables = {("a", "b"): np.array([[4.0, 0.0], [0.0, 4.0]]), ("b", "c"): np.array([[3.0, 1.0], [1.0, 3.0]])}
    >>> Chooser(domain, tables.__getitem__, tables, max_size_mb=1.0).choose()
    [('a', 'b'), ('b', 'c')]
    """

    def __init__(
        self, domain: Domain, counts: Counts, cliques: Iterable[Clique], *, max_size_mb: float, seed: int = 0
    ) -> None:
        self._domain = domain
        self._counts = counts
        self._cliques = [clique for clique in cliques if len(clique) > 1]
        self._most_cells = 1e6 * max_size_mb / BYTES_PER_CELL
        self._seed = seed
        self._chosen: list[Clique] = []
        self._held: dict[Clique, list[Clique]] = {}  # by pair of attributes
        self._candidates: dict[Clique, set[Clique]] = {}  # by pair of attributes
        self._stale: set[Clique] = set()

    def choose(self, needed: Sequence[Clique] = ()) -> list[Clique]:
        """The chosen cliques, beginning with the `needed` ones."""
        for clique in needed:
            self._take(clique)

        # The spanning tree, as far as it fits.
        tree = JunctionTree.build(self._domain, self._chosen, seed=self._seed)
        cells = tree.cells  # a pair that joins two components adds at most its table
        for pair in self._spanning_tree():
            if cells + self._domain.size(pair) <= self._most_cells:
                self._take(pair)
                cells += self._domain.size(pair)

        # Lazy greedy: scores only fall as cliques are chosen, so a stale score is updated when it reaches the top.
        tree = JunctionTree.build(self._domain, self._chosen, seed=self._seed)
        heap = [(-self._score(clique), clique) for clique in self._cliques]
        heapify(heap)
        for clique in self._cliques:
            self._list(clique)
        seen, refused = set(self._cliques), 0
        while heap and refused < MOST_REFUSED:
            score, clique = heappop(heap)
            if clique in self._stale:
                self._stale.discard(clique)
                heappush(heap, (-self._score(clique), clique))
            elif -score <= LEAST_GAIN:
                break
            elif sizes_with(self._domain, self._chosen, [clique], tree=tree)[0] <= self._most_cells:
                refused = 0
                self._take(clique)
                tree = JunctionTree.build(self._domain, self._chosen, restarts=0, start=tree)
            else:
                refused += 1
                for smaller in combinations(clique, len(clique) - 1):
                    if len(smaller) > 1 and smaller not in seen:
                        seen.add(smaller)
                        self._list(smaller)
                        heappush(heap, (-self._score(smaller), smaller))
        return maximal_cliques(self._chosen)

    def _take(self, clique: Clique) -> None:
        self._chosen.append(clique)
        for pair in combinations(clique, 2):
            self._held.setdefault(pair, []).append(clique)
            self._stale |= self._candidates.get(pair, set())

    def _list(self, clique: Clique) -> None:
        for pair in combinations(clique, 2):
            self._candidates.setdefault(pair, set()).add(clique)

    def _spanning_tree(self) -> list[Clique]:
        """Pairs by decreasing mutual information that close no loop."""
        pairs = sorted({pair for clique in self._cliques for pair in combinations(clique, 2)})
        ranked = sorted((-self._gain(pair), pair) for pair in pairs)
        return spanning_tree([pair for gain, pair in ranked if -gain > LEAST_GAIN], self._chosen)

    def _score(self, clique: Clique) -> float:
        return self._gain(clique) / math.sqrt(self._domain.size(clique))

    def _gain(self, clique: Clique) -> float:
        """The information in a clique's table beyond the chosen cliques, in nats per row."""
        near = {held for pair in combinations(clique, 2) for held in self._held.get(pair, ())}
        members = set(clique)
        inside = maximal_cliques(sorted({tuple(name for name in held if name in members) for held in near}))
        if clique in inside:
            return 0.0
        inside += [(name,) for name in clique if not any(name in held for held in inside)]
        table = self._counts(clique)
        total = float(table.sum())
        if total <= 0:
            return 0.0
        margins = [(held, summed(table, clique, held)) for held in inside]
        implied = proportional_fit(clique, margins, table.shape, total, sweeps=IMPLIED_TABLE_SWEEPS)
        p, q = table[table > 0], implied[table > 0]
        return float(p @ np.log(p / np.maximum(q, 1e-300 * total))) / total


def fit_rows(
    model: LocalModel, constraints: Sequence[Constraint] = (), *, max_size_mb: float = MAX_SIZE_MB, seed: int = 0
) -> Solution[GraphicalModel]:
    """A graphical model of cliques chosen to fit in memory, fitted to the local tables as if they were measurements.

    Constraints hold exactly; their cliques count towards the size. `stats` has the number of `cliques` chosen.
    """
    domain = model.domain
    chooser = Chooser(domain, model.counts, model.cliques, max_size_mb=max_size_mb, seed=seed)
    chosen = chooser.choose([constraint.clique for constraint in constraints])
    covered = {name for clique in chosen for name in clique}
    chosen += [(name,) for name in domain if name not in covered and model.covers((name,))]
    known = [clique for clique in chosen if model.covers(clique)] or [()]
    tables = [
        Measurement(clique, model.counts(clique), math.sqrt(max(1.0, model.total / domain.size(clique))))
        for clique in known
    ]
    solution = fit_model(
        domain, tables, total=model.total, constraints=constraints, tolerance=ROW_MODEL_TOLERANCE, seed=seed
    )
    stats = {**solution.stats, "cliques": float(len(chosen))}
    return Solution(value=solution.value, status=solution.status, stats=stats)


def mean_error(model: LocalModel, codes: Codes) -> float:
    """The mean over cliques of the distance between shares, sum |n_c / rows - mu_c / N| / 2, which is within [0, 1]."""
    rows = _row_count(model.domain, codes)
    errors = []
    for index, clique in enumerate(model.cliques):
        size = model.domain.size(clique)
        shares = np.bincount(_row_cells(model.domain, clique, codes, rows), minlength=size) / rows
        errors.append(0.5 * float(np.abs(shares - model.table(index).ravel() / model.total).sum()))
    return float(np.mean(errors))


def repaired(model: LocalModel, codes: Codes, generator: np.random.Generator, *, passes: int) -> Codes:
    """Rows moved towards all tables by coordinate descent, or the given rows if that does not lower `mean_error`.

    Each pass visits rows in random order and gives every attribute of a row the level that most lowers

        sum_c (n_c - mu_c rows / N)^2,

    over all cells c of all tables, n_c rows being in cell c. A row never enters a cell that a constraint forbids. The
    descent ends after `passes`, or when less than a thousandth of the rows change. A pass over many rows visits
    only as many as `MOST_EVALUATIONS` allows, those with a large n_c - mu_c rows / N in their cells the likeliest. The
    rows are not independent.

    Reference: the aim is that of the gradual update of [PrivSyn, sec. 4.2]; the descent is ours.
    """
    domain, rows = model.domain, _row_count(model.domain, codes)
    # The rows in each cell beyond its target, or infinity in forbidden cells.
    excess = []
    for index, clique in enumerate(model.cliques):
        cells = np.bincount(_row_cells(domain, clique, codes, rows), minlength=domain.size(clique))
        excess.append((cells - model.table(index).ravel() * (rows / model.total)).reshape(domain.sizes(clique)))
    excess += [np.where(constraint.allowed, 0.0, np.inf) for constraint in model.constraints]
    cliques = [*model.cliques, *(constraint.clique for constraint in model.constraints)]
    if not any(cliques):
        return codes
    counted = np.arange(len(cliques)) < len(model.cliques)
    # Every table once for each of its attributes, which is its last axis there; all copies one after another.
    axis = {name: place for place, name in enumerate(domain)}
    members = np.array([axis[name] for clique in cliques for name in clique], dtype=np.int64)
    tables = np.repeat(np.arange(len(cliques)), [len(clique) for clique in cliques])
    first = np.searchsorted(tables, np.arange(len(cliques) + 1))
    strides = np.zeros((len(members), max(map(len, cliques))), dtype=np.int64)
    for copy, table in enumerate(tables):
        last = copy - first[table]
        others = [place for place in range(len(cliques[table])) if place != last]
        shape = [excess[table].shape[place] for place in (*others, last)]
        strides[copy, [*others, last]] = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
    copies = [np.moveaxis(excess[table], copy - first[table], -1).ravel() for copy, table in enumerate(tables)]
    starts = np.cumsum([0, *(copy.size for copy in copies)])[:-1]
    flat = np.concatenate(copies)
    # For every attribute the memberships that it has.
    holders = np.argsort(members, kind="stable")
    holder_first = np.searchsorted(members[holders], np.arange(len(domain) + 1))
    sizes = np.array(domain.shape, dtype=np.int64)

    moving = np.stack([codes[name] for name in domain], axis=1).astype(np.int32)
    most = int(max(MOST_EVALUATIONS / max(float(sizes @ np.diff(holder_first)), 1.0), 1.0))
    for _ in range(passes):
        order = generator.permutation(rows)
        if most < rows:  # the rows that meet most excess are the likeliest to be visited, in random order
            met = np.maximum(excess_of_rows(moving, flat, starts, counted, members, strides, first), LEAST_MET)
            order = order[np.argsort(generator.exponential(size=rows) / met[order])[:most]]
        changes = move_rows(
            moving, order, sizes, flat, starts, counted, members, strides, first, holders, holder_first, tables
        )
        if changes < LEAST_CHANGED * len(order):
            break
    moved = {name: moving[:, axis[name]].astype(codes[name].dtype) for name in domain}
    return moved if mean_error(model, moved) < mean_error(model, codes) else codes


def _row_cells(domain: Domain, clique: Clique, codes: Codes, rows: int) -> Integers:
    """The cell of every row in the table over a clique."""
    cells = np.zeros(rows, dtype=np.int64)
    for name in clique:
        cells *= domain[name]
        cells += codes[name]
    return cells


def _row_count(domain: Domain, codes: Codes) -> int:
    lengths = {len(codes[name]) for name in domain if name in codes}
    if len(lengths) != 1 or 0 in lengths or any(name not in codes for name in domain):
        raise DataError("codes: expected an array for every attribute, all of one length, with at least one row")
    return lengths.pop()
