"""Time exact counts: many marginals of a small table against numpy, and pairs of a large Parquet file against DuckDB.

Run: python -m benchmarks.counting [--table adult.csv --domain adult-domain.json] [--rows 100000000]

Without --table, the first benchmark uses a generated table of the same shape. The second writes its file to a temporary
folder. It measures each route in its own process, with its peak resident memory.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import hush
from hush.schema import Boolean, Categorical, Date, Granularity, Integer, Numeric, Schema

ADULT_SIZES = (16, 32, 9, 32, 16, 7, 15, 6, 5, 2, 32, 32, 32, 42, 2)  # of the generated look-alike
ADULT_ROWS = 48_842
REGIONS = tuple(f"region {k}" for k in range(12))
JOBS = tuple(f"job {k}" for k in range(30))
YEAR = dt.date(2015, 1, 1)


def best_of(run: Callable[[], object], repeats: int) -> float:
    """The shortest wall time of several runs, after a warm-up run that does not count."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def small_table(path: str | None, domain: str | None) -> tuple[hush.Domain, pa.Table]:
    """Codes from the given CSV file, or from a generated table: skewed, with one column that follows another."""
    if path:
        loaded = hush.Domain(json.loads(Path(str(domain)).read_text()))
        return loaded, duckdb.sql(f"FROM read_csv('{path}')").to_arrow_table().select(list(loaded))
    random = np.random.default_rng(1)
    sizes = {f"a{k}": size for k, size in enumerate(ADULT_SIZES)}
    codes = {name: (size * random.random(ADULT_ROWS) ** 3).astype(np.int64) for name, size in sizes.items()}
    codes["a4"] = (codes["a0"] + (random.random(ADULT_ROWS) < 0.1)) % 16
    return hush.Domain(sizes), pa.table(codes)


def numpy_loop(domain: hush.Domain, columns: dict[str, Any], cliques: list[tuple[str, ...]]) -> list[Any]:
    """One pass per clique: the number of each row's cell, then how often each number occurs."""
    results = []
    for clique in cliques:
        shape = domain.sizes(clique)
        cells = np.ravel_multi_index(tuple(columns[name] for name in clique), shape)
        results.append(np.bincount(cells, minlength=domain.size(clique)).reshape(shape))
    return results


def small(console: Console, path: str | None, domain_path: str | None) -> None:
    """All three-way marginals of a table in memory."""
    domain, data = small_table(path, domain_path)
    cliques = list(itertools.combinations(domain, 3))
    table = hush.read(data, domain)
    codes = {name: np.asarray(data[name]) for name in domain}
    bytes_of = {name: column.astype(np.uint8) for name, column in codes.items()}
    ours = table.counts(cliques)
    for clique, expected in zip(cliques, numpy_loop(domain, codes, cliques), strict=True):
        np.testing.assert_array_equal(ours[clique], expected)
    seconds = {
        "numpy ravel_multi_index + bincount, int64 codes": best_of(lambda: numpy_loop(domain, codes, cliques), 5),
        "numpy ravel_multi_index + bincount, uint8 codes": best_of(lambda: numpy_loop(domain, bytes_of, cliques), 5),
        "hush table.counts": best_of(lambda: table.counts(cliques), 40),
    }
    fastest = min(list(seconds.values())[:2])
    shown = Table(title=f"{len(cliques)} three-way marginals, {data.num_rows:,} rows, {path or 'generated'}")
    for name in ("", "ms", "times as fast as the best numpy loop"):
        shown.add_column(name, justify="left" if not name else "right")
    for name, taken in seconds.items():
        shown.add_row(name, f"{1e3 * taken:.1f}", f"{fastest / taken:.1f}")
    console.print(shown)


def large_schema() -> Schema:
    """Ten attributes of every kind."""
    return Schema(
        [
            Integer(name="age", low=0, high=99),
            Categorical(name="sex", values=("female", "male")),
            Categorical(name="region", values=REGIONS),
            Integer(name="education", low=0, high=15),
            Numeric.equal_width(name="income", low=0.0, high=128.0, bins=32),
            Boolean(name="employed"),
            Integer(name="household", low=1, high=8),
            Date(name="moved", start=YEAR, end=dt.date(2024, 12, 31), granularity=Granularity.YEAR),
            Categorical(name="job", values=JOBS),
            Integer(name="hours", low=0, high=49),
        ]
    )


# how the peer, which has no schema, groups each column
PEER_KEYS = {name: name for name in large_schema().domain} | {
    "income": "CAST(floor(income / 4) AS INTEGER)",
    "moved": "year(moved)",
}


def write_large(path: Path, rows: int) -> None:
    """Skewed columns from hashes of the row number."""

    def skewed(column: int, levels: int) -> str:
        return f"CAST(floor({levels} * pow((hash(i, {column}) % 1000003) / 1000003.0, 2)) AS INTEGER)"

    duckdb.sql(
        f"""
        COPY (SELECT {skewed(0, 100)} AS age, CASE WHEN hash(i, 1) % 2 = 0 THEN 'female' ELSE 'male' END AS sex,
                     'region ' || {skewed(2, 12)} AS region, {skewed(3, 16)} AS education,
                     {skewed(4, 1280)} / 10.0 AS income, hash(i, 5) % 3 > 0 AS employed,
                     1 + {skewed(6, 8)} AS household,
                     DATE '2015-01-01' + {skewed(7, 3653)} AS moved, 'job ' || {skewed(8, 30)} AS job,
                     {skewed(9, 50)} AS hours
              FROM range({rows}) AS r(i))
        TO '{path}' (FORMAT parquet)
        """
    )


def route_hush(engine: str) -> Callable[[Path, Callable[[float], None]], int]:
    def run(path: Path, progress: Callable[[float], None]) -> int:
        table = hush.read(path, large_schema(), engine=engine, progress=progress)
        counts = table.counts(list(itertools.combinations(table.domain, 2)), progress=progress)
        return _fingerprint(counts)

    return run


def route_again(path: Path, progress: Callable[[float], None]) -> int:
    """Count a table that is already encoded in memory: the cost of each further call."""
    table = hush.read(path, large_schema(), engine="memory", progress=progress)
    start = time.perf_counter()
    counts = table.counts(list(itertools.combinations(table.domain, 2)), progress=progress)
    route_again.seconds = time.perf_counter() - start  # type: ignore[attr-defined]
    return _fingerprint(counts)


def route_group_by(path: Path, progress: Callable[[float], None]) -> int:
    """DuckDB, one GROUP BY at a time on the real values."""
    schema, counts = large_schema(), {}
    connection = duckdb.connect()
    cliques = list(itertools.combinations(schema.domain, 2))
    for number, (a, b) in enumerate(cliques):
        query = f"SELECT {PEER_KEYS[a]} AS a, {PEER_KEYS[b]} AS b, count(*) AS n FROM '{path}' GROUP BY ALL"
        counts[a, b] = np.array([n for _, _, n in connection.execute(query).fetchall()])
        progress((number + 1) / len(cliques))
    return _fingerprint(counts)


def route_grouping_sets(path: Path, progress: Callable[[float], None]) -> int:
    """DuckDB, all pairs as GROUPING SETS of one query on the real values."""
    names = list(large_schema().domain)
    keys = ", ".join(f"{PEER_KEYS[name]} AS {name}" for name in names)
    sets = ", ".join(f"({a}, {b})" for a, b in itertools.combinations(names, 2))
    listed = ", ".join(names)
    query = f"SELECT {listed}, count(*) AS n FROM (SELECT {keys} FROM '{path}') GROUP BY GROUPING SETS ({sets})"
    rows = duckdb.connect().execute(query).fetchall()
    progress(1.0)
    return _fingerprint({"all": np.array([row[-1] for row in rows])})


def _fingerprint(counts: dict[Any, Any]) -> int:
    """The sum of squared counts, equal for routes that return the same counts."""
    return sum(int(np.square(array.astype(np.int64)).sum()) for array in counts.values())


ROUTES: dict[str, Callable[[Path, Callable[[float], None]], int]] = {
    "hush.read + counts (default)": route_hush("auto"),
    "hush, engine='stream'": route_hush("stream"),
    "hush, engine='sql' (merged GROUPING SETS)": route_hush("sql"),
    "hush, further counts once in memory": route_again,
    "DuckDB, one GROUP BY at a time": route_group_by,
    "DuckDB, plain GROUPING SETS": route_grouping_sets,
}


def run_route(name: str, path: Path) -> None:
    """In a child process, time one route and print its cost as JSON."""
    for compiled in (hush.read(pa.table({"a": [0]}), hush.Domain({"a": 1}), engine=e) for e in ("memory", "sql")):
        compiled.counts([("a",)])  # compiled code is loaded before the clock starts
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=1.0)
        start = time.perf_counter()
        found = ROUTES[name](path, lambda fraction: bar.update(task, completed=fraction))
        taken = time.perf_counter() - start
    taken = getattr(ROUTES[name], "seconds", taken)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": taken, "peak": peak, "found": found}))


def large(console: Console, rows: int, names: list[str]) -> None:
    """All pairs of ten attributes from a Parquet file."""
    with tempfile.TemporaryDirectory(prefix="hush-benchmark-") as folder:
        path = Path(folder) / "large.parquet"
        console.print(f"writing {rows:,} rows ...")
        write_large(path, rows)
        size = path.stat().st_size
        results = {}
        for name in names:
            command = [sys.executable, "-m", "benchmarks.counting", "--route", name, "--path", str(path)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            results[name] = json.loads(done.stdout)
    if len({result["found"] for result in results.values()}) != 1:
        raise SystemExit("the routes returned different counts")
    peer = results.get("DuckDB, one GROUP BY at a time", {}).get("seconds")
    shown = Table(
        title=f"45 two-way marginals of ten attributes, a Parquet file of {rows:,} rows ({size / 1e9:.2f} GB)"
    )
    for name in ("", "s", "million rows/s", "peak resident GB", "times as fast as one GROUP BY at a time"):
        shown.add_column(name, justify="left" if not name else "right")
    for name, result in results.items():
        taken = result["seconds"]
        ratio = f"{peer / taken:.1f}" if peer else ""
        shown.add_row(name, f"{taken:.1f}", f"{rows / taken / 1e6:.1f}", f"{result['peak'] / 1e9:.2f}", ratio)
    console.print(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", help="a CSV file of codes")
    parser.add_argument("--domain", help="its domain.json: name -> size")
    parser.add_argument("--rows", type=int, default=100_000_000, help="rows of the generated Parquet file; 0 skips it")
    parser.add_argument(
        "--only", action="append", choices=list(ROUTES), help="run only this route on the large table; may be repeated"
    )
    parser.add_argument("--route", choices=list(ROUTES), help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.route:
        run_route(options.route, options.path)
        return
    if bool(options.table) != bool(options.domain):
        parser.error("give both --table and --domain, or neither")
    console = Console(width=140)
    small(console, options.table, options.domain)
    if options.rows:
        large(console, options.rows, options.only or list(ROUTES))


if __name__ == "__main__":
    main()
