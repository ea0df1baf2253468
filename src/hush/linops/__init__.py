"""Implicit matrices: what a workload asks and what a strategy measures, never built out unless asked."""

from hush.linops.blocks import AllRange, Diagonal, Differences, Identity, Prefix, SecondDifferences, Total, WidthRange
from hush.linops.combination import Product, Scaled, Stack, Sum
from hush.linops.equivalent import Equivalent
from hush.linops.haar import Haar
from hush.linops.kronecker import Kronecker
from hush.linops.level_sums import LevelSums
from hush.linops.levels_and_total import CompoundSymmetric, LevelsAndTotal
from hush.linops.marginal_gram import MarginalGram
from hush.linops.marginal_set import MarginalSet
from hush.linops.operator import Dense, Gram, LinearOperator, Transposed
from hush.linops.permuted import Permuted
from hush.linops.tree import Tree

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
