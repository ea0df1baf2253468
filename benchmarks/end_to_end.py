"""Time a whole release, phase by phase: read, plan, measure, reconstruct every table, save, load, query.

Run: python -m benchmarks.end_to_end TABLE.csv DOMAIN.json [--order 3] [--epsilon 1]
The table holds codes. The domain maps name -> size.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import hush


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("domain", type=Path)
    parser.add_argument("--order", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-9)
    options = parser.parse_args()
    schema = hush.Schema.load(options.domain)
    _warm_up()
    rows: list[tuple[str, float, str]] = []
    clock = time.perf_counter()

    def lap(name: str, note: str = "") -> None:
        nonlocal clock
        now = time.perf_counter()
        rows.append((name, now - clock, note))
        clock = time.perf_counter()

    table = hush.read(options.table, schema)
    lap("read and encode")
    workload = hush.Workload.upto(schema.domain, options.order)
    lap("workload", f"{len(workload):,} marginals, {workload.queries:,} numbers")
    plan = hush.plan(workload, hush.Budget(epsilon=options.epsilon, delta=options.delta))
    lap("select (RMSE)", f"RMSE {plan.rmse:.4g}")
    worst = hush.plan(workload, plan.budget, loss="maxvar")
    lap("select (MaxVar)", f"largest standard error {worst.max_variance**0.5:.4g}")  # type: ignore[operator]
    release = plan.release(table)
    lap("count and measure")
    assert isinstance(release, hush.Release)
    cells = sum(values.size for _, values in release.estimates.all())
    lap("reconstruct all", f"{cells:,} cells")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.hush")
        release.save(path)
        lap("save", f"{path.stat().st_size / 1e6:,.1f} MB")
        loaded = hush.load(path)
        lap("load")
    assert isinstance(loaded, hush.Release)
    first, second = schema.domain.attributes[:2]
    for _ in range(100):
        loaded.sql(f'SELECT "{first}", COUNT(*) FROM t WHERE "{second}" >= 1 GROUP BY "{first}"')
    lap("100 SQL queries")
    shown = Table(title=f"{options.table.name}: all <= {options.order}-way marginals, epsilon = {options.epsilon:g}")
    shown.add_column("phase")
    shown.add_column("seconds", justify="right")
    shown.add_column("")
    for name, seconds, note in rows:
        shown.add_row(name, f"{seconds:.3f}", note)
    shown.add_row("all", f"{sum(seconds for _, seconds, _ in rows):.3f}", "")
    console = Console(width=100)
    console.print(shown)
    console.print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


def _warm_up() -> None:
    """Trigger, on a tiny table, the compilation that happens once per installation."""
    table = hush.read(hush.datasets.people(100, seed=1), hush.datasets.people_schema())
    release = hush.plan(hush.Workload.upto(table.domain, 2), hush.Budget(rho=1.0)).release(table)
    assert isinstance(release, hush.Release)
    assert sum(values.size for _, values in release.estimates.all()) > 0


if __name__ == "__main__":
    main()
