import numpy as np
import pytest

from hush.core.domain import Domain
from hush.inference.factors import Factors
from hush.models.graphical.likelihood import AbsoluteLoss, CustomLoss, SquaredLoss
from hush.models.graphical.marginal_loss import ReorderedLoss
from hush.privacy.measurement import Measurement

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})
OTHER = Domain({"c": 4, "a": 2, "b": 3})
CLIQUES = [("a", "b", "c"), ("b", "c"), ("a",)]
RANDOM = np.random.default_rng(0)
MEASUREMENTS = [
    Measurement(clique, RANDOM.normal(size=DOMAIN.sizes(clique)), 1.0 + k) for k, clique in enumerate(CLIQUES)
]


def own(flat: np.ndarray) -> np.ndarray:
    """The tables in the order of the other domain, clique by clique."""
    made = []
    for clique, table in zip(CLIQUES, Factors(DOMAIN, CLIQUES).tables(flat), strict=True):
        axes = [clique.index(name) for name in OTHER.clique(clique)]
        made.append(table.transpose(axes).ravel())
    return np.concatenate(made)


def test_everything_is_the_same_in_the_other_order() -> None:
    loss = SquaredLoss(DOMAIN, MEASUREMENTS)
    turned = ReorderedLoss(loss, OTHER)
    assert turned.factors == Factors(OTHER, CLIQUES)
    size = loss.factors.size
    x, v = RANDOM.normal(size=size), RANDOM.normal(size=size)
    gradient, expected = np.empty(size), np.empty(size)
    value = loss.value_and_gradient(x, expected)
    assert turned.value_and_gradient(own(x), gradient) == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(gradient, own(expected))
    np.testing.assert_allclose(turned.curvature(own(x), own(v)), own(loss.curvature(x, v)))
    out = np.empty(size)
    assert turned.curvature(own(x), own(v), out=out) is out
    np.testing.assert_allclose(turned.diagonal(own(x)), own(loss.diagonal(x)))
    assert turned.parts(own(x)) == pytest.approx(loss.parts(x))
    same = (turned.smooth, turned.lipschitz, turned.numbers, turned.quadratic)
    assert same == (loss.smooth, loss.lipschitz, loss.numbers, loss.quadratic)


def test_a_function_sees_its_own_axes() -> None:
    seen = []

    def function(tables: list[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        seen.append([table.shape for table in tables])
        return float(sum((k + 1) * table.sum() for k, table in enumerate(tables))), [
            np.full(table.shape, k + 1.0) for k, table in enumerate(tables)
        ]

    turned = ReorderedLoss(CustomLoss(DOMAIN, [("b", "a"), ("c", "b")], function), OTHER)
    gradient = np.empty(turned.factors.size)
    assert turned.value_and_gradient(np.ones(turned.factors.size), gradient) == 6 + 2 * 12
    assert seen == [[(3, 2), (4, 3)]]
    assert gradient.tolist() == [1.0] * 6 + [2.0] * 12
    assert not turned.smooth


def test_the_order_the_loss_has_already() -> None:
    loss = AbsoluteLoss(DOMAIN, MEASUREMENTS)
    turned = ReorderedLoss(loss, DOMAIN)
    x = RANDOM.normal(size=loss.factors.size)
    assert turned.value(x) == loss.value(x)
    assert not turned.smooth
