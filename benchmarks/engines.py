"""Counting where the rows lie: the time of every way of each engine, the way that hush chose, and the client's memory.

    python -m benchmarks.engines                       # 10^7 rows of 14 columns, then growth from 10^5 to 10^8 rows
    python -m benchmarks.engines --engines spark --rows 1e6 --growth ""
    python -m benchmarks.engines --address postgresql://user@host/db    # a server of yours; makes tables there

The same generated rows, files of Parquet, are counted by DuckDB in place, by a local Spark in place, and by a
PostgreSQL server of the development tools, to which they are copied. All counts are compared. `waited` is the part of
the time that hush waited for rows of the engine; the rest is its own. `core` seconds are those of all cores, of hush
and of the engine; a busy machine disturbs them least. Spark's ways count the coded rows that a release persists; the
line `persist` is what that takes. Growth is that of a release that asks for all pairs: a check of all rows, then the
counts.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from hush.render.text_table import TextColumn, TextTable, number_columns
from hush.schema import Categorical, Column, Integer, Numeric, Schema
from hush.tables import read
from hush.tables.dialects.postgres_sessions import PostgresConnection
from hush.tables.engine_tables import SQL_WAYS, EngineTable
from hush.tables.scan_plan import Way
from hush.tables.sources import RowSource

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
ENGINES = ("postgres", "duckdb", "spark")
FILES = 8
TESTS = Path(__file__).parent.parent / "tests"  # which know how to start a server and Java
Opener = Callable[[str, Schema, str | None], EngineTable]  # of a place, a schema and a limit on memory


def fill(folder: Path, rows: int, schema: Schema = SCHEMA) -> str:
    """Make files of generated rows; their folder."""
    path = Path(tempfile.mkdtemp(prefix=f"rows-{rows}-", dir=folder))
    columns = ", ".join(f"{_drawn(k, column)} AS {column.name}" for k, column in enumerate(schema))
    for part in range(FILES):
        bounds = f"range({part * rows // FILES}, {(part + 1) * rows // FILES})"
        select = f"SELECT {columns} FROM {bounds} AS t(i)"
        duckdb.sql(f"COPY ({select}) TO '{path}/part-{part}.parquet' (FORMAT parquet)")
    return str(path)


def _drawn(k: int, column: Column) -> str:
    """SQL of the value of column k in row i."""
    drawn = f"CAST(hash(i * 1000 + {k}) >> 33 AS BIGINT)"
    match column:
        case Integer():
            return f"CAST({drawn} % {column.size} AS SMALLINT)"
        case Categorical():
            return f"[{', '.join(map(repr, column.values))}][1 + {drawn} % {column.size}]"
        case _:
            return f"({drawn} % 10000) / 100.0::DOUBLE"


def copied(address: str, path: str) -> str:
    """The address of a server, and the name of a table there with the rows of some files."""
    import adbc_driver_postgresql.dbapi as adbc

    name = Path(path).name.replace("-", "_")
    rows = duckdb.sql(f"FROM '{path}/*.parquet'")
    kinds = {"VARCHAR": "TEXT", "DOUBLE": "FLOAT8"}
    columns = ", ".join(f"{each} {kinds.get(str(t), str(t))}" for each, t in zip(rows.columns, rows.types, strict=True))
    with adbc.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE UNLOGGED TABLE {name} ({columns})")
        cursor.adbc_ingest(name, rows.to_arrow_reader(2**17), mode="append")
        cursor.execute(f"VACUUM ANALYZE {name}")
    return f"{address} {name}"


@contextmanager
def opener(engine: str) -> Iterator[Opener]:
    """How to open the rows at a place as a table of an engine."""
    if engine != "spark":

        def opened(place: str, schema: Schema, memory: str | None) -> EngineTable:
            source, _, name = place.partition(" ")
            how: Any = {"table": name} if engine == "postgres" else {"engine": "sql"}
            return _every_way(read(source, schema, memory_limit=memory, **how))

        yield opened
        return
    sys.path.append(str(TESTS))
    import spark_session

    spark_session.SETTINGS["spark.driver.memory"] = "6g"
    spark_session.SETTINGS["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    with spark_session.local_spark(Path(tempfile.mkdtemp(prefix="hush-spark-"))) as spark:
        yield lambda place, schema, memory: _every_way(read(spark.read.parquet(place), schema, memory_limit=memory))


def _every_way(table: Any) -> EngineTable:
    table._ways = tuple(table._source.dialect.costs.scans)
    return table  # type: ignore[no-any-return]


class Clock:
    """Seconds by the wall, those that hush waits for rows, and those of all cores, the engine's included."""

    def __init__(self, source: RowSource) -> None:
        self._waited, self._stream, self._roots = 0.0, source.dialect.stream, {os.getpid()}
        vars(source.dialect)["stream"] = self._timed
        if isinstance(source.connection, PostgresConnection):
            with source.session() as session:
                ((backend,),) = session.rows("SELECT pg_backend_pid()")
            if backend in (processes := _processes()):  # a server on this machine
                self._roots.add(processes[backend][0])

    def _timed(self, *words: Any) -> Iterator[Any]:
        batches = self._stream(*words)
        while True:
            start = time.perf_counter()
            batch = next(batches, None)
            self._waited += time.perf_counter() - start
            if batch is None:
                return
            yield batch

    def measure(self, call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
        """The result of a call, and its times."""
        waited, cores, start = self._waited, self._of_cores(), time.perf_counter()
        result = call()
        seconds = time.perf_counter() - start
        return result, {"seconds": seconds, "waited": self._waited - waited, "cores": self._of_cores() - cores}

    def _of_cores(self) -> float:
        """What the client and its engine, with all their processes, have used."""
        processes, inside = _processes(), set(self._roots)
        while more := {each for each, (parent, _) in processes.items() if parent in inside} - inside:
            inside |= more
        return sum(processes[each][1] for each in inside if each in processes) / os.sysconf("SC_CLK_TCK")


def _processes() -> dict[int, tuple[int, int]]:
    """The parent and the ticks of every process on this machine."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended just now
            words = file.read_text().rpartition(")")[2].split()
            found[int(file.parent.name)] = int(words[1]), sum(map(int, words[11:15]))
    return found


def checksum(found: Mapping[Any, Any]) -> int:
    """A number that tells counts apart."""
    weighed = (int((counts.ravel().astype(object) ** 2).sum()) for counts in found.values())
    return sum((place + 1) * number for place, number in enumerate(weighed)) % (2**61 - 1)


def measure_ways(table: EngineTable, workloads: Sequence[str], most: float, repeats: int) -> Iterator[dict[str, Any]]:
    """Every way to count some workloads, but those predicted to take more than `most` times the least."""
    dialect = table._source.dialect
    clock, ways = Clock(table._source), table._ways
    with table.snapshot():
        if dialect.keeps:
            table._ways = SQL_WAYS  # rows are persisted, and not held by the client
            yield {"workload": "", "way": "persist", **clock.measure(table.check)[1]}
            table._ways = ways
        table.counts(PAIRS[:1])  # caches of files
        for workload in workloads:
            cliques, table._ways = WORKLOADS[workload], ways
            predicted = {way: ns / 1e9 for way, (ns, _) in table.predict(cliques, ways).items()}
            for way, expected in predicted.items():
                line = {"workload": workload, "way": way.value, "predicted": expected}
                if expected <= most * min(predicted.values()):
                    table._ways = (way,)
                    for _ in range(repeats):
                        table._held = None
                        found, times = clock.measure(partial(table.counts, cliques))
                        line |= {name: min(value, line.get(name, value)) for name, value in times.items()}
                    line["check"], table._held = checksum(found), None
                yield line | {"chosen": expected == min(predicted.values())}


def measure_release(table: EngineTable) -> Iterator[dict[str, Any]]:
    """What a release does that asks for all pairs, and the memory that the client took for it."""
    clock = Clock(table._source)
    table.way = Way.STREAM  # where rows are held from the check on
    with table.snapshot():
        _, checked = clock.measure(table.check)
        found, counted = clock.measure(partial(table.counts, PAIRS))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    times = {name: checked[name] + counted[name] for name in checked}
    yield {"way": table.way, **times, "checked": checked["seconds"], "peak": peak, "check": checksum(found)}


def child(engine: str, place: str, **options: Any) -> list[dict[str, Any]]:
    """The measurements of a process of its own, whose memory is its own."""
    words = [sys.executable, "-m", "benchmarks.engines", "--child", json.dumps([engine, place, options])]
    found = []
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout or ():
            if line.startswith("{"):
                found.append(json.loads(line))
                print(engine, line.strip(), file=sys.stderr)  # so that a run that is stopped has shown something
    if run.returncode:
        raise SystemExit(f"{engine}: the measurement failed")
    return found


def run_child(engine: str, place: str, options: dict[str, Any]) -> None:
    """What the process does."""
    none = pa.table({name: pa.array([0], pa.uint8()) for name in SCHEMA.domain})
    read(none, SCHEMA.domain).counts(PAIRS)  # compiled code is loaded before a clock starts
    with opener(engine) as opened:
        table = opened(place, SCHEMA, options.pop("memory"))
        for line in measure_ways(table, **options) if options else measure_release(table):
            print(json.dumps(line), flush=True)


def compare_ways(engine: str, rows: int, lines: list[dict[str, Any]]) -> None:
    """Print all ways to count one table."""
    measured = [line for line in lines if "check" in line]
    for workload in {line["workload"] for line in measured}:
        same = [line for line in measured if line["workload"] == workload]
        if len({line["check"] for line in same}) != 1:
            raise SystemExit(f"{engine}: ways disagree about {workload}")
        for line in same:
            line["ratio"] = line["seconds"] / min(each["seconds"] for each in same)
            line["ratio by cores"] = line["cores"] / min(each["cores"] for each in same)
    columns = (TextColumn(heading="workload"), TextColumn(heading="way"), TextColumn(heading=""))
    numbers = number_columns("predicted s", "seconds", "waited s", "core s", "to best", "by cores")
    names = ("predicted", "seconds", "waited", "cores", "ratio", "ratio by cores")
    cells = [
        (
            *(line["workload"], line["way"], "chosen" if line.get("chosen") else ""),
            *(f"{line[name]:.2f}" if name in line else "-" for name in names),
        )
        for line in lines
    ]
    print(f"\n{engine}: {rows:,} rows of {len(SCHEMA)} columns\n")
    print(TextTable(columns=(*columns, *numbers), rows=cells).text(110), flush=True)


def show_growth(lines: list[tuple[str, int, dict[str, Any]]]) -> None:
    """Print what releases of more and more rows take."""
    columns = (TextColumn(heading="engine"), *number_columns("rows"), TextColumn(heading="way"))
    numbers = number_columns("seconds", "of these check", "waited s", "core s", "peak MB")
    cells = [
        (
            engine,
            f"{rows:,}",
            line["way"],
            *(f"{line[name]:.1f}" for name in ("seconds", "checked", "waited", "cores", "peak")),
        )
        for engine, rows, line in lines
    ]
    print("\nA release of all pairs\n")
    print(TextTable(columns=(*columns, *numbers), rows=cells).text(110), flush=True)


@contextmanager
def server() -> Iterator[str]:
    """The address of a server that ends with the block."""
    sys.path.append(str(TESTS))
    from postgres_server import new_server

    started = new_server()
    try:
        yield started.address()
    finally:
        started.stop()
        shutil.rmtree(started.folder, ignore_errors=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--rows", type=float, default=1e7, help="of the table that is counted in all ways; 0 for none")
    parser.add_argument("--growth", default="1e5,1e6,1e7,1e8", help="rows of releases, with commas")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--most", type=float, default=12.0, help="leave out ways predicted to be so much slower")
    parser.add_argument("--repeats", type=int, default=1, help="of every way; the shortest time counts")
    parser.add_argument("--memory", default="512MB", help="that a release may use; rows that fit are held")
    parser.add_argument("--address", help="a PostgreSQL server of yours, instead of a new one")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        run_child(*json.loads(asked.child))
        return
    engines, workloads = asked.engines.split(","), asked.workloads.split(",")
    releases: dict[str, list[tuple[str, int, dict[str, Any]]]] = {engine: [] for engine in engines}
    with tempfile.TemporaryDirectory(prefix="hush-engines-") as name, ExitStack() as stack:
        address = asked.address
        if "postgres" in engines and not address:
            address = stack.enter_context(server())
        for rows in sorted({int(float(size)) for size in (str(asked.rows), *asked.growth.split(",")) if size}):
            if not rows:
                continue
            path = fill(Path(name), rows)
            for engine in engines:
                place = copied(address, path) if engine == "postgres" else path
                if rows == asked.rows:
                    options = {"workloads": workloads, "most": asked.most, "repeats": asked.repeats}
                    compare_ways(engine, rows, child(engine, place, memory=None, **options))
                if rows in map(float, filter(None, asked.growth.split(","))):
                    (line,) = child(engine, place, memory=asked.memory)
                    releases[engine].append((engine, rows, line))
            if len({line["check"] for lines in releases.values() for _, size, line in lines if size == rows}) > 1:
                raise SystemExit(f"engines disagree about {rows:,} rows")
            shutil.rmtree(path)
    show_growth([line for lines in releases.values() for line in lines])


if __name__ == "__main__":
    main()
