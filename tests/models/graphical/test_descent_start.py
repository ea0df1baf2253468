import numpy as np
import pytest

from dense_twins import DenseModel
from hush import queries
from hush.core.domain import Domain
from hush.inference.factors import Factors
from hush.models.graphical.descent import LEAST_START_COUNT, independent_start, warm_start
from hush.privacy.measurement import Measurement

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})


def marginal(potentials: np.ndarray, factors: Factors, name: str) -> np.ndarray:
    p = DenseModel(factors).probabilities(potentials)
    return p.sum(axis=tuple(axis for axis, other in enumerate(DOMAIN) if other != name))


def test_the_product_of_what_each_table_says() -> None:
    a, b, c = np.array([30.0, 70.0]), np.array([20.0, 50.0, 30.0]), np.array([10.0, 20.0, 30.0, 40.0])
    tables = [Measurement(("a", "b"), np.outer(a, b) / 100, 1.0), Measurement(("c", "b"), np.outer(c, b) / 100, 2.0)]
    factors = Factors(DOMAIN, [("a", "b"), ("b", "c")])
    potentials = independent_start(factors, [table.on(DOMAIN) for table in tables], 100.0)
    p = DenseModel(factors).probabilities(potentials)
    np.testing.assert_allclose(p, np.einsum("i,j,k->ijk", a, b, c) / 1e6)


def test_tables_of_one_attribute_are_averaged_by_their_precision() -> None:
    """(a) has variance 1; (a, b) sums three cells of variance 4."""
    first, second = np.array([40.0, 60.0]), np.array([[30.0] * 3, [10.0] * 3])
    tables = [Measurement(("a",), first, 1.0), Measurement(("a", "b"), second, 2.0)]
    factors = Factors(DOMAIN, [("a",), ("a", "b")])
    found = marginal(independent_start(factors, tables, 100.0), factors, "a")
    mean = (first + second.sum(axis=1) / 12) / (1 + 1 / 12)
    np.testing.assert_allclose(found, mean / mean.sum())


def test_a_level_counted_below_zero_starts_at_a_part_of_its_noise() -> None:
    factors = Factors(DOMAIN, [("a",)])
    found = marginal(independent_start(factors, [Measurement(("a",), [-50.0, 100.0], 5.0)], 100.0), factors, "a")
    np.testing.assert_allclose(found, np.array([5 * LEAST_START_COUNT, 100.0]) / (100.0 + 5 * LEAST_START_COUNT))


def test_other_queries_are_left_out() -> None:
    prefix = Measurement(("a",), [10.0, 100.0], 1.0, query={"a": queries.prefix}).on(DOMAIN)
    assert (independent_start(Factors(DOMAIN, [("a",)]), [prefix], 100.0) == 0).all()


def test_warm_potentials_go_where_their_clique_went() -> None:
    random = np.random.default_rng(0)
    kept, moved, turned = random.normal(size=(2, 3)), random.normal(size=3), random.normal(size=(4, 3))
    factors = Factors(DOMAIN, [("a", "c"), ("a", "b"), ("b", "c")])
    potentials = warm_start(factors, {("a", "b"): kept, ("b",): moved, ("c", "b"): turned})
    tables = factors.tables(potentials)
    np.testing.assert_array_equal(tables[0], 0)
    np.testing.assert_allclose(tables[1], kept + moved)  # the first clique that holds b
    np.testing.assert_array_equal(tables[2], turned.T)


def test_the_distribution_survives_wider_cliques() -> None:
    random = np.random.default_rng(1)
    small = Factors(DOMAIN, [("a", "b"), ("c",)])
    potentials = random.normal(size=small.size)
    wide = Factors(DOMAIN, [("a", "b", "c"), ("a", "c")])
    known = dict(zip(small.cliques, small.tables(potentials), strict=True))
    before = DenseModel(small).probabilities(potentials)
    np.testing.assert_allclose(DenseModel(wide).probabilities(warm_start(wide, known)), before)


def test_a_clique_that_is_nowhere_is_dropped() -> None:
    factors = Factors(DOMAIN, [("a",)])
    assert (warm_start(factors, {("b", "c"): np.ones((3, 4))}) == 0).all()
    assert (warm_start(factors, {}) == 0).all()


@pytest.mark.parametrize("total", [1.0, 1e9])
def test_the_total_only_shifts(total: float) -> None:
    factors = Factors(DOMAIN, [("a",)])
    found = marginal(independent_start(factors, [Measurement(("a",), [25.0, 75.0], 1.0)], total), factors, "a")
    np.testing.assert_allclose(found, [0.25, 0.75])
