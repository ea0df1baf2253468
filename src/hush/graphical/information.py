"""Information: the entropy of a calibrated junction tree, and the probability of records under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hush.errors import DataError, shown
from hush.graphical.belief import Floats
from hush.graphical.junction_tree import JunctionTree

CHUNK_CELLS = 1 << 18


def entropy(
    tree: JunctionTree,
    conditionals: Sequence[Floats],  # of every node, (cells of the separator, cells of the rest)
    separators: Sequence[Floats],  # counts of every node's separator, or shares
) -> float:
    """H = -sum_x p(x) log p(x) in nats, as sum_k sum_s p(s) H(rest_k | separator_k = s); 0 log 0 = 0.

    The same as the entropies of nodes minus those of separators, but all terms are positive and nothing cancels.

    >>> from hush.domain import Domain
    >>> tree = JunctionTree.build(Domain({"sex": 2}), [("sex",)])
    >>> round(entropy(tree, [np.array([[0.5, 0.5]])], [np.array([80.0])]), 6)
    0.693147
    """
    found = 0.0
    for table, counts in zip(conditionals, separators, strict=True):
        step = max(1, CHUNK_CELLS // table.shape[1])
        weights = counts / counts.sum()
        for start in range(0, len(table), step):
            p = table[start : start + step]
            logs = np.log(p, out=np.zeros(p.shape), where=p > 0)
            found -= float(weights[start : start + step] @ (p * logs).sum(axis=1))
    return found + 0.0  # never -0.0


def log_probability(
    tree: JunctionTree, conditionals: Sequence[Floats], codes: Mapping[str, np.ndarray[Any, Any]]
) -> Floats:
    """log p(x) of every row, as sum_k log p(rest_k | separator_k); -inf for a row that the model excludes.

    Privacy: post-processing of the model alone; where rows are private, so is what they give.
    """
    columns = _checked(tree, codes)
    rows = len(next(iter(columns.values()))) if columns else 0
    found = np.zeros(rows)
    for node, table in zip(tree.nodes, conditionals, strict=True):
        place = np.zeros(rows, dtype=np.int64)
        for name in node.axes:
            place *= tree.domain[name]
            place += columns[name]
        with np.errstate(divide="ignore"):
            found += np.log(table.reshape(-1)[place])
    return found


def _checked(tree: JunctionTree, codes: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    if not hasattr(codes, "keys"):
        raise DataError(f"codes = {shown(codes)}: expected an array of codes for every attribute, by name")
    columns = {}
    for name in tree.domain:
        if name not in codes:
            raise DataError(f"no codes of attribute {name!r}; give an array of codes for every attribute")
        own = np.asarray(codes[name])
        if own.ndim != 1 or own.dtype.kind not in "iu":
            raise DataError(f"codes of {name!r}: expected one integer per row, found {own.dtype} with {own.ndim} axes")
        if own.size and not (own.min() >= 0 and own.max() < tree.domain[name]):
            raise DataError(f"codes of {name!r}: expected 0 .. {tree.domain[name] - 1} in every row")
        columns[name] = own
    lengths = sorted({len(own) for own in columns.values()})
    if len(lengths) > 1:
        raise DataError(f"attributes have {shown(lengths)} rows; give every attribute the same rows")
    return columns
