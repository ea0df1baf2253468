"""check_operator: compare every member of an operator with its dense twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import HushError, WorkloadError
from hush.linops import LinearOperator


class OperatorError(HushError):
    """An operator with a member that contradicts its matrix."""


def check_operator(operator: LinearOperator, *, dense: Any = None, tolerance: float = 1e-9) -> None:
    """Raise OperatorError where a member differs from the dense twin, by default `matmat` of the identity.

    Differences are relative to the largest entry. For small operators only: every derived operator (transpose, Gram
    matrix, pseudo-inverse, negative multiples) is written out.

    >>> from hush.linops import Prefix
    >>> check_operator(Prefix(5), dense=np.tri(5))
    """
    # The members themselves.
    check = _Comparison(type(operator).__name__, tolerance)
    built = operator.matmat(np.eye(operator.shape[1]))
    twin = np.asarray(built if dense is None else dense, dtype=np.float64)
    check.equal("shape", np.array(operator.shape), np.array(twin.shape))
    check.equal("matmat", built, twin)
    check.equal("dense", operator.dense(), twin)
    check.true("queries", operator.queries >= 1)
    _check_products(check, operator, twin)
    _check_norms(check, operator, twin)
    _check_trace(check, operator, twin)
    check.equal("T.T", operator.T.T.dense(), twin)
    check.equal("gram_dense", operator.gram_dense(), twin.T @ twin)

    # Operators derived from it.
    for name, derived, expected in [
        ("T", operator.T, twin.T),
        ("gram", operator.gram(), twin.T @ twin),
        ("scaled", operator * -2.5, -2.5 * twin),
        ("scaled T", (-0.5 * operator).T, -0.5 * twin.T),
        ("sum", operator + operator * -3.0, -2.0 * twin),
        ("product", operator.T @ operator, twin.T @ twin),
    ]:
        within = check.within(name)
        within.equal("dense", derived.dense(), expected)
        _check_products(within, derived, expected)
        _check_norms(within, derived, expected)
        _check_trace(within, derived, expected)

    # Pseudo-inverses, by the equations that define them.
    for name, derived, expected in [
        ("pinv", operator, twin),
        ("gram pinv", operator.gram(), twin.T @ twin),
        ("scaled pinv", operator * -2.5, -2.5 * twin),
        ("T pinv", operator.T, twin.T),
    ]:
        _check_inverse(check.within(name), derived.pinv(), expected)


@dataclass(frozen=True, slots=True)
class _Comparison:
    name: str
    tolerance: float

    def within(self, name: str) -> _Comparison:
        return _Comparison(f"{self.name}: {name}", self.tolerance)

    def equal(self, member: str, actual: Any, expected: Any) -> None:
        actual, expected = np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64)
        if actual.shape != expected.shape:
            raise OperatorError(f"{self.name}: {member} has shape {actual.shape}, its dense twin {expected.shape}")
        gap = np.abs(actual - expected).max() / max(float(np.abs(expected).max()), 1e-300)
        if not gap <= self.tolerance:
            raise OperatorError(f"{self.name}: {member} differs from its dense twin by {gap:.2g} of the largest entry")

    def true(self, member: str, held: bool) -> None:
        if not held:
            raise OperatorError(f"{self.name}: {member} breaks its law")


def _check_products(check: _Comparison, operator: LinearOperator, twin: Floats) -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    m, n = twin.shape
    x, y = rng.normal(size=(n, 3)), rng.normal(size=(m, 2))
    before = x.copy()
    check.equal("matmat of several columns", operator.matmat(x), twin @ x)
    check.equal("matmat of a strided view", operator.matmat(np.asfortranarray(x)[:, ::2]), twin @ x[:, ::2])
    check.equal("@ of a vector", operator @ x[:, 0], twin @ x[:, 0])
    check.equal("adjoint", operator.adjoint(y), twin.T @ y)
    transposed = operator.T.matmat(y)
    check.equal("T.matmat", transposed, twin.T @ y)
    left, right = (operator.matmat(x)[:, :2] * y).sum(), (x[:, :2] * transposed).sum()
    scale = np.abs(twin).sum() * np.abs(x).max() * np.abs(y).max()
    check.true("<Ax, y> = <x, A^T y>", abs(left - right) <= check.tolerance * max(scale, 1e-300))
    check.equal("the input after matmat", x, before)


def _check_norms(check: _Comparison, operator: LinearOperator, twin: Floats) -> None:
    for p in (1, 2):
        norms = np.linalg.norm(twin, ord=p, axis=0)
        check.equal(f"column_norms({p})", operator.column_norms(p), norms)
        check.equal(f"sensitivity({p})", operator.sensitivity(p), norms.max())
    check.true("column_norms of p = 3", _refuses(lambda: operator.column_norms(3)))
    check.true("sensitivity of p = 3", _refuses(lambda: operator.sensitivity(3)))


def _check_trace(check: _Comparison, operator: LinearOperator, twin: Floats) -> None:
    if twin.shape[0] == twin.shape[1]:
        gap = abs(operator.trace() - np.trace(twin))
        check.true("trace", gap <= check.tolerance * max(float(np.abs(twin).sum()), 1e-300))
    else:
        check.true("trace of a rectangle", _refuses(operator.trace))


def _check_inverse(check: _Comparison, inverse: LinearOperator, twin: Floats) -> None:
    """The four equations of Moore and Penrose."""
    x = inverse.dense()
    check.equal("shape", np.array(inverse.shape), np.array(twin.shape[::-1]))
    check.equal("A X A = A", twin @ x @ twin, twin)
    check.equal("X A X = X", x @ twin @ x, x)
    check.equal("(A X)^T = A X", (twin @ x).T, twin @ x)
    check.equal("(X A)^T = X A", (x @ twin).T, x @ twin)
    _check_products(check, inverse, x)


def _refuses(call: Callable[[], object]) -> bool:
    try:
        call()
    except WorkloadError:
        return True
    return False
