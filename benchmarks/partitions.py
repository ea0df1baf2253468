"""Partitions and trees of DAWA: how many buckets and at what cost, and which tree over them errs least.

Run: python -m benchmarks.partitions --data FOLDER [--quick] [--runs 3]

FOLDER holds histograms as .npy files of counts over ordered cells. The first table has the least-cost partition of all
intervals without noise, as printed / ours, at a penalty of 20 for each bucket; the reference prints two of its rows
exchanged. The printed numbers are for 4,096 cells and all intervals; for any other problem they are left out, as with
--quick, which takes 1,024 cells and intervals of powers of two. Then come private partitions that spend epsilon = 0.1
alone: buckets, and the cost of the partition over the least. The second table has the expected error of stage two over
fixed buckets, those of the least-cost partition, for four workloads: each tree over the greedy one. The reference says
that greedy beats geometric on uniform intervals, and equals plain Laplace noise on single cells.

Reference: [Li 2013, Table 6.1, Figures 6.4 and 6.5].
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.column_methods import COARSE_TO_FINE
from benchmarks.held_counts import HeldCounts
from benchmarks.tree_budgets import geometric_tree, plain_tree
from hush.core.arrays import Floats, Integers
from hush.histograms.bucket_trees import BucketTree, LinearQueries, carried_over, greedy_tree
from hush.histograms.interval_costs import IntervalDeviations, NodeScores, deviations, powers_of_two
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.gate import Gate
from hush.privacy.partition_laws import Cuts, NoisyPartition, PartitionMechanism, SplittingTree, cheapest_partition

PENALTY = 20
GRID = 60  # steps of a deviation
EPSILON = Fraction(1, 10)
PRINTED_CELLS = 4096
PRINTED = {"nettrace": 22, "adult": 29, "medcost": 20, "searchlogs": 500, "income": 1537, "patent": 1870, "hepth": 2168}
STAGE_TWO = ("nettrace", "searchlogs", "hepth")


def partition_cost(cells: Integers, cuts: Cuts) -> float:
    """Deviations about the mean, and the penalty for each bucket."""
    buckets = itertools.pairwise(cuts)
    return sum(float(np.abs(cells[a:b] - cells[a:b].mean()).sum()) + PENALTY for a, b in buckets)


def least_cost(cells: Integers, lengths: tuple[int, ...]) -> Cuts:
    return cheapest_partition(deviations(cells, lengths, "mean", GRID) + PENALTY * GRID, lengths)


def private_partitions(cells: Integers) -> dict[str, Callable[[], Cuts]]:
    """Ways to spend epsilon on a partition alone."""

    def chosen(scorer: object, law: object) -> Cuts:
        gate = Gate(HeldCounts(cells), Allowance(Budget(epsilon=float(EPSILON))))
        return gate.select(scorer, law)  # type: ignore[arg-type]

    mean = IntervalDeviations(("a",), len(cells), centre="mean", grid=4, bucket_cost=4 * PENALTY)
    median = IntervalDeviations(("a",), len(cells), bucket_cost=PENALTY)
    nodes = NodeScores(("a",), len(cells))
    return {
        "noisy": lambda: chosen(mean, NoisyPartition(EPSILON)),
        "noisy, offset 2": lambda: chosen(mean, NoisyPartition(EPSILON, Fraction(2))),
        "exponential": lambda: chosen(median, PartitionMechanism(EPSILON)),
        "exponential, prior": lambda: chosen(median, PartitionMechanism(EPSILON, COARSE_TO_FINE)),
        "splitting tree": lambda: chosen(nodes, SplittingTree(EPSILON, PENALTY)),
    }


def workloads(cells: int, draw: np.random.Generator) -> dict[str, Floats]:
    """Single cells, and intervals: uniform ones, and clusters of a narrow and a wide spread."""

    def intervals(low: Integers, high: Integers) -> Floats:
        place = np.arange(cells)
        return ((low[:, None] <= place) & (place <= high[:, None])).astype(np.float64)

    def clustered(spread: float) -> Floats:
        centres = np.repeat(draw.integers(0, cells, 5), 400)
        left, right = (np.abs(draw.normal(0, spread, len(centres))).astype(np.int64) for _ in range(2))
        return intervals(np.maximum(centres - left, 0), np.minimum(centres + right, cells - 1))

    ends = np.sort(draw.integers(0, cells, (2000, 2)), axis=1)
    return {
        "cells": np.eye(cells),
        "uniform": intervals(ends[:, 0], ends[:, 1]),
        "clustered": clustered(cells / 16),
        "large clustered": clustered(cells / 4),
    }


def trees(buckets: int, workload: LinearQueries) -> dict[str, BucketTree]:
    """Each bucket stands for one cell: the workload is carried over already."""
    cuts = np.arange(buckets + 1)
    return {
        "greedy": greedy_tree(cuts, workload),
        "uniform": geometric_tree(cuts, ratio=1.0),
        "geometric": geometric_tree(cuts),
        "Laplace": plain_tree(cuts),
    }


def stage_two(cells: Integers, cuts: Integers, draw: np.random.Generator) -> None:
    epsilon = float(EPSILON) / 2
    for name, queries in workloads(len(cells), draw).items():
        workload = LinearQueries(carried_over(queries, cuts))
        errors = {
            tree_name: math.sqrt(2 * (tree.units / epsilon) ** 2 * tree.error(workload) / len(queries))
            for tree_name, tree in trees(len(cuts) - 1, workload).items()
        }
        ratios = "".join(f"{errors[one] / errors['greedy']:>12.2f}" for one in ("uniform", "geometric", "Laplace"))
        print(f"  {name:<18}{errors['greedy']:>12.1f}{ratios}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="lengths of powers of two alone, 1,024 cells")
    options = parser.parse_args(arguments)
    draw = np.random.default_rng(1)
    tables = {path.stem: np.load(path) for path in sorted(options.data.glob("*.npy"))}
    if options.quick:
        tables = {name: cells.reshape(1024, -1).sum(axis=1) for name, cells in tables.items()}
    print(
        f"Least-cost partitions, penalty {PENALTY}; private ones at epsilon {float(EPSILON):g}: buckets (cost : least)"
    )
    kept = {}
    for name, cells in tables.items():
        lengths = powers_of_two(len(cells)) if options.quick else tuple(range(1, len(cells) + 1))
        best = kept[name] = least_cost(cells, lengths)
        least = partition_cost(cells, best)
        printed = PRINTED.get(name) if len(cells) == len(lengths) == PRINTED_CELLS else None
        beside = "" if printed is None else f"printed {printed} / "
        print(f"{name:<12} {len(cells):,} cells: {beside}ours {len(best) - 1} buckets, cost {least:.1f}")
        for way, choose in private_partitions(cells).items():
            runs = [choose() for _ in range(options.runs)]
            buckets = np.mean([len(cuts) - 1 for cuts in runs])
            ratio = np.mean([partition_cost(cells, cuts) for cuts in runs]) / least
            print(f"  {way:<22}{buckets:>8.0f} ({ratio:.2f})")
    print(f"\nStage two at epsilon {float(EPSILON) / 2:g}: root mean square error by greedy, others over greedy")
    print(f"  {'':<18}{'greedy':>12}{'uniform':>12}{'geometric':>12}{'Laplace':>12}")
    for name in STAGE_TWO:
        if name in kept:
            print(name)
            stage_two(tables[name], np.array(kept[name]), draw)


if __name__ == "__main__":
    main()
