"""Non-negative cells: a data vector x >= 0 over all measured attributes that fits a linear release best. Biased.

    nnls:    x = argmin_{x >= 0}  sum_j |Q_j x - y_j|^2 / s_j^2    over the noisy answers y_j of all parts j;
    hybrid:  x = argmin_{x >= 0}  sum_t w_t |W_t x - z_t|^2        over the least squares answers z_t to all terms t.

Hybrid projects z onto the cone of answers that some non-negative data has. The true answers are in it, so the weighted
total of squared errors of W x is never above that of z. It equals the least squares answers where these already are
those of non-negative data. NNLS has no such promise: where every cell was measured by itself it clips cell by cell, and
sums over many cells are far too large.

Reference: [Li 2013, sec. 3.5.3], which recommends hybrid, published with the intervals of least squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.errors import SizeError, WorkloadError, shown
from hush.inference.estimates import Estimates
from hush.inference.linear_answers import LinearAnswers
from hush.inference.local_estimates import LocalEstimates
from hush.inference.nonnegative_squares import VECTORS, nonnegative_squares
from hush.linops import Identity, LinearOperator, Total
from hush.linops.along import along
from hush.memory import available_memory, readable
from hush.solution import Solution
from hush.strategies.draft import Recovery
from hush.strategies.joint import JointPrecision
from hush.strategies.linear import LinearStrategy
from hush.strategies.part import Part
from hush.workloads import Term, Workload
from hush.workloads.term import merged

Floats = np.ndarray[Any, np.dtype[np.float64]]

METHODS = ("hybrid", "nnls")
LARGEST_GRAM = 4096  # levels up to which the Gram matrix of a block is held


def measured_clique(answers: LinearAnswers) -> Clique:
    """The attributes that any part measured, in domain order."""
    return answers.strategy.domain.clique({name for part in answers.filled for name in part.clique})


def nonnegative_cells(
    answers: LinearAnswers,
    estimates: Estimates,
    workload: Workload,
    *,
    method: str = "hybrid",
    tolerance: float = 1e-3,
    iterations: int = 20_000,
) -> Solution[Floats]:
    """The non-negative counts over `measured_clique(answers)` by one of `METHODS`, one axis per attribute.

    `estimates` are the least squares estimates of the release, for hybrid. The weighted answers are certified to be
    within `tolerance` times the root of their total noise variance of the optimal ones. Where the answers do not
    determine all cells, so that several x are optimal, one of them is given.

    Complexity: O(cells * levels) per axis, term or part, and product; hundreds to thousands of products.
    """
    if method not in METHODS:
        raise WorkloadError(f"method={shown(method)}: expected one of {', '.join(METHODS)}")
    if not answers.filled:
        raise WorkloadError("nothing was measured before the release was interrupted, so there are no cells to give")
    _check_memory(answers, workload)
    clique = measured_clique(answers)
    sizes = answers.strategy.domain.sizes(clique)
    if method == "nnls":
        joint = JointPrecision(answers.strategy.domain, answers.filled)
        target = np.zeros(sizes)
        for part in joint.parts:
            target += joint.spread(part, answers.of(part)) / part.variance
        noise = float(sum(math.prod(part.query.shape) for part in joint.parts))
        product = joint.apply
    else:
        asked = _TermSquares(clique, sizes, list(merged(workload)))
        target, noise = asked.target(answers, estimates)
        product = asked.apply
    found = nonnegative_squares(
        lambda x: product(x.reshape(sizes)).ravel(),
        target.ravel(),
        accuracy=tolerance * math.sqrt(noise),
        iterations=iterations,
    )
    return Solution(value=found.value.reshape(sizes), status=found.status, stats=found.stats)


def block_answers(clique: Clique, counts: Floats, term: Term) -> Floats:
    """The answers to a term from counts over a clique that holds its attributes, one axis per block."""
    gone = tuple(axis for axis, name in enumerate(clique) if name not in term.clique)
    order = [name for name in clique if name in term.clique]
    values = np.transpose(counts.sum(axis=gone), [order.index(name) for name in term.clique])
    for axis, block in enumerate(term.blocks):
        values = _applied(block, values, axis)
    return values


class _TermSquares:
    """sum_t w_t W_t^T W_t over the cells of a clique, applied axis by axis."""

    def __init__(self, clique: Clique, sizes: Sequence[int], terms: list[Term]) -> None:
        self.clique = clique
        self.sizes = tuple(sizes)
        self.terms = terms
        self._grams: dict[LinearOperator, Floats] = {}

    def apply(self, counts: Floats) -> Floats:
        """H x."""
        total = np.zeros(self.sizes)
        for term in self.terms:
            gone = tuple(axis for axis, name in enumerate(self.clique) if name not in term.clique)
            total += self._squared(term, counts.sum(axis=gone, keepdims=True))
        return total

    def target(self, answers: LinearAnswers, estimates: Estimates) -> tuple[Floats, float]:
        """b = sum_t w_t W_t^T z_t and the weighted sum of the variances of z."""
        parts = LinearStrategy(answers.strategy.domain, tuple(answers.filled), Recovery.LOCAL, answers.strategy.method)
        marginals = answers.strategy.recovery is Recovery.MARGINALS
        alone: dict[int, Estimates] = {}
        total, noise = np.zeros(self.sizes), 0.0
        for term in self.terms:
            own = estimates
            if isinstance(estimates, LocalEstimates) and len(parts.parts) > 1:
                part = parts.part_for(term)
                if id(part) not in alone:
                    alone[id(part)] = _alone(answers, part)
                own = alone[id(part)]
            noise += term.weight * (answers.strategy if marginals else parts).total_variance(term)
            if own.covers(term.clique):
                total += self._squared(term, self._placed(term, own.counts(term.clique)))
            else:
                values, _ = own.product(term.clique, [block.gram() for block in term.blocks])
                total += term.weight * self._placed(term, values)
        return total, noise

    def _squared(self, term: Term, values: Floats) -> Floats:
        """w W^T W along the axes of a term; the others have length one."""
        for name, block in zip(term.clique, term.blocks, strict=True):
            axis = self.clique.index(name)
            if isinstance(block, Total):
                values = np.broadcast_to(values.sum(axis=axis, keepdims=True), values.shape)
            elif block.shape[1] > LARGEST_GRAM:
                values = _applied(block.gram(), values, axis)
            elif not isinstance(block, Identity):
                if block not in self._grams:
                    self._grams[block] = block.gram_dense()
                values = along(self._grams[block], values, axis)
        return term.weight * values

    def _placed(self, term: Term, values: Floats) -> Floats:
        """An array over a term's attributes, in its order, with an axis of length one for every other attribute."""
        order = [name for name in self.clique if name in term.clique]
        shape = [size if name in term.clique else 1 for name, size in zip(self.clique, self.sizes, strict=True)]
        return np.transpose(values, [term.clique.index(name) for name in order]).reshape(shape)


def _alone(answers: LinearAnswers, part: Part) -> LocalEstimates:
    """Estimates from one part, as local recovery makes them for the terms that it answers best."""
    strategy = answers.strategy
    own = LinearAnswers(LinearStrategy(strategy.domain, (part,), Recovery.LOCAL, strategy.method))
    own[0] = answers.values[strategy.parts.index(part)]
    return LocalEstimates(own)


def _applied(block: LinearOperator, values: Floats, axis: int) -> Floats:
    moved = np.moveaxis(values, axis, 0)
    made = block.matmat(np.ascontiguousarray(moved).reshape(moved.shape[0], -1))
    return np.moveaxis(made.reshape((-1, *moved.shape[1:])), 0, axis)


def _check_memory(answers: LinearAnswers, workload: Workload) -> None:
    """Refuse a domain whose vectors, or whose answers while they are computed, would not fit."""
    names = measured_clique(answers)
    cells = answers.strategy.domain.size(names)
    widest = max(math.prod(max(f.rows, f.size) for f in part.factors) for part in answers.filled)
    blocks = {block for term in workload for block in term.blocks if not isinstance(block, Identity | Total)}
    held = sum(block.shape[1] ** 2 for block in blocks if block.shape[1] <= LARGEST_GRAM)
    needed, free = 8 * (VECTORS * cells + 3 * widest + held), available_memory()
    if needed > 0.8 * free:
        raise SizeError(
            f"non-negative counts over {', '.join(names)} have {cells:,} cells and need {readable(needed)}, more than "
            f"the {readable(0.8 * free)} that can be had; use tables(kind='nonnegative'), which works table by table, "
            "or method='clip' for the answers to one term"
        )
