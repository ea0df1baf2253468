"""What auto gains and loses by leaving searches out: CPU seconds and RMSE, quick against thorough.

    python -m benchmarks.quick_plans [--full]

Schemas are drawn at random, with a fixed seed; without --full there are few of them.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import hush

WORKLOADS = ("<=1-way", "<=2-way", "3-way")
BUDGETS = (hush.Budget(epsilon=1.0, delta=1e-9), hush.Budget(epsilon=1.0))


def schemas(count: int) -> list[hush.Domain]:
    """Domains of 3 to 8 columns of 2 to 100 levels, small columns more often."""
    random = np.random.Generator(np.random.PCG64(14))
    sizes = [np.exp(random.uniform(np.log(2), np.log(100), random.integers(3, 9))).astype(int) for _ in range(count)]
    return [hush.Domain({f"c{i}": int(n) for i, n in enumerate(shape)}) for shape in sizes]


def prefix_sums(domain: hush.Domain) -> hush.Workload:
    """Prefix sums on the first column by the levels of the second."""
    first, second, *_ = domain
    return hush.Workload.product(domain, {first: hush.queries.prefix, second: hush.queries.identity})


def timed(
    workload: hush.Workload | str, domain: hush.Domain, budget: hush.Budget, *, thorough: bool
) -> tuple[float, float]:
    """CPU seconds and RMSE of a plan."""
    start = time.process_time()
    plan = hush.plan(workload, budget, schema=domain, thorough=thorough)
    return time.process_time() - start, float(plan.rmse or np.nan)


def main() -> None:
    """Print a line for each schema, workload and budget, and the worst ratio of errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="20 schemas instead of 3")
    full = parser.parse_args().full
    worst = 0.0
    hush.plan("1-way", BUDGETS[0], schema=hush.Domain({"a": 3, "b": 4}), thorough=True)  # loads and compiles
    for domain in schemas(20 if full else 3):
        for workload in (*WORKLOADS, prefix_sums(domain)):
            for budget in BUDGETS:
                (quick, error), (long, least) = (timed(workload, domain, budget, thorough=t) for t in (False, True))
                worst = max(worst, error / least)
                name = workload if isinstance(workload, str) else "prefix"
                print(f"{domain.shape!s:40} {name:8} {budget!s:24} {quick:6.2f} s {long:6.2f} s  {error / least:.4f}")
    print(f"largest RMSE, quick over thorough: {worst:.4f}")


if __name__ == "__main__":
    main()
