import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.domain import Domain
from hush.core.errors import SizeError, WorkloadError
from hush.linops import AllRange, Dense, Identity, LinearOperator, Prefix, Total
from hush.optimizers.opt_hdmm import direct_strategy, identity_strategy, opt_hdmm
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams
from hush.workloads import Workload
from hush.workloads.workload import ProductTerm

EXAMPLE_4 = TermGrams.of(Workload.kway(Domain({"a": 2, "b": 5, "c": 50, "d": 100}), 2))


def test_example_4() -> None:
    strategies = opt_hdmm(EXAMPLE_4, NoiseKind.LAPLACE)
    assert [strategy.method for strategy in strategies] == ["marginals", "plus", "direct", "kron", "identity"]
    assert [strategy.error for strategy in strategies] == sorted(strategy.error for strategy in strategies)
    assert strategies[0].error <= 62_886 * 1.0001
    assert strategies[-1].error == pytest.approx(300_000)


def test_direct_noise_with_equal_shares_is_the_printed_one() -> None:
    """m Delta^2 = 6060 * 36 with one scale for all; the split by error is better."""
    strategy = direct_strategy(EXAMPLE_4, NoiseKind.LAPLACE)
    cells = np.array([10.0, 100, 200, 250, 500, 5000])
    assert strategy.error == pytest.approx(np.cbrt(cells).sum() ** 3)
    assert strategy.error <= 6060 * 36


def product_workload(seed: int) -> Workload:
    random = np.random.default_rng(seed)
    domain = Domain({"a": int(random.integers(2, 5)), "b": int(random.integers(2, 5)), "c": int(random.integers(2, 4))})
    terms = []
    for _ in range(int(random.integers(1, 5))):
        blocks: dict[str, LinearOperator] = {}
        for name in domain:
            n = domain[name]
            picked = [
                Total(n),
                Identity(n),
                Prefix(n),
                AllRange(n),
                Dense(random.integers(0, 2, (2, n)) + np.eye(2, n)),
            ]
            block = picked[int(random.integers(5))]
            if not isinstance(block, Total):
                blocks[name] = block
        terms.append(ProductTerm(tuple(blocks), tuple(blocks.values()), float(random.uniform(0.2, 5))))
    return Workload(domain, terms)


def dense_gram(workload: Workload) -> tuple[np.ndarray, float, float]:
    """W^T W, and the errors of one scale of noise on all queries, Laplace and Gaussian."""
    gram = np.zeros((workload.domain.size(),) * 2)
    weighted, l1, l2 = 0.0, 0.0, 0.0
    for term in workload:
        made = np.ones((1, 1))
        known = dict(zip(term.clique, term.blocks, strict=True))
        for name in workload.domain:
            n = workload.domain[name]
            made = np.kron(made, known[name].dense() if name in known else np.ones((1, n)))
        gram += term.weight * made.T @ made
        weighted += term.weight * len(made)
        l1 += float(np.abs(made).sum(axis=0).max())
        l2 += float((made**2).sum(axis=0).max())
    return gram, weighted * l1**2, weighted * l2


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from(NoiseKind))
def test_never_worse_than_the_baselines_nor_better_than_the_svd_bound(seed: int, noise: NoiseKind) -> None:
    workload = product_workload(seed)
    gram, laplace, gaussian = dense_gram(workload)
    best = opt_hdmm(TermGrams.of(workload), noise, restarts=1)[0]
    assert best.error <= np.trace(gram) * (1 + 1e-9)
    assert best.error <= (laplace if noise is NoiseKind.LAPLACE else gaussian) * (1 + 1e-9)
    svd = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0)).sum() ** 2 / len(gram)
    assert best.error >= svd * (1 - 1e-6)


def test_identity_is_the_table_over_asked_attributes() -> None:
    domain = Domain({"a": 3, "b": 1000, "c": 4})
    strategy = identity_strategy(TermGrams.of(Workload.marginals(domain, [("a",), ("c",)])), NoiseKind.GAUSSIAN)
    assert strategy.products[0].clique == ("a", "c")
    assert strategy.error == pytest.approx(24)


def test_levels_and_totals_of_any_size_and_other_blocks_refused_by_name() -> None:
    domain = Domain({"zip": 100_000, "sex": 2})
    grams = TermGrams.of(Workload.upto(domain, 2))
    for noise in NoiseKind:
        assert opt_hdmm(grams, noise)[0].error < identity_strategy(grams, noise).error
    prefixes = Workload(domain, [ProductTerm(("zip",), (Prefix(100_000),))])
    with pytest.raises(SizeError, match=r"'zip' has 100000 levels.*coarsen"):
        opt_hdmm(TermGrams.of(prefixes), NoiseKind.GAUSSIAN)


def test_cells_leave_out_what_cannot_be_measured() -> None:
    strategies = opt_hdmm(EXAMPLE_4, NoiseKind.LAPLACE, cells=10_000)
    assert {strategy.method for strategy in strategies} == {"marginals", "plus", "direct"}


def test_a_factor_common_to_all_terms_gets_its_own_optimum() -> None:
    """kron([P; T], J) = kron of the two: the error of the single product is that of its factors, multiplied."""
    both = Domain({"x": 20, "y": 51})
    levels = Dense(np.concatenate([np.eye(51), np.ones((1, 51))]))
    one = Workload(Domain({"x": 20}), [ProductTerm(("x",), (Prefix(20),)), ProductTerm((), ())])
    two = Workload(both, [ProductTerm(("x", "y"), (Prefix(20), levels)), ProductTerm(("y",), (levels,))])
    state = Workload(Domain({"y": 51}), [ProductTerm(("y",), (levels,))])
    for noise in NoiseKind:
        errors = [
            next(d.error for d in opt_hdmm(TermGrams.of(w), noise, operators=["kron"]) if d.method == "kron")
            for w in (one, two, state)
        ]
        assert errors[1] == pytest.approx(errors[0] * errors[2], rel=1e-3)


def test_unknown_operators_are_refused() -> None:
    with pytest.raises(WorkloadError, match="operator 'opt'"):
        opt_hdmm(EXAMPLE_4, NoiseKind.LAPLACE, operators=["opt"])
