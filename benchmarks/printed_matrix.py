"""The printed tables of the matrix mechanism, Eigen-Design and DAWA that need minutes at most.

Reference: [Li 2013].
Differs from [Li 2013]: Table 4.1's last row has its exponent wrong, and Hierarchical and Wavelet exchanged; Table 5.2
names the two competitors on predicates the other way round; Table 6.2 prints DAWA with costs that are clamped, which is
not private (see `hush.histograms`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache, reduce

import numpy as np
import pyarrow as pa

import hush
from benchmarks.column_methods import multiplied_weights
from benchmarks.held_counts import HeldCounts
from benchmarks.map_methods import quad_tree
from benchmarks.printed import NAN, Options, PrintedTable, Row
from benchmarks.unprotected_methods import LINES, MAPS
from hush.core.arrays import Floats, Integers
from hush.linops import AllRange, Haar, Identity, Kronecker, LinearOperator, Permuted, Prefix, Total, Tree
from hush.mechanisms import DAWA, Matrix
from hush.mechanisms.matrix import STRATEGIES
from hush.optimizers.eigen_design import eigen_design, fourier_basis, principal, separation, weighted_design
from hush.optimizers.explicit_strategy import total_error
from hush.optimizers.svd_bound import simplified_svd_bound, svd_bound
from hush.privacy.account import Allowance
from hush.privacy.gate import Gate
from hush.strategies.optimum import gram_factor, optimal_gram
from hush.strategies.strategy import NoiseKind
from hush.tables.table import Table

SEED = 1  # of samples and permutations
RANGE_GOLDENS = {  # n: SVDB, identity, tree, wavelet, eigen before and after completion, optimum; recomputed
    4: (16.31224, 20, 20.85714, 18, 16.8819, 16.8819, 16.4409),
    8: (79.17234, 120, 117.33333, 93.5, 84.8713, 82.2195, 80.4643),
    16: (404.48293, 816, 657.60983, 514.0625, 440.2507, 421.2811, 413.1403),
    64: (10787.15031, 45760, 18905.15368, 15190.98438, 11752.58, 11224.19, 11024.385),
    256: (272163.0347, 2829056, 483900.71875, 404131.25391, 293271.8, 281772.6, 276929.4),
}
LAPLACE_GOLDENS = {64: (45760, 132336, 106337, 41221), 256: (2829056, 4355106, 3637181, 1601673)}
CDF_GOLDENS = {64: (1.508, 1.459, 1.060), 256: (1.558, 1.545, 1.044), 512: (1.575, 1.578, 1.038)}
SQUARED = {  # over the SVD bound: Identity, Hierarchical, Wavelet, Eigen; printed, recomputed
    "ranges (2048)": ((47.25, 1.776, 1.545, 1.028), (47.25, 1.773, 1.545, 1.028)),
    "ranges (64, 32)": ((12.11, 2.996, 1.899, 1.107), (12.11, 2.996, 1.899, 1.107)),
    "ranges (2^10)": ((2.000, 2.000, 2.000, 1.000), (2.000, 2.000, 2.000, 1.000)),
    "predicates (1024)": ((1.884, 3.464, 6.292, 1.000), (1.884, 6.292, 3.464, 1.000)),
}
TABLE_6_2 = {  # at epsilon 0.1: the error over that of DAWA, smallest and largest over seven histograms
    "Identity": (2.00, 20.85),
    "Privelet": (0.98, 10.20),
    "MWEM": (2.54, 22.54),
    "EFPA": (3.84, 41.09),
    "P-HP": (1.81, 31.41),
    "StructureFirst": (0.82, 8.32),
}
NONNEGATIVE = {  # printed in words: hybrid, non-negative least squares; over least squares, epsilon below 1
    "hierarchical": ("< 1", "< 1"),
    "wavelet": ("< 1", "< 1"),
    "identity": ("about 1", "> 1"),
}
RECTANGLES = ((1.0, 1.0), (5.0, 5.0), (10.0, 10.0), (15.0, 0.2))  # degrees
MAP_DEGREES = 20.0  # each way, about the western United States
SPEEDUPS = {  # 8192 cells in the document; recomputed on ranges over 2048
    "groups of 16": (1.05, 1.015),
    "principal 6 %": (1.10, 1.117),
    "principal 25 %": (NAN, 1.022),
}


def multiplied(grams: Sequence[Floats]) -> Floats:
    return reduce(lambda left, right: np.asarray(np.kron(left, right)), grams)


def kron(operators: Sequence[LinearOperator]) -> LinearOperator:
    return operators[0] if len(operators) == 1 else Kronecker(tuple(operators))


@cache
def ranges(*sizes: int) -> Floats:
    return multiplied([AllRange(size).gram_dense() for size in sizes])


def goldens(options: Options) -> Iterator[Row]:
    names = ("SVD bound", "identity", "tree", "wavelet", "eigen, before completion", "eigen", "optimum")
    for size, values in RANGE_GOLDENS.items():
        gram = ranges(size)
        ours = (
            svd_bound(gram),
            *(total_error(gram, strategy) for strategy in (Identity(size), Tree(size), Haar(size))),
            eigen_design(gram, complete=False).stats["value"],
            total_error(gram, eigen_design(gram).value),
            optimal_gram(gram_factor(gram)).value.error,
        )
        yield from (Row(f"n = {size}, {n}", None, v, o) for n, v, o in zip(names, values, ours, strict=True))


def laplace_goldens(options: Options) -> Iterator[Row]:
    for size, values in LAPLACE_GOLDENS.items():
        gram = ranges(size)
        greedy = STRATEGIES["greedy-h"](gram, NoiseKind.LAPLACE)
        strategies = (Identity(size), Tree(size), Haar(size), greedy)
        for name, value, strategy in zip(
            ("identity", "tree", "wavelet", "greedy tree"), values, strategies, strict=True
        ):
            yield Row(f"n = {size}, {name}", None, value, total_error(gram, strategy, NoiseKind.LAPLACE))


def squared(options: Options) -> Iterator[Row]:
    """Squared errors over the SVD bound. The Gram matrix of all predicates is scaled by 2^-1022."""
    cells = 1024
    grams = {
        "ranges (2^10)": (ranges(*(2,) * 10), (2,) * 10),
        "predicates (1024)": (np.ones((cells, cells)) + np.eye(cells), (cells,)),
        "ranges (2048)": (None, (2048,)),
        "ranges (64, 32)": (None, (64, 32)),
    }
    for name, (gram, sizes) in grams.items():
        if options.quick and gram is None:
            continue
        asked = ranges(*sizes) if gram is None else gram
        bound = svd_bound(asked)
        strategies = [kron([make(size) for size in sizes]) for make in (Tree, Haar)]
        ours = [float(np.trace(asked)), *(total_error(asked, strategy) for strategy in strategies)]
        ours.append(total_error(asked, eigen_design(asked).value))
        for column, printed, known, value in zip(
            ("identity", "tree", "wavelet", "eigen"), *SQUARED[name], ours, strict=True
        ):
            yield Row(f"{name}, {column}", printed, known, value / bound)


def cdf(options: Options) -> Iterator[Row]:
    for size, values in CDF_GOLDENS.items():
        if options.quick and size > 256:
            continue
        gram = Prefix(size).gram_dense()
        bound = svd_bound(gram)
        ours = (
            total_error(gram, Haar(size)),
            total_error(gram, eigen_design(gram).value),
            optimal_gram(gram_factor(gram)).value.error,
        )
        for name, value, found in zip(("wavelet", "eigen", "optimum"), values, ours, strict=True):
            yield Row(f"n = {size}, {name}", None, value, found / bound)


def speedups(options: Options) -> Iterator[Row]:
    size = 256 if options.quick else 1024
    gram = ranges(size)
    full = total_error(gram, eigen_design(gram).value)
    shorter = {
        "groups of 16": separation(gram, group=16).value,
        "principal 6 %": principal(gram, share=0.06).value,
        "principal 25 %": principal(gram, share=0.25).value,
    }
    for name, (printed, known) in SPEEDUPS.items():
        ratio = math.sqrt(total_error(gram, shorter[name]) / full)
        yield Row(name, None if math.isnan(printed) else printed, known, ratio)


def designs(options: Options) -> Iterator[Row]:
    """Design sets: root error over that of Eigen-Design, on ranges as they are and on permuted levels."""
    size = 256 if options.quick else 1024
    order = np.random.Generator(np.random.PCG64(SEED)).permutation(size).tolist()
    plain, mixed = ranges(size), Permuted(AllRange(size), order).gram_dense()
    bases = {"Fourier": fourier_basis(size), "wavelet": Haar(size).dense()}
    for words, gram, printed in (("ranges", plain, 1.2), ("permuted ranges", mixed, "> 4")):
        eigen = total_error(gram, eigen_design(gram).value)
        for name, basis in bases.items():
            found = total_error(gram, weighted_design(gram, basis).value)
            yield Row(f"{words}, {name}", printed, None, math.sqrt(found / eigen))
    sizes = (8, 8, 8) if options.quick else (8, 16, 16)
    marginals = np.zeros((math.prod(sizes),) * 2)
    for left in range(3):
        marginals += multiplied([(Total if i == left else Identity)(n).gram_dense() for i, n in enumerate(sizes)])
    eigen = total_error(marginals, eigen_design(marginals).value)
    found = total_error(marginals, weighted_design(marginals, fourier_basis(*sizes)).value)
    yield Row(f"2-way marginals {sizes}, Fourier", 1.0, None, math.sqrt(found / eigen))


def weighting_gains(options: Options) -> Iterator[Row]:
    """How much the best weights gain over the plain wavelet under Laplace noise; squared."""
    known = {(2048,): 1.043, (64, 32): 1.151, (16, 16, 8): 1.268, (2,) * 11: 2.81}
    for sizes, value in known.items():
        gram = ranges(*sizes)
        basis = reduce(lambda left, size: np.kron(left, Haar(size).dense()), sizes, np.ones((1, 1)))
        plain = total_error(gram, kron([Haar(size) for size in sizes]), NoiseKind.LAPLACE)
        weighted = weighted_design(gram, basis, noise=NoiseKind.LAPLACE, tolerance=1e-4, iterations=200)
        name = f"ranges {sizes}" if len(sizes) < 4 else f"ranges 2^{len(sizes)}"
        yield Row(name, 1.2, value, plain / weighted.stats["value"])


def random_workloads(options: Options) -> Iterator[Row]:
    """Mean squared error of a query of a random sample of ranges, over that of all ranges."""
    size = 128 if options.quick else 1024
    random = np.random.Generator(np.random.PCG64(SEED))
    full = total_error(ranges(size), eigen_design(ranges(size)).value) / (size * (size + 1) / 2)
    for queries in (10, 100, 1000):
        ends = np.sort(random.integers(0, size + 1, (4 * queries, 2)), axis=1)
        ends = ends[ends[:, 0] < ends[:, 1]][:queries]
        rows = (np.arange(size) >= ends[:, :1]) & (np.arange(size) < ends[:, 1:])
        gram = rows.T.astype(np.float64) @ rows
        found = {
            "eigen": total_error(gram, eigen_design(gram).value),
            "SVD bound": svd_bound(gram),
            "simplified SVD bound": simplified_svd_bound(gram),
        }
        for name, error in found.items():
            yield Row(f"{queries} ranges, {name}", None, None, error / len(ends) / full)


def interval_errors(options: Options) -> Iterator[Row]:
    """Mean absolute error of 2,000 uniform intervals over 4,096 cells at epsilon 0.1."""
    size, epsilon, trials = 4096, 0.1, 20
    random = np.random.Generator(np.random.PCG64(SEED))
    ends = np.sort(random.integers(0, size + 1, (2000, 2)), axis=1)
    wavelet = Haar(size)
    depth = 1 + math.log2(size)
    names = {"Identity": (378.0, None), "Privelet": (204.0, 196.6)}
    errors: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(trials):
        cells = {
            "Identity": random.laplace(scale=1 / epsilon, size=size),
            "Privelet": wavelet.pinv().matmat(random.laplace(scale=depth / epsilon, size=(size, 1)))[:, 0],
        }
        for name, noise in cells.items():
            sums = np.concatenate([[0.0], np.cumsum(noise)])
            errors[name].append(float(np.abs(sums[ends[:, 1]] - sums[ends[:, 0]]).mean()))
    for name, (known, printed) in names.items():
        yield Row(name, printed, known, float(np.mean(errors[name])))


def counted(counts: Integers) -> Table:
    """A table of columns a, b, ... with known counts."""
    domain = hush.Domain(dict(zip("ab", counts.shape, strict=False)))
    some = np.nonzero(counts)
    columns = dict(zip(domain, some, strict=True))
    return hush.read(pa.table({**columns, "rows": counts[some]}), hush.Schema.from_domain(domain), counts="rows")


def interval_error(cells: Floats, counts: Integers, random: np.random.Generator) -> float:
    """The mean absolute error of 2,000 uniform intervals."""
    ends = np.sort(random.integers(0, len(counts) + 1, (2000, 2)), axis=1)
    gaps = np.concatenate([[0.0], np.cumsum(cells - counts)])
    return float(np.abs(gaps[ends[:, 1]] - gaps[ends[:, 0]]).mean())


def table_6_2(options: Options) -> Iterator[Row]:
    """Errors of other methods over those of DAWA on seven histograms, smallest and largest, at epsilon 0.1."""
    assert options.data is not None
    random = np.random.Generator(np.random.PCG64(SEED))
    others = {"MWEM": 0, "EFPA": 0} if options.quick else {"MWEM": 0, "EFPA": 0, "P-HP": 0, "StructureFirst": 0}
    errors: dict[str, list[float]] = {name: [] for name in ("DAWA as published", "DAWA", *others)}
    folder = options.data / "histograms-1d"
    for path in sorted((folder if folder.exists() else options.data).glob("*.npy")):
        counts = np.load(path).astype(np.int64)
        table = counted(counts)
        asked = hush.Workload.product(table.domain, {"a": hush.queries.ranges})
        for name, mechanism in (("DAWA as published", DAWA(paper=True)), ("DAWA", DAWA())):
            plan = hush.plan(asked, hush.Budget(epsilon=0.1), mechanism=mechanism)
            errors[name].append(interval_error(plan.release(table).counts(("a",)), counts, random))
        for name in others:
            if name == "MWEM":
                gate = Gate(HeldCounts(counts), Allowance(hush.Budget(epsilon=0.1)))
                cells = multiplied_weights(gate, ("a",), counts.shape, Fraction(1, 10))
            else:
                cells = LINES[name](counts, 0.1, random)
            errors[name].append(interval_error(cells, counts, random))
    fixed = {"Identity": [378.0] * len(errors["DAWA"]), "Privelet": [204.0] * len(errors["DAWA"])}
    for title in ("DAWA as published", "DAWA"):
        for name, found in {**fixed, **{name: errors[name] for name in others}}.items():
            ratios = [error / dawa for error, dawa in zip(found, errors[title], strict=True)]
            low, high = TABLE_6_2[name]
            yield Row(f"{name} over {title}, smallest", low, None, min(ratios))
            yield Row(f"{name} over {title}, largest", high, None, max(ratios))


def invented_map(random: np.random.Generator, side: int, rows: int) -> Integers:
    """Towns of several sizes on empty land, with roads between them."""
    place = (np.arange(side) + 0.5) / side
    shape = np.zeros((side, side))
    towns = random.uniform(0.05, 0.95, (40, 2))
    for (y, x), size in zip(towns, random.pareto(1.2, 40) + 0.2, strict=True):
        width = 0.004 + 0.01 * math.sqrt(size)
        shape += (
            size
            * np.outer(np.exp(-(((place - y) / width) ** 2) / 2), np.exp(-(((place - x) / width) ** 2) / 2))
            / width
        )
    for (y, x), (v, u) in itertools.pairwise(towns[:12]):
        steps = np.linspace(0, 1, 4 * side)
        np.add.at(shape, (((y + (v - y) * steps) * side).astype(int), ((x + (u - x) * steps) * side).astype(int)), 2.0)
    return random.multinomial(rows, (shape / shape.sum()).ravel()).reshape(side, side).astype(np.int64)


def spatial(options: Options) -> Iterator[Row]:
    """Mean absolute error of random rectangles of one shape over that of DAWA, on an invented map."""
    side = 64 if options.quick else 256
    random = np.random.Generator(np.random.PCG64(SEED))
    counts = invented_map(random, side, 100_000)
    names = ("a", "b")
    table = counted(counts)
    asked = hush.Workload.product(table.domain, dict.fromkeys(names, hush.queries.ranges))
    for epsilon in (0.1, 1.0):
        found: dict[str, Floats] = {}
        for name, mechanism in (("DAWA", DAWA()), ("DAWA as published", DAWA(paper=True))):
            found[name] = (
                hush.plan(asked, hush.Budget(epsilon=epsilon), mechanism=mechanism).release(table).counts(names)
            )
        gate = Gate(HeldCounts(counts), Allowance(hush.Budget(epsilon=epsilon)))
        found["QuadTree"] = quad_tree(gate, names, counts.shape, Fraction(str(epsilon)))
        found |= {name: method(counts, epsilon, random) for name, method in MAPS.items()}
        for tall, wide in RECTANGLES:
            rows, columns = (max(1, round(part * side / MAP_DEGREES)) for part in (tall, wide))
            top, left = random.integers(0, side + 1 - rows, 1000), random.integers(0, side + 1 - columns, 1000)
            errors = {}
            for name, cells in found.items():
                sums = np.zeros((side + 1, side + 1))
                sums[1:, 1:] = (cells - counts).cumsum(axis=0).cumsum(axis=1)
                gap = (
                    sums[top + rows, left + columns]
                    - sums[top, left + columns]
                    - sums[top + rows, left]
                    + sums[top, left]
                )
                errors[name] = float(np.abs(gap).mean())
            for name in list(found)[1:]:
                case = f"epsilon {epsilon:g}, {tall:g} x {wide:g} degrees, {name}"
                yield Row(case, None if name == "DAWA as published" else ">= 1", None, errors[name] / errors["DAWA"])


def nonnegative(options: Options) -> Iterator[Row]:
    """Total squared error of all ranges over that of least squares: hybrid and non-negative least squares."""
    size, trials = 512, 1 if options.quick else 5
    counts = np.floor(40 * np.exp(-np.arange(size) / 40)).astype(np.int64)  # a stand-in: 1,600 rows, mostly empty cells
    if options.data is not None:
        folder = options.data / "histograms-1d"
        counts = np.load((folder if folder.exists() else options.data) / "adult.npy").astype(np.int64)
        counts = counts.reshape(size, -1).sum(axis=1)
    table = counted(counts)
    truth = AllRange(size).matmat(counts[:, None].astype(np.float64))[:, 0]
    asked = hush.Workload.product(table.domain, {"a": hush.queries.ranges})
    for epsilon, name in itertools.product((0.1,) if options.quick else (0.01, 0.1, 1.0), NONNEGATIVE):
        plan = hush.plan(asked, hush.Budget(epsilon=epsilon), mechanism=Matrix(strategy=name))
        errors: dict[str, float] = dict.fromkeys(("least squares", "hybrid", "nnls"), 0.0)
        for _ in range(trials):
            release = plan.release(table)
            errors["least squares"] += float(((release.term(0).estimate - truth) ** 2).sum())
            for method in ("hybrid", "nnls"):
                answers = release.nonnegative_term(0, method=method)
                errors[method] += float(((answers.estimate - truth) ** 2).sum())
        for method, printed in zip(("hybrid", "nnls"), NONNEGATIVE[name], strict=True):
            yield Row(f"epsilon {epsilon:g}, {name}, {method}", printed, None, errors[method] / errors["least squares"])


TABLES = (
    PrintedTable(
        document="002",
        place="Table 4.1",
        title="squared error over the SVD bound, Gaussian noise",
        rows=squared,
        seconds=300,
        quick_seconds=15,
        note="The document's last row exchanges tree and wavelet; the recomputed column has them right.",
    ),
    PrintedTable(
        document="002",
        place="Sections 3.1 and 3.2",
        title="total squared error of all ranges, Gaussian noise",
        rows=goldens,
        seconds=5,
        quick_seconds=5,
        unit="Per unit of P",
    ),
    PrintedTable(
        document="002",
        place="Section 6.4",
        title="total squared error of all ranges, Laplace noise",
        rows=laplace_goldens,
        seconds=5,
        quick_seconds=5,
        unit="Per unit of P",
    ),
    PrintedTable(
        document="002",
        place="Section 5.4, CDF",
        title="squared error of prefix sums over the SVD bound",
        rows=cdf,
        less_is_better=True,
        seconds=20,
        quick_seconds=5,
        note="Eigen-Design is weak here; the certified optimum is not.",
    ),
    PrintedTable(
        document="002",
        place="Figure 5.3",
        title="root error of shorter searches over that of Eigen-Design",
        rows=speedups,
        seconds=100,
        quick_seconds=25,
        less_is_better=True,
        note="The figure has 8,192 cells; recomputed on 2,048, ours on 1,024 (256 with --quick).",
    ),
    PrintedTable(
        document="002",
        place="Figure 5.4",
        title="design sets: root error over that of Eigen-Design",
        rows=designs,
        seconds=120,
        quick_seconds=10,
        less_is_better=True,
        note="Printed in words: 20 % more on ranges, equal on marginals, over four times on permuted levels. On "
        "permuted levels the ratio grows with the number of cells: 2.3 on 256, 2.9 on 512, 3.7 on 1,024. Ours has "
        "1,024 cells, or 256 with --quick. On ranges the Fourier basis errs less than printed; why is not known.",
    ),
    PrintedTable(
        document="002",
        place="Section 5.4, weighting",
        title="squared gain of the best weights over the plain wavelet, Laplace noise",
        rows=weighting_gains,
        seconds=900,
        note="The document prints 1.2 for all ranges and no domain; it is that of two or three columns.",
    ),
    PrintedTable(
        document="002",
        place="Section 4.5",
        title="random ranges: error of one query over that of all ranges",
        rows=random_workloads,
        seconds=30,
        quick_seconds=5,
        note="A figure without numbers. It says that a hundredth of the ranges is about as hard as all of "
        "them, and that "
        "the simplified bound is better for few.",
    ),
    PrintedTable(
        document="002",
        place="Table 6.2, Identity and Privelet",
        title="mean absolute error of 2,000 intervals over 4,096 cells at epsilon 0.1",
        rows=interval_errors,
        seconds=2,
        quick_seconds=2,
        random=True,
        note="A mean of 20 trials; one trial of Identity varies by 155.",
    ),
    PrintedTable(
        document="002",
        place="Table 6.2, DAWA",
        title="error over that of DAWA on seven histograms, one trial each",
        rows=table_6_2,
        seconds=180,
        quick_seconds=20,
        needs_data=True,
        random=True,
        note="The printed results are those of costs clamped at the price of a bucket, which is not private; hush's "
        "published form has the printed noise and no clamp, so its buckets are nearly single cells, and Identity and "
        "Privelet come close. The second half has hush's own DAWA. MWEM has ten rounds here, where the document tunes "
        "them; EFPA has the noise that its sensitivity k / sqrt(n) needs. Both fall far behind on the two histograms "
        "of over 20 million rows.",
    ),
    PrintedTable(
        document="002",
        place="Figure 6.6",
        title="rectangles on a map: error over that of DAWA",
        rows=spatial,
        seconds=60,
        quick_seconds=10,
        random=True,
        note="A figure without numbers, on crossings of roads in the western United States: DAWA is equal or better, "
        "and the more so the smaller epsilon. The data are not here: ours is an invented map of towns and roads, 256 "
        "cells each way (64 with --quick), one trial.",
    ),
    PrintedTable(
        document="002",
        place="Section 3.5.3",
        title="squared error of all ranges without negative counts over that of least squares",
        rows=nonnegative,
        seconds=150,
        quick_seconds=15,
        random=True,
        note="A figure without numbers, on Adult with 512 cells. Printed in words: with a tree or a wavelet both ways "
        "are far better than least squares at epsilon below 1; with single cells non-negative least squares is poor, "
        "since it raises every empty cell and sums add that up. Ours has the capital losses of Adult (a generated "
        "stand-in without --data): at small epsilon non-negative least squares raises empty cells for the wavelet "
        "too. Its cells were checked against scipy's.",
    ),
)
