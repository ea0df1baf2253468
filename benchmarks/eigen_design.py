"""Compare Eigen-Design with fixed strategies, the SVD bound and the certified optimum, under Gaussian noise.

Run: python -m benchmarks.eigen_design [--quick]

As in the reference, the first table shows squared errors divided by the SVD bound, and the second shows root errors
divided by that of Eigen-Design. Cells are printed / recomputed for the specification / ours. "Recomputed" is left out
if it equals the printed value. Columns for Fourier bases and for data cubes chosen by BMAX are left out, because the
reference prints neither their domain nor their pruning. The predicates are a sample with a fixed seed; the reference
does not print the sample's size.

Reference: [Li 2013, Tables 4.1 and 5.2].
Differs from [Li 2013]: Table 4.1's last row has its exponent wrong, and Hierarchical and Wavelet exchanged; Table 5.2
names the two competitors on predicates the other way round.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Sequence
from functools import reduce

import numpy as np

from benchmarks.published import head, line
from hush.core.arrays import Floats
from hush.linops import AllRange, Haar, Identity, Kronecker, LinearOperator, Permuted, Prefix, Stack, Total, Tree
from hush.optimizers.eigen_design import completed, eigen_design
from hush.optimizers.explicit_strategy import total_error
from hush.optimizers.svd_bound import svd_bound
from hush.strategies.optimum import gram_factor, optimal_gram

SEED = 1  # of the permutation and of the predicates
MARGINAL_SIZES = (8, 16, 16)
SAMPLES = (200, 1000, 2048, 10_000)

# SVDB, Identity, Hierarchical, Wavelet, Eigen before and after completion, optimum: printed, then recomputed
SQUARED = {
    "ranges (2048)": (
        (3.034e7, 47.25, 1.776, 1.545, None, 1.028, None),
        (3.034e7, 47.25, 1.773, 1.545, 1.0606, 1.028, 1.0119),
    ),
    "ranges (64, 32)": (
        (2.261e7, 12.11, 2.996, 1.899, None, 1.107, None),
        (2.261e7, 12.11, 2.996, 1.899, 1.1901, 1.107, 1.0474),
    ),
    "ranges (2^10)": (
        (5.242e5, 2.000, 2.000, 2.000, None, 1.000, None),
        (5.242e5, 2.000, 2.000, 2.000, None, 1.000, 1.000),
    ),
    "predicates (1024), / 2^1022": (
        (None, 1.884, 3.464, 6.292, None, 1.000, None),
        (1087.0, 1.884, 6.292, 3.464, None, 1.000, 1.000),
    ),
}

# bound, Wavelet, Hierarchical, Identity, data cubes: each over Eigen-Design; printed, then recomputed
ROOTS = {
    "1-D ranges, permuted (2048)": ((0.99, 9.62, 13.16, None, None), (0.986, 9.5, 12.9, None, None)),
    "1-way range marginals (8, 16, 16)": ((0.98, None, None, None, None), (0.980, None, None, None, 1.24)),
    "2-way range marginals (8, 16, 16)": ((0.95, None, 1.63, None, None), (0.952, None, 1.624, None, 1.58)),
    "1-D CDF (2048)": ((0.80, 1.01, 1.01, None, None), (0.783, 0.99, 0.995, None, None)),
    "200 predicates (2048)": ((1.00, 1.94, None, 1.39, None), (None, 6.00, 8.09, 4.24, None)),
    "1000 predicates (2048)": ((1.00, 1.94, None, 1.39, None), (None, 2.95, 3.98, 2.08, None)),
    "2048 predicates (2048)": ((1.00, 1.94, None, 1.39, None), (None, 2.30, 3.10, 1.62, None)),
    "10000 predicates (2048)": ((1.00, 1.94, None, 1.39, None), (None, 2.01, 2.71, 1.42, None)),
}


def kron(operators: Sequence[LinearOperator]) -> LinearOperator:
    return operators[0] if len(operators) == 1 else Kronecker(tuple(operators))


def multiplied(grams: Sequence[Floats]) -> Floats:
    return reduce(lambda left, right: np.asarray(np.kron(left, right)), grams)


def range_gram(sizes: Sequence[int]) -> Floats:
    return multiplied([AllRange(size).gram_dense() for size in sizes])


def marginals(sizes: Sequence[int], order: int, block: type[AllRange] | type[Identity]) -> LinearOperator:
    """A block on every set of `order` attributes, totals elsewhere."""
    chosen = itertools.combinations(range(len(sizes)), order)
    return Stack(
        tuple(Kronecker(tuple((block if i in own else Total)(size) for i, size in enumerate(sizes))) for own in chosen)
    )


def marginal_gram(sizes: Sequence[int], order: int) -> Floats:
    total: Floats = np.zeros((math.prod(sizes),) * 2)
    for own in itertools.combinations(range(len(sizes)), order):
        grams = [(AllRange if i in own else Total)(size).gram_dense() for i, size in enumerate(sizes)]
        total += multiplied(grams)
    return total


def predicate_gram(cells: int, queries: int) -> Floats:
    rows = np.random.Generator(np.random.PCG64(SEED)).integers(0, 2, (queries, cells)).astype(np.float64)
    return np.asarray(rows.T @ rows)


def shown(printed: float | None, recomputed: float | None, ours: float) -> str:
    """printed / recomputed / ours, with a mark if ours is more than 1 % from both."""
    given = [value for value in dict.fromkeys((printed, recomputed)) if value is not None]
    differs = bool(given) and min(abs(ours / value - 1) for value in given) > 0.01
    known = " / ".join(f"{value:.5g}" for value in given) or "-"
    return f"{known} / {ours:.5g}{' **differs**' if differs else ''}"


def squared_row(name: str, gram: Floats, sizes: Sequence[int]) -> None:
    """One row of the first table."""
    bound = svd_bound(gram)
    start = time.perf_counter()
    design = eigen_design(gram, complete=False)
    eigen_seconds = time.perf_counter() - start
    start = time.perf_counter()
    optimum = optimal_gram(gram_factor(gram)).value
    seconds = time.perf_counter() - start
    ours = [
        bound,
        float(np.trace(gram)) / bound,
        *(total_error(gram, kron([make(size) for size in sizes])) / bound for make in (Tree, Haar)),
        design.stats["value"] / bound,
        total_error(gram, completed(design.value)) / bound,
        optimum.error / bound,
    ]
    printed, recomputed = SQUARED.get(name, ((None,) * 7, (None,) * 7))
    cells = [shown(*three) for three in zip(printed, recomputed, ours, strict=True)]
    line(name, *cells, f"{optimum.lower_bound / bound:.4f}", f"{eigen_seconds:.1f}", f"{seconds:.1f}")


def root_row(name: str, gram: Floats, sizes: Sequence[int], cubes: LinearOperator | None = None) -> None:
    """One row of the second table."""
    start = time.perf_counter()
    design = eigen_design(gram)
    seconds = time.perf_counter() - start
    eigen = total_error(gram, design.value)
    others = [kron([make(size) for size in sizes]) for make in (Haar, Tree)]
    ours = [svd_bound(gram), *(total_error(gram, other) for other in others), float(np.trace(gram))]
    ours.append(math.nan if cubes is None else total_error(gram, cubes))
    optimum = optimal_gram(gram_factor(gram)).value
    printed, recomputed = ROOTS.get(name, ((None,) * 5, (None,) * 5))
    roots = [math.sqrt(value / eigen) for value in ours]
    cells = [
        "-" if math.isnan(value) else shown(a, b, value) for a, b, value in zip(printed, recomputed, roots, strict=True)
    ]
    line(name, *cells, f"{math.sqrt(optimum.error / eigen):.4f}", f"{seconds:.1f}")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="at most 256 cells, for which no printed values exist")
    options = parser.parse_args()
    size, wide, bits = (256, (16, 16), 8) if options.quick else (2048, (64, 32), 10)
    sizes = (4, 8, 8) if options.quick else MARGINAL_SIZES
    columns = ("workload", "SVDB", "Identity", "Hierarchical", "Wavelet", "Eigen before", "Eigen", "optimum")
    more = ("its lower bound", "seconds Eigen", "seconds optimum")
    head("Squared error divided by the SVD bound: printed / recomputed / ours", *columns, *more)
    squared_row(f"ranges ({size})", range_gram((size,)), (size,))
    squared_row(f"ranges ({wide[0]}, {wide[1]})", range_gram(wide), wide)
    squared_row(f"ranges (2^{bits})", range_gram((2,) * bits), (2,) * bits)
    cells = 1 << bits
    squared_row(f"predicates ({cells}), / 2^{cells - 2}", np.ones((cells, cells)) + np.eye(cells), (cells,))
    columns = ("workload", "bound", "Wavelet", "Hierarchical", "Identity", "cubes", "optimum", "seconds Eigen")
    head("Root error divided by that of Eigen-Design: printed / recomputed / ours", *columns)
    order = np.random.Generator(np.random.PCG64(SEED)).permutation(size).tolist()
    root_row(f"1-D ranges, permuted ({size})", Permuted(AllRange(size), order).gram_dense(), (size,))
    for count in (1, 2):
        root_row(
            f"{count}-way range marginals {sizes}",
            marginal_gram(sizes, count),
            sizes,
            marginals(sizes, count, Identity),
        )
    root_row(f"1-D CDF ({size})", Prefix(size).gram_dense(), (size,))
    for queries in SAMPLES[:1] if options.quick else SAMPLES:
        root_row(f"{queries} predicates ({size})", predicate_gram(size, queries), (size,))


if __name__ == "__main__":
    main()
