import numpy as np
import pytest

from hush.linops import AllRange, Dense, Identity, Kronecker, LinearOperator, Prefix, Stack, Total, WidthRange
from hush.linops.permuted import Reordered
from hush.models.graphical import residual_loss as spectrum
from hush.models.graphical.residual_loss import MARGIN, largest_eigenvalue

RANDOM = np.random.default_rng(2)
OPERATORS: list[LinearOperator] = [
    Identity(5),
    Total(7),
    Prefix(30),
    AllRange(12),
    WidthRange(20, 6),
    -3.0 * Prefix(9),
    Kronecker([Prefix(4), AllRange(3), Identity(2)]),
    Reordered(Dense(RANDOM.normal(size=(5, 24))), (2, 3, 4), (2, 0, 1)),
    Dense(RANDOM.normal(size=(40, 25))),
    Stack([Identity(10), Prefix(10)]),
]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: type(operator).__name__)
def test_equals_the_dense_eigenvalue(operator: LinearOperator) -> None:
    dense = operator.dense()
    assert largest_eigenvalue(operator) == pytest.approx(np.linalg.eigvalsh(dense.T @ dense)[-1])


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: type(operator).__name__)
def test_iterations_are_never_below_and_little_above(operator: LinearOperator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectrum, "MOST_DENSE", 0)
    wanted = np.linalg.eigvalsh(operator.dense().T @ operator.dense())[-1]
    assert wanted * (1 - 1e-12) <= largest_eigenvalue(operator) <= MARGIN**3 * 1.01 * wanted


def test_a_query_of_zeros() -> None:
    assert largest_eigenvalue(Dense(np.zeros((2, 3)))) == 0
