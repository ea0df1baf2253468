import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hush.core.arrays import Floats
from hush.core.domain import Domain
from hush.core.errors import DataError, HushError, WorkloadError
from hush.models.graphical.marginal_loss import CustomLoss

DOMAIN = Domain({"a": 2, "b": 3})


def cubes(tables: list[Floats]) -> tuple[float, list[Floats]]:
    """sum_i w_i |x_i|^3 / 3 with weights that tell the axes apart."""
    weights = [np.arange(1.0, table.size + 1).reshape(table.shape) for table in tables]
    value = sum(float((w * np.abs(t) ** 3).sum()) / 3 for w, t in zip(weights, tables, strict=True))
    return value, [w * t * np.abs(t) for w, t in zip(weights, tables, strict=True)]


def test_tables_come_in_the_order_asked_for_and_gradients_add_up() -> None:
    loss = CustomLoss(DOMAIN, [("b", "a"), ("a",), ("a", "b")], cubes, numbers=3)
    assert loss.factors.cliques == (("a", "b"), ("a",))
    assert (loss.smooth, loss.lipschitz, loss.numbers) == (False, math.inf, 3)
    flat, gradient = np.linspace(-1, 2, 8), np.full(8, np.nan)
    value = loss.value_and_gradient(flat, gradient)
    assert loss.parts(flat) == [value]
    h = 1e-6
    slopes = [(loss.value(flat + h * unit) - loss.value(flat - h * unit)) / (2 * h) for unit in np.eye(8)]
    np.testing.assert_allclose(gradient, slopes, atol=1e-7)


def test_curvature_by_differences() -> None:
    loss = CustomLoss(DOMAIN, [("a", "b")], cubes, lipschitz=40.0)
    flat, vector = np.linspace(1, 2, 6), np.linspace(-3, 1, 6)
    wanted = 2 * np.arange(1.0, 7) * flat * vector
    np.testing.assert_allclose(loss.curvature(flat, vector), wanted, rtol=1e-6)
    out = np.empty(6)
    assert loss.curvature(flat, np.zeros(6), out) is out
    assert not out.any()
    assert loss.smooth
    assert loss.diagonal(flat).tolist() == [40.0] * 6
    assert (loss.diagonal(flat) >= 2 * np.arange(1.0, 7) * flat).all()


def returning(found: Any) -> Callable[[], object]:
    return lambda: CustomLoss(DOMAIN, [("a",)], lambda tables: found).value(np.ones(2))


def writing(tables: list[Floats]) -> tuple[float, list[Floats]]:
    tables[0][0] = 1.0
    return 0.0, tables


REFUSED: list[tuple[Callable[[], object], type[HushError], str]] = [
    (lambda: CustomLoss(DOMAIN, [("a",)], 3), WorkloadError, "function=3: expected a function of a list of tables"),  # type: ignore[arg-type]
    (lambda: CustomLoss(DOMAIN, [], cubes), WorkloadError, "a loss needs at least one clique"),
    (lambda: CustomLoss(DOMAIN, [("a",)], cubes, lipschitz=0.0), WorkloadError, "lipschitz=0.0: .* leave it out if"),
    (returning(3.0), DataError, r"returned 3\.0: expected \(value, list of gradients\)"),
    (returning((math.nan, [np.ones(2)])), DataError, "returned the value nan: expected a finite number"),
    (returning((1.0, [])), DataError, "returned 0 gradients for 1 tables"),
    (returning((1.0, [np.ones(3)])), DataError, r"gradient for \('a',\) has shape \(3,\): expected .* of shape \(2,\)"),
    (returning((1.0, [np.array([1.0, np.inf])])), DataError, "expected finite numbers"),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(call: Callable[[], object], error: type[HushError], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_a_function_without_a_known_curvature() -> None:
    loss = CustomLoss(DOMAIN, [("a",)], cubes)
    with pytest.raises(NotImplementedError, match="CustomLoss has no second derivative"):
        loss.curvature(np.ones(2), np.ones(2))
    with pytest.raises(NotImplementedError, match="CustomLoss has no second derivative"):
        loss.diagonal(np.ones(2))


def test_tables_are_not_the_functions_to_change() -> None:
    with pytest.raises(ValueError, match="read-only"):
        CustomLoss(DOMAIN, [("a",)], writing).value(np.ones(2))
