"""The network that makes relaxed rows: its gradient is a derivative, and its rows come near noisy tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hush
from hush.core.errors import WorkloadError
from hush.models.relaxed.generator import RowGenerator
from hush.models.relaxed.relaxed_loss import RelaxedLoss
from hush.privacy.measurement import Measurement, placed

DOMAIN = hush.Domain({"a": 2, "b": 3, "c": 4})
PAIR = np.array([[60.0, 10.0, 10.0], [5.0, 15.0, 100.0]])
NOISY = [
    Measurement(("a", "b"), PAIR, 2.0),
    Measurement(("b", "c"), np.outer([65.0, 25.0, 110.0], [0.1, 0.2, 0.3, 0.4]), 3.0),
    Measurement(("c",), [21.0, 39.0, 60.0, 80.0], 1.0),
]


def made(joined: Any = DOMAIN, **options: int) -> RowGenerator:
    return RowGenerator(DOMAIN, joined, NOISY, **{"rows": 7, "hidden": 5, **options})


@pytest.mark.parametrize("joined", [("a", "b", "c"), ("b", "c")], ids=str)
def test_the_gradient_is_a_derivative_in_every_weight(joined: tuple[str, ...]) -> None:
    noisy = NOISY if "a" in joined else NOISY[1:]
    generator = RowGenerator(DOMAIN, joined, noisy, rows=7, hidden=5, seed=3)
    loss = RelaxedLoss(generator.coarse, placed(DOMAIN, noisy), 200.0)
    weights = generator.weights + 0.1 * np.random.Generator(np.random.PCG64(1)).standard_normal(generator.weights.size)
    _, gradient = generator.value_and_gradient(loss, weights)
    step = 1e-5
    for index in range(len(weights)):
        moved = np.eye(1, len(weights), index)[0] * step
        up, down = (generator.value_and_gradient(loss, weights + sign * moved)[0] for sign in (1, -1))
        assert gradient[index] == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-4)


def test_rows_come_as_near_the_noisy_tables_as_the_truth_is_expected_to_be() -> None:
    fitted = made(rows=100, hidden=32).fit(DOMAIN, NOISY)
    assert fitted.solved
    assert fitted.stats["value"] <= sum(measurement.numbers for measurement in NOISY) / 2
    assert np.abs(fitted.value.counts(("a", "b")) - PAIR).max() < 10
    assert np.allclose([fitted.value.block(name).sum(axis=1) for name in DOMAIN], 1)


def test_a_fit_that_ends_early_says_so() -> None:
    fitted = made().fit(DOMAIN, NOISY, iterations=2)
    assert "raise iterations" in fitted.status


def test_the_first_rows_are_nearly_the_product_of_the_columns() -> None:
    columns = [Measurement(("a",), [80.0, 120.0], 1e-3), Measurement(("b",), [65.0, 25.0, 110.0], 1e-3)]
    generator = RowGenerator(DOMAIN, DOMAIN, columns, rows=400)
    rows = generator.fit(DOMAIN, columns, iterations=1).value
    assert np.abs(rows.counts(("a", "b")) - np.outer([80, 120], [65, 25, 110]) / 200).max() < 10


def test_columns_that_no_table_joins_have_the_shares_of_their_own_table() -> None:
    column = Measurement(("c",), [20.0, 40.0, 60.0, 80.0], 0.1)
    generator = RowGenerator(DOMAIN, ("a", "b"), [NOISY[0], column], rows=20, hidden=5)
    assert generator.coarse.sizes == (2, 3, 1)
    rows = generator.fit(DOMAIN, [NOISY[0], column]).value
    shares = rows.counts(("c",)) / rows.total
    assert shares == pytest.approx(np.array([0.1, 0.2, 0.3, 0.4]), abs=0.01)


def test_the_same_seed_makes_the_same_rows_and_another_seed_others() -> None:
    first, again, other = (made(seed=seed).fit(DOMAIN, NOISY, iterations=5).value.rows for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


def test_what_cannot_be_fitted_is_refused() -> None:
    with pytest.raises(WorkloadError, match="rows=0"):
        made(rows=0)
    with pytest.raises(WorkloadError, match="hidden=0"):
        made(hidden=0)
    with pytest.raises(WorkloadError, match="iterations=0"):
        made().fit(DOMAIN, NOISY, iterations=0)
    with pytest.raises(WorkloadError, match="never occurs"):
        made().fit(DOMAIN, NOISY, constraints=[hush.Constraint.forbid(DOMAIN, ("a", "b"), [(0, 0)])])
