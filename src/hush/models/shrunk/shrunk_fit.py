"""Fit shrunk tables: columns first, then pairs, then larger tables, each shrunk toward what the smaller ones predict.

What was measured is averaged into residuals, one for each set of columns: what a table of these columns adds to its
smaller tables. Column by column, then set by set, a table is predicted, shrunk by `cell_prior.shrink`, and fitted to
the margins that were found before it:

- a column: predicted as uniform, or by neighbouring levels if the noisy counts show that neighbours are alike;
- a pair: predicted by the tree of the pairs with the strongest dependence, each of which is itself predicted as
  independent; in the tree, columns are independent given those between them;
- a larger table: the table of largest entropy with the margins of the smaller tables.

Pairs may also be predicted by relaxed rows, which see structure that no tree has. Both estimates are mixed. Their
weights come from two copies of the measured pairs with independent noise: estimates from the one copy are compared with
the other, so that noise that an estimate follows does not count as success.

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
from hush.models.fit_arguments import SMALLEST_TOTAL, checked_total
from hush.models.local.local_fit import allowed_cells
from hush.models.local.local_model import LocalModel
from hush.models.local.local_rows import proportional_fit
from hush.models.relaxed.relaxed_fit import fit_relaxed
from hush.models.shrunk.cell_prior import NoisyCells, best_prediction, shrink
from hush.privacy.measurement import Measurement, placed
from hush.strategies.residual_strategy import is_residual

FEW_LEVELS = 3  # of a column that is not shrunk: so few counts say nothing of the spread of counts
REACHES = (1, 2, 4, 8)  # how many neighbours on each side may predict a level of an ordered column
COMPARISON_SEED = 0  # public: predictions are compared on copies with more noise, drawn from it
PAIR_REACHES = (2,)  # the same for cells of a pair
SMOOTH_SWEEPS = 10  # of proportional fitting of such a prediction
LEAST_FACTOR = 0.02  # by which neighbours may lower a prediction
MOST_SMOOTHED_CELLS = 1 << 19  # of what was measured; with more, pairs are not predicted by neighbours
LEAST_SHARE = 1e-9  # of the rows that a level keeps, so that no prediction is zero
PAIR_SWEEPS, TABLE_SWEEPS = 50, 30  # of proportional fitting
RELAXED_ROWS, RELAXED_ITERATIONS, RELAXED_TOLERANCE, RELAXED_RESTRAINT = 300, 150, 0.1, 0.3
SECONDS_PER_NUMBER, SECONDS_PER_LEVEL = 0.4e-9, 15e-9  # of a relaxed row, for one iteration
MOST_RELAXED_SECONDS = 0.6  # of one descent, of four; if relaxed rows need more, the tree predicts alone
FEWEST_RELAXED_ITERATIONS = 40
TREE_DOUBT = 0.01  # of what independence predicts: a tree predicts no less, so that no cell is ruled out
SPLIT_VARIANCE = 0.25  # t^2 of the two copies: the one that is fitted has 1 + t^2 times the variance
POLYTOPE_ITERATIONS = 100
LARGEST_UNIFORM_SHARE = 1e-3  # of the uniform tables, mixed in to lift cells that are below zero


@dataclass(frozen=True, slots=True, eq=False)
class ResidualAverage:
    """The estimated residual of a set of columns: its cells add up to zero along every axis."""

    values: Floats
    variance: float  # of the noise of a cell, before it was centred


def residual_averages(domain: Domain, measurements: Iterable[Measurement]) -> dict[Clique, ResidualAverage]:
    """The best linear unbiased estimate of every residual, from tables and residuals that were measured.

    A table with noise of variance s^2 per cell holds the residual of each of its subsets A with the variance s^2 times
    the cells summed over; see `strategies.residual_strategy`. Other queries are refused. Cliques are in domain order,
    without columns of a single level.

    >>> domain = Domain({"a": 2, "b": 2})
    >>> averages = residual_averages(domain, [Measurement(("a", "b"), [[4.0, 0.0], [0.0, 4.0]], 1.0)])
    >>> averages["a", "b"].values.tolist(), {clique: residual.variance for clique, residual in averages.items()}
    ([[2.0, -2.0], [-2.0, 2.0]], {('a', 'b'): 1.0, ('a',): 2.0, ('b',): 2.0, (): 4.0})
    """
    sums: dict[Clique, Floats] = {}
    precisions: dict[Clique, float] = {}
    listed = list(measurements)
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
    averages = residual_averages(domain, measurements)
    if total is None and () not in averages:
        raise DataError("residuals do not say how many rows there are; give total=, or measure a table cell by cell")
    known = checked_total(total) if total is not None else max(float(averages[()].values), SMALLEST_TOTAL)
    asked = dict.fromkeys(domain.varying(domain.clique(clique)) for clique in (*cliques, *averages))
    largest = [clique for clique in asked if clique]
    closed = {inner for clique in largest for k in range(1, len(clique)) for inner in combinations(clique, k)}
    position = {name: axis for axis, name in enumerate(domain)}
    every = sorted(
        {*closed, *largest, *((name,) for name in domain.varying())},
        key=lambda clique: (len(clique), [position[name] for name in clique]),
    )
    allowed = allowed_cells(Factors(domain, every), rules) if rules and every else {}

    smooth = relaxed and sum(residual.values.size for residual in averages.values()) <= MOST_SMOOTHED_CELLS
    shrunk = _ShrunkTables(domain, averages, known, allowed, seed, smooth)
    shrunk.columns([clique for clique in every if len(clique) == 1])
    share = shrunk.pairs([clique for clique in every if len(clique) == 2], relaxed=relaxed)
    for order in range(3, 1 + max(map(len, every), default=0)):
        shrunk.larger([clique for clique in every if len(clique) == order])
    return shrunk.agreeing(rules, share)


@dataclass(slots=True)
class _ShrunkTables:
    """The tables found so far, by clique; each agrees with its smaller tables up to the sweeps of its fit."""

    domain: Domain
    averages: Mapping[Clique, ResidualAverage]
    total: float
    allowed: Mapping[Clique, Booleans]
    seed: int
    smooth: bool = False  # whether neighbours of ordered columns may predict cells of pairs
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

    def pairs(self, cliques: Sequence[Clique], *, relaxed: bool) -> float:
        """Pairs shrunk toward the tree, and toward relaxed rows if these help; returns the share of the latter."""
        measured = {clique: self.averages[clique] for clique in cliques if clique in self.averages}
        predicted = self._tree(cliques, measured)
        found = self._shrunk(predicted, measured, smooth=self.smooth)
        rows = self._relaxed(measured) if relaxed and len(measured) > 1 else None
        share = 0.0
        if rows is not None:
            # Two copies of the residuals with independent noise; see `noise_split`.
            generator = np.random.Generator(np.random.PCG64(self.seed))
            t = math.sqrt(SPLIT_VARIANCE)
            fitted, compared = {}, {}
            for clique, residual in measured.items():
                normal = np.asarray(generator.standard_normal(residual.values.shape))
                z = centred(math.sqrt(residual.variance) * normal)
                fitted[clique] = ResidualAverage(residual.values + t * z, residual.variance * (1 + SPLIT_VARIANCE))
                compared[clique] = residual.values - z / t
            by_tree = self._shrunk(self._tree(cliques, fitted), fitted)
            by_rows = self._shrunk(self._relaxed(fitted) or {}, fitted)
            # The share that brings the mixture nearest to the other copy, in standard deviations of its noise.
            gained = moved = 0.0
            for clique, residual in measured.items():
                gap = centred(by_rows[clique] - by_tree[clique]) / residual.variance
                gained += float(np.sum(gap * (compared[clique] - centred(by_tree[clique]))))
                moved += float(np.sum(gap**2)) * residual.variance
            # The noise of the other copy moves the gain by this much, so that a smaller gain proves nothing.
            doubt = math.sqrt(moved * (1 + 1 / SPLIT_VARIANCE))
            share = min(max((gained - doubt) / moved, 0.0), 1.0) if moved > 0 else 0.0
            by_rows = self._shrunk(rows, measured, smooth=self.smooth)
            found |= {clique: (1 - share) * found[clique] + share * by_rows[clique] for clique in measured}
        self.tables.update(found)
        return share

    def larger(self, cliques: Sequence[Clique]) -> None:
        """Tables of one order shrunk toward those of largest entropy with the margins of smaller tables."""
        predicted = {clique: self._fitted(clique, None, TABLE_SWEEPS) for clique in cliques}
        measured = {clique: self.averages[clique] for clique in cliques if clique in self.averages}
        self.tables.update(self._shrunk(predicted, measured))

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

    def _tree(self, cliques: Sequence[Clique], measured: Mapping[Clique, ResidualAverage]) -> dict[Clique, Floats]:
        """Every pair as the tree of the strongest measured pairs predicts it; pairs of the tree as independent.

        The table of two columns in the tree follows from the tables along the path between them: multiply the
        conditional probabilities. Columns that no path connects are independent.
        """
        independent: dict[Clique, Floats] = {}
        for a, b in cliques:
            independent[a, b] = self._permitted((a, b), np.outer(self.tables[a,], self.tables[b,]) / self.total)
        # The spanning tree of the pairs that move farthest from independence, once shrunk.
        shrunk = self._shrunk({clique: independent[clique] for clique in measured}, measured)
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
            waiting = [(start, "", np.diag(self.tables[start,]))]
            while waiting:
                here, before, joint = waiting.pop()
                for name, conditional in neighbours[here]:
                    if name != before:
                        further = joint @ conditional
                        waiting.append((name, here, further))
                        if (start, name) in wanted and (start, name) not in edges:
                            possible = np.maximum(further, TREE_DOUBT * independent[start, name])
                            predicted[start, name] = self._permitted((start, name), possible)
        return predicted

    def _relaxed(self, measured: Mapping[Clique, ResidualAverage]) -> dict[Clique, Floats] | None:
        """The measured pairs as relaxed rows predict them, which are fitted to all of them; None if that is slow."""
        numbers = sum(residual.values.size for residual in measured.values())
        seconds = RELAXED_ROWS * (numbers * SECONDS_PER_NUMBER + sum(self.domain.shape) * SECONDS_PER_LEVEL)
        iterations = int(MOST_RELAXED_SECONDS / seconds)
        if iterations < FEWEST_RELAXED_ITERATIONS or self.allowed:
            return None
        noisy = []
        for clique, table in self.tables.items():
            if len(clique) == 1 and clique in self.averages:
                noisy.append(Measurement(clique, table, math.sqrt(self.averages[clique].variance)))
        for clique, residual in measured.items():
            noisy.append(Measurement(clique, self._unbiased(clique, None, residual), math.sqrt(residual.variance)))
        fitted = fit_relaxed(
            self.domain,
            noisy,
            total=self.total,
            rows=RELAXED_ROWS,
            tolerance=RELAXED_TOLERANCE,
            iterations=min(iterations, RELAXED_ITERATIONS),
            restraint=RELAXED_RESTRAINT,
            seed=self.seed,
        )
        return {
            clique: self._fitted(clique, table, PAIR_SWEEPS) for clique, table in fitted.value.many(measured).items()
        }

    def _shrunk(
        self, predicted: Mapping[Clique, Floats], measured: Mapping[Clique, ResidualAverage], *, smooth: bool = False
    ) -> dict[Clique, Floats]:
        """The predicted tables, those that were measured shrunk toward their predictions; fitted to their margins.

        With `smooth`, neighbours of ordered columns may predict the cells of pairs.
        """
        listed = [clique for clique in predicted if clique in measured]
        generator = np.random.Generator(np.random.PCG64(COMPARISON_SEED))
        cells = []
        for clique in listed:
            most = np.full((), self.total)
            for axis in range(len(clique)):  # a cell is at most as large as each of its margins
                margin = self.tables[clique[:axis] + clique[axis + 1 :]]
                most = np.minimum(most, np.expand_dims(margin, axis))
            noisy = self._unbiased(clique, predicted[clique], measured[clique])
            variance = self._cell_variance(clique, measured[clique].variance)
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

    def _unbiased(self, clique: Clique, predicted: Floats | None, residual: ResidualAverage) -> Floats:
        """The table with the margins found before, and the measured residual."""
        if predicted is None:
            predicted = np.outer(self.tables[clique[:1]], self.tables[clique[1:]]) / self.total
        return np.asarray(predicted - centred(predicted) + residual.values)

    def _cell_variance(self, clique: Clique, variance: float | None = None) -> float:
        """The variance of the noise of a cell after it was centred."""
        given = self.averages[clique].variance if variance is None else variance
        return given * math.prod(1 - 1 / size for size in self.domain.sizes(clique))

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
