"""Fit shrunk tables: columns first, then pairs, then larger tables, each shrunk toward what the smaller ones predict.

What was measured is averaged into residuals, one for each set of columns: what a table of these columns adds to its
smaller tables. Column by column, then set by set, a table is predicted, shrunk by `cell_prior.shrink`, and fitted to
the margins that were found before it:

- a column: predicted as uniform, or by neighbouring levels if the noisy counts show that neighbours are alike;
- a pair: predicted by the tree of the pairs with the strongest dependence, each of which is itself predicted as
  independent; in the tree, columns are independent given those between them;
- a larger table: the table of largest entropy with the margins of the smaller tables.

Where a pair was measured with merged levels, the merged table is shrunk toward the merged prediction first, and all
cells of a merged cell follow it by one factor.

Relaxed rows, fitted to all residuals at once, see structure that no tree has, and pool the noise of all tables. Columns
are mixed with theirs, and pairs with pairs that are shrunk toward theirs. The shares come from two copies of the
residuals with independent noise: estimates from the one copy are compared with the other, so that noise that an
estimate follows does not count as success.

Last, the tables are brought to agree exactly, as in `fit_locally`.

Privacy: post-processing of noisy values.
Reference: [Chow and Liu 1968] for the tree; [Oliveira, Lei and Tibshirani 2021] for the copies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations

import numpy as np

from hush.core.arrays import Booleans, Floats, simplex_projection
from hush.core.constraints import Constraint, checked
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, WorkloadError
from hush.core.solution import SOLVED, Solution
from hush.core.spanning_tree import spanning_tree
from hush.inference.factors import Factors
from hush.inference.nonnegative_tables import LocalPolytope
from hush.linops import Dense, Kronecker
from hush.models.fit_arguments import SMALLEST_TOTAL, checked_total
from hush.models.local.local_fit import allowed_cells
from hush.models.local.local_model import LocalModel
from hush.models.local.local_rows import proportional_fit
from hush.models.relaxed.relaxed_fit import fit_relaxed
from hush.models.shrunk.cell_prior import NoisyCells, best_prediction, shrink
from hush.privacy.measurement import Measurement, placed
from hush.strategies.rare_levels import MergedQuery
from hush.strategies.residual_strategy import is_residual

FEW_LEVELS = 3  # of a column that is not shrunk: so few counts say nothing of the spread of counts
REACHES = (1, 2, 4, 8)  # how many neighbours on each side may predict a level of an ordered column
COMPARISON_SEED = 0  # public: predictions are compared on copies with more noise, drawn from it
PAIR_REACHES = (2,)  # the same for cells of a pair
SMOOTH_SWEEPS = 10  # of proportional fitting of such a prediction
LEAST_FACTOR = 0.02  # by which neighbours may lower a prediction
MOST_SMOOTHED_CELLS = 1 << 19  # of what was measured; with more, pairs are not predicted by neighbours
LEAST_SHARE = 1e-9  # of the rows that a level keeps, so that no prediction is zero
MERGED_SWEEPS = 20  # the same of a prediction brought to a merged table
PAIR_SWEEPS, TABLE_SWEEPS = 50, 30  # of proportional fitting
RELAXED_ROWS, RELAXED_ITERATIONS, RELAXED_TOLERANCE, RELAXED_RESTRAINT = 100, 150, 0.1, 0.6
LARGEST_MISFIT = 2.0  # of relaxed rows, over that of the truth; a descent that ends above it has failed
SECONDS_PER_NUMBER, SECONDS_PER_LEVEL = 0.4e-9, 15e-9  # of a relaxed row, for one iteration
MOST_RELAXED_SECONDS = 0.6  # of one descent, of four; if relaxed rows need more, the tree predicts alone
FEWEST_RELAXED_ITERATIONS = 40
TREE_DOUBT = 0.01  # of what independence predicts: a tree predicts no less, so that no cell is ruled out
MOST_PATH_CELLS = 1 << 22  # of a table between two columns along a path of the tree; wider paths end before it
SHARE_DOUBT = 4.0  # one over the variance of the share of relaxed rows around a half, before any comparison
SPLIT_VARIANCE = 0.25  # t^2 of the two copies: the one that is fitted has 1 + t^2 times the variance
POLYTOPE_ITERATIONS = 200
LARGEST_UNIFORM_SHARE = 1e-4  # of the uniform tables, mixed in to lift cells that are below zero


@dataclass(frozen=True, slots=True, eq=False)
class ResidualAverage:
    """The estimated residual of a set of columns: its cells add up to zero along every axis."""

    values: Floats
    variance: float  # of the noise of a cell, before it was centred


def residual_averages(domain: Domain, measurements: Iterable[Measurement]) -> dict[Clique, ResidualAverage]:
    """The best linear unbiased estimate of every residual, from tables and residuals that were measured.

    A table with noise of variance s^2 per cell holds the residual of each of its subsets A with the variance s^2 times
    the cells summed over; see `strategies.residual_strategy`. Pairs with merged levels are left to `merged_pairs`, and
    other queries are refused. Cliques are in domain order, without columns of a single level.

    >>> domain = Domain({"a": 2, "b": 2})
    >>> averages = residual_averages(domain, [Measurement(("a", "b"), [[4.0, 0.0], [0.0, 4.0]], 1.0)])
    >>> averages["a", "b"].values.tolist(), {clique: residual.variance for clique, residual in averages.items()}
    ([[2.0, -2.0], [-2.0, 2.0]], {('a', 'b'): 1.0, ('a',): 2.0, ('b',): 2.0, (): 4.0})
    """
    sums: dict[Clique, Floats] = {}
    precisions: dict[Clique, float] = {}
    listed = [measurement for measurement in measurements if not _is_merged_pair(measurement)]
    for measurement, table in zip(listed, placed(domain, listed), strict=True):
        residual = is_residual(measurement.asked)
        clique = domain.varying(table.clique)
        if table.query is not None and not residual:
            raise WorkloadError(
                f"the measurement of {table.clique!r} has a query: expected a table measured cell by cell, or a "
                "residual; leave the measurement out"
            )
        values = table.values.reshape(domain.sizes(clique))
        for order in range(len(clique), len(clique) - 1 if residual else -1, -1):
            for kept in combinations(clique, order):
                outside = tuple(axis for axis, name in enumerate(clique) if name not in kept)
                cells = math.prod(values.shape[axis] for axis in outside)
                precision = 1 / (table.variance * cells)
                sums[kept] = sums.get(kept, 0.0) + precision * centred(values.sum(axis=outside))
                precisions[kept] = precisions.get(kept, 0.0) + precision
    return {
        clique: ResidualAverage(total / precisions[clique], 1 / precisions[clique]) for clique, total in sums.items()
    }


def centred(table: Floats) -> Floats:
    """The table without its means along every axis: what it adds to its smaller tables."""
    for axis in range(np.ndim(table)):
        table = table - table.mean(axis=axis, keepdims=True)
    return np.asarray(table)


def merged_pairs(measurements: Iterable[Measurement]) -> dict[Clique, Measurement]:
    """The pairs that were measured with merged levels; of several measurements of a pair, the one with least noise.

    A pair of which one column is merged to a single level says nothing of the pair.
    """
    noisiest_first = sorted(filter(_is_merged_pair, measurements), key=lambda measurement: -measurement.variance)
    return {pair.clique: pair for pair in noisiest_first if min(np.shape(pair.values)) > 1}


def _is_merged_pair(measurement: Measurement) -> bool:
    return isinstance(measurement.asked, MergedQuery) and len(measurement.clique) == 2


def neighbour_means(noisy: Floats, reach: int, variance: float) -> Floats:
    """What the levels around each level of an ordered column predict for it, nearer ones with more weight.

    A level does not predict itself, so its own noise is not in its prediction. Means below their own noise, which may
    be negative, are raised to it.

    >>> neighbour_means(np.array([4.0, 6.0, 8.0, 10.0]), 1, 0.01).tolist()
    [6.0, 6.0, 8.0, 8.0]
    """
    weights = np.concatenate([np.arange(1, reach + 1), [0.0], np.arange(reach, 0, -1)])
    sums = np.convolve(noisy, weights, mode="same")
    reached = np.convolve(np.ones(len(noisy)), weights, mode="same")
    least = math.sqrt(variance * float(weights @ weights)) / float(weights.sum())
    return np.maximum(sums / reached, least)


def _ordered_predictions(uniform: Floats, reaches: Sequence[int], variance: float, noisy: Floats) -> list[Floats]:
    """What may predict a column: nothing, or neighbours at several reaches."""
    return [uniform, *(neighbour_means(noisy, reach, variance) for reach in reaches)]


def fit_shrunk(
    domain: Domain,
    measurements: Iterable[Measurement],
    *,
    cliques: Iterable[Clique] = (),
    total: float | None = None,
    constraints: Sequence[Constraint] = (),
    relaxed: bool = True,
    seed: int = 0,
) -> Solution[LocalModel]:
    """Tables over `cliques`, over everything measured and over all columns, that agree on what they share.

    `relaxed=False` leaves relaxed rows out, which is faster. `stats` has `relaxed_share`, their weight in pairs.
    Complexity: O(cells of all subsets of the cliques), times about a thousand for shrinking.

    Privacy: post-processing of noisy values.

    >>> domain = Domain({"a": 2, "b": 2, "c": 2})
    >>> noisy = [Measurement(("a", "b"), [[40.0, 1.0], [-2.0, 61.0]], 3.0), Measurement(("c",), [50.0, 50.0], 1.0)]
    >>> model = fit_shrunk(domain, noisy, cliques=[("a", "c")]).value
    >>> model.cliques, model.counts(("a", "b")).round().tolist()
    ((('a', 'b'), ('a', 'c')), [[38.0, 1.0], [0.0, 60.0]])
    """
    rules = checked(domain, constraints)
    listed = list(measurements)
    averages = residual_averages(domain, listed)
    if total is None and () not in averages:
        raise DataError("residuals do not say how many rows there are; give total=, or measure a table cell by cell")
    known = checked_total(total) if total is not None else max(float(averages[()].values), SMALLEST_TOTAL)
    merged = merged_pairs(listed)
    asked = dict.fromkeys(domain.varying(domain.clique(clique)) for clique in (*cliques, *averages, *merged))
    largest = [clique for clique in asked if clique]
    closed = {inner for clique in largest for k in range(1, len(clique)) for inner in combinations(clique, k)}
    position = {name: axis for axis, name in enumerate(domain)}
    every = sorted(
        {*closed, *largest, *((name,) for name in domain.varying())},
        key=lambda clique: (len(clique), [position[name] for name in clique]),
    )
    allowed = allowed_cells(Factors(domain, every), rules) if rules and every else {}

    smooth = relaxed and sum(residual.values.size for residual in averages.values()) <= MOST_SMOOTHED_CELLS
    shrunk = _ShrunkTables(domain, averages, known, allowed, seed, smooth, merged)
    columns, pairs = ([clique for clique in every if len(clique) == order] for order in (1, 2))
    share = shrunk.columns_and_pairs(columns, pairs, relaxed=relaxed)
    for order in range(3, 1 + max(map(len, every), default=0)):
        shrunk.larger([clique for clique in every if len(clique) == order])
    return shrunk.agreeing(rules, share)


def _nearest_share(
    first: Mapping[Clique, Floats], second: Mapping[Clique, Floats], noisy: Mapping[Clique, ResidualAverage]
) -> float:
    """The share of the second estimate that brings a mixture of two nearest to noisy residuals, in noise variances.

    The comparison finds it with the variance 1 / moved; a half with the variance 1 / `SHARE_DOUBT` is known before.
    """
    gained, moved = SHARE_DOUBT / 2, SHARE_DOUBT
    for clique, residual in noisy.items():
        gap = centred(second[clique] - first[clique])
        gained += float(np.sum(gap * (residual.values - centred(first[clique])))) / residual.variance
        moved += float(np.sum(gap**2)) / residual.variance
    return min(max(gained / moved, 0.0), 1.0)


@dataclass(slots=True)
class _ShrunkTables:
    """The tables found so far, by clique; each agrees with its smaller tables up to the sweeps of its fit."""

    domain: Domain
    averages: Mapping[Clique, ResidualAverage]
    total: float
    allowed: Mapping[Clique, Booleans]
    seed: int
    smooth: bool = False  # whether neighbours of ordered columns may predict cells of pairs
    merged: Mapping[Clique, Measurement] = field(default_factory=dict)
    tables: dict[Clique, Floats] = field(default_factory=dict)

    def columns(self, cliques: Sequence[Clique]) -> None:
        """Columns shrunk toward uniform ones; columns of few levels are only made non-negative."""
        noisy, wide = {}, []
        generator = np.random.Generator(np.random.PCG64(COMPARISON_SEED))
        for clique in cliques:
            uniform = np.full(self.domain.sizes(clique), self.total / self.domain.size(clique))
            self.tables[clique] = uniform
            if clique in self.averages:
                noisy[clique] = uniform + self.averages[clique].values
                self.tables[clique] = self.total * simplex_projection(noisy[clique] / self.total)
                if len(uniform) > FEW_LEVELS:
                    wide.append(clique)
        cells = []
        for clique in wide:
            variance, most = self._cell_variance(clique), np.full(len(noisy[clique]), self.total)
            uniform = np.full(len(most), self.total / len(most))
            reaches = [reach for reach in REACHES if 4 * reach < len(most)]
            known = NoisyCells(noisy[clique], uniform, most, variance)
            predicted = best_prediction(partial(_ordered_predictions, uniform, reaches, variance), known, generator)
            cells.append(replace(known, predicted=predicted))
        for clique, counts in zip(wide, shrink(cells), strict=True):
            self.tables[clique] = counts
        for clique in cliques:
            table = self._permitted(clique, np.maximum(self.tables[clique], LEAST_SHARE * self.total))
            self.tables[clique] = table * (self.total / table.sum())

    def columns_and_pairs(self, columns: Sequence[Clique], pairs: Sequence[Clique], *, relaxed: bool) -> float:
        """Columns, then pairs, both mixed with relaxed rows; returns the share of these in pairs."""
        self.columns(columns)
        rows = self._relaxed([*columns, *pairs]) if relaxed else None
        copy, compared = self._split() if rows else (self, {})
        rows_of_copy = copy._relaxed([*columns, *pairs]) if rows else None
        if rows is None or rows_of_copy is None:
            self.tables.update(self._shrunk(self._tree(pairs), smooth=self.smooth))
            return 0.0
        # Columns first, since pairs keep to them.
        copy.columns(columns)
        share = _nearest_share(copy.tables, rows_of_copy, {c: compared[c] for c in columns if c in compared})
        for tables, others in ((self.tables, rows), (copy.tables, rows_of_copy)):
            tables.update({clique: (1 - share) * tables[clique] + share * others[clique] for clique in columns})
        # Pairs that were not measured keep to the tree: rows have accidental associations there.
        measured = [clique for clique in pairs if clique in compared]
        found = []
        for estimate, others in ((copy, rows_of_copy), (self, rows)):
            by_tree = estimate._shrunk(estimate._tree(pairs), smooth=estimate.smooth)
            predicted = {clique: estimate._fitted(clique, others[clique], PAIR_SWEEPS) for clique in measured}
            found.append((by_tree, estimate._shrunk(predicted, smooth=estimate.smooth)))
        share = _nearest_share(*found[0], {clique: compared[clique] for clique in measured})
        by_tree, by_rows = found[1]
        self.tables.update(by_tree)
        self.tables.update({c: (1 - share) * by_tree[c] + share * by_rows[c] for c in measured})
        return share

    def _split(self) -> tuple[_ShrunkTables, dict[Clique, ResidualAverage]]:
        """Tables to be found from a copy with more noise, and the other copy, whose noise is independent, to compare.

        See `noise_split`.
        """
        generator = np.random.Generator(np.random.PCG64(self.seed))
        t = math.sqrt(SPLIT_VARIANCE)
        fitted: dict[Clique, ResidualAverage] = {}
        compared: dict[Clique, ResidualAverage] = {}
        for clique, residual in self.averages.items():
            normal = np.asarray(generator.standard_normal(residual.values.shape))
            z = centred(math.sqrt(residual.variance) * normal)
            fitted[clique] = ResidualAverage(residual.values + t * z, residual.variance * (1 + SPLIT_VARIANCE))
            compared[clique] = ResidualAverage(residual.values - z / t, residual.variance * (1 + 1 / SPLIT_VARIANCE))
        return replace(self, averages=fitted, smooth=False, tables={}), compared

    def larger(self, cliques: Sequence[Clique]) -> None:
        """Tables of one order shrunk toward those of largest entropy with the margins of smaller tables."""
        self.tables.update(self._shrunk({clique: self._fitted(clique, None, TABLE_SWEEPS) for clique in cliques}))

    def agreeing(self, rules: Sequence[Constraint], relaxed_share: float) -> Solution[LocalModel]:
        """The tables that are inside no other, brought to agree exactly."""
        inside = {inner for clique in self.tables for inner in combinations(clique, len(clique) - 1)}
        factors = Factors(self.domain, [clique for clique in self.tables if clique not in inside] or [()])
        self.tables.setdefault((), np.array(self.total))
        flat = np.concatenate([self.tables[clique].ravel() for clique in factors.cliques])
        allowed = {clique: mask for clique, mask in self.allowed.items() if clique in factors}
        polytope = LocalPolytope(factors, np.ones(len(factors)), self.total, allowed)
        nearest = polytope.nearest(flat, share=LARGEST_UNIFORM_SHARE, iterations=POLYTOPE_ITERATIONS)
        stats = {"relaxed_share": relaxed_share, "uniform_share": nearest.share, "iterations": nearest.iterations}
        status = SOLVED if nearest.solved else f"tables disagree by up to {nearest.share:.2g} of the total"
        model = LocalModel.of_tables(factors, nearest.counts, self.total, rules, seed=self.seed)
        return Solution(value=model, status=status, stats=stats)

    def _tree(self, cliques: Sequence[Clique]) -> dict[Clique, Floats]:
        """Every pair as the tree of the strongest measured pairs predicts it; pairs of the tree as independent.

        The table of two columns in the tree follows from the tables along the path between them: multiply the
        conditional probabilities. Columns that no path connects, or only one over tables of very many cells, are
        independent.
        """
        independent: dict[Clique, Floats] = {}
        for a, b in cliques:
            independent[a, b] = self._permitted((a, b), np.outer(self.tables[a,], self.tables[b,]) / self.total)
        # The spanning tree of the pairs that move farthest from independence, once shrunk.
        shrunk = self._shrunk({c: independent[c] for c in cliques if c in self.averages or c in self.merged})
        strength = {clique: float(np.abs(table - independent[clique]).sum()) for clique, table in shrunk.items()}
        neighbours: dict[str, list[tuple[str, Floats]]] = {name: [] for name in self.domain}
        edges = spanning_tree(sorted(strength, key=lambda clique: -strength[clique]))
        for a, b in edges:
            for name, other, table in ((a, b, shrunk[a, b]), (b, a, shrunk[a, b].T)):
                margin = self.tables[name,][:, None]
                conditional = np.divide(table, margin, out=np.zeros_like(table), where=margin > 0)
                neighbours[name].append((other, conditional))
        # From every column along all paths.
        wanted, predicted = set(cliques), dict(independent)
        for start in self.domain.varying():
            waiting: list[tuple[str, str, Floats | None]] = [(start, "", None)]
            while waiting:
                here, before, joint = waiting.pop()
                for name, conditional in neighbours[here]:
                    if name != before and self.domain[start] * self.domain[name] <= MOST_PATH_CELLS:
                        further = self.tables[start,][:, None] * conditional if joint is None else joint @ conditional
                        waiting.append((name, here, further))
                        if (start, name) in wanted and (start, name) not in edges:
                            possible = np.maximum(further, TREE_DOUBT * independent[start, name])
                            predicted[start, name] = self._permitted((start, name), possible)
        return predicted

    def _relaxed(self, cliques: Sequence[Clique]) -> dict[Clique, Floats] | None:
        """Columns and pairs of relaxed rows fitted to all residuals; None if that is slow, or the descent fails."""
        measured = [clique for clique in cliques if clique in self.averages]
        numbers = sum(self.averages[clique].values.size for clique in measured)
        seconds = RELAXED_ROWS * (numbers * SECONDS_PER_NUMBER + sum(self.domain.shape) * SECONDS_PER_LEVEL)
        iterations = int(MOST_RELAXED_SECONDS / seconds)
        pairs = sum(len(clique) == 2 for clique in measured)
        if iterations < FEWEST_RELAXED_ITERATIONS or self.allowed or pairs < 2:
            return None
        from scipy.linalg import helmert

        noisy = []
        freedom = 0
        for clique in measured:
            residual, sizes = self.averages[clique], self.domain.sizes(clique)
            stddev = math.sqrt(residual.variance)
            freedom += math.prod(size - 1 for size in sizes)
            if len(clique) == 1:
                noisy.append(Measurement(clique, residual.values + self.total / residual.values.size, stddev))
            else:  # the residual in independent numbers, without the sums that are zero
                contrasts = Kronecker([Dense(helmert(size)) for size in sizes])
                noisy.append(Measurement(clique, contrasts @ residual.values.ravel(), stddev, contrasts))
        fit = fit_relaxed(
            self.domain,
            noisy,
            total=self.total,
            rows=RELAXED_ROWS,
            tolerance=RELAXED_TOLERANCE,
            iterations=min(iterations, RELAXED_ITERATIONS),
            restraint=RELAXED_RESTRAINT,
            seed=self.seed,
        )
        return fit.value.many(cliques) if fit.stats["value"] <= LARGEST_MISFIT * freedom / 2 else None

    def _shrunk(self, predicted: Mapping[Clique, Floats], *, smooth: bool = False) -> dict[Clique, Floats]:
        """The predicted tables, those that were measured shrunk toward their predictions; fitted to their margins.

        With `smooth`, neighbours of ordered columns may predict the cells of pairs.
        """
        predicted = self._by_merged(predicted)
        listed = [clique for clique in predicted if clique in self.averages]
        generator = np.random.Generator(np.random.PCG64(COMPARISON_SEED))
        cells = []
        for clique in listed:
            most, low = np.full((), self.total), predicted[clique]
            for axis, size in enumerate(low.shape):
                margin = self.tables[clique[:axis] + clique[axis + 1 :]]
                # A cell is at most as large as each of its margins, which a prediction may not have.
                most = np.minimum(most, np.expand_dims(margin, axis))
                low = low + np.expand_dims((margin - low.sum(axis=axis)) / size, axis)
            noisy = low - centred(low) + self.averages[clique].values
            variance = self._cell_variance(clique)
            known = NoisyCells(noisy.ravel(), predicted[clique].ravel(), most.ravel(), variance)
            if smooth:
                chosen = best_prediction(partial(self._smoothed, clique, predicted[clique], variance), known, generator)
                known = replace(known, predicted=chosen)
            cells.append(known)
        found = dict(predicted)
        for clique, counts in zip(listed, shrink(cells), strict=True):
            start = self._permitted(clique, counts.reshape(predicted[clique].shape))
            found[clique] = self._fitted(clique, start, PAIR_SWEEPS if len(clique) == 2 else TABLE_SWEEPS)
        return found

    def _by_merged(self, predicted: Mapping[Clique, Floats]) -> dict[Clique, Floats]:
        """The predictions, those of pairs with a noisy merged table brought to this table once it is shrunk."""
        listed = [clique for clique in predicted if clique in self.merged]
        mergings = {clique: self.merged[clique].asked.merging for clique in listed}  # type: ignore[union-attr]
        cells = []
        for clique, merging in mergings.items():
            first, second = (merging.table((name,), self.tables[name,]) for name in clique)
            low = np.outer(first, second) / self.total
            noisy = low - centred(low) + centred(self.merged[clique].values.reshape(low.shape))
            variance = self.merged[clique].variance * math.prod(1 - 1 / size for size in low.shape)
            most = np.minimum.outer(first, second)
            merged = merging.table(clique, predicted[clique])
            cells.append(NoisyCells(noisy.ravel(), merged.ravel(), most.ravel(), variance))
        found, least = dict(predicted), LEAST_SHARE * self.total
        for (clique, merging), known, counts in zip(mergings.items(), cells, shrink(cells), strict=True):
            factors = np.maximum(counts, least) / np.maximum(known.predicted, least)
            levels = [merging.codes.get(name, np.arange(self.domain[name])) for name in clique]
            spread = factors.reshape([int(codes.max()) + 1 for codes in levels])[np.ix_(*levels)]
            found[clique] = self._fitted(clique, predicted[clique] * spread, MERGED_SWEEPS)
        return found

    def _smoothed(self, clique: Clique, predicted: Floats, variance: float, noisy: Floats) -> list[Floats]:
        """Predictions to choose from: the given one, and those where neighbours of ordered columns depart alike.

        Each cell departs from its prediction by the factor by which its neighbours together depart from theirs; the
        noise of these sums pulls the factor to 1.
        """
        from scipy.ndimage import convolve

        choices, noisy = [predicted.ravel()], noisy.reshape(predicted.shape)

        for reach in PAIR_REACHES:
            for axes in ((0,), (1,), (0, 1)):
                if any(4 * reach >= predicted.shape[axis] for axis in axes):
                    continue
                kernel = np.ones((1, 1))
                for axis in (0, 1):
                    reached = reach if axis in axes else 0
                    near = 1.0 + reached - np.abs(np.arange(-reached, reached + 1))
                    kernel = kernel * np.expand_dims(near, 1 - axis)
                kernel[kernel.shape[0] // 2, kernel.shape[1] // 2] = 0.0  # a cell does not predict itself
                doubt = math.sqrt(variance * float(np.sum(kernel**2)))
                seen, expected = (convolve(table, kernel, mode="constant") for table in (noisy, predicted))
                factors = np.maximum((seen + doubt) / (expected + doubt), LEAST_FACTOR)
                choices.append(self._fitted(clique, predicted * factors, SMOOTH_SWEEPS).ravel())
        return choices

    def _cell_variance(self, clique: Clique) -> float:
        """The variance of the noise of a cell after it was centred."""
        return self.averages[clique].variance * math.prod(1 - 1 / size for size in self.domain.sizes(clique))

    def _fitted(self, clique: Clique, start: Floats | None, sweeps: int) -> Floats:
        """A table brought to the margins of the smaller tables, from the start or from a uniform table."""
        margins = [(inner, self.tables[inner]) for inner in combinations(clique, len(clique) - 1)]
        begin = np.ones(self.domain.sizes(clique)) if start is None else start
        begin = self._permitted(clique, np.maximum(begin, LEAST_SHARE * self.total / begin.size))
        return proportional_fit(clique, margins, begin.shape, self.total, sweeps, start=begin)

    def _permitted(self, clique: Clique, table: Floats) -> Floats:
        """The table without the cells that rules forbid."""
        mask = self.allowed.get(clique)
        return table if mask is None else np.where(mask, table, 0.0)
