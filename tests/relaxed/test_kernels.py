"""The compiled loops give what plain numpy gives, and gradients are derivatives."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from hush.relaxed._kernels import adam_step, predict_tables, predict_targets, pull_tables, pull_targets, softmax

Array = np.ndarray[Any, Any]
ROWS, SIZES = 6, (2, 3, 4, 5)
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)]).astype(np.int64)


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(3))


def rows_of(generator: np.random.Generator) -> tuple[Array, Array]:
    return np.concatenate([generator.dirichlet(np.ones(n), ROWS) for n in SIZES], axis=1), generator.dirichlet(
        np.ones(ROWS)
    )


def described(tables: list[tuple[int, ...]]) -> tuple[tuple[Array, ...], int]:
    axes = [axis for table in tables for axis in table]
    cells = [math.prod(SIZES[axis] for axis in table) for table in tables]
    return (
        np.cumsum([0, *(len(table) for table in tables)]),
        np.array([OFFSETS[axis] for axis in axes]),
        np.array([SIZES[axis] for axis in axes]),
        np.cumsum([0, *cells]),
    ), sum(cells)


def twin(rows: Array, weights: Array, tables: list[tuple[int, ...]]) -> Array:
    answers = []
    for table in tables:
        product = weights[:, None]
        for axis in table:
            block = rows[:, OFFSETS[axis] : OFFSETS[axis + 1]]
            product = (product[:, :, None] * block[:, None, :]).reshape(ROWS, -1)
        answers.append(product.sum(axis=0))
    return np.concatenate(answers)


TABLES = [(0,), (1, 3), (2, 0, 3), (0, 1, 2, 3)]


def test_tables_and_their_gradients_are_those_of_numpy(generator: np.random.Generator) -> None:
    rows, weights = rows_of(generator)
    shapes, cells = described(TABLES)
    predicted, slope, gradient = np.empty(cells), generator.normal(size=cells), np.zeros_like(rows)
    predict_tables(rows, weights, *shapes, np.empty(200), predicted)
    assert predicted == pytest.approx(twin(rows, weights, TABLES), abs=1e-14)
    pull_tables(rows, weights, *shapes, np.empty(200), np.empty(200), slope, gradient)
    for row, column in itertools.product(range(ROWS), range(rows.shape[1])):
        moved = rows.copy()
        moved[row, column] += 1.0  # answers are linear in each number, so a step of one is exact
        change = slope @ (twin(moved, weights, TABLES) - twin(rows, weights, TABLES))
        assert gradient[row, column] == pytest.approx(change, abs=1e-10)


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
    rows, weights = rows_of(generator)
    columns = np.array([[OFFSETS[axis] + 1 for axis in range(size)]] * size)
    at_least, sizes = np.arange(1, size + 1), np.full(size, size)
    room = np.empty(size), np.empty(size + 2)
    predicted, gradient = np.empty(size), np.zeros_like(rows)

    def answers(z: Array) -> Array:
        return np.array(
            [sum(w * chance(row[columns[0]], r) for w, row in zip(weights, z, strict=True)) for r in at_least]
        )

    predict_targets(rows, weights, columns, sizes, at_least, *room, predicted)
    assert predicted == pytest.approx(answers(rows), abs=1e-14)
    slope = generator.normal(size=size)
    pull_targets(rows, weights, columns, sizes, at_least, *room, slope, gradient)
    for row, column in itertools.product(range(ROWS), columns[0]):
        moved = rows.copy()
        moved[row, column] += 1.0
        assert gradient[row, column] == pytest.approx(slope @ (answers(moved) - answers(rows)), abs=1e-10)


@pytest.mark.parametrize("size", [2, 4])
def test_on_whole_rows_a_target_is_the_query_itself(size: int) -> None:
    for levels in itertools.product(*(range(SIZES[axis]) for axis in range(size))):
        row = np.zeros((1, OFFSETS[-1]))
        row[0, [OFFSETS[axis] + level for axis, level in enumerate(levels)]] = 1.0
        agree = sum(level == 1 for level in levels)
        columns = np.array([[OFFSETS[axis] + 1 for axis in range(size)]] * size)
        predicted = np.empty(size)
        room = np.empty(size), np.empty(size + 2)
        predict_targets(row, np.ones(1), columns, np.full(size, size), np.arange(1, size + 1), *room, predicted)
        assert predicted.tolist() == [float(agree >= r) for r in range(1, size + 1)]


def test_softmax_and_a_step_are_those_of_numpy(generator: np.random.Generator) -> None:
    logits, gradient = generator.normal(size=(ROWS, OFFSETS[-1])), generator.normal(size=(ROWS, OFFSETS[-1]))
    rows = np.empty_like(logits)
    softmax(logits, OFFSETS, rows)
    expected, slopes = np.exp(logits), np.empty_like(logits)
    for start, stop in itertools.pairwise(OFFSETS):
        expected[:, start:stop] /= expected[:, start:stop].sum(axis=1, keepdims=True)
        p, g = expected[:, start:stop], gradient[:, start:stop]
        slopes[:, start:stop] = p * (g - (p * g).sum(axis=1, keepdims=True))
    assert rows == pytest.approx(expected)
    mean, square = np.zeros_like(logits), np.zeros_like(logits)
    before = logits.copy()
    adam_step(logits, rows, gradient, OFFSETS, mean, square, 0.1, 0.9, 0.99, 1)
    assert mean == pytest.approx(0.1 * slopes)
    assert before - logits == pytest.approx(0.1 * np.sign(slopes), rel=1e-6)
