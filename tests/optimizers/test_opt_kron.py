import itertools
import math

import numpy as np
import pytest

from hush.core.domain import Domain
from hush.linops import AllRange, Dense, Identity, LinearOperator, Prefix, Total, WidthRange
from hush.optimizers.opt_kron import descend, opt_kron
from hush.optimizers.opt_plus import opt_plus
from hush.optimizers.strategy_pool import LEVELS, strategy_pools
from hush.strategies.product_strategy import FloatStrategy
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams
from hush.workloads import Workload
from hush.workloads.workload import ProductTerm


def union(domain: Domain, *products: tuple[LinearOperator, ...], weights: tuple[float, ...] = ()) -> Workload:
    terms = []
    for j, blocks in enumerate(products):
        kept = [(a, b) for a, b in zip(domain, blocks, strict=True) if not isinstance(b, Total)]
        terms.append(ProductTerm(tuple(a for a, _ in kept), tuple(b for _, b in kept), weights[j] if weights else 1.0))
    return Workload(domain, terms)


def dense_of(domain: Domain, clique: tuple[str, ...], factors: tuple[LinearOperator, ...]) -> np.ndarray:
    known = dict(zip(clique, factors, strict=True))
    made = np.ones((1, 1))
    for name in domain:
        made = np.kron(made, known[name].dense() if name in known else np.ones((1, domain[name])))
    return made


def dense_error(workload: Workload, strategy: FloatStrategy) -> float:
    """Each term by the pseudo-inverse of its own product, with the noise of that product's share."""
    total = 0.0
    for product in strategy.products:
        q = dense_of(workload.domain, product.clique, product.factors)
        norms = np.linalg.norm(q, ord=strategy.noise.norm, axis=0)
        assert norms.max() <= 1 + 1e-9
        scale = float(strategy.noise.variance(np.array(product.share)))
        inverse = np.linalg.pinv(q)
        for j in product.terms:
            term = workload.terms[j]
            w = dense_of(workload.domain, term.clique, term.blocks)
            assert w @ inverse @ q == pytest.approx(w, abs=1e-7)
            total += term.weight * scale * float(np.sum((w @ inverse) ** 2))
    return total


D = Domain({"a": 3, "b": 4, "c": 5})
WORKLOADS = {
    "marginals": Workload.kway(D, 2),
    "prefixes": union(D, (Prefix(3), Total(4), Prefix(5)), (Total(3), Identity(4), Total(5)), weights=(1.0, 7.0)),
    "mixed": union(
        D,
        (Identity(3), AllRange(4), Total(5)),
        (Total(3), Prefix(4), WidthRange(5, 2)),
        (Total(3), Dense([[1.0, 1.0, 0.0, 0.0]]), Identity(5)),
    ),
    "total": union(D, (Total(3), Total(4), Total(5))),
}


@pytest.mark.parametrize("noise", NoiseKind)
@pytest.mark.parametrize("name", WORKLOADS)
def test_the_error_is_the_dense_one(name: str, noise: NoiseKind) -> None:
    workload = WORKLOADS[name]
    grams = TermGrams.of(workload)
    for strategy in (opt_kron(grams, noise), opt_plus(grams, noise)):
        assert strategy.error == pytest.approx(dense_error(workload, strategy), rel=1e-6)
        assert sum(product.share for product in strategy.products) == pytest.approx(1)
        assert sorted(j for product in strategy.products for j in product.terms) == list(range(len(workload)))


@pytest.mark.parametrize("noise", NoiseKind)
def test_no_sweep_raises_the_error(noise: NoiseKind) -> None:
    grams = TermGrams.of(WORKLOADS["mixed"])
    pools = strategy_pools(grams, noise, restarts=0)
    choices = np.full(3, LEVELS)
    error = math.inf
    for _ in range(4):
        choices, now = descend(pools, grams.index, grams.weights, choices, sweeps=1, design=0)
        assert now <= error * (1 + 1e-12)
        error = now


def test_attributes_asked_for_totals_alone_are_left_out() -> None:
    strategy = opt_kron(TermGrams.of(WORKLOADS["prefixes"]), NoiseKind.GAUSSIAN)
    assert strategy.products[0].clique == ("a", "b", "c")
    only = union(D, (Prefix(3), Total(4), Total(5)))
    assert opt_kron(TermGrams.of(only), NoiseKind.LAPLACE).products[0].clique == ("a",)
    assert opt_kron(TermGrams.of(WORKLOADS["total"]), NoiseKind.LAPLACE).error == 1.0


def test_example_4_and_example_2() -> None:
    grams = TermGrams.of(Workload.kway(Domain({"a": 2, "b": 5, "c": 50, "d": 100}), 2))
    assert opt_kron(grams, NoiseKind.LAPLACE).error == pytest.approx(213_270, rel=1e-4)
    two = Domain({"x": 100, "y": 100})
    grams = TermGrams.of(union(two, (Prefix(100), Total(100)), (Total(100), Prefix(100))))
    assert opt_kron(grams, NoiseKind.LAPLACE).error <= 33_385


def test_levels_that_no_query_tells_apart_are_measured_as_one() -> None:
    halves = Dense(np.kron(np.eye(2), np.ones((1, 8))))
    domain = Domain({"a": 16})
    for noise in NoiseKind:
        assert opt_kron(TermGrams.of(union(domain, (halves,))), noise).error == pytest.approx(2.0)


def test_it_is_deterministic() -> None:
    grams = TermGrams.of(WORKLOADS["mixed"])
    first, second = (opt_kron(grams, NoiseKind.LAPLACE) for _ in range(2))
    assert first.error == second.error
    for one, other in itertools.zip_longest(first.products[0].factors, second.products[0].factors):
        assert np.array_equal(one.dense(), other.dense())
