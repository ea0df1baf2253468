"""The contract suite finds each planted fault, and names the member at fault."""

from typing import Any

import numpy as np
import pytest

from hush.core.arrays import Floats
from hush.linops import Dense, LinearOperator, Transposed
from hush.testing import OperatorError, check_operator

ENTRIES = np.array([[1.0, 2.0, 0.0], [0.0, -1.0, 3.0], [4.0, 0.0, 1.0]])


class Plain(LinearOperator):
    """Three members only."""

    @property
    def shape(self) -> tuple[int, int]:
        return 3, 3

    def matmat(self, x: Floats) -> Floats:
        return ENTRIES @ x

    def transpose(self) -> LinearOperator:
        return Transposed(self)


class WrongAdjoint(Plain):
    def adjoint(self, y: Floats) -> Floats:
        return ENTRIES @ y


class WrongTranspose(Plain):
    def transpose(self) -> LinearOperator:
        return Dense(ENTRIES)


class WrongNorms(Plain):
    def column_norms(self, p: int) -> Floats:
        return super().column_norms(1)


class LowSensitivity(Plain):
    def sensitivity(self, p: int) -> float:
        return float(self.column_norms(p).mean())


class AnyNorm(Plain):
    def column_norms(self, p: int) -> Floats:
        return np.linalg.norm(ENTRIES, ord=p, axis=0)


class WrongGram(Plain):
    def gram_dense(self) -> Floats:
        return ENTRIES @ ENTRIES.T


class WrongImplicitGram(Plain):
    def gram(self) -> LinearOperator:
        return Dense(ENTRIES @ ENTRIES.T)


class WrongInverse(Plain):
    def pinv(self) -> LinearOperator:
        return self.transpose()


class WrongTrace(Plain):
    def trace(self) -> float:
        return 3.0


class WrongDense(Plain):
    def dense(self) -> Floats:
        return ENTRIES.T


class ChangesItsInput(Plain):
    def matmat(self, x: Floats) -> Floats:
        made = ENTRIES @ x
        x *= 2
        return made


class OneColumn(Plain):
    def matmat(self, x: Floats) -> Floats:
        made: Any = ENTRIES @ x
        made[:, 1:] = made[:, :1] if x.shape[1] != 3 or not np.array_equal(x, np.eye(3)) else made[:, 1:]
        return made


class NoMinimum(LinearOperator):
    """A generalised inverse that is not that of Moore and Penrose."""

    @property
    def shape(self) -> tuple[int, int]:
        return 1, 2

    def matmat(self, x: Floats) -> Floats:
        return np.array([[1.0, 1.0]]) @ x

    def transpose(self) -> LinearOperator:
        return Transposed(self)

    def pinv(self) -> LinearOperator:
        return Dense([[1.0], [0.0]])


def test_three_members_are_enough() -> None:
    check_operator(Plain(), dense=ENTRIES)


@pytest.mark.parametrize(
    ("broken", "member"),
    [
        (WrongAdjoint, "adjoint"),
        (WrongTranspose, "T.matmat"),
        (WrongNorms, r"column_norms\(2\)"),
        (LowSensitivity, r"sensitivity\(1\)"),
        (AnyNorm, "p = 3"),
        (WrongGram, "gram_dense"),
        (WrongImplicitGram, "gram"),
        (WrongInverse, "pinv: A X A = A"),
        (WrongTrace, "trace"),
        (WrongDense, "dense"),
        (ChangesItsInput, "differs"),
        (OneColumn, "several columns"),
        (NoMinimum, r"pinv: \(X A\)\^T = X A"),
    ],
)
def test_planted_faults_are_found(broken: type[LinearOperator], member: str) -> None:
    with pytest.raises(OperatorError, match=member):
        check_operator(broken())


def test_the_given_twin_is_what_counts() -> None:
    with pytest.raises(OperatorError, match="matmat"):
        check_operator(Plain(), dense=ENTRIES + np.eye(3))
    with pytest.raises(OperatorError, match="shape"):
        check_operator(Plain(), dense=np.ones((2, 3)))


def test_the_tolerance_is_relative_to_the_largest_entry() -> None:
    with pytest.raises(OperatorError, match=r"by 2\.5e-07"):
        check_operator(Plain(), dense=ENTRIES + 1e-6 * np.eye(3))
    with pytest.raises(OperatorError, match="matmat"):
        check_operator(Dense([[1e-20]]), dense=[[2e-20]])
    check_operator(Plain(), dense=ENTRIES + 1e-6 * np.eye(3), tolerance=1e-3)
