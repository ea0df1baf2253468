"""Noise and total epsilon under (epsilon, delta): zCDP, Renyi DP, hush and dp-accounting next to the exact values.

    python -m benchmarks.accounting [--quick] [--data FOLDER]

Part 1: the noise of a plan, and of an adaptive release, relative to the conversion from zCDP ("before"). Part 2: the
epsilon of 1, 2, 10 and 100 releases. The exact value is a sum over all outcomes, which these events allow. Part 3: the
error of every mechanism with both budgets on two tables: generated ones, or the first two of FOLDER.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

import hush
from benchmarks.coded import load
from hush.datasets import people, people_schema
from hush.evaluation.workload_error import workload_error
from hush.privacy.conversions import zcdp_epsilon
from hush.privacy.events import ComposedEvent, Event, GaussianEvent, LaplaceEvent
from hush.privacy.total_epsilon import total_epsilon

EPSILONS, DELTAS = (0.1, 1.0, 10.0), (1e-5, 1e-6, 1e-9)
RELEASES = (1, 2, 10, 100)
DELTA = 1e-6
MECHANISMS = ("residual", "direct", "gaussian", "hdmm", "independent", "aim", "mst", "mwem", "privbayes", "rap", "dawa")


def noise_table() -> None:
    print("\nNoise relative to the conversion from zCDP (standard deviation)")
    print(f"{'epsilon':>8} {'delta':>7} {'fixed plan':>11} {'adaptive':>9} {'continuous Gaussian':>20}")
    domain = hush.Domain({"age": 85, "sex": 2, "race": 5, "education": 16})
    workload = hush.Workload.upto(domain, 2)
    for epsilon, delta in itertools.product(EPSILONS, DELTAS):
        budget = hush.Budget(epsilon=epsilon, delta=delta)
        before = hush.plan(workload, hush.Budget(rho=budget.rho), mechanism="residual").rmse
        after = hush.plan(workload, budget, mechanism="residual").rmse
        adaptive, best = (math.sqrt(budget.rho / amount) for amount in (budget.limit, budget.mu**2 / 2))
        print(f"{epsilon:8g} {delta:7.0e} {after / before:11.4f} {adaptive:9.4f} {best:20.4f}")


def exact_epsilon(sums: np.ndarray, losses: np.ndarray) -> float:
    """The epsilon at DELTA of listed losses with their probabilities, by bisection."""
    low, high = 0.0, 1e4
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        delta = float(sums @ np.maximum(-np.expm1(np.minimum(middle - losses, 0.0)), 0.0))
        low, high = (low, middle) if delta <= DELTA else (middle, high)
    return high


def gaussian_losses(variance: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The law of the sum of discrete Gaussian noise, convolved draw by draw, and its losses."""
    y = np.arange(-12 * math.isqrt(variance) - 12, 12 * math.isqrt(variance) + 13.0)
    single = np.exp(-(y**2) / (2 * variance))
    law = np.ones(1)
    for _ in range(count):
        law = np.convolve(law, single / single.sum())
    reach = (len(law) - 1) // 2
    return law, (count + 2 * np.arange(-reach, reach + 1.0)) / (2 * variance)


def laplace_losses(scale: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The losses +-1/scale of discrete Laplace noise on a count that moves by one, `count` times."""
    from scipy.stats import binom

    lies = np.arange(count + 1)
    return binom.pmf(lies, count, 1 / (1 + math.exp(1 / scale))), (count - 2 * lies) / scale


def composed(parts: list[tuple[Event, int]]) -> ComposedEvent:
    return ComposedEvent(tuple(parts))


def peers(parts: list[tuple[Event, int]]) -> tuple[float, float]:
    """Renyi DP and privacy loss distributions of dp-accounting; NaN where it is not installed."""
    try:
        from dp_accounting import GaussianDpEvent, LaplaceDpEvent
        from dp_accounting.pld import privacy_loss_distribution
        from dp_accounting.rdp import RdpAccountant
    except ImportError:
        return math.nan, math.nan
    renyi, distribution = RdpAccountant(), None
    for event, count in parts:
        if isinstance(event, GaussianEvent):
            renyi.compose(GaussianDpEvent(math.sqrt(event.variance)), count)
            own = privacy_loss_distribution.from_discrete_gaussian_mechanism(
                math.sqrt(event.variance), value_discretization_interval=1e-4
            )
        else:
            assert isinstance(event, LaplaceEvent)
            renyi.compose(LaplaceDpEvent(float(event.scale)), count)
            own = privacy_loss_distribution.from_discrete_laplace_mechanism(
                1 / float(event.scale), value_discretization_interval=1e-4
            )
        own = own.self_compose(count)
        distribution = own if distribution is None else distribution.compose(own)
    assert distribution is not None
    return float(renyi.get_epsilon(DELTA)), float(distribution.get_epsilon_for_delta(DELTA))


def totals_table() -> None:
    print(f"\nTotal epsilon at delta={DELTA:g}, and ours relative to exact")
    print(
        f"{'noise':26} {'releases':>8} {'zCDP':>8} {'Renyi':>8} {'PLD*':>8} {'ours':>8} {'exact':>8} {'ours/exact':>11}"
    )
    for name, gaussian, laplace in (
        ("Gaussian, sigma 20", 400, None),
        ("Gaussian, sigma 2", 4, None),
        ("Laplace, scale 20", None, 20),
        ("Gaussian 20 + Laplace 20", 400, 20),
    ):
        for count in RELEASES:
            parts: list[tuple[Event, int]] = []
            masses, losses = np.ones(1), np.zeros(1)
            if gaussian is not None:
                parts.append((GaussianEvent(Fraction(gaussian), Fraction(1), True), count))
                masses, losses = gaussian_losses(gaussian, count)
            if laplace is not None:
                parts.append((LaplaceEvent(Fraction(laplace), Fraction(1)), count))
                more, further = laplace_losses(laplace, count)
                masses, losses = np.outer(masses, more).ravel(), np.add.outer(losses, further).ravel()
            event = composed(parts)
            rho = float(event.cost.rho or 0)
            renyi, distribution = peers(parts)
            ours, exact = total_epsilon(event, DELTA).epsilon, exact_epsilon(masses, losses)
            figures = " ".join(
                f"{value:8.4f}" for value in (zcdp_epsilon(rho, DELTA), renyi, distribution, ours, exact)
            )
            print(f"{name:26} {count:8} {figures} {ours / exact:11.5f}")
    print("* dp-accounting, losses rounded up to multiples of 1e-4")
    for entries in (1000, 10_000):
        events = [GaussianEvent(Fraction(400 + index), Fraction(1)) for index in range(entries)]
        start = time.perf_counter()
        total_epsilon(events, DELTA)
        print(f"{entries:,} different entries priced in {time.perf_counter() - start:.2f} s")


def errors_table(folder: str | None, runs: int, epsilon: float, delta: float, mechanisms: Sequence[str]) -> None:
    print(f"\nMean error of all pairs at epsilon={epsilon:g}, delta={delta:g}: before, after, ratio, {runs} runs each")
    if folder is not None:
        names = sorted(path.stem for path in Path(folder).glob("*.csv"))
        tables = [(name, load(Path(folder), name)) for name in names[:2]]
    else:
        tables = [(f"{rows:,} people", hush.read(people(rows, seed=7), people_schema())) for rows in (2_000, 50_000)]
    budget = hush.Budget(epsilon=epsilon, delta=delta)
    for name, table in tables:
        domain = table.schema.domain
        workload = hush.Workload.kway(domain, 2)
        exact = table.counts(workload.cliques)
        for mechanism in mechanisms:
            run = _runner(table, workload, mechanism, exact)
            try:
                before, after = (np.array([run(b) for _ in range(runs)]) for b in (hush.Budget(rho=budget.rho), budget))
            except hush.errors.HushError as error:
                print(f"{name:16} {mechanism:12} left out: {str(error)[:80]}")
                continue
            ratio = after.mean() / before.mean()
            spread = math.hypot(*(errors.std(ddof=1) / errors.mean() / math.sqrt(runs) for errors in (before, after)))
            figures = f"{before.mean():9.5f} {after.mean():9.5f} {ratio:7.3f} +- {ratio * spread:.3f}"
            print(f"{name:16} {mechanism:12} {figures}", flush=True)


def _runner(table: hush.Table, workload: hush.Workload, mechanism: str, exact: dict) -> Callable[[hush.Budget], float]:
    asked = workload
    if mechanism == "dawa":  # one column
        domain = table.schema.domain
        asked = hush.Workload.marginals(domain, [(max(domain, key=domain.__getitem__),)])
        exact = table.counts(asked.cliques)

    def run(budget: hush.Budget) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release = hush.plan(asked, budget, mechanism=mechanism).release(table)
        return workload_error(asked, exact, {clique: release.counts(clique) for clique in asked.cliques})

    return run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accounting", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out part 3")
    parser.add_argument("--data", metavar="FOLDER", help="tables of codes for part 3")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--mechanisms", default=",".join(MECHANISMS), help="of part 3")
    options = parser.parse_args()
    noise_table()
    totals_table()
    if not options.quick:
        errors_table(options.data, options.runs, 1.0, 1e-9, options.mechanisms.split(","))


if __name__ == "__main__":
    main()
