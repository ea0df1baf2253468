"""Private training: lots, noise, and steps of DP-SGD and DP-Adam for linear models and small networks.

g~ = (1/m) (sum_{i in lot} clip_L(grad_i) + N(0, (z S)^2 I)), clip_L(v) = v min(1, L / ||v||); S is 2L for lots of fixed
size, under replace-one, and L for Poisson lots, under add-remove. Epsilon is that of `training_privacy`.

Privacy: no row adds more than L to a sum, whatever finite numbers it holds and whatever the weights are: a row whose
gradient overflows adds nothing. Nothing raises or warns because of the content of a row. The noise is floating-point
noise, from a generator that the operating system seeds unless a seed is given. The theory covers real numbers; for the
last bits of floats nothing is proved [Mironov 2012]. Training noise does not pass the gate, and a trained model is not
a release of hush.

Reference: [DPareto, Alg. 3.3 and 3.4]; [Abadi et al. 2016]. Differs from [DPareto, sec. 3.4]: the sensitivity of a mean
of clipped gradients under replace-one is 2L/m, as in its algorithm, not L/m, as in its text.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import DataError
from hush.training._kernels import (
    ADAM_FLOOR,
    ADAM_MEAN_DECAY,
    ADAM_SQUARE_DECAY,
    fill_lots,
    private_steps,
    projected_pass,
)
from hush.training.training_privacy import steps_of

NOISE_BLOCK = 1 << 19  # noise values, or members of lots, drawn at a time
LEAST_CLIP, MOST_CLIP = 1e-30, 1e30  # within these, neither overflow nor underflow can defeat clipping
LARGEST_LAYER_VALUE = 1e100  # a row with larger values or errors in any layer adds nothing; squares stay finite
SPARSE_BYTES = 48  # per number of a matrix, while it is made sparse
PROJECTED_PASSES = 10  # over the rows


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRule:
    """The settings of training by noisy steps."""

    epochs: int
    lot: int
    learning_rate: float
    noise: float
    clip: float
    adam: bool = False
    poisson: bool = False

    @property
    def sensitivity(self) -> float:
        """How far one row moves a clipped sum: L if it comes or goes, 2L if it is replaced."""
        return self.clip if self.poisson else 2 * self.clip


@dataclass(frozen=True, slots=True)
class SparseRows:
    """The nonzero entries of rows. Unsigned indices save compiled loops the check for negative ones."""

    starts: Any  # (n + 1,) uint32
    columns: Any  # (entries,) uint8, uint16 or uint32
    values: Floats  # (entries,), or none where every entry is 1
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return len(self.starts) - 1, self.width

    @classmethod
    def of(cls, features: Floats | SparseRows) -> SparseRows:
        """The rows of a matrix; sparse rows themselves."""
        if isinstance(features, SparseRows):
            return features
        rows, columns = np.nonzero(features)
        if len(rows) >= 1 << 32:
            raise DataError(f"features with {len(rows):,} nonzero numbers: expected fewer than 2^32")
        starts = np.zeros(len(features) + 1, dtype=np.uint32)
        starts[1:] = np.cumsum(np.bincount(rows, minlength=len(features)))
        values = features[rows, columns].astype(np.float64, copy=False)
        narrow = columns.astype(np.min_scalar_type(features.shape[1]))
        return cls(starts, narrow, values[:0] if (values == 1).all() else values, features.shape[1])

    @property
    def entries(self) -> Floats:
        """The values, including those that are all 1."""
        return self.values if len(self.values) else np.ones(len(self.columns))

    @property
    def squares(self) -> Floats:
        """||x_i||^2, each row summed separately: cancellation in a running sum could defeat clipping."""
        counts = np.diff(self.starts.astype(np.int64))
        if not len(self.values):
            return np.asarray(counts, dtype=np.float64)
        owners = np.repeat(np.arange(len(counts)), counts)
        return np.asarray(np.bincount(owners, self.values**2, len(counts)), dtype=np.float64)


def draw_lots(
    rows: int, lot: int, steps: int, generator: np.random.Generator, *, poisson: bool = False
) -> tuple[Any, Any]:
    """Independent lots for several steps, one after the other, and where each begins and ends.

    Fixed: uniform subsets of `lot` rows, without replacement. Poisson: each row with probability lot / rows, which is
    a uniform subset of binomial size. Rows are drawn one by one; a row that its lot holds already is drawn again.
    """
    sizes = generator.binomial(rows, lot / rows, size=steps) if poisson else np.full(steps, lot)
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32)
    if 2 * lot > rows:  # most draws would be repeats
        chosen = [generator.choice(rows, size, replace=False, shuffle=False) for size in sizes]
        return np.concatenate(chosen).astype(np.uint32), ends
    lots, taken = np.empty(int(ends[-1]), dtype=np.uint32), np.full(rows, -1, dtype=np.int64)
    filled = step = 0
    while filled < len(lots):
        drawn = generator.integers(rows, size=len(lots) - filled, dtype=np.uint32)
        filled, step = fill_lots(drawn, ends, taken, lots, filled, step)
    return lots, ends


def blocks(rule: TrainingRule, rows: int, size: int) -> Iterator[tuple[int, int]]:
    """The first step and the number of steps of each block whose noise and lots are drawn together."""
    steps = steps_of(rows, rule.lot, rule.epochs)
    at_once = max(1, NOISE_BLOCK // max(size, rule.lot))
    for first in range(0, steps, at_once):
        yield first, min(at_once, steps - first)


@np.errstate(all="ignore")
def train_linear(
    features: SparseRows,
    labels: Floats,  # (n,) -1 or 1
    rule: TrainingRule,
    generator: np.random.Generator,
    *,
    hinge: bool,
) -> Floats:
    """The weights of a linear model, intercept last, starting at 0. Training stops if a weight is not finite."""
    weights, moments = np.zeros(features.width + 1), np.zeros((2, features.width + 1))
    norms = np.sqrt(features.squares + 1.0)
    for first, steps in blocks(rule, len(labels), len(weights)):
        lots, ends = draw_lots(len(labels), rule.lot, steps, generator, poisson=rule.poisson)
        noise = generator.standard_normal((steps, len(weights)))
        noise *= rule.noise * rule.sensitivity
        private_steps(
            features.starts, features.columns, features.values, norms, labels, lots, ends, noise, weights, moments,
            first, float(rule.lot), float(rule.clip), float(rule.learning_rate), hinge, rule.adam,
        )  # fmt: skip
        if not np.isfinite(weights).all():
            break
    return weights


class Network:
    """A network of ReLU layers and a softmax; gradients of single rows are clipped without being written out.

    The gradient of row i in a layer with inputs a and errors d is d_i (a_i, 1)^T, of squared norm
    |d_i|^2 (|a_i|^2 + 1). So the norm over all layers needs these vectors only, and the clipped sum is one matrix
    product per layer.
    """

    def __init__(self, sizes: tuple[int, ...], generator: np.random.Generator) -> None:
        self.layers = [
            generator.standard_normal((a + 1, b)) * math.sqrt(2 / (a + b)) for a, b in itertools.pairwise(sizes)
        ]
        for layer in self.layers:
            layer[-1] = 0.0  # biases

    def outputs(self, features: Floats) -> list[Floats]:
        """The values of every layer: first the inputs, last the scores."""
        values = [features]
        for index, layer in enumerate(self.layers):
            scores = values[-1] @ layer[:-1] + layer[-1]
            values.append(scores if index == len(self.layers) - 1 else np.maximum(scores, 0.0))
        return values

    def clipped_sums(self, features: Floats, classes: Integers, clip: float) -> list[Floats]:
        """The sum of the clipped gradients of some rows, layer by layer; rows whose gradients overflow are left out.

        Squares of numbers up to `LARGEST_LAYER_VALUE` are finite. Where a square underflows, the gradient is far below
        any clip, so norms are right. Where a product of squares overflows, the norm is infinite and the factor 0.
        """
        # back-propagate the errors of each row through the layers
        values = self.outputs(features)
        errors = softmax(values[-1])
        errors[np.arange(len(classes)), classes] -= 1.0
        chain = [errors]
        for index in range(len(self.layers) - 1, 0, -1):
            chain.append((chain[-1] @ self.layers[index][:-1].T) * (values[index] > 0))
        chain.reverse()
        # leave out rows that overflowed; NaN compares false
        largest = np.max([np.abs(layer).max(axis=1) for layer in (*values, *chain)], axis=0)
        if not (inside := largest <= LARGEST_LAYER_VALUE).all():
            return self.clipped_sums(features[inside], classes[inside], clip)
        # clip each row by its norm over all layers
        squares = sum((d**2).sum(axis=1) * ((a**2).sum(axis=1) + 1) for a, d in zip(values[:-1], chain, strict=True))
        norms = np.sqrt(squares)
        factors = np.minimum(1.0, clip / np.maximum(norms, 1e-300))[:, None]
        ones = np.ones((len(features), 1))
        return [np.hstack([a, ones]).T @ (d * factors) for a, d in zip(values[:-1], chain, strict=True)]


def network_bytes(sizes: tuple[int, ...], lot: int) -> int:
    """An upper bound on the memory for training: weights, moments, sums and noise, and every layer of a lot."""
    weights = sum((a + 1) * b for a, b in itertools.pairwise(sizes))
    return 8 * (7 * weights + 4 * lot * sum(sizes))


def softmax(scores: Floats) -> Floats:
    """Probabilities from scores, row by row."""
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


@np.errstate(all="ignore")
def train_network(
    features: Floats, classes: Integers, sizes: tuple[int, ...], rule: TrainingRule, generator: np.random.Generator
) -> Network:
    """A trained network, started from scaled Gaussian weights. Training stops if a weight is not finite."""
    network = Network(sizes, generator)
    moments = [(np.zeros_like(layer), np.zeros_like(layer)) for layer in network.layers]
    size = sum(layer.size for layer in network.layers)
    for first, steps in blocks(rule, len(classes), size):
        lots, ends = draw_lots(len(classes), rule.lot, steps, generator, poisson=rule.poisson)
        for step in range(steps):
            chosen = lots[ends[step] : ends[step + 1]]
            sums = network.clipped_sums(features[chosen], classes[chosen], rule.clip)
            for layer, total, (mean, square) in zip(network.layers, sums, moments, strict=True):
                noise = rule.noise * rule.sensitivity * generator.standard_normal(total.shape)
                gradient = (total + noise) / rule.lot
                if rule.adam:  # as `adam_step` for linear models
                    count = first + step + 1
                    mean *= ADAM_MEAN_DECAY
                    mean += (1 - ADAM_MEAN_DECAY) * gradient
                    square *= ADAM_SQUARE_DECAY
                    square += (1 - ADAM_SQUARE_DECAY) * gradient**2
                    root = np.sqrt(square / (1 - ADAM_SQUARE_DECAY**count)) + ADAM_FLOOR
                    gradient = (mean / (1 - ADAM_MEAN_DECAY**count)) / root
                layer -= rule.learning_rate * gradient
        if not all(np.isfinite(layer).all() for layer in network.layers):
            break
    return network


@np.errstate(all="ignore")
def train_projected(features: Floats, labels: Floats, gamma: float, generator: np.random.Generator) -> Floats:
    """The weights of a regularised logistic regression without intercept, by projected SGD without noise."""
    rows, weights = SparseRows.of(shortened(features)), np.zeros(features.shape[1])
    for number in range(PROJECTED_PASSES):
        order, steps_before = generator.permutation(len(labels)), number * len(labels)
        projected_pass(rows.starts, rows.columns, rows.entries, labels, order, weights, float(gamma), steps_before)
    return weights


def shortened(features: Floats) -> Floats:
    """Rows scaled to length 1 if they are longer; a row whose length overflows becomes zero.

    Privacy: the sensitivity of output perturbation holds only for rows of length at most 1.
    """
    return np.asarray(features / np.maximum(np.linalg.norm(features, axis=1), 1.0)[:, None])


def checked_rows(features: Any, width: int | None = None) -> Floats:
    """The features as a dense matrix of finite numbers; accepts sparse matrices of scipy."""
    values = features.toarray() if hasattr(features, "toarray") else features
    try:
        matrix = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError("features: expected a matrix of numbers, one row for each person") from None
    if matrix.ndim != 2 or not matrix.size:
        raise DataError(f"features of shape {matrix.shape}: expected a matrix with rows and columns")
    if not np.isfinite(matrix).all():
        raise DataError("features: expected finite numbers; fill in missing values or leave out their rows")
    if width is not None and matrix.shape[1] != width:
        raise DataError(f"features have {matrix.shape[1]} columns; the model was trained on {width}")
    return matrix
