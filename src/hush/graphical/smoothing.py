"""Smoothing: absolute losses with their corners rounded off, for estimators that need a gradient."""

from __future__ import annotations

from hush.graphical.loss import AbsoluteLoss, MarginalLoss, SumLoss
from hush.graphical.reordered_loss import ReorderedLoss

WIDTHS = (1.0, 0.2, 0.04)  # of the rounding-off, in standard deviations, one fit after the other


def rounded_off(loss: MarginalLoss, width: float) -> MarginalLoss | None:
    """The loss with its corners rounded off, itself where it has none, and None where that is not known."""
    if loss.smooth:
        return loss
    if isinstance(loss, AbsoluteLoss):
        return loss.smoothed(width)
    if isinstance(loss, ReorderedLoss):
        inner = rounded_off(loss.loss, width)
        return None if inner is None else ReorderedLoss(inner, loss.factors.domain)
    if isinstance(loss, SumLoss):
        parts = [rounded_off(part, width) for part in loss.losses]
        return SumLoss([part for part in parts if part is not None]) if all(parts) else None
    return None
