"""Estimators over the full table: what they reach without noise, and with the least squares of numpy."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from benchmarks.full_tables import least_squares, multiplicative_weights

import hush

DOMAIN = hush.Domain({"a": 2, "b": 3, "c": 4})
CLIQUES = (("a", "b"), ("b", "c"))


def measured(noise: float) -> list[hush.Measurement]:
    random = np.random.Generator(np.random.PCG64(1))
    cells = random.integers(5, 50, DOMAIN.shape)
    tables = (cells.sum(axis=2), cells.sum(axis=0))
    return [
        hush.Measurement(clique, table + random.normal(0, noise, table.shape) if noise else table, max(noise, 1e-3))
        for clique, table in zip(CLIQUES, tables, strict=True)
    ]


@pytest.mark.parametrize("estimate", [partial(multiplicative_weights, rounds=3000), least_squares])
def test_without_noise_the_measured_tables_are_met(estimate: Callable[..., np.ndarray]) -> None:
    noisy = measured(0.0)
    found = estimate(DOMAIN, noisy)
    np.testing.assert_allclose(found.sum(axis=2), noisy[0].values, rtol=1e-3)
    np.testing.assert_allclose(found.sum(axis=0), noisy[1].values, rtol=1e-3)


def test_least_squares_are_those_of_numpy() -> None:
    noisy = measured(5.0)
    rows = np.eye(DOMAIN.size()).reshape(DOMAIN.size(), *DOMAIN.shape)
    queries = np.concatenate([rows.sum(axis=3).reshape(24, -1), rows.sum(axis=1).reshape(24, -1)], axis=1).T
    answers = np.concatenate([table.values.ravel() for table in noisy])
    expected = np.linalg.lstsq(queries, answers, rcond=None)[0]
    np.testing.assert_allclose(least_squares(DOMAIN, noisy).ravel(), expected, atol=1e-5)
