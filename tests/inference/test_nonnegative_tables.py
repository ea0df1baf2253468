import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from scipy.optimize import LinearConstraint, minimize

from dense_twins import disagreement
from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import ConvergenceError, DataError, WorkloadError
from hush.inference.factors import Factors
from hush.inference.nonnegative_tables import LocalPolytope, nonnegative_tables, round_nested, whole_tables

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
CLIQUES = [("a", "b"), ("b", "c"), ("a", "c")]
WITH_CONSTANT = Domain({"a": 2, "b": 3, "c": 2, "one": 1})
CLIQUE_SETS = {
    "chain": [("a", "b"), ("b", "c")],
    "loop": [("a", "b"), ("b", "c"), ("a", "c")],
    "nested": [("a", "b", "c"), ("a", "b"), ("c",)],
    "disconnected": [("a",), ("b",), ("c", "one")],
    "with the empty clique": [("a", "b"), ()],
    "single": [("a", "b", "c")],
}


def noisy_tables(seed: int, spread: float = 3.0) -> dict:
    """Tables that agree, as reconstruction makes them, with some cells below zero."""
    random = np.random.default_rng(seed)
    joint = random.poisson(2.0, size=DOMAIN.shape) + spread * random.normal(size=DOMAIN.shape)
    joint += (30 - joint.sum()) / joint.size
    return {clique: joint.sum(axis=tuple(i for i, n in enumerate(DOMAIN) if n not in clique)) for clique in CLIQUES}


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(0, 8))
def test_tables_become_non_negative_and_agree(seed: int, spread: float) -> None:
    found = nonnegative_tables(DOMAIN, noisy_tables(seed, spread), total=30.0, tolerance=1e-3, iterations=20000)
    tables = found.checked()
    assert min(table.min() for table in tables.values()) >= 0
    assert disagreement(DOMAIN, tables) < 1e-9
    assert all(table.sum() == pytest.approx(30) for table in tables.values())
    assert found.stats["uniform_share"] <= 1e-3


def test_tables_that_need_nothing_are_left_alone() -> None:
    joint = np.arange(12.0).reshape(2, 3, 2)
    given_tables = {("a", "b"): joint.sum(axis=2), ("b", "c"): joint.sum(axis=0)}
    found = nonnegative_tables(DOMAIN, given_tables)
    assert found.stats["iterations"] == found.stats["moved"] == found.stats["uniform_share"] == 0
    for clique, table in given_tables.items():
        np.testing.assert_allclose(found.value[clique], table)


def test_it_is_the_nearest_such_point() -> None:
    """Against a general solver over the joint cells; two tables that share one attribute always have a joint."""
    tables = {clique: noisy_tables(5, 5.0)[clique] for clique in CLIQUES[:2]}
    weights = {("a", "b"): 1.0, ("b", "c"): 4.0}
    found = nonnegative_tables(DOMAIN, tables, total=30.0, weights=weights, tolerance=1e-6, iterations=10**5).checked()

    def distance(x: np.ndarray) -> float:
        joint = x.reshape(2, 3, 2)
        near = {("a", "b"): joint.sum(axis=2), ("b", "c"): joint.sum(axis=0)}
        return sum(weights[clique] * np.sum((near[clique] - tables[clique]) ** 2) for clique in near)

    best = optimize.minimize(
        distance, np.full(12, 2.5), bounds=[(0, None)] * 12, constraints={"type": "eq", "fun": lambda x: x.sum() - 30},
        method="SLSQP", options={"ftol": 1e-12, "maxiter": 1000},
    )  # fmt: skip
    reached = sum(weights[clique] * np.sum((found[clique] - tables[clique]) ** 2) for clique in tables)
    assert reached == pytest.approx(best.fun, rel=1e-4)


def test_tables_that_disagree_are_reconciled_by_their_weights() -> None:
    tables = {("a", "b"): np.full((2, 3), 4.0), ("b", "c"): np.full((3, 2), 6.0)}
    assert disagreement(DOMAIN, tables) == pytest.approx(12)
    found = nonnegative_tables(DOMAIN, tables, total=24.0).value
    assert disagreement(DOMAIN, found) < 1e-9
    np.testing.assert_allclose(found[("a", "b")], 4)
    np.testing.assert_allclose(found[("b", "c")], 4)


def test_a_total_below_zero_leaves_empty_tables() -> None:
    found = nonnegative_tables(DOMAIN, {("a",): np.array([-3.0, 1.0])}, iterations=50)
    np.testing.assert_allclose(found.value[("a",)], 0, atol=1e-9)


def test_names_may_come_in_any_order_and_what_is_left_is_said() -> None:
    tables = {("b", "a"): noisy_tables(1, 6.0)[("a", "b")].T}
    found = nonnegative_tables(DOMAIN, tables, iterations=0, tolerance=0.0)
    assert found.stats["negative"] > 0
    assert found.value[("a", "b")].min() >= 0
    with pytest.raises(ConvergenceError, match="raise iterations or tolerance"):
        found.checked()


@pytest.mark.parametrize(
    ("tables", "options", "error", "message"),
    [
        ({}, {}, WorkloadError, "at least one"),
        ({("a",): np.ones(3)}, {}, DataError, r"shape \(2,\)"),
        ({("a",): np.array([np.nan, 1.0])}, {}, DataError, "finite"),
        ({("a", "b"): np.ones((2, 3)), ("b", "a"): np.ones((3, 2))}, {}, WorkloadError, "given twice"),
        ({("a",): np.ones(2)}, {"weights": {("a",): 0.0}}, WorkloadError, "weights"),
    ],
)
def test_bad_tables_are_refused(tables: dict, options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        nonnegative_tables(DOMAIN, tables, **options)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 5), min_size=0, max_size=4), st.integers(0, 2**32 - 1))
def test_rounding_moves_no_cell_and_no_leading_margin_by_one(sizes: list[int], seed: int) -> None:
    table = np.random.default_rng(seed).gamma(0.7, 2.0, size=sizes)
    total = round(float(table.sum()))
    whole = round_nested(table, total)
    assert whole.dtype == np.int64
    assert whole.min() >= 0
    assert whole.sum() == total
    for axis in range(len(sizes) + 1):
        rest = tuple(range(axis, len(sizes)))
        assert np.abs(whole.sum(axis=rest) - table.sum(axis=rest)).max() < 1 + 1e-6


def test_margins_that_differ_by_float_error_still_add_up() -> None:
    table = np.array([[2.0, 2.99999996], [0.00000004, 1.0]])
    whole = round_nested(table, 6)
    assert whole.sum() == 6
    assert whole.min() >= 0
    crumbs = np.full((3, 7), 1 / 3) + 1e-8
    assert round_nested(crumbs, 7).sum() == 7


def test_whole_tables_agree_on_leading_margins() -> None:
    found = nonnegative_tables(DOMAIN, noisy_tables(3), total=30.0, tolerance=1e-4, iterations=20000).checked()
    whole = whole_tables(DOMAIN, found)
    assert {int(table.sum()) for table in whole.values()} == {30}
    np.testing.assert_array_equal(whole[("a", "b")].sum(axis=1), whole[("a", "c")].sum(axis=1))
    for clique, table in whole.items():
        assert np.abs(table - found[clique]).max() < 1 + 1e-6
    for one, two in itertools.combinations(whole, 2):
        assert whole[one].dtype == whole[two].dtype == np.int64


def test_tables_that_cannot_be_rounded_are_refused() -> None:
    with pytest.raises(DataError, match="negative cells"):
        whole_tables(DOMAIN, {("a",): np.array([-0.5, 1.5])})
    with pytest.raises(DataError, match="does not add up to 7"):
        whole_tables(DOMAIN, {("a",): np.array([0.5, 1.5])}, total=7)


def test_a_total_of_zero_leaves_zeros() -> None:
    """Far below zero, where estimates of an empty table land, the only non-negative tables are empty."""
    found = nonnegative_tables(Domain({"a": 2, "b": 3}), {("a",): [-3.0, 1.0], ("a", "b"): np.ones((2, 3))}, total=-4.0)
    assert found.solved
    for table in found.checked().values():
        np.testing.assert_array_equal(table, 0.0)


def agreement(factors: Factors) -> Floats:
    """Rows that are zero on tables which agree on every set that two of them share, but for the total."""
    rows = []
    for i, j in itertools.combinations(range(len(factors)), 2):
        shared = tuple(name for name in factors.cliques[i] if name in factors.cliques[j])
        for cell in itertools.product(*(range(factors.domain[name]) for name in shared)):
            row = np.zeros(factors.size)
            for index, sign in ((i, 1.0), (j, -1.0)):
                clique = factors.cliques[index]
                where = tuple(cell[shared.index(name)] if name in shared else slice(None) for name in clique)
                factors.table(row, index)[where] = sign
            rows.append(row)
    first = np.zeros(factors.size)
    first[factors.span(0)] = 1.0
    return np.array([first, *rows])


def nearest_by_hand(factors: Factors, weights: Floats, total: float, target: Floats, blocked: Floats) -> Floats:
    """The nearest point of the polytope by a general solver."""
    matrix = agreement(factors)
    right = np.zeros(len(matrix))
    right[0] = total
    cells = np.repeat(weights, np.diff(factors.offsets))
    # constraints that follow from others upset the solver: keep an independent set
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    kept = s > 1e-9
    found = minimize(
        lambda x: 0.5 * float(cells @ (x - target) ** 2),
        np.repeat(total / np.diff(factors.offsets), np.diff(factors.offsets)),
        jac=lambda x: cells * (x - target),
        bounds=[(0.0, 0.0 if stop else None) for stop in blocked],
        constraints=LinearConstraint(v[kept], *(2 * [(u.T @ right)[kept] / s[kept]])),
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return np.asarray(found.x)


@pytest.mark.parametrize("cliques", CLIQUE_SETS.values(), ids=CLIQUE_SETS)
@pytest.mark.parametrize("seed", [0, 1])
def test_nearest_is_that_of_a_general_solver(cliques: list[Clique], seed: int) -> None:
    rng = np.random.Generator(np.random.PCG64(seed))
    factors = Factors(WITH_CONSTANT, cliques)
    weights = rng.uniform(0.2, 3.0, len(factors))
    target = rng.normal(2.0, 6.0, factors.size)
    found = LocalPolytope(factors, weights, 20.0).nearest(target, gap=1e-10)
    expected = nearest_by_hand(factors, weights, 20.0, target, np.zeros(factors.size))
    np.testing.assert_allclose(found.counts, expected, atol=2e-4)
    assert found.solved
    assert found.counts.min() >= 0.0
    np.testing.assert_allclose(agreement(factors)[1:] @ found.counts, 0.0, atol=1e-9)


@pytest.mark.parametrize("name", ["chain", "loop", "nested"])
def test_forbidden_cells_are_zero_and_the_rest_is_nearest(name: str) -> None:
    rng = np.random.Generator(np.random.PCG64(3))
    factors = Factors(WITH_CONSTANT, CLIQUE_SETS[name])
    target = rng.normal(3.0, 3.0, factors.size)
    clique = factors.cliques[0]
    allowed = np.ones(WITH_CONSTANT.sizes(clique), dtype=np.bool_)
    allowed[0, 1] = False
    polytope = LocalPolytope(factors, np.ones(len(factors)), 20.0, {clique: allowed})
    found = polytope.nearest(target, gap=1e-9)
    assert (found.counts[polytope.blocked] == 0.0).all()
    expected = nearest_by_hand(factors, polytope.weights, 20.0, target, polytope.blocked)
    np.testing.assert_allclose(found.counts, expected, atol=2e-4)


@given(st.sampled_from(sorted(CLIQUE_SETS)), st.integers(0, 2**16))
@settings(max_examples=30, deadline=None)
def test_agreeing_tables_are_the_orthogonal_projection(name: str, seed: int) -> None:
    rng = np.random.Generator(np.random.PCG64(seed))
    factors = Factors(WITH_CONSTANT, CLIQUE_SETS[name])
    weights = rng.uniform(0.1, 10.0, len(factors))
    polytope = LocalPolytope(factors, weights, 5.0)
    given_tables = rng.normal(size=factors.size)
    found = polytope.agree(given_tables.copy())
    matrix = agreement(factors)
    np.testing.assert_allclose(matrix @ found, [5.0] + [0.0] * (len(matrix) - 1), atol=1e-10)
    cells = np.repeat(weights, np.diff(factors.offsets))
    moved = cells * (given_tables - found)
    _, s, v = np.linalg.svd(matrix)
    inside = v[int((s > 1e-9).sum()) :]
    np.testing.assert_allclose(inside @ moved, 0.0, atol=1e-9)


def test_gap_bounds_the_distance_from_the_nearest() -> None:
    rng = np.random.Generator(np.random.PCG64(5))
    factors = Factors(WITH_CONSTANT, CLIQUE_SETS["loop"])
    weights = np.array([1.0, 0.5, 2.0])
    target = rng.normal(0.0, 9.0, factors.size)
    polytope = LocalPolytope(factors, weights, 12.0)
    rough = polytope.nearest(target, gap=1.0)
    sharp = polytope.nearest(target, gap=1e-12)
    cells = np.repeat(weights, np.diff(factors.offsets))
    assert 0.5 * float(cells @ (rough.counts - sharp.counts) ** 2) <= rough.gap <= 1.0
    assert sharp.iterations > rough.iterations


def test_too_few_iterations_are_said() -> None:
    factors = Factors(WITH_CONSTANT, CLIQUE_SETS["loop"])
    target = np.random.Generator(np.random.PCG64(6)).normal(0.0, 9.0, factors.size)
    found = LocalPolytope(factors, np.ones(3), 12.0).nearest(target, gap=1e-14, iterations=10)
    assert not found.solved
    assert found.counts.min() >= 0.0
    assert math.isclose(found.counts[factors.span(0)].sum(), 12.0)


def test_attributes_of_one_level_cost_nothing_and_change_nothing() -> None:
    single = {f"one{i}": 1 for i in range(40)}
    domain = Domain({"a": 2, **single, "b": 3})
    target = np.random.default_rng(3).normal(2.0, 3.0, 11)
    weights = np.array([1.0, 2.0, 0.5])
    found = [
        LocalPolytope(Factors(domain, cliques), weights, 9.0).nearest(target, gap=1e-10).counts
        for cliques in ([("a", "b"), ("a",), ("b",)], [("a", *single, "b"), ("a", *single), ("b", *single)])
    ]
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)


def test_tables_of_many_attributes_are_projected_too() -> None:
    domain = Domain({f"a{i}": 2 for i in range(13)})
    target = np.random.default_rng(4).normal(1.0, 1.0, domain.size())
    found = LocalPolytope(Factors(domain, [tuple(domain)]), np.ones(1), 9.0).nearest(target, share=1e-3)
    assert found.solved
    assert found.counts.min() >= 0
    assert found.counts.sum() == pytest.approx(9.0)
