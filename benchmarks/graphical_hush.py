"""Run hush on one problem, in its own process: python -m benchmarks.graphical_hush --help"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.graphical_files import Array, Problem
from benchmarks.graphical_trace import Clock, Trace, write


def fit(problem: Problem, trace: Trace, total: float, start: Any, estimator: Any) -> Any:
    """Fit the model until hush's own stopping rule or the target."""
    from hush.core.domain import Domain
    from hush.models.graphical.graphical_fit import fit_model
    from hush.privacy.measurement import Measurement

    def callback(iteration: int, loss: float, marginals: dict[tuple[str, ...], Array]) -> bool:
        """Record the iterate, and stop at the target; the tables have the axes of their keys."""
        tables = {frozenset(axes): (axes, table) for axes, table in marginals.items()}

        def marginal(clique: tuple[str, ...]) -> Array:
            axes, table = tables[frozenset(clique)]
            return table.transpose([axes.index(name) for name in clique])

        trace.add(iteration, marginal)
        return trace.done

    measurements = [
        Measurement(clique, values, stddev)
        for clique, values, stddev in zip(problem.cliques, problem.values, problem.stddev, strict=True)
    ]
    domain = Domain(problem.sizes)
    return fit_model(domain, measurements, total=total, start=start, estimator=estimator, callback=callback).value


def synthetic(model: Any, rows: int) -> dict[str, float]:
    """Seconds to draw synthetic rows, in the first call and in a second one."""
    times = {}
    for name in ("first", "again"):
        start = time.perf_counter()
        model.synthesize_codes(rows, np.random.Generator(np.random.PCG64(1)))
        times[name] = time.perf_counter() - start
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("problem")
    parser.add_argument("output", type=Path)
    parser.add_argument("--started", type=float, required=True, help="time.time() when this process was requested")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument(
        "--targets",
        type=float,
        nargs="*",
        default=[],
        help="stop each model at this loss; without it hush uses its own stopping rule",
    )
    parser.add_argument("--estimator", default="natural")
    parser.add_argument("--cold", action="store_true", help="fit a growing sequence without warm starts")
    parser.add_argument("--rows", type=int, default=0, help="synthetic rows to draw from the fitted model")
    options = parser.parse_args()
    clock = Clock(options.started)
    problem = Problem.load(options.folder, options.problem)
    model: Any = None
    records = []
    for index, part in enumerate(problem.models()):
        target = options.targets[index] if index < len(options.targets) else -1.0
        trace = Trace(part, clock, options.seconds, target)
        model = fit(part, trace, part.total(), None if options.cold else model, options.estimator)
        records.append(trace.record())
        if clock.now()[0] > options.seconds:
            break
    finished = clock.now()[0]
    rows = synthetic(model, options.rows) if options.rows else {}
    name = "hush" if options.estimator == "natural" else f"hush {options.estimator}"
    write(options.output, estimator=name, cold=options.cold, records=records, seconds=finished, synthetic=rows)


if __name__ == "__main__":
    main()
