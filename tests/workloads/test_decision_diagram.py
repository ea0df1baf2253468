"""Decision diagrams: true in the right cells, and on relaxed rows the sum over all satisfying patterns."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hush import Domain, queries
from hush.core.errors import SizeError, WorkloadError
from hush.schema.proposition import Proposition
from hush.workloads import DecisionDiagram, ThresholdTerm
from hush.workloads import decision_diagram as module

DOMAIN = Domain({"a": 2, "b": 3, "c": 4, "d": 2})


def random_proposition(random: np.random.Generator, depth: int) -> Proposition:
    if depth == 0 or random.random() < 0.2:
        name = str(random.choice(DOMAIN.attributes))
        size = DOMAIN[name]
        return queries.test(name, sorted(random.choice(size, random.integers(1, size), replace=False).tolist()))
    parts = [random_proposition(random, depth - 1) for _ in range(random.integers(1, 5))]
    joint = queries.at_least(int(random.integers(1, len(parts) + 1)), *parts)
    return ~joint if random.random() < 0.4 else joint


def truth(proposition: Proposition, cell: dict[str, int]) -> bool:
    """By the definition, from the formula as it was written."""
    name = type(proposition).__name__
    if name == "ColumnTest":
        return cell[proposition.column] in proposition.condition
    if name == "Opposite":
        return not truth(proposition.part, cell)
    return sum(truth(part, cell) for part in proposition.parts) >= proposition.number


def cells_of(proposition: Proposition) -> np.ndarray:
    cells = itertools.product(*map(range, DOMAIN.shape))
    listed = [truth(proposition, dict(zip(DOMAIN, cell, strict=True))) for cell in cells]
    return np.array(listed).reshape(DOMAIN.shape)


def relaxed(random: np.random.Generator, sizes: tuple[int, ...], rows: int) -> list[np.ndarray]:
    return [random.dirichlet(np.ones(size), rows) for size in sizes]


def by_patterns(inside: np.ndarray, blocks: list[np.ndarray]) -> np.ndarray:
    """sum over satisfying cells of the product of probabilities."""
    rows = []
    for row in range(len(blocks[0])):
        table = inside.astype(float)
        for block in reversed(blocks):
            table = table @ block[row]
        rows.append(float(table))
    return np.array(rows)


@pytest.mark.parametrize("seed", range(40))
def test_random_formulas(seed) -> None:
    random = np.random.Generator(np.random.PCG64(seed))
    proposition = random_proposition(random, 3)
    expected = cells_of(proposition)
    diagram = DecisionDiagram.of(DOMAIN, proposition)
    names = diagram.clique
    first = expected[tuple(slice(None) if name in names else slice(0, 1) for name in DOMAIN)]
    assert (expected == first).all()  # it does not depend on the others
    inside = first.reshape(DOMAIN.sizes(names))
    assert np.array_equal(diagram.inside(), inside)
    same = DecisionDiagram.of_cells(DOMAIN.attributes, expected)
    assert same == diagram  # equal queries have equal diagrams, however they came about
    assert hash(same) == hash(diagram)
    blocks = relaxed(random, diagram.sizes, 5)
    if names:
        np.testing.assert_allclose(diagram.value(blocks), by_patterns(inside, blocks), atol=1e-12)
        np.testing.assert_allclose(diagram.value(dict(zip(names, blocks, strict=True))), diagram.value(blocks))


@pytest.mark.parametrize("seed", range(10))
def test_derivatives_are_those_of_the_value(seed) -> None:
    random = np.random.Generator(np.random.PCG64(100 + seed))
    drawn = (DecisionDiagram.of(DOMAIN, random_proposition(random, 3)) for _ in range(100))
    diagram = next(each for each in drawn if each.clique)  # that is not the same in every cell
    blocks = relaxed(random, diagram.sizes, 4)
    value, slopes = diagram.value_and_gradient(blocks)
    np.testing.assert_allclose(value, diagram.value(blocks), atol=1e-15)
    for index, size in enumerate(diagram.sizes):
        towards = random.dirichlet(np.ones(size), 4) - blocks[index]
        moved = [block.copy() for block in blocks]
        moved[index] += towards  # linear in each column, so the whole step is exact
        np.testing.assert_allclose(diagram.value(moved) - value, (slopes[index] * towards).sum(axis=1), atol=1e-12)


@pytest.mark.parametrize(("columns", "at_least"), [(k, r) for k in (2, 3, 5) for r in range(1, k + 1)])
def test_thresholds_take_few_nodes_and_are_poisson_binomial_tails(columns, at_least) -> None:
    domain = Domain({f"c{i}": 2 + i % 3 for i in range(columns)})
    target = [size - 1 for size in domain.shape]
    tests = [queries.test(name, code) for name, code in zip(domain, target, strict=True)]
    diagram = DecisionDiagram.of(domain, queries.at_least(at_least, *tests))
    assert diagram.nodes == at_least * (columns - at_least + 1)
    random = np.random.Generator(np.random.PCG64(5))
    blocks = relaxed(random, domain.shape, 6)
    tail = np.zeros((6, columns + 1))
    tail[:, 0] = 1
    for block in blocks:
        p = block[:, -1:]
        tail = tail * (1 - p) + np.pad(tail, ((0, 0), (1, 0)))[:, :-1] * p
    np.testing.assert_allclose(diagram.value(blocks), tail[:, at_least:].sum(axis=1), atol=1e-12)
    if at_least < columns:
        counts = np.random.Generator(np.random.PCG64(6)).integers(0, 9, domain.shape)
        term = ThresholdTerm(domain.attributes, domain.shape, at_least)
        assert counts[diagram.inside()].sum() == term.exact_answers(counts)[tuple(target)]


def test_many_columns_take_no_table_of_cells() -> None:
    domain = Domain({f"c{i}": 1000 for i in range(60)})
    diagram = DecisionDiagram.of(domain, queries.at_least(30, *(queries.test(name, [1, 7]) for name in domain)))
    assert diagram.nodes == 30 * 31
    assert [int(each.max()) for each in diagram.classes] == [1] * 60
    half = [np.full((2, 1000), 1e-3) * 250 for _ in domain]
    for block in half:
        block[:, [1, 7]] = 0.25
        block[:, 0] = 0.5 - block[:, 2:7].sum(axis=1) - block[:, 8:].sum(axis=1)
    exact = sum(math.comb(60, j) for j in range(30, 61)) / 2**60
    np.testing.assert_allclose(diagram.value(half), exact, rtol=1e-9)


def test_columns_that_do_not_matter_are_left_out() -> None:
    proposition = (queries.test("a", 1) & queries.test("b", 0)) | (queries.test("a", 1) & ~queries.test("b", 0))
    diagram = DecisionDiagram.of(DOMAIN, proposition)
    assert diagram.clique == ("a",)
    assert repr(diagram) == "DecisionDiagram(1 nodes over a)"
    assert DecisionDiagram.of(DOMAIN, queries.test("a", 1) | ~queries.test("a", 1)).root == module.TRUE


def test_what_does_not_fit_is_refused(monkeypatch) -> None:
    diagram = DecisionDiagram.of(DOMAIN, queries.test("a", 1) | queries.test("b", 0))
    with pytest.raises(WorkloadError, match="probabilities of 1 columns for a query over 2"):
        diagram.value([np.ones((1, 2))])
    with pytest.raises(WorkloadError, match=r"probabilities of 'b' of shape \(1, 2\): expected \(rows, 3\)"):
        diagram.value([np.ones((1, 2)), np.ones((1, 2))])
    monkeypatch.setattr(module, "MOST_NODES", 3)
    with pytest.raises(SizeError, match="needs more than 3 nodes to decide; ask for parts of it"):
        DecisionDiagram.of(DOMAIN, queries.at_least(2, *(queries.test(name, 1) for name in DOMAIN)))
