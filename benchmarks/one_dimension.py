"""Compare fixed and optimised strategies on one attribute with the RMSE published for HDMM.

Run: python -m benchmarks.one_dimension [--quick] [--large] [--noise laplace gaussian]

Cells are printed / ours (ours : printed). "bound" is the certified dual bound of the Gaussian problem. It also holds
under Laplace noise, and it is above the SVD bound. "measured" is the error of OPT_0 after rounding to integers. H2,
Privelet and HB on permuted ranges depend on the permutation. The reference does not print it; ours has a fixed seed.

Reference: [HDMM, Tables 3.2 and 3.3].
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.measured import measured_rmse
from benchmarks.published import ONE_DIMENSION, ONE_DIMENSION_COLUMNS, beside, head, line, rmse
from hush.core.domain import Domain
from hush.linops import AllRange, Dense, Haar, LinearOperator, Permuted, Prefix, Tree, WidthRange
from hush.optimizers import explicit_strategy as hierarchy
from hush.optimizers.explicit_strategy import total_error
from hush.optimizers.p_identity import optimise_theta
from hush.optimizers.p_identity import strategy as p_identity
from hush.optimizers.svd_bound import svd_bound
from hush.strategies.optimum import Optimum, gram_factor, optimal_gram
from hush.strategies.product_strategy import FloatProduct, FloatStrategy, Recovery
from hush.strategies.strategy import NoiseKind
from hush.workloads import Workload

SEED = 1  # of the permutation


def permuted(size: int) -> LinearOperator:
    return Permuted(AllRange(size), np.random.Generator(np.random.PCG64(SEED)).permutation(size).tolist())


WORKLOADS: dict[str, Callable[[int], LinearOperator]] = {
    "AllRange": AllRange,
    "Prefix": Prefix,
    "Width-32": lambda size: WidthRange(size, 32),
    "Permuted": permuted,
}


def fixed_errors(gram: np.ndarray, noises: Sequence[NoiseKind]) -> dict[NoiseKind, list[float]]:
    """Identity, H2, Privelet and HB: one trace each, times the squared sensitivity of each noise."""
    n = len(gram)
    errors: dict[NoiseKind, list[float]] = {noise: [float(np.trace(gram))] for noise in noises}
    for strategy in (Tree(n), Haar(n), hierarchy.hb(n)):
        unit = total_error(gram, strategy) / strategy.sensitivity(2) ** 2
        for noise in noises:
            errors[noise].append(unit * strategy.sensitivity(noise.norm) ** 2)
    return errors


def measured(workload: Workload, strategy: LinearOperator, noise: NoiseKind) -> float:
    """The RMSE of a strategy rounded to integers, at the budget of the tables."""
    factor = Dense(strategy.dense() / strategy.sensitivity(noise.norm))
    product = FloatProduct((("x",),), (factor,), 1.0, (0,))
    return measured_rmse(
        workload, FloatStrategy(workload.domain, (product,), noise, Recovery.LOCAL, math.nan, "explicit")
    )


def optimised(gram: np.ndarray, noise: NoiseKind, optimum: Optimum) -> tuple[float, LinearOperator]:
    """The error of OPT_0 and its strategy."""
    if noise is NoiseKind.GAUSSIAN:
        return optimum.error, optimum.strategy
    found = optimise_theta(gram)
    return found.stats["value"], p_identity(found.value)


def run(name: str, size: int, noises: Sequence[NoiseKind]) -> dict[NoiseKind, tuple[str, ...]]:
    """The rows of one workload."""
    block = WORKLOADS[name](size)
    workload = Workload.product(Domain({"x": size}), {"x": block})
    gram, m = block.gram_dense(), block.shape[0]
    fixed, svdb = fixed_errors(gram, noises), svd_bound(gram)
    start = time.perf_counter()
    optimum = optimal_gram(gram_factor(gram)).value
    solving = time.perf_counter() - start
    rows = {}
    for noise in noises:
        start = time.perf_counter()
        error, strategy = optimised(gram, noise, optimum)
        seconds = solving if noise is NoiseKind.GAUSSIAN else time.perf_counter() - start
        ours = [rmse(noise, value, m) for value in (*fixed[noise], error, svdb)]
        cells = [beside(a, b) for a, b in zip(ONE_DIMENSION[noise][name, size], ours, strict=True)]
        bound, real = rmse(noise, optimum.lower_bound, m), measured(workload, strategy, noise)
        best = rmse(noise, error, m)
        rows[noise] = (
            *cells,
            f"{best / bound:.4f}",
            f"{real:.2f} ({100 * (real / best - 1):+.3f} %)",
            f"{seconds:.1f}",
        )
    return rows


def main() -> None:
    """Print one table, each row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only 64 levels")
    parser.add_argument("--large", action="store_true", help="also 4096 levels; takes half an hour and 2 GB")
    parser.add_argument("--noise", nargs="*", default=["laplace", "gaussian"], choices=list(NoiseKind))
    parser.add_argument("--workload", nargs="*", default=list(WORKLOADS), choices=list(WORKLOADS))
    options = parser.parse_args()
    sizes = (64,) if options.quick else (64, 256, 1024, 4096) if options.large else (64, 256, 1024)
    noises = [NoiseKind(name) for name in options.noise]
    columns = ("noise", "workload", "n", *ONE_DIMENSION_COLUMNS, "OPT_0 : bound", "measured", "seconds")
    head("RMSE on one attribute: printed / ours (ours : printed)", *columns)
    for size in sizes:
        for name in options.workload:
            for noise, row in run(name, size, noises).items():
                line(noise, name, size, *row)


if __name__ == "__main__":
    main()
