"""Time exact discrete Gaussian noise, in ns per sample, against numpy's normal draws (the floor) and opendp's noise.

Run: python -m benchmarks.noise [--cells 1000000] [--peer-cells 20000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.peers import installed
from hush.privacy.exact_sampling import SystemEntropy
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace


def best_of(run: Callable[[], object], repeats: int) -> float:
    """The shortest wall time of several runs, after a warm-up run that does not count."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def peer(cells: int, sigma: float) -> float:
    """Seconds of opendp's vector Gaussian measurement on integers."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64")
    measurement = space >> dp.m.then_gaussian(sigma)
    data = [0] * cells
    return best_of(lambda: measurement(data), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument(
        "--peer-cells", type=int, default=20_000, help="opendp's time grows linearly; fewer cells suffice"
    )
    parser.add_argument("--sigma", type=float, default=91.0)
    options = parser.parse_args()
    cells, sigma, entropy = options.cells, options.sigma, SystemEntropy()
    generator = np.random.default_rng(1)
    rows = [
        ("numpy normal (floating point, not exact)", best_of(lambda: generator.normal(0, sigma, cells), 5) / cells),
        ("os.urandom, 16 bytes per sample", best_of(lambda: entropy.words(2 * cells), 5) / cells),
        ("hush discrete Gaussian", best_of(lambda: DiscreteGaussian.of_scale(sigma).sample(cells, entropy), 5) / cells),
        ("hush discrete Laplace", best_of(lambda: DiscreteLaplace.of_scale(sigma).sample(cells, entropy), 5) / cells),
    ]
    if installed("opendp", "its row"):
        rows.append(("opendp vector Gaussian", peer(options.peer_cells, sigma) / options.peer_cells))
    ours = rows[2][1]
    table = Table(title=f"Noise for {cells:,} cells at sigma = {sigma:g}, one process")
    for name in ("", "ns per sample", "time relative to hush"):
        table.add_column(name, justify="left" if not name else "right")
    for name, seconds in rows:
        table.add_row(name, f"{seconds * 1e9:,.1f}", f"{seconds / ours:,.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
