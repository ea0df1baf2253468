"""Measure the speed of AIM on two problems of realistic size, each run in its own process, on one core.

raw: all 2-way marginals of ADULT in its raw codes that have at most 10,000 cells, epsilon = 1, a model of at most 8 MB.
CPU seconds count from the start of the process and include imports and reading. One figure ends when the model is
fitted, the other when it has drawn as many rows as there are records. The error is the mean over tables of
1/2 ||p - p'||_1. The reference figures are constants from one run of another implementation, which is not repeated
here. Its machine is not on record, nor whether its seconds include rows and compiling. So errors and rounds are
comparable, but ratios of seconds are rough.
wide: all 3-way marginals of ADULT in 32 bins, a model of at most 80 MB. The limit is 900 seconds.

Run: python -m benchmarks.aim_speed --data FOLDER [--problems raw,wide] [--trials 3] [--epsilon 1] [--seconds 1800]
The folder holds adult-raw-codes.csv and adult.csv (codes) and NAME-domain.json (name -> size). Compiled code is cached,
so run once before you record any figures.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

STARTED = time.perf_counter()

import hush  # noqa: E402
from benchmarks.coded import DELTA, load, rows_of  # noqa: E402
from benchmarks.limited import FAILED, run_limited  # noqa: E402
from benchmarks.synthetic import listed  # noqa: E402
from hush.evaluation import term_errors  # noqa: E402
from hush.mechanisms import AIM  # noqa: E402

PROBLEMS: dict[str, dict[str, Any]] = {
    "raw": {"table": "adult-raw-codes", "order": 2, "cells": 10_000, "max_size_mb": 8.0},
    "wide": {"table": "adult", "order": 3, "cells": None, "max_size_mb": 80.0},
}
FIGURES = {  # name: title, digits
    "model_cpu": ("CPU s to the model", 1),
    "rows_cpu": ("CPU s to rows", 1),
    "wall": ("wall s to the model", 1),
    "peak_mb": ("peak MB", 0),
    "rounds": ("rounds", 0),
    "model_error": ("error of the model", 4),
    "rows_error": ("error of rows", 4),
    "workload_error": ("error of Def. 2", 4),
}
REFERENCE = {
    "raw": {"rows_cpu": 852.0, "peak_mb": 5600.0, "rounds": 36.0, "model_error": 0.0381, "rows_error": 0.0399},
    "wide": {"wall": 900.0},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--problems", type=listed, default=list(PROBLEMS))
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=1800.0)
    options = parser.parse_args()
    console = Console(width=120)
    for name in options.problems:
        job = {"folder": str(options.data.resolve()), "epsilon": options.epsilon, **PROBLEMS[name]}
        results = [run_limited("benchmarks.aim_speed", job, options.seconds) for _ in range(options.trials)]
        done = [one for one in results if FAILED not in one]
        for one in results:
            if FAILED in one:
                console.print(f"{name}: {one[FAILED]}", style="yellow")
        if done:
            console.print(_shown(name, options.epsilon, done))


def _shown(name: str, epsilon: float, done: list[dict[str, float]]) -> Table:
    limit = "reference" if name == "raw" else "limit"
    shown = Table(title=f"{name}: AIM on {PROBLEMS[name]['table']}, epsilon = {epsilon:g}, {len(done)} runs")
    for head in ("", "mean", "min", "max", limit, f"{limit} / mean"):
        shown.add_column(head, justify="right" if head else "left")
    for figure, (title, digits) in FIGURES.items():
        values = [one[figure] for one in done]
        told = REFERENCE[name].get(figure)
        beside = ["", ""] if told is None else [f"{told:,.{digits}f}", f"{told / np.mean(values):.2f}"]
        shown.add_row(
            title, *(f"{value:,.{digits}f}" for value in (np.mean(values), min(values), max(values))), *beside
        )
    return shown


def measure(job: dict[str, Any]) -> dict[str, float]:
    """Run once in this process and return its cost so far and its error."""
    table = load(Path(job["folder"]), job["table"])
    cliques = hush.Workload.kway(table.domain, job["order"]).cliques
    kept = [clique for clique in cliques if job["cells"] is None or table.domain.size(clique) <= job["cells"]]
    workload = hush.Workload.marginals(table.domain, kept)
    budget = hush.Budget(epsilon=job["epsilon"], delta=DELTA)
    release = hush.plan(workload, budget, mechanism=AIM(max_size_mb=job["max_size_mb"])).release(table)
    model = release.model()
    found = {"model_cpu": _cpu(), "wall": time.perf_counter() - STARTED}
    rows = model.synthesize(rows_of(table), seed=0)
    found |= {"rows_cpu": _cpu(), "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000}
    of_model = term_errors(workload, table.counts, model.tables)
    of_rows = term_errors(workload, table.counts, hush.read(rows, table.schema).counts)
    return found | {
        "rounds": float(len(release.rounds)),  # type: ignore[attr-defined]
        "model_error": of_model.mean_distance,
        "rows_error": of_rows.mean_distance,
        "workload_error": of_model.error,
    }


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        print(json.dumps(measure(json.loads(sys.argv[2]))))
    else:
        main()
