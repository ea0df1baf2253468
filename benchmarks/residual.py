"""Time ResidualPlanner at scale: select, measure and reconstruct all marginals of at most 3 of d attributes.

Every d runs in its own process, so that its peak memory is separate. The table is uniform, so its counts cost nothing;
the times are those of noise, arithmetic and bookkeeping. Selection includes everything from the workload on.

Run: python -m benchmarks.residual [--attributes 20 50 100] [--select-only 200] [--levels 10]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from hush.core.domain import Clique, Domain
from hush.core.unit import ROW
from hush.inference.residual_estimates import ResidualEstimates
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.gate import Gate
from hush.privacy.measurement import Measurements
from hush.strategies.select_residual import select_residual
from hush.workloads import Workload

COLUMNS = ("d", "sets", "build workload", "select RMSE", "select MaxVar", "gap", "measure", "reconstruct", "peak MB")


class UniformSource:
    """A table with the same count in every cell."""

    unit = ROW

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._known: dict[tuple[int, ...], np.ndarray[Any, np.dtype[np.int64]]] = {}

    def require(self, cliques: Sequence[Clique]) -> None:
        """Every clique can be counted."""

    def check(self, most_rows: int = 0) -> None:
        """There are no rows to check."""

    def counts(self, cliques: Sequence[Clique]) -> dict[Clique, np.ndarray[Any, np.dtype[np.int64]]]:
        """One array for each shape, shared by all cliques of that shape."""
        shapes = [self.domain.sizes(clique) for clique in cliques]
        made = {shape: np.full(shape, 10 ** (6 - len(shape))) for shape in set(shapes) - set(self._known)}
        self._known |= made
        return {clique: self._known[shape] for clique, shape in zip(cliques, shapes, strict=True)}


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    value = run()
    return time.perf_counter() - start, value


def measure(strategy: Any) -> Measurements[Any]:
    """Measure every residual set through the gate."""
    gate = Gate(UniformSource(strategy.domain), Allowance(Budget(rho=0.5)))
    answers = Measurements(strategy)
    for index, noisy in enumerate(gate.measure(strategy.requests())):
        answers[index] = noisy.raw
    return answers


def reconstruct(answers: Measurements[Any]) -> int:
    """Reconstruct every marginal once, as a stream."""
    return sum(1 for _ in ResidualEstimates(answers).marginals())


def warm_up() -> None:
    """Compile and load everything on a small case."""
    workload = Workload.upto(Domain({f"a{i}": 3 for i in range(4)}), 3)
    select_residual(workload, rho=0.5, loss="maxvar")
    reconstruct(measure(select_residual(workload, rho=0.5).value))


def run_one(attributes: int, levels: int, select_only: bool) -> dict[str, float | str]:
    warm_up()
    domain = Domain({f"a{i}": levels for i in range(attributes)})
    row: dict[str, float | str] = {"d": attributes}
    row["build workload"], workload = timed(lambda: Workload.upto(domain, 3))
    row["select RMSE"], best = timed(lambda: select_residual(workload, rho=0.5).checked())
    row["select MaxVar"], largest = timed(lambda: select_residual(workload, rho=0.5, loss="maxvar", tolerance=1e-4))
    row["gap"] = f"{largest.stats['gap']:.1e}"
    row["sets"] = len(best.closure)
    largest = workload = None
    if not select_only:
        row["measure"], answers = timed(lambda: measure(best))
        row["reconstruct"], _ = timed(lambda: reconstruct(answers))
    row["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return row


def show(rows: list[dict[str, float | str]], levels: int) -> None:
    table = Table(title=f"All marginals of at most 3 of d attributes with {levels} levels, pcost 1; times in seconds")
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for row in rows:
        values = [row.get(name, "") for name in COLUMNS]
        table.add_row(*(f"{value:.2f}" if isinstance(value, float) else f"{value}" for value in values))
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attributes", type=int, nargs="*", default=[20, 50, 100])
    parser.add_argument("--select-only", type=int, nargs="*", default=[200])
    parser.add_argument("--levels", type=int, default=10)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--no-measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        sys.stdout.write(json.dumps(run_one(options.one, options.levels, options.no_measure)))
        return
    rows = []
    for attributes in [*options.attributes, *options.select_only]:
        command = [
            sys.executable,
            "-m",
            "benchmarks.residual",
            "--one",
            str(attributes),
            "--levels",
            str(options.levels),
        ]
        command += ["--no-measure"] if attributes in options.select_only else []
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    show(rows, options.levels)


if __name__ == "__main__":
    main()
