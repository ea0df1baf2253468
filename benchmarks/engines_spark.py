"""Counting with Spark: the time of every way on files of Parquet, the way that hush chose, and the client's memory.

    python -m benchmarks.engines_spark                      # 10^7 rows of 14 columns, then growth from 10^5 rows
    python -m benchmarks.engines_spark --rows 500000 --growth ""

A local Spark on all cores counts files on the disk, which are made for the run. `release` is what a release does: it
persists the coded rows, checks them, and counts from these; the counts of all ways are compared.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.engines import COLOURS, PAIRS, SCHEMA, WORKLOADS, engine_alone
from hush.tables import read
from hush.tables.scan_plan import Way
from hush.text_table import TextColumn, TextTable, number_columns

FILES = 8


def fill(folder: Path, rows: int) -> str:
    """Files of generated rows; their folder."""
    drawn = [f"CAST(hash(i * 14 + {k}) >> 33 AS BIGINT)" for k in range(14)]
    columns = [f"CAST({drawn[k]} % {4 + 2 * k} AS SMALLINT) AS i{k}" for k in range(6)]
    columns += [f"({drawn[k]} % 10000) / 100.0::DOUBLE AS f{k}" for k in range(6, 10)]
    words = ", ".join(f"'{colour}'" for colour in COLOURS)
    columns += [f"[{words}][1 + {drawn[k]} % 6] AS t{k}" for k in range(10, 14)]
    path = folder / f"rows-{rows}"
    path.mkdir()
    for part in range(FILES):
        bounds = f"range({part * rows // FILES}, {(part + 1) * rows // FILES})"
        select = f"SELECT {', '.join(columns)} FROM {bounds} AS t(i)"
        duckdb.sql(f"COPY ({select}) TO '{path}/part-{part}.parquet' (FORMAT parquet)")
    return str(path)


def checksum(found: dict[Any, Any]) -> int:
    """A number that tells counts apart."""
    return sum(int((counts.astype(object) ** 2).sum()) for counts in found.values()) % (2**61 - 1)


def compare_ways(spark: Any, folder: Path, rows: int, workloads: list[str]) -> None:
    """All ways on one table."""
    path, lines = fill(folder, rows), []
    warm: Any = read(spark.read.parquet(path).limit(1000), SCHEMA)
    warm.counts(PAIRS[:3])
    for workload in workloads:
        cliques, times, sums = WORKLOADS[workload], {}, set()
        table: Any = read(spark.read.parquet(path), SCHEMA)
        table._source = replace(table._source, rows=float(rows))  # what a release learns by its check
        predicted = {way: ns / 1e9 for way, (ns, _) in table.predict(cliques).items()}
        for way in predicted:
            table._ways = (way,)
            start = time.perf_counter()
            sums.add(checksum(table.counts(cliques)))
            times[way] = time.perf_counter() - start, engine_alone(table, cliques, way)
        assert len(sums) == 1, "ways disagree"
        best = min(seconds for seconds, _ in times.values())
        for way, (seconds, engine) in times.items():
            chosen = "chosen" if predicted[way] == min(predicted.values()) else ""
            figures = (f"{predicted[way]:.1f}", f"{seconds:.1f}", f"{engine:.1f}", f"{seconds / best:.2f}")
            lines.append((workload, way.value, chosen, *figures))
    columns = (TextColumn(heading="workload"), TextColumn(heading="way"), TextColumn(heading=""))
    numbers = number_columns("predicted s", "seconds", "engine s", "to best")
    print(f"\nSpark, {rows:,} rows of {len(SCHEMA)} columns\n")
    print(TextTable(columns=(*columns, *numbers), rows=lines).text(), flush=True)


def growth(spark: Any, folder: Path, sizes: list[int]) -> None:
    """How a release's counting and the client's memory grow with the rows, all pairs."""
    lines = []
    for rows in sizes:
        table: Any = read(spark.read.parquet(fill(folder, rows)), SCHEMA)
        start = time.perf_counter()
        with table.snapshot():
            table.check()
            checked = time.perf_counter() - start
            table.counts(PAIRS)
            way = Way.STREAM if table._held is not None else table.way
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        seconds = time.perf_counter() - start
        lines.append((f"{rows:,}", str(way), f"{seconds:.1f}", f"{checked:.1f}", f"{peak:.0f}"))
    columns = (*number_columns("rows"), TextColumn(heading="way"), *number_columns("seconds", "check s", "peak MB"))
    print("\nSpark, all pairs as a release counts them\n")
    print(TextTable(columns=columns, rows=lines).text(), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--growth", default="1e5,1e6,1e7,1e8", help="rows, with commas")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    asked = parser.parse_args()
    sys.path.append(str(Path(__file__).parent.parent / "tests"))
    import spark_session

    spark_session.SETTINGS["spark.driver.memory"] = "6g"
    spark_session.SETTINGS["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    with tempfile.TemporaryDirectory(prefix="hush-spark-") as name, spark_session.local_spark(Path(name)) as spark:
        if asked.rows:
            compare_ways(spark, Path(name), int(asked.rows), asked.workloads.split(","))
        if sizes := [int(float(rows)) for rows in asked.growth.split(",") if rows]:
            growth(spark, Path(name), sizes)


if __name__ == "__main__":
    main()
