import math

import numpy as np
import pytest

from hush import queries
from hush.core.domain import Domain
from hush.core.errors import DataError, WorkloadError
from hush.linops import AllRange, Dense, Haar, Identity, Kronecker, LinearOperator, Prefix, Stack, Total
from hush.models import fit_arguments
from hush.models.fit_arguments import check_stopping, estimate_total, tolerated_loss
from hush.privacy.measurement import Measurement

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})


def test_tables_by_hand() -> None:
    listed = [
        Measurement(("a", "b"), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], 2.0),  # 21, variance 24
        Measurement(("c",), [5.0, 6.0, 7.0, 8.0], 1.0),  # 26, variance 4
        Measurement((), [20.0], 3.0),  # variance 9
    ]
    precision = 1 / 24 + 1 / 4 + 1 / 9
    found, stddev = estimate_total(DOMAIN, listed)
    assert found == pytest.approx((21 / 24 + 26 / 4 + 20 / 9) / precision)
    assert stddev == pytest.approx(precision**-0.5)


def test_queries_by_hand() -> None:
    prefix = Measurement(("b",), [1.0, 5.0, 11.0], 2.0, {"b": queries.prefix})  # its last number is the total
    assert estimate_total(DOMAIN, [prefix]) == pytest.approx((11.0, 2.0))
    mixed = Measurement(("a", "b"), [1.0, 5.0, 11.0, 2.0, 4.0, 8.0], 2.0, {"a": queries.identity, "b": queries.prefix})
    assert estimate_total(DOMAIN, [mixed]) == pytest.approx((19.0, 2.0 * 2**0.5))
    halves = Measurement(("b",), [1.0, 3.0], 1.0, Dense([[2.0, 2.0, 0.0], [0.0, 0.0, 0.5]]))  # 1/2 and 2 of them
    assert estimate_total(DOMAIN, [halves]) == pytest.approx((6.5, 4.25**0.5))


OPERATORS: list[LinearOperator] = [
    Prefix(24),
    AllRange(24),
    Total(24),
    Kronecker([Prefix(2), Haar(4), Total(3)]),
    Stack([Prefix(24), Total(24)]),
    Dense(np.random.default_rng(1).normal(size=(30, 24))),
]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: type(operator).__name__)
@pytest.mark.parametrize("most_dense", [0, 1 << 18])
def test_least_squares_on_any_operator(
    operator: LinearOperator, most_dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit_arguments, "MOST_DENSE_ENTRIES", most_dense)
    values = np.random.default_rng(7).normal(size=operator.shape[0]) + 10
    found, stddev = estimate_total(DOMAIN, [Measurement(("a", "c", "b"), values, 0.3, operator)])
    v = np.linalg.pinv(operator.dense()).T @ np.ones(24)
    assert found == pytest.approx(max(v @ values, 1), rel=1e-6)
    assert stddev == pytest.approx(0.3 * np.linalg.norm(v), rel=1e-6)


def test_a_total_is_one_at_least() -> None:
    assert estimate_total(DOMAIN, [Measurement(("a",), [-5.0, 2.0], 1.0)]) == (1.0, pytest.approx(2**0.5))


def test_what_does_not_know_the_total_is_passed_over() -> None:
    contrast = Measurement(("b",), [7.0], 0.1, Dense([[1.0, -1.0, 0.0]]))
    part = Measurement(("a", "b"), [1.0, 1.0, 1.0], 0.1, {"a": queries.matrix([[1.0, 0.0]]), "b": queries.identity})
    table = Measurement(("a",), [4.0, 6.0], 1.0)
    assert estimate_total(DOMAIN, [contrast, table, part]) == estimate_total(DOMAIN, [table])
    with pytest.raises(
        DataError, match="no measurement determines the total number of rows: .* give total=, or measure"
    ):
        estimate_total(DOMAIN, [contrast, part])


def test_no_measurements() -> None:
    with pytest.raises(DataError, match="no measurements"):
        estimate_total(DOMAIN, [])


def test_a_large_query_stays_implicit() -> None:
    domain = Domain({"x": 3000})
    values = np.arange(1.0, 3001)
    found, stddev = estimate_total(domain, [Measurement(("x",), values, 1.0, Prefix(3000))])
    assert found == pytest.approx(3000, rel=1e-6)
    assert stddev == pytest.approx(1, rel=1e-6)


def test_totals_of_large_queries_take_no_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_arguments, "MOST_SOLVER_ITERATIONS", 0)
    domain = Domain({"x": 4000, "y": 600, "one": 1})
    prefix = Measurement(("x",), np.arange(1.0, 4001), 0.5, {"x": queries.prefix})
    assert estimate_total(domain, [prefix]) == pytest.approx((4000.0, 0.5))
    ranges = Measurement(("y",), AllRange(600) @ np.full(600, 2.0), 0.5, AllRange(600))
    assert estimate_total(domain, [ranges]) == pytest.approx((1200.0, 0.5 * (2 / 601) ** 0.5))
    assert estimate_total(domain, [Measurement(("one",), [7.0], 0.5, AllRange(1))]) == pytest.approx((7.0, 0.5))


def test_a_stack_that_takes_too_long_says_what_its_parts_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_arguments, "MOST_SOLVER_ITERATIONS", 3)
    domain = Domain({"x": 600})
    stack = Stack([Prefix(600), Dense(np.eye(600)[:9]), Identity(600)], [2.0, 1.0, -1.0])
    cells = np.random.default_rng(2).normal(9.0, 1.0, 600)
    found, stddev = estimate_total(domain, [Measurement(("x",), stack @ cells, 0.5, stack)])
    assert found == pytest.approx(cells.sum())
    assert stddev == pytest.approx(0.5 * (4 + 1 / 600) ** -0.5)
    unknowing = Stack([Dense(np.eye(600)[:500]), Dense(np.eye(600)[1:500])])
    with pytest.raises(DataError, match="no measurement determines the total"):
        estimate_total(domain, [Measurement(("x",), unknowing @ cells, 0.5, unknowing)])


def test_values_that_add_up_to_too_much_are_refused() -> None:
    with pytest.raises(DataError, match="more than 1e[+]60; bring values"):
        estimate_total(DOMAIN, [Measurement(("a",), [9e59, 9e59], 1.0)])


def test_tolerated_loss_by_hand() -> None:
    assert tolerated_loss(0.01, 200, 5.0) == pytest.approx(0.01)
    assert tolerated_loss(0.1, 0, -5.0) == pytest.approx(0.05)
    assert tolerated_loss(1, 2, 0.0) == 1.0


@pytest.mark.parametrize("tolerance", [0, -0.1, 1.5, math.nan, math.inf, True, "0.1", None])
def test_bad_tolerances_are_refused(tolerance: object) -> None:
    with pytest.raises(WorkloadError, match=r"expected a (finite )?number above 0 and at most 1"):
        check_stopping(tolerance)  # type: ignore[arg-type]
