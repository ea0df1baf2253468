"""Boxes: a set of cells as a union of disjoint products of levels, each a product of query blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Box = tuple[Mask, ...]  # one mask of levels for each axis


def boxes(inside: Mask, groups: int) -> list[Box] | None:
    """Disjoint boxes that hold the cells `inside`, such that no query is cut in two; None where there are none such.

    The first `groups` axes are grouped: every combination of their levels is a query of its own, the sum over the cells
    inside along the other axes. Levels of the first axis with the same cells behind them go together and the cells
    behind them are cut in turn; along an axis that is not grouped all levels must have the same cells behind them.

    >>> corner = np.array([[True, True], [True, False]])
    >>> [tuple(mask.tolist() for mask in box) for box in boxes(corner, 1)]
    [([True, False], [True, True]), ([False, True], [True, False])]
    >>> boxes(corner, 0) is None
    True
    """
    if inside.ndim == 0:
        return [()]
    behind = inside.reshape(len(inside), -1)
    kept = np.flatnonzero(behind.any(axis=1))
    packed = np.packbits(behind[kept], axis=1)
    together: dict[bytes, list[int]] = {}
    for level, key in zip(kept.tolist(), packed, strict=True):
        together.setdefault(key.tobytes(), []).append(level)
    if groups == 0 and len(together) > 1:
        return None
    found: list[Box] = []
    for levels in together.values():
        inner = boxes(inside[levels[0]], max(groups - 1, 0))
        if inner is None:
            return None
        mask = np.zeros(len(inside), dtype=bool)
        mask[levels] = True
        found.extend((mask, *box) for box in inner)
    return found
