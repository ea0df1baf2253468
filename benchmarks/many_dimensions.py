"""Compare HDMM's operators on several attributes with the published RMSE, and show what rounding to integers costs.

Run: python -m benchmarks.many_dimensions [--quick] [--workload "SF1" ...] [--noise laplace gaussian]

Cells are printed / ours (ours : printed).
- "direct" adds noise of one scale to all queries, as the reference defines it.
- "bases" is marginals of designed strategies and "residual" is ResidualPlanner; the reference has neither.
- "best" is the smallest error of all, beside the printed HDMM.
- "measured" is the smallest error of a strategy rounded to integers. "rounding" is what rounding adds to the error of
  each strategy. It can be negative: the terms of a union may find better products than those designed for them.
- "bound" is the SVD bound, or one below it.

Reference: [HDMM, Tables 3.4 and 3.5, Examples 2 and 4].
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence

import numpy as np

import hush
from benchmarks.hdmm_workloads import WORKLOADS, two_prefixes, two_way
from benchmarks.measured import RHO, measured_rmse
from benchmarks.published import MANY_DIMENSIONS, beside, head, line, number, rmse
from hush.core.errors import HushError
from hush.optimizers.opt_hdmm import opt_hdmm
from hush.optimizers.svd_bound import lower_bound
from hush.strategies.product_strategy import FloatStrategy
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams
from hush.workloads import Workload

QUICK = ("CPS all marginals", "CPS prefix")
OPERATORS = ("kron", "plus", "marginals")
MOST_LOSS = 0.005  # strategies that lose more than this by rounding are marked
EXAMPLE_2 = (33385, 14252, math.nan)
EXAMPLE_4 = (213270, 85070, 62886)


def direct_rmse(grams: TermGrams, noise: NoiseKind) -> float:
    """sqrt(2) sum of the products' L1 norms, or sigma times the root of the sum of their squared L2 norms."""
    logs = np.zeros(len(grams))
    for place in grams.asked:
        norms = np.array([block.sensitivity(noise.norm) for block in grams.blocks[place]])
        logs += np.log(norms)[grams.index[:, place]]
    norms = np.exp(logs)
    largest = np.sum(grams.weights * norms) ** 2 if noise is NoiseKind.LAPLACE else np.sum(grams.weights * norms**2)
    return rmse(noise, float(largest), 1.0)


def residual_rmse(workload: Workload) -> float:
    """ResidualPlanner at the sigma of the tables; NaN if it does not support the workload."""
    try:
        found = hush.plan(workload, hush.Budget(rho=float(RHO)), mechanism="residual").rmse
    except HushError:
        return math.nan
    return math.nan if found is None else found


def rounding(workload: Workload, strategies: Sequence[FloatStrategy], queries: float) -> tuple[str, str, list[str]]:
    """The best error that can be measured, what rounding adds to each strategy, and why some are refused."""
    best, losses, refused = "-", [], []
    for strategy in strategies:
        try:
            real = measured_rmse(workload, strategy)
        except HushError as problem:
            losses.append(f"{strategy.method} -")
            refused.append(f"{strategy.method}, {strategy.noise}: {problem}")
            continue
        loss = real / rmse(strategy.noise, strategy.error, queries) - 1
        losses.append(f"{strategy.method} {100 * loss:+.2f} %{' **above**' if loss > MOST_LOSS else ''}")
        if best == "-":
            best = f"{number(real)} {strategy.method}"
    return best, ", ".join(losses), refused


def run(name: str, noise: NoiseKind, bound: tuple[float, str]) -> tuple[tuple[str, ...], list[str]]:
    """One row, and what could not be measured."""
    make, queries = WORKLOADS[name]
    workload = make()
    assert workload.queries == queries, name
    grams = TermGrams.of(workload)
    start = time.perf_counter()
    strategies = opt_hdmm(grams, noise)
    seconds = time.perf_counter() - start
    found = {strategy.method: rmse(noise, strategy.error, queries) for strategy in strategies}
    if len(grams) == 1:
        found.setdefault("plus", found["kron"])  # a union of one product
    residual = residual_rmse(workload) if noise is NoiseKind.GAUSSIAN else math.nan
    best = min([*found.values(), *([] if math.isnan(residual) else [residual])])
    printed = MANY_DIMENSIONS[noise][name]
    ours = (found["identity"], direct_rmse(grams, noise), *(found.get(operator, math.nan) for operator in OPERATORS))
    least = rmse(noise, bound[0], queries)
    real, losses, refused = rounding(workload, strategies, queries)
    notes = [f"{name}, {note}" for note in refused]
    row = (
        *(beside(a, b) for a, b in zip(printed[:5], ours, strict=True)),
        number(found.get("bases", math.nan)),
        number(residual),
        beside(printed[5], best),
        f"{beside(printed[6], least)} {bound[1]}",
        f"{best / least:.3f}",
        real,
        losses,
        f"{seconds:.1f}",
    )
    return row, notes


def examples() -> None:
    """Total squared errors without the variance of the noise, under Laplace noise."""
    head(
        "Examples: total squared error / 2b^2, printed / ours (ours : printed)", "example", "kron", "plus", "marginals"
    )
    for title, workload, printed in (("2", two_prefixes(), EXAMPLE_2), ("4", two_way(), EXAMPLE_4)):
        found = {strategy.method: strategy.error for strategy in opt_hdmm(TermGrams.of(workload), NoiseKind.LAPLACE)}
        line(title, *(beside(a, found[name]) for a, name in zip(printed, OPERATORS, strict=True)))


def main() -> None:
    """Print one table for each kind of noise, and the examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only the two CPS workloads")
    parser.add_argument("--workload", nargs="*", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--noise", nargs="*", default=["laplace", "gaussian"], choices=list(NoiseKind))
    options = parser.parse_args()
    names = QUICK if options.quick else options.workload
    bounds = {}
    head("Lower bounds: total squared error per unit of noise", "workload", "bound", "kind", "seconds")
    for name in names:
        start = time.perf_counter()
        bounds[name] = lower_bound(TermGrams.of(WORKLOADS[name][0]()))
        line(name, f"{bounds[name][0]:.6g}", bounds[name][1], f"{time.perf_counter() - start:.1f}")
    columns = ("workload", "Identity", "direct", "OPT_kron", "OPT_+", "OPT_M", "bases", "residual", "best : HDMM")
    more = ("SVDB : bound", "best : bound", "measured", "rounding", "seconds")
    for noise in (NoiseKind(word) for word in options.noise):
        head(f"RMSE under {noise} noise: printed / ours (ours : printed)", *columns, *more)
        notes: list[str] = []
        for name in names:
            row, refused = run(name, noise, bounds[name])
            line(name, *row)
            notes += refused
        print("\nnot measured:\n" if notes else "", *(f"* {note}" for note in notes), sep="\n", flush=True)
    examples()


if __name__ == "__main__":
    main()
