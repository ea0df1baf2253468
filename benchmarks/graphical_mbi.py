"""Run mbi on one problem, with the peer's own Python: python -m benchmarks.graphical_mbi --help

mbi gets every advantage:
- It may use any of its five estimators, in float32 (its default) or float64, with its own choice of oracle for the CPU
  and with all cores. The caller runs them all and takes the one that first reaches the loss target on the problem.
- The loop is that of `Estimator.estimate`: `_init`, then `_multi_step` (a compiled scan of CALLBACK_EVERY steps), then
  `_finalize`. We add a stop at the target, which a user of mbi could not know.
- `Estimator.precompile` compiles the loop in a second thread while `_init` compiles and computes. This takes less time
  on two free cores, and more memory. `--plain` turns it off.
- CALLBACK_EVERY is 50 in mbi. If an iteration is long, a smaller value is set, which lets mbi stop earlier.
- If an estimator averages (DualAveraging, InteriorGradient, UniversalAcceleratedMethod), its averaged marginals are
  judged. mbi then searches for their potentials (another thousand iterations); that time does not count.
- The total is given. The loss of mbi's marginals is computed here in float64, off the clock.
- A growing sequence keeps one process, so mbi pays for its import once. Warm starts pass the previous model. For the
  universal accelerated method they pass the potentials of its last step, which mbi's own users do not get to see.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.graphical_files import Array, Problem, summed
from benchmarks.graphical_trace import Clock, Trace, write


def reader(marginals: Any) -> Any:
    """The marginal of a measured clique from mbi's clique vector, in numpy."""
    tables = {clique: np.asarray(factor.values, dtype=np.float64) for clique, factor in marginals.tables.items()}

    def marginal(clique: tuple[str, ...]) -> Array:
        home = min((c for c in tables if set(clique) <= set(c)), key=lambda c: tables[c].size)
        return summed(tables[home], marginals.tables[home].domain.attributes, clique)

    return marginal


def fit(problem: Problem, estimator: Any, trace: Trace, start: Any, options: argparse.Namespace) -> Any:
    """The state after the loop of mbi's `Estimator.estimate`, stopped by the trace."""
    import jax
    import jax.numpy as jnp
    import mbi

    total = problem.total()
    domain = mbi.Domain(tuple(problem.sizes), tuple(problem.sizes.values()))
    measurements = [
        mbi.LinearMeasurement(jnp.asarray(y.ravel()), clique, float(s))
        for clique, y, s in zip(problem.cliques, problem.values, problem.stddev, strict=True)
    ]
    loss = mbi.marginal_loss.from_linear_measurements(measurements, domain)
    compiled = None if options.plain else estimator.precompile(domain, measurements)
    state = jax.tree.map(jnp.copy, estimator._init(domain, loss, total, warm_start=start))
    if trace.add(0, reader(jax.block_until_ready(estimator._callback_value(state, total)))):
        return state
    if compiled:
        compiled.result()
    for done in range(mbi.estimation.CALLBACK_EVERY, options.iterations + 1, mbi.estimation.CALLBACK_EVERY):
        state = jax.block_until_ready(estimator._multi_step(state, loss, total))
        if trace.add(done, reader(jax.block_until_ready(estimator._callback_value(state, total)))):
            break
    return state


def carried(estimator: Any, state: Any, total: float) -> Any:
    """What the next model starts from: the model, or the potentials behind an average, which come at no cost."""
    return state.u if hasattr(state, "u") else estimator._finalize(state, total)


def synthetic(model: Any, rows: int) -> dict[str, float]:
    """Seconds to draw rows by mbi's numpy method and by its compiled one, the latter with and without compilation."""
    import mbi

    times = {}
    for name, make in (
        ("numpy", lambda: model.synthetic_data(rows)),
        ("compiled, first", lambda: mbi.extensions.synthetic_data(model, rows)),
        ("compiled, again", lambda: mbi.extensions.synthetic_data(model, rows)),
    ):
        start = time.perf_counter()
        make()
        times[name] = time.perf_counter() - start
    return times


def tree_mb(problem: Problem) -> float:
    """The size of mbi's own junction tree, in decimal MB."""
    import mbi

    domain = mbi.Domain(tuple(problem.sizes), tuple(problem.sizes.values()))
    return float(mbi.junction_tree.hypothetical_model_size(domain, problem.cliques)) * 2**20 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("problem")
    parser.add_argument("output", type=Path)
    parser.add_argument("--started", type=float, required=True, help="time.time() when this process was requested")
    parser.add_argument("--estimator", default="MirrorDescent")
    parser.add_argument("--float64", action="store_true")
    parser.add_argument("--plain", action="store_true", help="compile when needed, in a single thread")
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--iterations", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--targets", type=float, nargs="*", default=[], help="stop each model at this loss")
    parser.add_argument("--cold", action="store_true", help="fit a growing sequence without warm starts")
    parser.add_argument("--rows", type=int, default=0, help="synthetic rows to draw from the fitted model")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    clock = Clock(options.started)

    import jax

    if options.float64:
        jax.config.update("jax_enable_x64", True)
    import mbi

    mbi.estimation.CALLBACK_EVERY = options.every
    estimator = getattr(mbi.estimation, options.estimator)()
    problem = Problem.load(options.folder, options.problem)
    model: Any = None
    records = []
    for index, part in enumerate(problem.models()):
        target = options.targets[index] if index < len(options.targets) else -1.0
        trace = Trace(part, clock, options.seconds, target)
        state = fit(part, estimator, trace, None if options.cold else model, options)
        records.append(trace.record())
        if problem.first and not options.cold:
            model = carried(estimator, state, part.total())
        elif options.rows:
            model = estimator._finalize(state, part.total())
        if clock.now()[0] > options.seconds:
            break
    finished = clock.now()[0]
    rows = synthetic(model, options.rows) if options.rows else {}
    used = {name: getattr(options, name) for name in ("estimator", "float64", "plain", "every", "cold")}
    write(options.output, **used, records=records, seconds=finished, synthetic=rows, tree_mb=tree_mb(problem))


if __name__ == "__main__":
    main()
