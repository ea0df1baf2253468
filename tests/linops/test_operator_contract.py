"""Every operator against its dense twin."""

import copy

import numpy as np
import pytest

import hush.linops
from hush.linops import (
    AllRange,
    CompoundSymmetric,
    Dense,
    Diagonal,
    Differences,
    Equivalent,
    Gram,
    Haar,
    Identity,
    Kronecker,
    LevelsAndTotal,
    LevelSums,
    LinearOperator,
    MarginalGram,
    MarginalSet,
    Permuted,
    Prefix,
    Product,
    Scaled,
    SecondDifferences,
    Stack,
    Sum,
    Total,
    Transposed,
    Tree,
    WidthRange,
)
from hush.linops.hierarchies import TreeGramInverse
from hush.testing import check_operator

WIDE = np.array([[1.0, 2, 0, -1], [0.5, 0, 3, 1]])

CASES: dict[str, LinearOperator] = {
    "one level": Identity(1),
    "identity": Identity(5),
    "total": Total(5),
    "prefix": Prefix(5),
    "prefix of one level": Prefix(1),
    "ranges": AllRange(6),
    "ranges of one level": AllRange(1),
    "runs": WidthRange(6, 2),
    "runs that overlap everywhere": WidthRange(6, 5),
    "one run of all": WidthRange(5, 5),
    "wide matrix": Dense(WIDE),
    "singular matrix": Dense(WIDE.T @ WIDE),
    "diagonal with a zero": Diagonal([1.0, 0.0, -2.0]),
    "differences": Differences(5),
    "second differences": SecondDifferences(5),
    "second differences of one level": SecondDifferences(1),
    "gram": Gram(AllRange(4)),
    "singular gram": Gram(Total(4)),
    "haar": Haar(8),
    "haar of one level": Haar(1),
    "permuted ranges": Permuted(AllRange(4), [2, 0, 3, 1]),
    "permuted square": Permuted(Prefix(4), [2, 0, 3, 1]),
    "merged levels": LevelSums([0, 2, 1, 2, 0]),
    "levels merged into one": LevelSums([0, 0]),
    "complete tree": Tree(8),
    "ragged tree": Tree(7),
    "ragged ternary tree": Tree(10, 3),
    "tree without root": Tree(9, 2, root=False),
    "tree of one depth": Tree(2, 3, root=False),
    "tree of one level": Tree(1),
    "inverse gram of a tree": TreeGramInverse(Tree(7, 3, root=False)),
    "kronecker of rectangles": Kronecker([Prefix(3), Total(2), WidthRange(4, 2)]),
    "kronecker that grows": Kronecker([Identity(2), AllRange(3), Dense([[1.0, -2.0]])]),
    "square kronecker of rectangles": Kronecker([Dense([[1.0, 2.0]]), Dense([[1.0], [-3.0]])]),
    "kronecker of one": Kronecker([Haar(4)]),
    "signed stack": Stack([Prefix(4), Haar(4), Total(4)], [-2.0, 0.5, 1.0]),
    "stack with a weight of zero": Stack([Total(3), Prefix(3)], [1.0, 0.0]),
    "union of products": Stack([Kronecker([Prefix(3), Total(2)]), Kronecker([Total(3), Identity(2)])]),
    "scaled": Scaled(AllRange(3), -3.0),
    "scaled to nothing": Scaled(Prefix(3), 0.0),
    "sum": Sum([Prefix(3), Identity(3), Dense(np.ones((3, 3)))]),
    "product": Product([AllRange(3), Prefix(3)]),
    "transposed": Transposed(AllRange(4)),
    "transposed without a fast adjoint": Transposed(Sum([Total(3), Total(3)])),
    "levels and total": LevelsAndTotal(4),
    "signed levels and total": LevelsAndTotal(4, -2.0, 0.5),
    "no levels": LevelsAndTotal(4, 0.0, 0.5),
    "no total": LevelsAndTotal(1, 1.0, 0.0),
    "levels alike": CompoundSymmetric(4, 2.0, -0.25),
    "centred": CompoundSymmetric(5, 5, -1),
    "total only": CompoundSymmetric(4, 0.0, 0.5),
    "one level alike": CompoundSymmetric(1, 2.0, 1.0),
    "all predicates": Equivalent(8 * (np.eye(5) + 1), 32),
    "singular equivalent": Equivalent(WIDE.T @ WIDE, 2),
    "marginals": MarginalSet((2, 3, 4), {(0, 1): 1.0, (1, 2): -2.0, (): 0.5}),
    "nested marginals": MarginalSet((2, 1, 3), {(2,): 3.0, (0, 1): 2.0, (0, 1, 2): 1.0}),
    "marginal gram": MarginalGram((2, 3, 4), [0.5, -1, 2, 0, 1, 3, -0.25, 2]),
    "singular marginal gram": MarginalGram((2, 3, 4), [1, 2, 3, 0, 1, 0, 0, 0]),
    "marginal gram of one level": MarginalGram((1, 3), [1, 2, -3, 0]),
}


@pytest.mark.parametrize("name", CASES)
def test_every_member_is_that_of_the_dense_twin(name: str) -> None:
    check_operator(CASES[name])


def test_every_public_operator_is_among_the_cases() -> None:
    public = {name for name in hush.linops.__all__ if name != "LinearOperator"}
    assert public <= {type(operator).__name__ for operator in CASES.values()}


@pytest.mark.parametrize("name", CASES)
def test_operators_are_values(name: str) -> None:
    operator = CASES[name]
    twin = copy.deepcopy(operator)
    assert operator == twin
    assert hash(operator) == hash(twin)
    assert [other for other, made in CASES.items() if made == operator] == [name]
    assert len(repr(operator)) < 200
