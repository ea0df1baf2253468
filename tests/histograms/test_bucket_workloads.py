"""Workloads carried over to buckets: the same answers, and the energies of matrices without the matrices."""

from typing import Any

import numpy as np
import pytest

from hush.core.errors import WorkloadError
from hush.histograms.bucket_workloads import (
    AllRanges,
    LinearQueries,
    PrefixSums,
    SingleCells,
    carried_over,
    expanded,
)

CUTS = np.array([0, 2, 3, 7, 10])


def all_ranges(cells: int) -> np.ndarray:
    return np.array([[a <= j < b for j in range(cells)] for a in range(cells) for b in range(a + 1, cells + 1)], float)


def test_answers_on_buckets_are_those_on_expanded_cells() -> None:
    """The document's example, and random queries of any coefficients."""
    counts = np.array([6.3, 7.1, 3.6, 8.4])
    assert expanded(counts, CUTS) == pytest.approx([3.15, 3.15, 7.1, 0.9, 0.9, 0.9, 0.9, 2.8, 2.8, 2.8])
    queries = np.random.default_rng(0).normal(size=(6, 10))
    assert carried_over(queries, CUTS) @ counts == pytest.approx(queries @ expanded(counts, CUTS))
    with pytest.raises(WorkloadError, match="queries on 9 cells, buckets on 10"):
        carried_over(queries[:, :9], CUTS)


@pytest.mark.parametrize(
    ("workload", "matrix"),
    [
        (PrefixSums(), np.tri(10)),
        (AllRanges(), all_ranges(10)),
        (SingleCells(), np.eye(10)),
        (LinearQueries(np.arange(30.0).reshape(3, 10) % 7), np.arange(30.0).reshape(3, 10) % 7),
    ],
    ids=["prefix sums", "ranges", "cells", "queries"],
)
@pytest.mark.parametrize("starts", [[0], [0, 1, 2, 3], [0, 3], [0, 2]])
def test_energies_are_those_of_the_matrix(workload: Any, matrix: np.ndarray, starts: list[int]) -> None:
    counts = np.random.default_rng(1).normal(size=4)
    plain = []
    for first, end in zip(starts, [*starts[1:], 4], strict=True):
        inside = (np.arange(4) >= first) & (np.arange(4) < end)
        plain.append(((carried_over(matrix, CUTS) @ np.where(inside, counts, 0)) ** 2).sum())
    assert workload.energies(CUTS, counts, np.array(starts)) == pytest.approx(plain)
