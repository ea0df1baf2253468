"""Measure and reconstruct a Kronecker strategy on a large data vector: time, and memory on top of the data.

    python -m benchmarks.kronecker [SIZE] [ATTRIBUTES]

The strategy is HDMM's product of optimal strategies for prefix sums under Gaussian noise, in integers. "measure" is the
exact integer answers, "reconstruct" the least squares estimate of every cell. Each job runs in its own process. Its
peak memory above the interpreter is printed as a multiple of the data vector.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from fractions import Fraction

import numpy as np

from hush.core.domain import Domain
from hush.inference.linear_estimates import LocalEstimates
from hush.linops import Prefix
from hush.privacy.measurement import Measurements
from hush.strategies.integer_strategies import round_strategy
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.optimum import optimal_gram
from hush.strategies.product_strategy import FloatProduct, FloatStrategy, Recovery
from hush.strategies.strategy import NoiseKind


def strategy_of(size: int, attributes: int) -> LinearStrategy:
    """A product of one optimal strategy for prefix sums per attribute."""
    domain = Domain({f"x{place}": size for place in range(attributes)})
    factor = optimal_gram(Prefix(size).dense().T).checked().strategy
    product = FloatProduct(tuple((name,) for name in domain), (factor,) * attributes, 1.0, (0,))
    strategy = FloatStrategy(domain, (product,), NoiseKind.GAUSSIAN, Recovery.LOCAL, 1.0, "kron")
    return round_strategy(strategy, budget=Fraction(1, 2))


def run(job: str, size: int, attributes: int) -> tuple[float, float]:
    """Seconds and peak bytes above what the process had, for one of the jobs."""
    strategy = strategy_of(size, attributes)
    product = strategy.products[0]
    for factor in product.factors:
        factor.inverse_gram  # noqa: B018 - made once, before the clock starts
    shape = (size,) * attributes
    before = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if job == "measure":
        data = np.zeros(shape, dtype=np.int64)
        data.ravel()[:: 7 * size + 1] = 3
        start = time.perf_counter()
        product.query.answer({product.clique: data})
    else:
        answers = Measurements(strategy)
        answers.flat[:: 7 * size + 1] = 3
        answers.filled[:] = True
        start = time.perf_counter()
        LocalEstimates(answers).counts(product.clique)
    seconds = time.perf_counter() - start
    return seconds, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def main() -> None:
    """Print one line per job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", type=int, nargs="?", default=100, help="levels of each attribute")
    parser.add_argument("attributes", type=int, nargs="?", default=4)
    options = parser.parse_args()
    size, attributes = options.size, options.attributes
    cells = size**attributes
    print(f"{attributes} attributes of {size} levels: {cells:,} cells, {8 * cells / 1e9:.2f} GB as int64\n")
    print("| job | seconds | million cells/s | peak memory / data vector |\n|---|---|---|---|")
    for job in ("measure", "reconstruct"):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            seconds, peak = pool.apply(run, (job, size, attributes))
        print(f"| {job} | {seconds:.1f} | {cells / seconds / 1e6:.1f} | {peak / (8 * cells):.2f} |", flush=True)


if __name__ == "__main__":
    main()
