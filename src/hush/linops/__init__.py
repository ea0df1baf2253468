"""Implicit matrices: what a workload asks and what a strategy measures, never built out unless asked."""

from hush.linops.blocks import AllRange, Dense, Identity, Prefix, Total, WidthRange
from hush.linops.combination import Product, Scaled, Sum, Transposed
from hush.linops.diagonal import Diagonal
from hush.linops.differences import Differences, SecondDifferences
from hush.linops.gram import Gram
from hush.linops.haar import Haar
from hush.linops.kronecker import Kronecker
from hush.linops.operator import LinearOperator
from hush.linops.permuted import Permuted
from hush.linops.stack import Stack
from hush.linops.tree import Tree

__all__ = [
    "AllRange",
    "Dense",
    "Diagonal",
    "Differences",
    "Gram",
    "Haar",
    "Identity",
    "Kronecker",
    "LinearOperator",
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
