import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dense_twins import DenseResidual
from hush import queries
from hush.core.domain import Domain
from hush.core.errors import BudgetError, DataError, SizeError, WorkloadError
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gate import Gate
from hush.privacy.noise import DiscreteGaussian
from hush.privacy.sensitivity import Neighbours, sensitivity
from hush.strategies.product_strategy import ProductQuery
from hush.strategies.residual_basis import ResidualBasis
from hush.strategies.residual_strategy import ResidualStrategy, check_measurable, exact_shares, residual_query
from hush.strategies.select_residual import select_residual
from hush.strategies.strategy import sum_binary
from hush.testing import TinyTable, check_replay, neighbours_of
from hush.workloads import Workload

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})
ROWS = [(0, 0, 3), (1, 2, 3), (1, 1, 0), (0, 2, 1), (1, 1, 0)]
MIXED = Workload.marginals(DOMAIN, [("a", "b")]) + Workload.product(
    DOMAIN, {"b": queries.identity, "c": queries.prefix}
)
PLAN = select_residual(MIXED, rho=0.3).value


def table(rows: list[tuple[int, ...]] = ROWS) -> TinyTable:
    return TinyTable(DOMAIN, rows)


@pytest.mark.parametrize("clique", PLAN.closure.cliques)
def test_answers_are_the_integers_of_the_matrix(clique: tuple[str, ...]) -> None:
    query = residual_query(PLAN, clique)
    histogram = table().counts([DOMAIN.attributes])[DOMAIN.attributes]
    exact = query.answer(table().counts([clique]))
    wanted = DenseResidual(PLAN).residual(clique) @ histogram.ravel() * query.scale
    assert exact.dtype == np.int64
    assert exact.shape == query.shape
    np.testing.assert_allclose(exact.ravel(), wanted, atol=1e-6)


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("clique", PLAN.closure.cliques)
def test_no_neighbour_moves_the_answers_beyond_the_declared_sensitivity(
    clique: tuple[str, ...], relation: Neighbours
) -> None:
    query = residual_query(PLAN, clique)
    bound = sensitivity(query.row_norms, max_rows=1, neighbours=relation)
    here = query.answer(table().counts([clique]))
    moves = [here - query.answer(other.counts([clique])) for other in neighbours_of(table(), relation)]
    furthest = max(int(np.sum(move**2)) for move in moves)
    assert furthest <= bound.l2_squared
    assert max(int(np.sum(np.abs(move))) for move in moves) <= bound.l1
    if relation is Neighbours.ADD_REMOVE:
        assert furthest == bound.l2_squared


def test_replacing_is_exact_on_plain_attributes() -> None:
    domain = Domain({"a": 3, "b": 4})
    query = ProductQuery((("a",), ("b",)), (ResidualBasis.plain(3), ResidualBasis.plain(4)))
    cells = list(itertools.product(range(3), range(4)))
    moves = []
    for one, two in itertools.product(cells, cells):
        answers = [query.answer(TinyTable(domain, [row]).counts([("a", "b")])) for row in (one, two)]
        moves.append(int(((answers[0] - answers[1]) ** 2).sum()))
    assert query.row_norms.gap_l2_squared == max(moves)


def test_the_total_is_one_cell_and_does_not_move_when_rows_are_replaced() -> None:
    total = ProductQuery((), ())
    assert total.row_norms.one_cell
    assert total.row_norms.gap_l2_squared == 0
    assert total.answer({(): np.array(7)}) == 7
    assert not ProductQuery((("a",),), (ResidualBasis.plain(2),)).row_norms.one_cell


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("rho", [Fraction(1, 3), 0.5, 1e-6, 123.456])
def test_exact_costs_add_up_to_the_budget_and_not_beyond(rho: Fraction | float, relation: Neighbours) -> None:
    plan = select_residual(MIXED, rho=rho, neighbours=relation).value
    spent = Fraction(0)
    for request, sigma_squared in zip(plan.requests(), plan.sigma_squared, strict=True):
        noise = request.noise
        assert isinstance(noise, DiscreteGaussian)
        bound = sensitivity(request.query.row_norms, max_rows=1, neighbours=relation)
        event = noise.event(bound)
        assert event.cost.rho == bound.l2_squared / (2 * noise.variance_parameter)
        spent += event.cost.rho
        assert isinstance(request.query, ProductQuery)
        assert noise.variance_parameter / request.query.scale**2 == pytest.approx(sigma_squared, rel=1e-9)
    assert spent == sum_binary(exact_shares(plan)) <= Fraction(rho)
    assert spent == pytest.approx(Fraction(rho), rel=1e-12)


def test_shares_are_binary_so_that_sums_stay_short() -> None:
    shares = exact_shares(select_residual(Workload.upto(Domain({f"a{i}": 2 + i for i in range(12)}), 3), rho=0.1).value)
    assert all(share.denominator & (share.denominator - 1) == 0 for share in shares)
    assert sum(shares) == sum_binary(shares)
    assert sum_binary(shares).denominator.bit_length() < 120


def test_through_the_gate_what_is_charged_is_what_was_planned() -> None:
    account = Allowance(Budget(rho=0.3))
    gate = Gate(table(), account, entropy=NotPrivateEntropy(1))
    noisy = list(gate.measure(PLAN.requests()))
    assert [answer.values.shape for answer in noisy] == [
        tuple(basis.rows for basis in PLAN.clique_bases(clique)) for clique in PLAN.closure
    ]
    costs = [gate.event(request).cost.rho for request in PLAN.requests()]
    recomputed = sum((rho for rho in costs if rho is not None), start=Fraction(0))
    assert account.cost.rho == recomputed <= Fraction(0.3)
    assert float(recomputed) == pytest.approx(PLAN.pcost / 2, rel=1e-9)
    with pytest.raises(BudgetError):
        gate.measure(PLAN.requests())


@pytest.mark.parametrize("relation", list(Neighbours))
def test_only_noisy_residuals_depend_on_the_data(relation: Neighbours) -> None:
    plan = select_residual(MIXED, rho=0.3, neighbours=relation).value

    def run(source: TinyTable) -> list:
        gate = Gate(source, Allowance(Budget(rho=0.3)), neighbours=relation, entropy=NotPrivateEntropy(1))
        return [answer.values for answer in gate.measure(plan.requests())]

    assert check_replay(run, table(), neighbours_of(table(), relation)) > 10


def test_units_of_several_rows_are_paid_for_by_planning_with_less() -> None:
    plan = select_residual(MIXED, rho=Fraction(3, 10) / 4).value
    twice = [sensitivity(r.query.row_norms, max_rows=2, neighbours=Neighbours.ADD_REMOVE) for r in plan.requests()]
    spent = [r.noise.event(bound).cost.rho for r, bound in zip(plan.requests(), twice, strict=True)]
    assert sum(spent) <= Fraction(3, 10)
    assert float(sum(spent)) == pytest.approx(0.3)


def test_sets_whose_answers_could_overflow_are_refused_before_anything_is_charged() -> None:
    domain = Domain({f"a{i}": 100 for i in range(5)})
    plan = select_residual(Workload.kway(domain, 5), rho=0.5).value
    with pytest.raises(SizeError, match="a0, a1, a2, a3, a4 exactly needs numbers up to 9.51e"):
        check_measurable(plan)
    with pytest.raises(SizeError, match="64-bit"):
        plan.requests()
    with pytest.raises(SizeError, match="fewer levels"):
        ProductQuery(tuple((name,) for name in domain), tuple(ResidualBasis.plain(100) for _ in range(5)))


def test_errors_of_tables_too_large_to_measure_are_predicted() -> None:
    domain = Domain({f"a{i}": 100 for i in range(6)})
    plan = select_residual(Workload.kway(domain, 5), rho=0.5).value
    with pytest.raises(SizeError, match="64-bit"):
        plan.requests()
    # One basis for all columns, so the sets of one size share a law; sum_k C(6, k) sets for k up to 5.
    assert sorted(plan.law_counts().values()) == [1, 6, 6, 15, 15, 20]
    costs = [
        law.event(sensitivity(norms, max_rows=1, neighbours=Neighbours.ADD_REMOVE)).cost.rho * count
        for (norms, law), count in plan.law_counts().items()
    ]
    assert float(sum(costs)) == pytest.approx(0.5)


def test_the_largest_table_allowed_is_answered_exactly() -> None:
    big = ResidualBasis.of([[2**28, -(2**28)]], scale=1)
    query = ProductQuery((("a",),), (big,))
    answer = query.answer({("a",): np.array([2**33, 0])})
    assert answer.tolist() == [2**61]
    with pytest.raises(DataError, match="more than 8,589,934,592 rows"):
        query.answer({("a",): np.array([2**33, 1])})


def test_misfits_are_refused() -> None:
    with pytest.raises(WorkloadError, match="0 factors for 1 groups"):
        ProductQuery((("a",),), ())
    tiny = ResidualStrategy(DOMAIN, PLAN.bases, PLAN.closure, np.full(len(PLAN.closure), 1e300), Fraction(1, 10**9))
    assert math.isclose(sum(float(s) for s in exact_shares(tiny)), tiny.pcost / 2, rel_tol=1e-9)
    with pytest.raises(BudgetError, match="too small to be of use"):
        tiny.requests()
