"""The check of losses that users write, with planted faults."""

import numpy as np
import pytest

from hush import Domain
from hush.testing import LossError, check_loss

DOMAIN = Domain({"a": 2, "b": 3})
TABLES = [("a", "b"), ("b",)]


def likelihood(tables):
    """-sum y log mu + mu, over two tables."""
    return float(sum((table - 3 * np.log(table)).sum() for table in tables)), [1 - 3 / table for table in tables]


def distances(tables):
    return float(sum(np.abs(table - 40).sum() for table in tables)), [np.sign(table - 40) for table in tables]


def test_convex_losses_with_their_gradients_pass() -> None:
    check_loss(DOMAIN, TABLES, likelihood)
    check_loss(DOMAIN, TABLES, distances)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda value, slopes: (value, [-slope for slope in slopes]),
        lambda value, slopes: (value, [1.05 * slope for slope in slopes]),
        lambda value, slopes: (value, [slopes[0], 0 * slopes[1]]),
    ],
    ids=["sign", "scale", "a table left out"],
)
@pytest.mark.parametrize("loss", [likelihood, distances])
def test_wrong_gradients_are_found(loss, wrong) -> None:
    with pytest.raises(LossError, match="gradient is off by"):
        check_loss(DOMAIN, TABLES, lambda tables: wrong(*loss(tables)))


def test_losses_that_are_not_convex_are_found() -> None:
    with pytest.raises(LossError, match="not convex"):
        check_loss(DOMAIN, [("a",)], lambda tables: (float(np.log(tables[0]).sum()), [1 / tables[0]]))
