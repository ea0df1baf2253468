"""Implicit matrices: what a workload asks and what a strategy measures, never built out unless asked."""

from hush.linops.blocks import AllRange, Dense, Identity, Prefix, Total, WidthRange
from hush.linops.operator import LinearOperator

__all__ = ["AllRange", "Dense", "Identity", "LinearOperator", "Prefix", "Total", "WidthRange"]
