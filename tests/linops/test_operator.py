import tracemalloc

import numpy as np
import pytest

from hush.core.arrays import Floats
from hush.core.errors import SizeError, WorkloadError
from hush.linops import AllRange, Dense, Identity, LinearOperator, Prefix, Product, Scaled, Sum, Total
from hush.linops.operator import check_fits


class Wide(LinearOperator):
    """A million rows, by fallbacks alone; each column is its own place, repeated."""

    @property
    def shape(self) -> tuple[int, int]:
        return 1 << 20, 40

    def matmat(self, x: Floats) -> Floats:
        return np.repeat(np.arange(40.0) @ x, 1 << 20).reshape(-1, 1 << 20).T

    def transpose(self) -> LinearOperator:
        raise NotImplementedError


def test_norms_are_made_in_blocks_of_columns() -> None:
    tracemalloc.start()
    norms = Wide().column_norms(1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(norms, np.arange(40.0) * (1 << 20))
    assert peak < 8 * (1 << 20) * 40 / 4


@pytest.mark.parametrize("operator", [Identity(10**8), Prefix(10**8), AllRange(10**8)], ids=str)
def test_a_matrix_that_does_not_fit_is_refused_before_it_is_made(operator: LinearOperator) -> None:
    with pytest.raises(SizeError, match="needed, .* free; keep it implicit"):
        operator.dense()


@pytest.mark.parametrize("operator", [Identity(10**8), Total(10**8), Prefix(10**8), AllRange(10**8)], ids=str)
def test_a_gram_matrix_that_does_not_fit_is_refused_before_it_is_made(operator: LinearOperator) -> None:
    with pytest.raises(SizeError, match=r"needed, .* free; use gram\(\)"):
        operator.gram_dense()


def test_large_inverses_without_structure_are_refused() -> None:
    with pytest.raises(SizeError, match="pseudo-inverse of Sum with 5,000 x 5,000.*Kronecker"):
        (Prefix(5000) + Identity(5000)).pinv()


def test_the_guard_names_size_and_remedy() -> None:
    with pytest.raises(SizeError, match="100000000000 x 2 numbers: 1.6 TB needed, .* free; think"):
        check_fits((10**11, 2), "think")
    check_fits((1000, 1000), "never mind")


def test_arithmetic_builds_nodes() -> None:
    a = Prefix(3)
    assert a * -2 == Scaled(a, -2.0) == -2 * a == np.float64(-2) * a
    assert a + Identity(3) == Sum((a, Identity(3)))
    assert a @ a == Product((a, a))
    assert (a + a) + a == a + (a + a) == Sum((a, a, a))
    assert Identity(3) @ a == a
    np.testing.assert_array_equal((a @ (a @ a)).dense(), np.linalg.matrix_power(np.tri(3), 3))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Prefix(3) + Identity(4),
        lambda: Prefix(3) @ Prefix(4),
        lambda: Identity(3) @ Prefix(4),
        lambda: Prefix(3) * float("nan"),
        lambda: Sum(()),
        lambda: Product(()),
        lambda: Total(3).trace(),
        lambda: Prefix(3).column_norms(3),
        lambda: Dense([[1.0]]).sensitivity(0),
    ],
)
def test_misfits_are_refused(build: object) -> None:
    with pytest.raises(WorkloadError):
        build()  # type: ignore[operator]


@pytest.mark.parametrize("build", [lambda: Prefix(3) * "2", lambda: Prefix(3) + 1, lambda: np.eye(3) @ Prefix(3)])
def test_other_types_are_not_taken(build: object) -> None:
    with pytest.raises(TypeError):
        build()  # type: ignore[operator]
