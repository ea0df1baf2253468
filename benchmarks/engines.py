"""Counting where the rows lie: the time of every way of an engine, the way that hush chose, and the client's memory.

    python -m benchmarks.engines                       # 10^7 rows of 14 columns, then growth from 10^5 rows
    python -m benchmarks.engines --rows 500000 --growth ""
    python -m benchmarks.engines --address postgresql://user@host/db    # a server of yours; makes a table there

A PostgreSQL server of the development tools is started for the run. Every way counts in a process of its own, so that
its peak memory is its own. `engine` is the time until the engine has sent everything and nobody counted it; the rest of
the time is hush's.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hush.schema import Categorical, Integer, Numeric, Schema
from hush.tables import read
from hush.tables.counted_tables import MOST_ROWS
from hush.tables.engine_tables import BATCH_ROWS, EngineTable, statement
from hush.tables.scan_plan import Way
from hush.text_table import TextColumn, TextTable, number_columns

COLOURS = ("red", "green", "blue", "black", "white", "grey")
SCHEMA = Schema(
    [
        *(Integer(name=f"i{k}", low=0, high=3 + 2 * k) for k in range(6)),
        *(Numeric.equal_width(name=f"f{k}", low=0.0, high=100.0, bins=10 + k) for k in range(6, 10)),
        *(Categorical(name=f"t{k}", values=COLOURS) for k in range(10, 14)),
    ]
)
PAIRS = list(itertools.combinations(SCHEMA.domain, 2))
WORKLOADS = {"1 table": PAIRS[:1], "5 pairs": PAIRS[5:50:9], "30 pairs": PAIRS[::3][:30], "91 pairs": PAIRS}


def fill(address: str, rows: int) -> str:
    """Make a table of generated rows on the server; its name."""
    import psycopg

    def drawn(k: int) -> str:
        return f"(hashint8(i * 14 + {k})::bigint & 2147483647)"

    columns = [f"CAST({drawn(k)} % {4 + 2 * k} AS SMALLINT) AS i{k}" for k in range(6)]
    columns += [f"({drawn(k)} % 10000) / 100.0::float8 AS f{k}" for k in range(6, 10)]
    words = ", ".join(f"'{colour}'" for colour in COLOURS)
    columns += [f"(ARRAY[{words}])[1 + {drawn(k)} % 6] AS t{k}" for k in range(10, 14)]
    name = f"hush_rows_{rows}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        select = f"SELECT {', '.join(columns)} FROM generate_series(1::bigint, {rows}) AS i"
        connection.execute(f"CREATE UNLOGGED TABLE {name} AS {select}")
        connection.execute(f"ANALYZE {name}")
    return name


def measure(address: str, table: str, workload: str, way: str) -> dict[str, Any]:
    """Count a workload in one way; seconds, those of the engine alone, the prediction, and the peak memory."""
    opened: Any = read(address, SCHEMA, table=table)
    cliques = WORKLOADS[workload]
    predicted = {each.value: ns / 1e9 for each, (ns, _) in opened.predict(cliques).items()}
    chosen = min(predicted, key=predicted.__getitem__)
    warm: Any = read(address, SCHEMA, query=f"SELECT * FROM {table} LIMIT 1000")
    warm.counts(PAIRS[:3])  # compiled code is loaded before the clock starts
    opened._ways = (Way(way),)
    start = time.perf_counter()
    found = opened.counts(cliques)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "way": way,
        "seconds": seconds,
        "engine": engine_alone(opened, cliques, Way(way)),
        "predicted": predicted,
        "chosen": chosen,
        "peak": peak,
        "check": sum(int((counts.astype(object) ** 2).sum()) for counts in found.values()) % (2**61 - 1),
    }


def engine_alone(table: EngineTable, cliques: list[Any], way: Way) -> float:
    """Seconds until the engine has sent what the way asks for."""
    rows, source = table._capped_rows(cliques), table._source
    _, plan = table.choose(cliques, (way,))
    start = time.perf_counter()
    with rows.session() as session:
        if way is Way.STREAM:
            queries, batch = [rows.sql], MOST_ROWS
        else:
            size, batch = 1 if way is Way.SEPARATE else source.dialect.most_keys, BATCH_ROWS
            ranges = [range(a, min(a + size, len(plan.scans))) for a in range(0, len(plan.scans), size)]
            queries = [statement(way, plan, numbers, rows, source.dialect) for numbers in ranges]
        for query in queries:
            for _ in source.dialect.stream(session, query, batch, source.failure):
                pass
    return time.perf_counter() - start


def child(*words: str) -> dict[str, Any]:
    """The measurement of a process of its own."""
    run = [sys.executable, "-m", "benchmarks.engines", "--measure", *words]
    done = subprocess.run(run, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def server() -> Iterator[str]:
    """The address of a server that ends with the block."""
    sys.path.append(str(Path(__file__).parent.parent / "tests"))
    import shutil

    from postgres_server import new_server

    started = new_server()
    try:
        yield started.address()
    finally:
        started.stop()
        shutil.rmtree(started.folder, ignore_errors=True)


def compare_ways(address: str, rows: int, workloads: list[str], most: float) -> None:
    """All ways on one table; those predicted to take more than `most` times the least are left out."""
    table = fill(address, rows)
    lines = []
    for workload in workloads:
        opened: Any = read(address, SCHEMA, table=table)
        predicted = {way: ns for way, (ns, _) in opened.predict(WORKLOADS[workload]).items()}
        tried = [way for way in predicted if predicted[way] <= most * min(predicted.values())]
        found = {way: child(address, table, workload, way.value) for way in tried}
        assert len({result["check"] for result in found.values()}) == 1, "ways disagree"
        best = min(result["seconds"] for result in found.values())
        for way in predicted:
            ours = found.get(way)
            chosen = predicted[way] == min(predicted.values())
            measured = (
                (
                    f"{ours['seconds']:.2f}",
                    f"{ours['engine']:.2f}",
                    f"{ours['seconds'] / best:.2f}",
                    f"{ours['peak']:.0f}",
                )
                if ours
                else ("-", "-", "-", "-")
            )
            lines.append((workload, way.value, "chosen" if chosen else "", f"{predicted[way] / 1e9:.2f}", *measured))
    columns = (TextColumn(heading="workload"), TextColumn(heading="way"), TextColumn(heading=""))
    numbers = number_columns("predicted s", "seconds", "engine s", "to best", "peak MB")
    print(f"\n{rows:,} rows of {len(SCHEMA)} columns\n")
    print(TextTable(columns=(*columns, *numbers), rows=lines).text(), flush=True)


def growth(address: str, sizes: list[int]) -> None:
    """How time and the client's memory grow with the rows, all pairs in the chosen way."""
    lines = []
    for rows in sizes:
        table = fill(address, rows)
        opened: Any = read(address, SCHEMA, table=table)
        way = opened.choose(PAIRS)[0].value
        found = child(address, table, "91 pairs", way)
        lines.append((f"{rows:,}", way, f"{found['seconds']:.2f}", f"{found['engine']:.2f}", f"{found['peak']:.0f}"))
    columns = (*number_columns("rows"), TextColumn(heading="way"), *number_columns("seconds", "engine s", "peak MB"))
    print("\nAll pairs, in the chosen way\n")
    print(TextTable(columns=columns, rows=lines).text(), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--growth", default="1e5,1e6,1e7", help="rows, with commas")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--most", type=float, default=12.0, help="leave out ways predicted to be so much slower")
    parser.add_argument("--address", help="a server of yours, instead of a new one")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measure(*asked.measure)))
        return

    def run(address: str) -> None:
        if asked.rows:
            compare_ways(address, int(asked.rows), asked.workloads.split(","), asked.most)
        if sizes := [int(float(rows)) for rows in asked.growth.split(",") if rows]:
            growth(address, sizes)

    if asked.address:
        run(asked.address)
        return
    with server() as address:
        run(address)


if __name__ == "__main__":
    main()
