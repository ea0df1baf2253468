import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.inference.factors import Factors
from hush.inference.local_polytope import LocalPolytope

DOMAIN = Domain({"a": 2, "b": 3, "c": 2, "one": 1})
CLIQUE_SETS = {
    "chain": [("a", "b"), ("b", "c")],
    "loop": [("a", "b"), ("b", "c"), ("a", "c")],
    "nested": [("a", "b", "c"), ("a", "b"), ("c",)],
    "disconnected": [("a",), ("b",), ("c", "one")],
    "with the empty clique": [("a", "b"), ()],
    "single": [("a", "b", "c")],
}


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
    factors = Factors(DOMAIN, cliques)
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
    factors = Factors(DOMAIN, CLIQUE_SETS[name])
    target = rng.normal(3.0, 3.0, factors.size)
    clique = factors.cliques[0]
    allowed = np.ones(DOMAIN.sizes(clique), dtype=np.bool_)
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
    factors = Factors(DOMAIN, CLIQUE_SETS[name])
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
    factors = Factors(DOMAIN, CLIQUE_SETS["loop"])
    weights = np.array([1.0, 0.5, 2.0])
    target = rng.normal(0.0, 9.0, factors.size)
    polytope = LocalPolytope(factors, weights, 12.0)
    rough = polytope.nearest(target, gap=1.0)
    sharp = polytope.nearest(target, gap=1e-12)
    cells = np.repeat(weights, np.diff(factors.offsets))
    assert 0.5 * float(cells @ (rough.counts - sharp.counts) ** 2) <= rough.gap <= 1.0
    assert sharp.iterations > rough.iterations


def test_too_few_iterations_are_said() -> None:
    factors = Factors(DOMAIN, CLIQUE_SETS["loop"])
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
    domain = Domain({f"a{i}": 2 for i in range(15)})
    target = np.random.default_rng(4).normal(1.0, 1.0, domain.size())
    found = LocalPolytope(Factors(domain, [tuple(domain)]), np.ones(1), 9.0).nearest(target, share=1e-3)
    assert found.solved
    assert found.counts.min() >= 0
    assert found.counts.sum() == pytest.approx(9.0)
