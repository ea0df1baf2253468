"""Compare Private-PGM with mbi: seconds, including start-up, to reach a loss within 0.1 % of the best loss of any run.

Every run has its own process, and runs go one at a time. mbi runs with several of its estimators, and the fastest one
is compared; benchmarks/graphical_mbi.py says how mbi is used. `stream` is the time to copy an array of the model's size
once, which is the least an iteration can take. `--scale` fits chains and triples of growing size instead.

Run: python -m benchmarks.graphical --data FOLDER [--peer PYTHON] [--problems a b c d e] [--scale]
     FOLDER has adult.csv and adult-domain.json; PYTHON is the interpreter of an environment with mbi==2.0.0.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.graphical_cliques import greedy_triples, random_triples
from benchmarks.graphical_files import Problem
from benchmarks.graphical_problems import chain, comparison, triples
from benchmarks.graphical_trace import WITHIN, reached
from hush.core.domain import Domain
from hush.models.graphical.junction_tree import JunctionTree

Run = dict[str, Any]
SINGLE, DOUBLE, PLAIN = (), ("--float64",), ("--plain",)
MIRROR, ACCELERATED = "MirrorDescent", "UniversalAcceleratedMethod"
PEER = (  # fastest in earlier runs first; the third is mbi's recommendation
    (ACCELERATED, SINGLE),
    (ACCELERATED, PLAIN),
    (MIRROR, SINGLE),
    (ACCELERATED, DOUBLE),
    (MIRROR, DOUBLE),
    ("DualAveraging", SINGLE),
)
GROWING = (
    (ACCELERATED, SINGLE),
    (ACCELERATED, ("--cold",)),
    (MIRROR, SINGLE),
    (MIRROR, DOUBLE),
)
OURS = ("mirror", "dual averaging")
EVERY = {"a": 50, "b": 25, "c": 50, "d": 10, "e": 25}
ITERATIONS = 1000  # mbi's own default, for the losses of a growing sequence
ROWS = 1_000_000
DIMENSIONS = (10, 30, 100, 300, 1000)
GREEDY = (98, 200, 292, 400, 580, 800, 960, 1000)
RANDOM = (10, 20, 30, 40, 45, 51)
SCALE_MB = 2000.0


class Runner:
    """Start runs and read their records."""

    def __init__(self, folder: Path, peer: str, seconds: float) -> None:
        self._folder, self._peer, self.seconds = folder, peer, seconds

    def hush(self, problem: Problem, *arguments: object) -> Run:
        return self._run(sys.executable, "benchmarks.graphical_hush", problem, arguments)

    def mbi(self, problem: Problem, estimator: str, *arguments: object) -> Run:
        return self._run(self._peer, "benchmarks.graphical_mbi", problem, ("--estimator", estimator, *arguments))

    def _run(self, python: str, module: str, problem: Problem, arguments: Sequence[object]) -> Run:
        output = self._folder / "run.json"
        output.unlink(missing_ok=True)
        command = [python, "-m", module, self._folder, problem.name, output, "--seconds", self.seconds, *arguments]
        started = ["--started", repr(time.time())]
        subprocess.run([str(part) for part in command] + started, check=True)
        result: Run = json.loads(output.read_text())
        return result


def stream_seconds(megabytes: float) -> float:
    """The shortest time to copy an array of this size."""
    source = np.ones(max(1, round(megabytes * 1e6 / 8)))
    target = np.empty_like(source)
    times = []
    for _ in range(7):
        start = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - start)
    return min(times)


def per_iteration(points: list[list[float]]) -> float:
    """Wall seconds of an iteration once everything is compiled."""
    steady = points[min(2, len(points) - 1) :]
    return (steady[-1][0] - steady[0][0]) / max(1, steady[-1][1] - steady[0][1])


def name_of(run: Run) -> str:
    if "float64" not in run:
        return str(run["estimator"])
    return f"mbi {run['estimator']} {64 if run['float64'] else 32}{' plain' if run['plain'] else ''}"


def compare(problem: Problem, runs: list[Run], limit: float) -> tuple[Table, str]:
    """One row per run, and how many times as long as hush the best of mbi takes."""
    points = [run["records"][0]["points"] for run in runs]
    best = min(point[2] for own in points for point in own)
    size = problem.notes["model MB"]
    floor = stream_seconds(size)
    title = f"{problem.name}: {len(problem.cliques)} marginals, {size:.3g} MB, stream {floor * 1e3:.3g} ms"
    table = Table(title=title)
    for column in ("", "seconds to 0.1 %", "CPU s", "iterations", "ms/iteration", "/ stream", "loss / best", "peak MB"):
        table.add_column(column, justify="right" if column else "left")
    times: dict[str, list[float]] = {"hush": [math.inf], "mbi": [math.inf]}
    late = math.inf
    for run, own in zip(runs, points, strict=True):
        hit, cost = reached(own, best), per_iteration(own)
        kind = name_of(run) if name_of(run).startswith("hush") else "mbi"
        if hit:
            times.setdefault(kind, []).append(hit[0])
        elif kind == "mbi" and own[-1][0] >= limit:  # any other run stopped by itself and never reaches the target
            late = min(late, own[-1][0])
        table.add_row(
            name_of(run),
            f"{hit[0]:.2f}" if hit else f"not in {own[-1][0]:.0f}",
            f"{hit[4]:.2f}" if hit else "",
            f"{hit[1]:.0f}" if hit else f"{own[-1][1]:.0f}",
            f"{cost * 1e3:.3g}",
            f"{cost / floor:.3g}",
            f"{min(point[2] for point in own) / best:.5f}",
            f"{hit[3] if hit else own[-1][3]:,.0f}",
        )
    ours, theirs = min(times["hush"]), min(times["mbi"])
    if not any(name_of(run).startswith("mbi") for run in runs):
        return table, "mbi did not run"
    if theirs < math.inf:
        return table, f"mbi takes {theirs / ours:.1f} times as long"
    return table, f"mbi takes more than {late / ours:.1f} times as long; it did not reach the target"


def grow(problem: Problem, runner: Runner, peers: int) -> Table:
    """Fit thirty models: first find the loss each can reach, then time each to within 0.1 % of it, warm and cold."""
    first = [runner.hush(problem)]
    if peers > 1:
        first.append(runner.mbi(problem, ACCELERATED, *DOUBLE, "--iterations", ITERATIONS))
    losses = [[min(point[2] for point in record["points"]) for record in run["records"]] for run in first]
    targets = [WITHIN * min(pair) for pair in itertools.zip_longest(*losses, fillvalue=math.inf)]
    aim = ("--targets", *targets)
    runs = [runner.hush(problem, *aim), runner.hush(problem, "--cold", *aim)]
    for estimator, arguments in GROWING[:peers]:
        runs.append(runner.mbi(problem, estimator, *arguments, "--every", EVERY["e"], *aim))
    table = Table(title=f"{problem.name}: {len(targets)} models in one process, each to within 0.1 %")
    for column in ("", "start", "seconds", "CPU s", "iterations", "models run", "models reached", "peak MB"):
        table.add_column(column, justify="right" if column else "left")
    for run in runs:
        last = [record["points"][-1] for record in run["records"]]
        hits = sum(point[2] <= target for point, target in zip(last, targets, strict=False))
        steps = sum(point[1] for point in last)
        row = (name_of(run), "cold" if run["cold"] else "warm", f"{run['seconds']:.1f}", f"{last[-1][4]:.1f}")
        table.add_row(*row, f"{steps:.0f}", f"{len(last)}", f"{hits}", f"{run['peak_mb']:,.0f}")
    return table


def scale(runner: Runner, folder: Path) -> Iterator[Table]:
    """Fit chains of d attributes, and k triples of 100 attributes chosen in two ways, with hush only."""
    table = Table(title="Chains and triples: 10 levels, 100 attributes unless stated")
    for column in ("model", "marginals", "model MB", "stream ms", "ms/iteration", "total seconds", "peak MB"):
        table.add_column(column, justify="right" if column != "model" else "left")
    greedy = list(greedy_triples(100, max(GREEDY)))
    chance = random_triples(100, max(RANDOM), seed=1)
    makers: list[tuple[str, list[tuple[int, int, int]] | None, int]] = [
        *((f"chain, d = {d}", None, d) for d in DIMENSIONS),
        *((f"greedy, k = {k}", greedy[:k], 0) for k in GREEDY),
        *((f"random, k = {k}", chance[:k], 0) for k in RANDOM),
    ]
    domain = Domain({f"a{i}": 10 for i in range(100)})
    for name, chosen, attributes in makers:
        if chosen is not None:
            size = JunctionTree.build(domain, [tuple(f"a{i}" for i in triple) for triple in chosen]).size_mb
            if size > SCALE_MB:
                table.add_row(name, f"{len(chosen)}", f"{size:,.0f}", "", "too large", "", "")
                continue
        problem = chain(attributes) if chosen is None else triples(chosen, f"triples-{len(chosen)}")
        problem.save(folder)
        run = runner.hush(problem)
        size, points = problem.notes["model MB"], run["records"][0]["points"]
        row = (name, f"{len(problem.cliques)}", f"{size:,.3g}", f"{stream_seconds(size) * 1e3:.3g}")
        table.add_row(*row, f"{per_iteration(points) * 1e3:.3g}", f"{run['seconds']:.1f}", f"{run['peak_mb']:,.0f}")
    yield table


def tables(
    letters: Sequence[str], data: Path, runner: Runner, folder: Path, peers: int, with_rows: bool
) -> Iterator[Table | str]:
    makers = comparison(data)
    for letter in letters:
        problem = makers[letter]()
        problem.save(folder)
        if problem.first:
            yield grow(problem, runner, peers)
            continue
        rows = ("--rows", ROWS) if letter == "b" and with_rows else ()
        runs = [runner.hush(problem, *rows)]
        if letter == "a":
            runs += [runner.hush(problem, "--estimator", estimator, "--seconds", 30) for estimator in OURS]
        for index, (estimator, precision) in enumerate(PEER[:peers]):
            more = rows if index == 0 else ()
            runs.append(runner.mbi(problem, estimator, *precision, "--every", EVERY[letter], *more))
        yield from compare(problem, runs, runner.seconds)
        for run in runs:
            if run["synthetic"]:
                times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in run["synthetic"].items())
                yield f"{ROWS:,} synthetic rows, {name_of(run)}: {times}"


def has_mbi(peer: str) -> bool:
    """Whether an interpreter can import mbi."""
    try:
        return subprocess.run([peer, "-c", "import mbi"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with adult.csv and adult-domain.json")
    parser.add_argument("--peer", default=sys.executable, help="Python interpreter with mbi; this one by default")
    parser.add_argument("--problems", nargs="*", default=list("abcde"), choices=list("abcde"))
    parser.add_argument("--scale", action="store_true", help="fit chains and triples of growing size, with hush only")
    parser.add_argument("--seconds", type=float, default=900, help="time limit of a run")
    parser.add_argument(
        "--peers", type=int, default=len(PEER), help="how many ways to run mbi, the fastest in earlier runs first"
    )
    parser.add_argument("--rows", action="store_true", help="also draw a million synthetic rows from problem b")
    parser.add_argument("--keep", type=Path, help="keep the problem files in this folder")
    options = parser.parse_args()
    if not options.scale and options.data is None:
        parser.error("give --data, or --scale")
    console = Console(width=132)
    if not options.scale and not has_mbi(options.peer):
        print("mbi is not installed: pip install 'hush[bench]', or give --peer PYTHON; its rows are left out")
        options.peers = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        runner = Runner(folder, options.peer, options.seconds)
        compared = (options.problems, options.data, runner, folder, options.peers, options.rows)
        found = scale(runner, folder) if options.scale else tables(*compared)
        for item in found:
            console.print(item)


if __name__ == "__main__":
    main()
