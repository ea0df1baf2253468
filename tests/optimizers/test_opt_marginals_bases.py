import numpy as np
import pytest

from hush.core.domain import Domain
from hush.linops import AllRange, Identity, LinearOperator, Prefix
from hush.optimizers.opt_marginals import opt_bases, opt_marginals
from hush.strategies.product_strategy import Recovery
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams
from hush.workloads import Workload
from hush.workloads.workload import ProductTerm

DOMAIN = Domain({"a": 6, "b": 5, "c": 3})
WORKLOAD = Workload(
    DOMAIN,
    [
        ProductTerm(("a", "b"), (Prefix(6), AllRange(5))),
        ProductTerm(("a", "c"), (Prefix(6), Identity(3)), 2.0),
        ProductTerm(("b",), (Prefix(5),)),
        ProductTerm((), ()),
    ],
)


def dense(clique: tuple[str, ...], blocks: tuple[LinearOperator, ...]) -> np.ndarray:
    known = dict(zip(clique, blocks, strict=True))
    made = np.ones((1, 1))
    for name in DOMAIN:
        made = np.kron(made, known[name].dense() if name in known else np.ones((1, DOMAIN[name])))
    return made


@pytest.mark.parametrize("noise", NoiseKind)
def test_the_error_is_that_of_dense_global_least_squares(noise: NoiseKind) -> None:
    strategy = opt_bases(TermGrams.of(WORKLOAD), noise, restarts=1)
    assert strategy.recovery is Recovery.MARGINALS
    rows = [dense(p.clique, p.factors) / np.sqrt(noise.variance(np.array(p.share))) for p in strategy.products]
    for product in strategy.products:
        assert dense(product.clique, product.factors).shape[1] == DOMAIN.size()
        for factor in product.factors:
            assert factor.column_norms(noise.norm).max() == pytest.approx(1)
    q = np.concatenate(rows)
    w = np.concatenate([np.sqrt(t.weight) * dense(t.clique, t.blocks) for t in WORKLOAD])
    inverse = np.linalg.pinv(q, rcond=1e-10)
    assert w @ inverse @ q == pytest.approx(w, abs=1e-6)
    assert strategy.error == pytest.approx(np.sum((w @ inverse) ** 2), rel=1e-6)


def test_plain_marginals_are_a_special_case() -> None:
    grams = TermGrams.of(Workload.kway(DOMAIN, 2))
    for noise in NoiseKind:
        bases = opt_bases(grams, noise).error
        assert bases == pytest.approx(opt_marginals(grams, noise, restarts=2).value.error, rel=1e-3)


def test_prefix_sums_keep_a_strategy_of_their_own() -> None:
    domain = Domain({"x": 64, "y": 64, "z": 2})
    terms = [ProductTerm(("x", "y"), (Prefix(64), Prefix(64))), ProductTerm(("x", "z"), (Prefix(64), Identity(2)))]
    grams = TermGrams.of(Workload(domain, terms))
    assert opt_bases(grams, NoiseKind.GAUSSIAN).error < opt_marginals(grams, NoiseKind.GAUSSIAN).value.error / 2
