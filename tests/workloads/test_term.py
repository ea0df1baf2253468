"""Terms: products answer, weigh and measure as their matrices do; a further kind of query passes through a workload."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import hush
from hush.core.domain import Clique, Domain
from hush.core.errors import WorkloadError
from hush.evaluation.workload_error import term_errors, workload_error
from hush.linops import Dense, Equivalent, Identity, Kronecker, Prefix, WidthRange
from hush.workloads import ProductTerm, Term, Workload

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})
COUNTS = np.arange(1.0, 7.0).reshape(2, 3)


@pytest.mark.parametrize(
    "blocks",
    [(Identity(2), Identity(3)), (Identity(2), Prefix(3)), (Dense([[1, -2], [3, 0]]), WidthRange(3, 2))],
)
def test_a_product_is_its_matrix(blocks) -> None:
    term, matrix = ProductTerm(("a", "b"), blocks), Kronecker(blocks).dense()
    np.testing.assert_allclose(term.exact_answers(COUNTS).ravel(), matrix @ COUNTS.ravel())
    assert term.queries == len(matrix)
    for p in (1, 2):
        assert term.sensitivity(p) == pytest.approx(np.linalg.norm(matrix, ord=p, axis=0).max())


def test_the_text_names_what_is_asked() -> None:
    assert ProductTerm(("a", "b"), (Identity(2), WidthRange(3, 2))).text == "a x b:width2"
    assert ProductTerm(("c",), (Dense(np.eye(4)),)).text == "c:queries"
    assert ProductTerm((), ()).text == "(total)"


def test_queries_known_by_their_gram_matrix_have_no_l1_sensitivity() -> None:
    term = ProductTerm(("a",), (Equivalent(np.eye(2), queries=5),))
    assert term.sensitivity(2) == 1.0
    with pytest.raises(WorkloadError, match="known through their Gram matrix alone; use p = 2"):
        term.sensitivity(1)


@dataclass(frozen=True, slots=True)
class Overlap(Term):
    """For every target, how many rows agree with it in at least r of the attributes: a kind that is no product."""

    clique: Clique
    r: int
    sizes: tuple[int, ...]
    weight: float = 1.0
    kind: ClassVar[str] = "overlap"

    @property
    def queries(self) -> int:
        return math.prod(self.sizes)

    def exact_answers(self, counts):
        return self.matrix() @ np.asarray(counts, dtype=float).ravel()

    def sensitivity(self, p: int) -> float:
        return float(np.linalg.norm(self.matrix(), ord=p, axis=0).max())

    @property
    def text(self) -> str:
        return f"{self.r} of {', '.join(self.clique)}"

    def matrix(self):
        cells = np.array(list(itertools.product(*map(range, self.sizes))))
        return ((cells[:, None] == cells).sum(axis=2) >= self.r).astype(float)


OVERLAP = Overlap(("a", "b"), 1, (2, 3))


def test_another_kind_is_counted_weighted_and_merged() -> None:
    workload = Workload(DOMAIN, [OVERLAP]) + Workload.kway(DOMAIN, 1) + 2.0 * Workload(DOMAIN, [OVERLAP])
    assert workload.weights == (3.0, 1.0, 1.0, 1.0)
    assert workload.cliques == (("a", "b"), ("a",), ("b",), ("c",))
    assert workload.queries == 6 + 9
    assert not workload.plain
    assert repr(workload) == "Workload(4 terms, 15 queries over 3 attributes)"
    with pytest.raises(
        WorkloadError, match=r"the overlap \('a', 'b'\) has weight -1.0: expected a finite number above 0"
    ):
        -1.0 * Workload(DOMAIN, [OVERLAP])


def test_another_kind_has_its_error() -> None:
    workload = Workload(DOMAIN, [OVERLAP]) + Workload.marginals(DOMAIN, [("a",)])
    estimated = COUNTS[::-1]
    exact = {("a", "b"): COUNTS, ("a",): COUNTS.sum(axis=1)}
    other = {("a", "b"): estimated, ("a",): estimated.sum(axis=1)}
    missed = [np.delete(np.delete(COUNTS - estimated, a, 0), b, 1).sum() for a in range(2) for b in range(3)]
    # a target misses the two cells that agree with it in neither attribute
    expected = np.abs(missed).sum()
    errors = term_errors(workload, exact, other)
    np.testing.assert_allclose(errors.absolute, [expected, np.abs((COUNTS - estimated).sum(axis=1)).sum()])
    assert workload_error(workload, exact, other) == pytest.approx(errors.absolute.sum() / (2 * COUNTS.sum()))


@pytest.mark.parametrize("mechanism", ["hdmm", "direct", "matrix"])
def test_mechanisms_for_products_refuse_another_kind(mechanism) -> None:
    with pytest.raises(WorkloadError, match="the overlap 1 of a, b is not a product of query blocks; leave it out"):
        hush.plan(Workload(DOMAIN, [OVERLAP]), hush.Budget(epsilon=1, delta=1e-6), mechanism=mechanism)
