import numpy as np
import pytest

from hush.core.domain import Domain
from hush.core.errors import WorkloadError
from hush.linops import Prefix
from hush.optimizers.opt_kron import fit_product
from hush.optimizers.opt_plus import MOST_PAIRED, TermGrouping, opt_plus
from hush.optimizers.strategy_pool import strategy_pools
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams
from hush.workloads import Workload
from hush.workloads.workload import ProductTerm

EXAMPLE_4 = TermGrams.of(Workload.kway(Domain({"a": 2, "b": 5, "c": 50, "d": 100}), 2))


def test_example_4_by_single_terms_and_grouped() -> None:
    single = opt_plus(EXAMPLE_4, NoiseKind.LAPLACE, groups=[[j] for j in range(6)])
    assert single.error == pytest.approx(85_070, rel=1e-4)
    assert sorted((round(product.share, 2) for product in single.products), reverse=True) == [
        0.39,
        0.18,
        0.14,
        0.13,
        0.11,
        0.05,
    ]
    assert opt_plus(EXAMPLE_4, NoiseKind.LAPLACE).error <= 69_700


def test_example_2() -> None:
    domain = Domain({"x": 100, "y": 100})
    workload = Workload(domain, [ProductTerm((name,), (Prefix(100),)) for name in domain])
    strategy = opt_plus(TermGrams.of(workload), NoiseKind.LAPLACE)
    assert strategy.error <= 14_252
    assert [product.share for product in strategy.products] == pytest.approx([0.5, 0.5], abs=1e-3)


@pytest.mark.parametrize(("noise", "power"), [(NoiseKind.GAUSSIAN, 2), (NoiseKind.LAPLACE, 3)])
def test_the_split_is_by_roots_of_the_errors(noise: NoiseKind, power: int) -> None:
    groups = [[0, 1], [2], [3, 4, 5]]
    strategy = opt_plus(EXAMPLE_4, noise, groups=groups)
    pools = strategy_pools(EXAMPLE_4, noise)
    roots = np.array([fit_product(EXAMPLE_4, pools, own).error for own in groups]) ** (1 / power)
    assert strategy.error == pytest.approx(roots.sum() ** power, rel=1e-6)
    assert [product.share for product in strategy.products] == pytest.approx(roots / roots.sum(), rel=1e-5)
    assert [product.terms for product in strategy.products] == [(0, 1), (2,), (3, 4, 5)]


@pytest.mark.parametrize("noise", NoiseKind)
def test_groups_found_are_no_worse_than_single_terms_or_one_group(noise: NoiseKind) -> None:
    grams = TermGrams.of(Workload.upto(Domain({"a": 2, "b": 3, "c": 9, "d": 20, "e": 2}), 3))
    pools = strategy_pools(grams, noise)
    found = opt_plus(grams, noise, pools=pools).error
    single = TermGrouping(grams, pools, noise, np.inf).single()
    assert found <= opt_plus(grams, noise, pools=pools, groups=single).error * (1 + 1e-3)
    assert found <= opt_plus(grams, noise, pools=pools, groups=[range(len(grams))]).error * (1 + 1e-3)


def test_equal_terms_are_one() -> None:
    domain = Domain({"a": 3, "b": 60})
    term = ProductTerm(("b",), (Prefix(60),))
    workload = Workload(domain, [term, ProductTerm(("a",), Workload.kway(domain, 1).terms[0].blocks), term])
    strategy = opt_plus(TermGrams.of(workload), NoiseKind.GAUSSIAN)
    assert (0, 2) in [product.terms for product in strategy.products]


def test_cells_bound_what_is_merged() -> None:
    strategy = opt_plus(EXAMPLE_4, NoiseKind.LAPLACE, cells=100)
    assert all(len(product.terms) == 1 or EXAMPLE_4.domain.size(product.clique) <= 100 for product in strategy.products)


def test_very_many_terms_are_grouped_by_the_sets_that_hold_them() -> None:
    workload = Workload.upto(Domain({f"a{i}": 3 for i in range(19)}), 3)
    assert len(workload) > MOST_PAIRED
    strategy = opt_plus(TermGrams.of(workload), NoiseKind.GAUSSIAN)
    assert len(strategy.products) <= 969
    assert sorted(j for product in strategy.products for j in product.terms) == list(range(len(workload)))


@pytest.mark.parametrize("groups", [[[0, 1]], [[0], [0, 1, 2, 3, 4, 5]], [[], [0, 1, 2, 3, 4, 5]]])
def test_groups_that_miss_or_repeat_a_term_are_refused(groups: list[list[int]]) -> None:
    with pytest.raises(WorkloadError, match="exactly one group"):
        opt_plus(EXAMPLE_4, NoiseKind.LAPLACE, groups=groups)
