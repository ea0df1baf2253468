"""Time the selection of a strategy, beside published seconds.

Run: python -m benchmarks.selection_speed [--quick]

Each figure is the median of three runs, and all three are shown. A short run before them does not count. The load of
the machine before and after says how far to trust the figures. Published seconds come from other machines.

- OPT_M: 100 evaluations of the error and its gradient over all marginals.
- OPT_0 on all ranges, Laplace noise: 100 iterations of one descent.
- OPT_0 on all ranges, Gaussian noise: the whole optimum, to a gap of 1e-4. The published figure is for 100 iterations,
  with no stated gap.

Reference: [HDMM, Fig. 3.3] for what is timed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

import numpy as np

from benchmarks.published import head, line
from hush.linops import AllRange
from hush.optimizers.marginal_system import AllSets
from hush.optimizers.p_identity import optimise_theta
from hush.strategies.optimum import gram_factor, optimal_gram
from hush.strategies.strategy import NoiseKind

RUNS = 3
EVALUATIONS = 100
SEED = 1  # of the points at which the error is evaluated


def marginal_evaluations(attributes: int) -> str:
    """OPT_M on marginals of ten-level attributes, at random shares."""
    random = np.random.Generator(np.random.PCG64(SEED))
    system = AllSets(NoiseKind.GAUSSIAN, [10.0] * attributes, random.random(1 << attributes))
    logs = random.normal(size=1 << attributes)
    for _ in range(EVALUATIONS):
        system.log_error(logs)
    return f"{EVALUATIONS} evaluations"


def laplace_descent(size: int, iterations: int = EVALUATIONS) -> str:
    """One descent of p-Identity from a random start."""
    start = np.random.Generator(np.random.PCG64(SEED)).random((size // 16, size))
    found = optimise_theta(AllRange(size).gram_dense(), start=start, restarts=0, iterations=iterations)
    return f"{found.stats['iterations']:.0f} iterations"


def gaussian_optimum(size: int) -> str:
    """The certified optimum, its factor included."""
    found = optimal_gram(gram_factor(AllRange(size).gram_dense()), tolerance=1e-4)
    return f"gap {found.stats['gap']:.1e}"


def timed(run: Callable[[], str]) -> tuple[list[float], str]:
    """Seconds of every run, and the note of the last one."""
    seconds, note = [], ""
    for _ in range(RUNS):
        start = time.perf_counter()
        note = run()
        seconds.append(time.perf_counter() - start)
    return seconds, note


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="d = 10 and n = 256")
    options = parser.parse_args()
    attributes, size = (10, 256) if options.quick else (15, 1024)
    published = ("7.1", "0.32", "1.15") if options.quick else ("2870", "6.44", "25.8")
    marginal_evaluations(4)
    laplace_descent(32, iterations=2)
    gaussian_optimum(32)
    print(f"load before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores", flush=True)
    head("Seconds to select a strategy", "job", "published", "median", "runs", "work done", "load after")
    jobs: tuple[tuple[str, Callable[[], str]], ...] = (
        (f"OPT_M, d = {attributes}", lambda: marginal_evaluations(attributes)),
        (f"OPT_0 Laplace, n = {size}", lambda: laplace_descent(size)),
        (f"OPT_0 Gaussian, n = {size}", lambda: gaussian_optimum(size)),
    )
    for (name, run), known in zip(jobs, published, strict=True):
        seconds, note = timed(run)
        shown = ", ".join(f"{value:.2f}" for value in seconds)
        line(name, known, f"{statistics.median(seconds):.2f}", shown, note, f"{os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
