"""The compiled loops give what plain numpy gives, and gradients are derivatives."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from hush.models.relaxed import relaxed_rows
from hush.models.relaxed._kernels import adam_step, normalise, predict_table, predict_targets, pull_table, pull_targets

Array = np.ndarray[Any, Any]
ROWS, SIZES = 6, (2, 3, 4, 5)
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)]).astype(np.int64)


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(3))


def levels_of(generator: np.random.Generator) -> tuple[Array, Array]:
    blocks = [generator.dirichlet(np.ones(n), ROWS).T for n in SIZES]
    return np.ascontiguousarray(np.concatenate(blocks)), generator.dirichlet(np.ones(ROWS))


def twin(levels: Array, weights: Array, table: tuple[int, ...]) -> Array:
    product = weights[None]
    for axis in table:
        block = levels[OFFSETS[axis] : OFFSETS[axis + 1]]
        product = (product[:, None] * block[None]).reshape(-1, ROWS)
    return np.asarray(product.sum(axis=1))


@pytest.mark.parametrize("held", [1, 3, 128])
@pytest.mark.parametrize("table", [(1,), (1, 3), (2, 0, 3), (0, 1, 2, 3)], ids=str)
def test_tables_and_their_gradients_are_those_of_numpy(
    generator: np.random.Generator, table: tuple[int, ...], held: int
) -> None:
    levels, weights = levels_of(generator)
    axes = np.array([OFFSETS[axis] for axis in table]), np.array([SIZES[axis] for axis in table])
    cells = math.prod(axes[1].tolist())
    predicted, slope, gradient = np.empty(cells), generator.normal(size=cells), np.zeros_like(levels)
    products, folded = np.empty((2, len(table), ROWS))
    at_a_time = np.empty((held, ROWS))
    predict_table(levels, weights, *axes, products, at_a_time, predicted)
    assert predicted == pytest.approx(twin(levels, weights, table), abs=1e-14)
    pull_table(levels, weights, *axes, products, folded, at_a_time, slope, gradient)
    for level, row in itertools.product(range(len(levels)), range(ROWS)):
        moved = levels.copy()
        moved[level, row] += 1.0  # answers are linear in each number, so a step of one is exact
        change = slope @ (twin(moved, weights, table) - twin(levels, weights, table))
        assert gradient[level, row] == pytest.approx(change, abs=1e-10)


@pytest.mark.parametrize("held", [1, 12, 60, 1 << 17])
def test_whole_tables_are_those_of_numpy_however_little_is_held(
    generator: np.random.Generator, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaxed_rows, "PRODUCTS_HELD", held)
    levels, weights = levels_of(generator)
    for table in [(), (1,), (1, 3), (2, 0, 3), (0, 1, 2, 3)]:
        columns = [levels[OFFSETS[axis] : OFFSETS[axis + 1]] for axis in table]
        found = relaxed_rows.mean_product(columns, weights)
        assert found.shape == tuple(SIZES[axis] for axis in table)
        assert found.reshape(-1) == pytest.approx(twin(levels, weights, table), abs=1e-14)


def chance(x: Array, at_least: int) -> float:
    """By the definition: the sum over all patterns with so many ones."""
    patterns = itertools.product((0, 1), repeat=len(x))
    return sum(
        math.prod(float(p) if bit else 1 - float(p) for p, bit in zip(x, bits, strict=True))
        for bits in patterns
        if sum(bits) >= at_least
    )


@pytest.mark.parametrize("size", [1, 3, 4])
def test_targets_are_tails_and_their_gradients_derivatives(generator: np.random.Generator, size: int) -> None:
    levels, weights = levels_of(generator)
    columns = np.array([[OFFSETS[axis] + 1 for axis in range(size)]] * size)
    at_least, sizes = np.arange(1, size + 1), np.full(size, size)
    room = np.empty(size), np.empty(size + 2)
    predicted, gradient = np.empty(size), np.zeros_like(levels)

    def answers(z: Array) -> Array:
        return np.array(
            [sum(w * chance(row[columns[0]], r) for w, row in zip(weights, z.T, strict=True)) for r in at_least]
        )

    predict_targets(levels, weights, columns, sizes, at_least, *room, predicted)
    assert predicted == pytest.approx(answers(levels), abs=1e-14)
    slope = generator.normal(size=size)
    pull_targets(levels, weights, columns, sizes, at_least, *room, slope, gradient)
    for row, level in itertools.product(range(ROWS), columns[0]):
        moved = levels.copy()
        moved[level, row] += 1.0
        assert gradient[level, row] == pytest.approx(slope @ (answers(moved) - answers(levels)), abs=1e-10)


@pytest.mark.parametrize("size", [2, 4])
def test_on_whole_rows_a_target_is_the_query_itself(size: int) -> None:
    for levels in itertools.product(*(range(SIZES[axis]) for axis in range(size))):
        row = np.zeros((OFFSETS[-1], 1))
        row[[OFFSETS[axis] + level for axis, level in enumerate(levels)], 0] = 1.0
        agree = sum(level == 1 for level in levels)
        columns = np.array([[OFFSETS[axis] + 1 for axis in range(size)]] * size)
        predicted = np.empty(size)
        room = np.empty(size), np.empty(size + 2)
        predict_targets(row, np.ones(1), columns, np.full(size, size), np.arange(1, size + 1), *room, predicted)
        assert predicted.tolist() == [float(agree >= r) for r in range(1, size + 1)]


def test_shares_and_a_step_are_those_of_numpy(generator: np.random.Generator) -> None:
    logits, gradient = generator.normal(size=(2, OFFSETS[-1], ROWS))
    levels, expected, sums = np.exp(logits), np.exp(logits), np.empty(ROWS)
    slopes = np.empty_like(logits)
    normalise(levels, OFFSETS, sums)
    for start, stop in itertools.pairwise(OFFSETS):
        expected[start:stop] /= expected[start:stop].sum(axis=0)
        p, g = expected[start:stop], gradient[start:stop]
        slopes[start:stop] = p * (g - (p * g).sum(axis=0))
    assert levels == pytest.approx(expected)
    mean, square = np.zeros_like(logits), np.zeros_like(logits)
    before = logits.copy()
    adam_step(logits, levels, gradient, OFFSETS, sums, mean, square, 0.1, 0.9, 0.99, 1)
    assert mean == pytest.approx(0.1 * slopes)
    assert before - logits == pytest.approx(0.1 * np.sign(slopes), rel=1e-6)
