import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush import Domain, Workload, queries
from hush.core.errors import SizeError, WorkloadError
from hush.linops import Dense, Equivalent, Identity, LevelsAndTotal, LinearOperator, Permuted, Prefix, Total
from hush.workloads import ProductTerm
from hush.workloads import workload as workload_module

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})
BLOCKS = (queries.identity, queries.prefix, queries.ranges, queries.width(2), queries.total)


def gram(workload: Workload) -> np.ndarray:
    """W^T W the plain way, with totals outside the clique."""
    total = np.zeros((workload.domain.size(),) * 2)
    for term in workload:
        own = dict(zip(term.clique, term.blocks, strict=True))
        product = np.ones((1, 1))
        for name in workload.domain:
            product = np.kron(product, own.get(name, Total(workload.domain[name])).dense())
        total += term.weight * product.T @ product
    return total


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    terms = []
    for _ in range(draw(st.integers(1, 3))):
        clique = tuple(name for name in DOMAIN if draw(st.booleans()))
        blocks = tuple(draw(st.sampled_from(BLOCKS))(DOMAIN[name]) for name in clique)
        terms.append(ProductTerm(clique, blocks, draw(st.sampled_from([0.5, 1.0, 2.0]))))
    return Workload(DOMAIN, terms)


@given(workloads(), workloads())
def test_it_says_whether_the_gram_matrices_are_equal(first: Workload, second: Workload) -> None:
    assert first.equivalent(second) == np.allclose(gram(first), gram(second), rtol=0, atol=1e-9)
    assert second.equivalent(first) == first.equivalent(second)
    assert first.equivalent(first)


def one(block: LinearOperator, name: str = "c") -> Workload:
    return Workload.product(DOMAIN, {name: block})


ROTATION = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (one(Prefix(4)), one(Dense(ROTATION @ Prefix(4).dense())), True),
        (Workload.upto(DOMAIN, 2), Workload(DOMAIN, reversed(Workload.upto(DOMAIN, 2).terms)), True),
        (one(LevelsAndTotal(4)), one(Identity(4)) + Workload.kway(DOMAIN, 0), True),
        (one(Prefix(4)), one(Dense(Prefix(4).dense()[::-1])), True),
        (one(Prefix(4)), one(Dense(Prefix(4).dense().T)), False),
        (one(Prefix(4)), one(Equivalent(Prefix(4).gram_dense(), queries=9)), True),
        (one(Identity(4)), one(Permuted(Identity(4), [3, 1, 0, 2])), True),
        (one(Prefix(4)), one(Permuted(Prefix(4), [3, 2, 1, 0])), False),
        (one(Prefix(4)), one(Identity(4)), False),
        (one(Identity(4)), 2.0 * one(Identity(4)), False),
        (Workload(DOMAIN, [*one(Prefix(4)).terms] * 2), 2.0 * one(Prefix(4)), True),
        (Workload(DOMAIN, [ProductTerm(("a", "c"), (Total(2), Prefix(4)))]), one(Prefix(4)), True),
        (
            Workload(DOMAIN, [ProductTerm(("c", "a"), (Prefix(4), Identity(2)))]),
            Workload.product(DOMAIN, {"a": queries.identity, "c": queries.prefix}),
            True,
        ),
        (one(Identity(4)), one(Dense(np.eye(4) + 1e-6 * np.eye(4)[::-1])), False),
        (one(Identity(4)), one(Dense(np.eye(4) + 1e-9 * np.eye(4)[::-1])), True),
    ],
)
def test_examples(first: Workload, second: Workload, expected: bool) -> None:
    assert first.equivalent(second) is expected


def test_hundreds_of_attributes_neither_overflow_nor_vanish() -> None:
    domain = Domain({f"x{i}": 100 for i in range(150)})
    first = Workload.product(domain, dict.fromkeys(domain, queries.prefix))
    mixed = dict.fromkeys(domain, Dense(Prefix(100).dense()[::-1]))
    assert first.equivalent(Workload.product(domain, mixed))
    assert not first.equivalent(Workload.product(domain, mixed | {"x7": Identity(100)}))
    assert not Workload.kway(domain, 1).equivalent(1.001 * Workload.kway(domain, 1))


def test_what_cannot_be_compared_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WorkloadError, match="different domains"):
        Workload.kway(DOMAIN, 1).equivalent(Workload.kway(Domain({"a": 2}), 1))
    with pytest.raises(WorkloadError, match="tolerance=1e-12"):
        Workload.kway(DOMAIN, 1).equivalent(Workload.kway(DOMAIN, 1), tolerance=1e-12)
    monkeypatch.setattr(workload_module, "LARGEST_COMPARISON", 10)
    with pytest.raises(SizeError, match="6 distinct terms"):
        Workload.kway(DOMAIN, 1).equivalent(Workload.kway(DOMAIN, 2))
    assert Workload.upto(DOMAIN, 3).equivalent(Workload.upto(DOMAIN, 3))


def test_thresholds_are_equivalent_to_the_products_of_their_gram_matrix() -> None:
    domain = Domain({"a": 2, "b": 3, "c": 4})
    thresholds = Workload.thresholds(domain, 3, 2)
    assert thresholds.equivalent(Workload(domain, thresholds.gram_products))
    assert not thresholds.equivalent(Workload.thresholds(domain, 3, 1))
    assert not thresholds.equivalent(Workload.kway(domain, 3))
