"""Implicit matrices: the queries of a workload or a strategy, written out only on request."""

from hush.linops.blocks import (
    AllRange,
    CompoundSymmetric,
    Differences,
    Identity,
    LevelsAndTotal,
    LevelSums,
    Prefix,
    SecondDifferences,
    Total,
    WidthRange,
)
from hush.linops.combination import Kronecker, Permuted, Product, Scaled, Stack, Sum
from hush.linops.explicit import Dense, Diagonal, Equivalent
from hush.linops.hierarchies import Haar, Tree
from hush.linops.marginal_operators import MarginalGram, MarginalSet
from hush.linops.operator import Gram, LinearOperator, Transposed

__all__ = [
    "AllRange",
    "CompoundSymmetric",
    "Dense",
    "Diagonal",
    "Differences",
    "Equivalent",
    "Gram",
    "Haar",
    "Identity",
    "Kronecker",
    "LevelSums",
    "LevelsAndTotal",
    "LinearOperator",
    "MarginalGram",
    "MarginalSet",
    "Permuted",
    "Prefix",
    "Product",
    "Scaled",
    "SecondDifferences",
    "Stack",
    "Sum",
    "Total",
    "Transposed",
    "Tree",
    "WidthRange",
]
