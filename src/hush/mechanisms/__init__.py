"""Compositions of select, measure and reconstruct, by name."""

from hush.mechanisms.residual import Residual

__all__ = ["Residual"]
