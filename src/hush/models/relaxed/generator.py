"""RowGenerator: a small network whose outputs, for fixed random inputs, are relaxed rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from hush.core.arrays import Floats
from hush.core.constraints import Constraint
from hush.core.domain import Domain
from hush.core.errors import WorkloadError
from hush.core.solution import SOLVED, Solution
from hush.core.validation import check_whole
from hush.models.fit_arguments import estimate_total
from hush.models.relaxed._kernels import normalise
from hush.models.relaxed.relaxed_fit import (
    LEAST_START_SHARE,
    Adam,
    check_model,
    check_size,
    column_shares,
    relaxed_bytes,
)
from hush.models.relaxed.relaxed_loss import RelaxedLoss
from hush.models.relaxed.relaxed_rows import CoarseLevels, RelaxedRows
from hush.privacy.measurement import Measurement, placed

GENERATOR_ROWS = 500
HIDDEN_UNITS = 128
INPUTS = 32  # random numbers that each row is made from
START_SPREAD = 0.1  # standard deviation of the first logits between rows, so that columns begin nearly independent
WEIGHT_MEMORY = 0.9  # of the moving average of the weights, per step
ADAM = Adam(rate=0.003)  # faster steps leave more association between columns that no table ties
GENERATOR_ITERATIONS = 600
STEPS_PER_CHECK = 10  # between losses of the averaged weights
ARRAYS_OF_WEIGHTS = 8  # weights, gradient, the averages of Adam and of the weights, and what a step makes


class RowGenerator:
    """Relaxed rows made by a network of one hidden layer: row j has softmax(V relu(W z_j + a) + b) in every column.

    The inputs z_1, ..., z_B are drawn once from a standard normal distribution and stay as they are; the weights W, a,
    V and b are fitted. Columns named in `joined` have a probability for each of their levels; any other column is the
    same in all rows, with the shares of its own noisy tables. The first biases b are the logarithms of the column
    shares, and the first V is small, so that the first rows are nearly the product of the columns.

    Privacy: post-processing of public noisy values; `seed` is public.
    Reference: [Liu et al. 2021, sec. 5]. Differs from [Liu et al. 2021]: one hidden layer; the start is the product of
    the columns, where the paper starts at random.

    >>> domain = Domain({"a": 2, "b": 2})
    >>> noisy = [Measurement(("a", "b"), [[40.0, 10.0], [10.0, 40.0]], 1.0)]
    >>> RowGenerator(domain, domain, noisy, rows=50).fit(domain, noisy).value.counts(("a", "b")).round(-1).tolist()
    [[40.0, 10.0], [10.0, 40.0]]
    """

    def __init__(
        self,
        domain: Domain,
        joined: Collection[str],
        measurements: Iterable[Measurement],
        *,
        rows: int = GENERATOR_ROWS,
        hidden: int = HIDDEN_UNITS,
        seed: int = 0,
    ) -> None:
        check_whole(WorkloadError, "rows", rows, least=1)
        check_whole(WorkloadError, "hidden", hidden, least=1)
        codes = {
            name: np.arange(size) if name in joined else np.zeros(size, dtype=np.int64)
            for name, size in zip(domain, domain.shape, strict=True)
        }
        self.coarse = CoarseLevels.even(domain, codes)
        width = int(self.coarse.offsets[-1])
        check_size(rows, width, None)

        # All weights are views of one vector, so that a step is one operation on it.
        random = np.random.Generator(np.random.PCG64([seed, rows, hidden, width]))
        self._inputs = random.standard_normal((INPUTS, rows))
        self._shapes = (hidden, INPUTS), (hidden, 1), (width, hidden), (width, 1)
        self.weights = np.zeros(sum(a * b for a, b in self._shapes))
        first, _, last, bias = self._layers(self.weights)
        first[:] = random.standard_normal(first.shape) / np.sqrt(INPUTS)
        last[:] = START_SPREAD * random.standard_normal(last.shape) / np.sqrt(hidden / 2)  # half of the units are 0
        ordered = placed(domain, measurements)
        shares = column_shares(self.coarse, ordered, estimate_total(domain, ordered)[0])
        merged = np.concatenate([self.coarse.merged(name, shares[name]) for name in domain])
        bias[:, 0] = np.log(np.maximum(merged, LEAST_START_SHARE))

    def _layers(self, weights: Floats) -> list[Floats]:
        """W, a, V and b as views of a vector."""
        ends = np.cumsum([a * b for a, b in self._shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(weights, ends), self._shapes, strict=True)]

    def _forward(self, weights: Floats) -> tuple[Floats, Floats]:
        """The hidden units and the probabilities of all rows: (hidden, rows) and (levels, rows)."""
        first, offset, last, bias = self._layers(weights)
        hidden = np.maximum(first @ self._inputs + offset, 0.0)
        logits = last @ hidden + bias
        offsets = self.coarse.offsets
        logits -= np.repeat(np.maximum.reduceat(logits, offsets[:-1], axis=0), np.diff(offsets), axis=0)
        levels = np.exp(logits, out=logits)
        normalise(levels, offsets, np.empty(levels.shape[1]))
        return hidden, levels

    def value_and_gradient(self, loss: RelaxedLoss, weights: Floats) -> tuple[float, Floats]:
        """The loss of the rows that some weights make, and its gradient by the weights.

        With p the probabilities of a column in a row and g the gradient by them, the gradient by the logits is
        p (g - sum p g).
        """
        hidden, levels = self._forward(weights)
        rows = levels.shape[1]
        value, slope = loss.value_and_gradient(levels, np.full(rows, 1.0 / rows))
        slope = slope * levels
        offsets = self.coarse.offsets
        sums = np.add.reduceat(slope, offsets[:-1], axis=0)
        slope -= levels * np.repeat(sums, np.diff(offsets), axis=0)
        gradient = np.empty_like(weights)
        by_first, by_offset, by_last, by_bias = self._layers(gradient)
        np.matmul(slope, hidden.T, out=by_last)
        by_bias[:, 0] = slope.sum(axis=1)
        inner = (self._layers(weights)[2].T @ slope) * (hidden > 0)
        np.matmul(inner, self._inputs.T, out=by_first)
        by_offset[:, 0] = inner.sum(axis=1)
        return value, gradient

    def fit(
        self,
        domain: Domain,
        measurements: Iterable[Measurement],
        *,
        constraints: Sequence[Constraint] = (),
        iterations: int = GENERATOR_ITERATIONS,
    ) -> Solution[RelaxedRows]:
        """Move the weights towards noisy answers by Adam, from where they are, and make rows of their moving average.

        The loss L is half the sum of squared residuals over sigma^2, as in `fit_relaxed`. The descent stops when the
        averaged weights have L <= m / 2 for m noisy numbers, the expected loss of the truth, or after `iterations`
        steps. The next fit starts from the averaged weights.

        Not convex: more iterations need not reach L = m / 2.

        Privacy: post-processing.
        Reference: [Liu et al. 2021, sec. 5]; the stop is the discrepancy principle of [Morozov 1966]. Differs from
        [Liu et al. 2021]: the average is over the steps of one fit, where the paper averages the networks of the last
        half of the rounds; squared residuals are weighted by their noise, where the paper adds up absolute ones; the
        paper stops when no answer is further off than the chosen one was.
        """
        check_model(domain, constraints, None)
        check_whole(WorkloadError, "iterations", iterations, least=1)
        ordered = placed(domain, measurements)
        total = estimate_total(domain, ordered)[0]
        coarse = self.coarse.with_shares(column_shares(self.coarse, ordered, total))
        loss = RelaxedLoss(coarse, ordered, total)
        weights, average = self.weights.copy(), self.weights
        mean, square = np.zeros((2, len(weights)))
        step, value = 0, np.inf
        while True:
            if step % STEPS_PER_CHECK == 0 or step == iterations:
                value, _ = self.value_and_gradient(loss, average)
                if value <= 0.5 * loss.numbers or step == iterations:
                    break
            step += 1
            _, gradient = self.value_and_gradient(loss, weights)
            mean += (1 - ADAM.mean_memory) * (gradient - mean)
            square += (1 - ADAM.square_memory) * (gradient * gradient - square)
            fresh, fresh_square = 1 - ADAM.mean_memory**step, 1 - ADAM.square_memory**step
            weights -= ADAM.rate * (mean / fresh) / (np.sqrt(square / fresh_square) + 1e-30)
            average += (1 - WEIGHT_MEMORY) * (weights - average)
        unfinished = f"the loss is still above that of the truth after {iterations} iterations; raise iterations"
        status = SOLVED if value <= 0.5 * loss.numbers else unfinished
        rows = np.ascontiguousarray(self._forward(average)[1].T)
        stats = {"iterations": float(step), "value": value}
        cliques = dict.fromkeys(measurement.clique for measurement in ordered if measurement.clique)
        return Solution(value=RelaxedRows(coarse, rows, total, cliques=cliques), status=status, stats=stats)

    @property
    def products(self) -> int:
        """How many numbers one step multiplies: each weight and row once forwards and twice backwards."""
        return 3 * len(self.weights) * len(self._inputs[0])


def generator_bytes(rows: int, hidden: int, widths: Sequence[int], levels: int, largest: int) -> int:
    """An upper bound on the bytes of a fit at its peak; as `relaxed_bytes`, with the weights and the hidden units."""
    weights = hidden * (INPUTS + 1) + (hidden + 1) * sum(widths)
    network = ARRAYS_OF_WEIGHTS * weights + 4 * hidden * rows + INPUTS * rows
    return relaxed_bytes(rows, widths, levels, largest) + 8 * network
