"""The constants by which hush predicts the time of an engine's ways: fitted on generated tables, judged on others.

    python -m benchmarks.engine_costs spark         # or postgres, duckdb

The prediction of `tables/scan_plan.py` is linear in the constants, so they are the nonnegative least squares fit of all
measured times, each relative to itself. Tables differ in rows, columns and levels. The tables of `benchmarks.engines`
and one more shape are not fitted; the last lines say how far off the predictions for them are, and how much slower than
the best way the chosen one is, before and after.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.engines import ENGINES, SCHEMA, WORKLOADS, Clock, copied, fill, opener, server
from hush.schema import Categorical, Integer, Numeric, Schema
from hush.tables.dialects.dialect import Family
from hush.tables.dialects.postgres_sessions import PostgresConnection
from hush.tables.engine_tables import SQL_WAYS, EngineTable
from hush.tables.scan_plan import Costs, EngineCosts, ScanPlan, Way

SHAPES = list(itertools.product((100_000, 500_000), (4, 12), (4, 40)))  # rows, columns, levels
JUDGED = [(300_000, 8, 15), (1_000_000, 14, None)]  # the last is that of `benchmarks.engines`
ENGINE_PARTS = [each.name for each in fields(EngineCosts) if each.name not in ("scans", "cap")]
LARGE = 500_000  # rows from which a time is taken once
SCAN_PARTS = ("per_row", "per_miss", "per_cell")


def shaped(columns: int, levels: int) -> Schema:
    """A schema of integers, numbers and texts in turn."""
    makers = (
        lambda name: Integer(name=name, low=0, high=levels - 1),
        lambda name: Numeric.equal_width(name=name, low=0.0, high=100.0, bins=levels),
        lambda name: Categorical(name=name, values=tuple(f"level {k}" for k in range(levels))),
    )
    return Schema([makers[k % 3](f"x{k}") for k in range(columns)])


@dataclass(frozen=True, kw_only=True)
class Run:
    """One way to count some cliques, and what it took."""

    case: str
    way: Way
    plan: ScanPlan
    rows: float
    texts: tuple[bool, ...]  # of each column, whether it is coded from texts; none where rows are coded already
    passes: int
    seconds: float

    def predicted(self, costs: EngineCosts) -> float:
        """Seconds by given constants, with the scans that were counted."""
        coding = [costs.text if text else costs.value for text in self.texts] or [0.0] * len(self.plan.sizes)
        words: Any = {"rows": self.rows, "coding": coding, "capped": False, "passes": self.passes}
        return costs.predicted(self.way, self.plan, **words) / 1e9


def runs_of(table: EngineTable, workloads: dict[str, Any], name: str, rows: int, by_cores: bool) -> Iterator[Run]:
    """Every way to count every workload."""
    source, ways, clock = table._source, table._ways, Clock(table._source)
    kinds = {
        column.name: source.dialect.family(source.types[source.position(column.source)]) for column in table.schema
    }
    with table.snapshot():
        if source.dialect.keeps:
            table._ways = SQL_WAYS
            table.check()
            table._ways = ways
        table.counts(next(iter(workloads.values()))[:1])
        for (workload, cliques), way in itertools.product(workloads.items(), ways):
            _, plan = table.choose(cliques, (way,))
            table._ways, times = (way,), []
            for _ in range(1 if rows >= LARGE else 2):
                table._held = None
                times.append(clock.measure(partial(table.counts, cliques))[1])
            table._held = None
            cores = (os.cpu_count() or 1) if by_cores and not isinstance(source.connection, PostgresConnection) else 1
            used = [kind for name, kind in kinds.items() if any(name in clique for clique in cliques)]
            yield Run(
                case=f"{name}, {workload}",
                way=way,
                plan=plan,
                rows=rows,
                texts=() if table._kept else tuple(kind is Family.TEXT for kind in used),
                passes=1 if way is Way.STREAM else -(-len(plan.scans) // source.dialect.most_keys),
                seconds=min(each["cores" if by_cores else "seconds"] for each in times) / cores,
            )


def measured(engine: str, shapes: Sequence[Any], by_cores: bool) -> Iterator[Run]:
    """The runs of all shapes."""
    with tempfile.TemporaryDirectory(prefix="hush-costs-") as folder, ExitStack() as stack:
        address = stack.enter_context(server()) if engine == "postgres" else ""
        opened = stack.enter_context(opener(engine))
        for rows, columns, levels in shapes:
            schema = SCHEMA if levels is None else shaped(columns, levels)
            pairs = list(itertools.combinations(schema.domain, 2))
            some = {"1 pair": pairs[:1], "a third": pairs[::3], "all pairs": pairs}
            path = fill(Path(folder), rows, schema)
            table = opened(copied(address, path) if address else path, schema, None)
            name = f"{rows:,} x {columns} x {levels or 'mixed'}"
            for run in runs_of(table, WORKLOADS if levels is None else some, name, rows, by_cores):
                print(f"{run.case:45} {run.way:9} {run.seconds:8.2f} s", flush=True)
                yield run


def fitted(runs: Sequence[Run], costs: EngineCosts) -> EngineCosts:
    """The constants that predict the runs best; those of our own kernels stay."""
    none = Costs(per_row=0.0, per_miss=0.0, near=1.0, per_cell=0.0, largest=1)
    bare = {way: each if way is Way.STREAM else replace(none, near=each.near) for way, each in costs.scans.items()}
    zero = replace(costs, **dict.fromkeys(ENGINE_PARTS, 0.0), cap=0.0, scans=bare)
    units = {part: replace(zero, **{part: 1.0}) for part in ENGINE_PARTS}
    names: list[Any] = list(ENGINE_PARTS)
    for way, part in itertools.product((way for way in costs.scans if way is not Way.STREAM), SCAN_PARTS):
        names.append((way, part))
        units[way, part] = replace(zero, scans={**bare, way: replace(bare[way], **{part: 1.0})})  # type: ignore[index]
    fixed = np.array([run.predicted(zero) for run in runs])
    seconds = np.array([run.seconds for run in runs])
    system = np.array([[run.predicted(units[name]) for name in names] for run in runs]) - fixed[:, None]
    found = dict(zip(names, nnls(system / seconds[:, None], 1 - fixed / seconds)[0], strict=True))
    scans = {
        way: each if way is Way.STREAM else replace(each, **{part: found[way, part] for part in SCAN_PARTS})
        for way, each in costs.scans.items()
    }
    return replace(costs, **{part: found[part] for part in ENGINE_PARTS}, scans=scans)


def judge(runs: Sequence[Run], costs: EngineCosts, name: str) -> None:
    """Print how good predictions and choices are."""
    off = [max(run.predicted(costs) / run.seconds, run.seconds / run.predicted(costs)) for run in runs]
    slower = []
    for _, same in itertools.groupby(runs, key=lambda run: run.case):
        ways = list(same)
        chosen = min(ways, key=lambda run: run.predicted(costs))
        slower.append(chosen.seconds / min(run.seconds for run in ways))
    print(f"{name}: predictions are off by {np.median(off):.1f} times, at most {max(off):.1f};")
    print(f"    the chosen way takes {np.median(slower):.2f} times the best, at most {max(slower):.2f}")


def main() -> None:
    """Fit, print, judge."""
    from hush.tables.read import DIALECTS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--by-cores", action="store_true", help="measure the time of cores, for a busy machine")
    asked = parser.parse_args()
    dialect = next(each for each in DIALECTS if type(each).__name__.lower().startswith(asked.engine))
    runs, others = (list(measured(asked.engine, shapes, asked.by_cores)) for shapes in (SHAPES, JUDGED))
    ours = fitted(runs, dialect.costs)
    print("\n" + "\n".join(f"{part}={getattr(ours, part):.3g}" for part in ENGINE_PARTS))
    for way, each in ours.scans.items():
        print(f"{way}: " + ", ".join(f"{part}={getattr(each, part):.3g}" for part in SCAN_PARTS))
    print()
    for name, costs in (("before", dialect.costs), ("after", ours)):
        judge(runs, costs, f"{name}, fitted tables")
        judge(others, costs, f"{name}, other tables")


if __name__ == "__main__":
    main()
