"""Measure rap and relaxed rows beside AIM and the published figures: largest errors, seconds and memory.

marginals: random, unfiltered 3-way marginals of ADULT in its raw codes. thresholds: r of 4 columns, and 1 of 3.
rounds: single answers in T rounds of K, with T K fixed; the document's public code measured a neighbour of the chosen
answer after round one, so its figures for many rounds cannot be compared. loans: a generated table over the domain of
LOANS, where no junction tree of the asked marginals fits.

Errors are the largest over all answers of the workload, as shares of the records; one row per setting, the mean of
--trials runs, each with another workload. Privacy is that of the document: delta = 1 / n^2, neighbours exchange a row.
rap has one default and nothing tuned. The document's figures are the best of a grid over (T, K) that it did not charge;
they are read off its printed regression, or are those of a prototype of its algorithm where it prints none.

Run: python -m benchmarks.rap --data FOLDER [--parts marginals,thresholds,rounds,loans] [--trials 5] [--keep FILE]
The folder holds adult-raw-codes.csv and adult-raw-codes-domain.json, and loans-domain.json.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Shown

import hush
from benchmarks.coded import load, rows_of
from benchmarks.limited import FAILED, Jobs
from benchmarks.synthetic import listed
from hush.arrays import Floats
from hush.domain import Clique, Domain
from hush.linops import Dense, Identity
from hush.mechanisms import AIM, RAP
from hush.mechanisms.rap import threshold_answers
from hush.privacy.sensitivity import Neighbours

SEED = 7
SLICE_CELLS = 1 << 22
MARGINALS = {  # epsilon, marginals -> the document's error
    (0.1, 16): 0.061,
    (0.1, 64): 0.080,
    (0.1, 256): 0.099,
    (1.0, 4): 0.015,
    (1.0, 64): 0.030,
}
THRESHOLDS: dict[tuple[int, int, float, int], float | None] = {
    **{(4, r, epsilon, size): None for size in (16, 64) for epsilon in (0.1, 1.0) for r in (1, 2, 3, 4)},
    (3, 1, 0.1, 16): 0.121,
}
ROUNDS = ((1, 32), (2, 16), (4, 8), (8, 4), (16, 2), (32, 1))
LOANS_ROWS = 42_535
MECHANISMS = ("rap", "aim")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", type=listed, default=["marginals", "thresholds", "rounds", "loans"])
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--sizes", type=listed, default=None, help="of the workloads; all by default")
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--keep", type=Path, default=None)
    options = parser.parse_args()
    jobs = Jobs("benchmarks.rap", options.data.resolve(), options.seconds, options.keep)
    sizes = None if options.sizes is None else {int(size) for size in options.sizes}
    console = Console(width=120)
    for part in options.parts:
        console.print(
            {"marginals": marginals, "thresholds": thresholds, "rounds": rounds, "loans": loans}[part](
                jobs, options.trials, sizes
            )
        )


def marginals(jobs: Jobs, trials: int, sizes: set[int] | None) -> Shown:
    shown = _table("3-way marginals of ADULT", "epsilon", "marginals", "document", "aim", "rap", "seconds", "MB")
    for (epsilon, size), printed in MARGINALS.items():
        if sizes is None or size in sizes:
            job = {"k": 3, "r": 3, "epsilon": epsilon, "size": size}
            found = {name: jobs.trials({**job, "mechanism": name}, trials) for name in MECHANISMS}
            shown.add_row(f"{epsilon:g}", str(size), f"{printed:.3f}", *_errors(found), *_work(found["rap"]))
    return shown


def thresholds(jobs: Jobs, trials: int, sizes: set[int] | None) -> Shown:
    shown = _table("thresholds of ADULT", "r of k", "epsilon", "sets", "document", "aim", "rap", "seconds", "MB")
    for (k, r, epsilon, size), printed in THRESHOLDS.items():
        if sizes is None or size in sizes:
            job = {"k": k, "r": r, "epsilon": epsilon, "size": size}
            found = {name: jobs.trials({**job, "mechanism": name}, trials) for name in MECHANISMS}
            text = "" if printed is None else f"{printed:.3f}"
            shown.add_row(f"{r} of {k}", f"{epsilon:g}", str(size), text, *_errors(found), *_work(found["rap"]))
    return shown


def rounds(jobs: Jobs, trials: int, sizes: set[int] | None) -> Shown:
    shown = _table("single answers, 64 marginals, epsilon 0.1", "T", "K", "rap, cells", "seconds", "MB")
    for turns, each in ROUNDS:
        job = {"k": 3, "r": 3, "epsilon": 0.1, "size": 64, "mechanism": "cells", "T": turns, "K": each}
        found = jobs.trials(job, trials)
        shown.add_row(str(turns), str(each), *_errors({"cells": found}), *_work(found))
    return shown


def loans(jobs: Jobs, trials: int, sizes: set[int] | None) -> Shown:
    shown = _table(
        "64 marginals of a table like LOANS", "epsilon", "document", "all-zero", "gaussian", "rap", "seconds", "MB"
    )
    found = jobs.trials({"data": "loans", "k": 3, "r": 3, "epsilon": 1.0, "size": 64, "mechanism": "rap"}, trials)
    done = [one for one in found if FAILED not in one]
    yardsticks = [f"{np.mean([one[name] for one in done]):.4f}" if done else "-" for name in ("zero", "gaussian")]
    shown.add_row("1", "0.043", *yardsticks, *_errors({"rap": found}), *_work(found))
    return shown


def _table(title: str, *names: str) -> Shown:
    shown = Shown(title=title)
    for name in names:
        shown.add_column(name, justify="right")
    return shown


def _errors(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    texts = []
    for name in (*reversed(MECHANISMS), "cells"):
        if name in found:
            failed = [one[FAILED] for one in found[name] if FAILED in one]
            errors = [one["error"] for one in found[name] if FAILED not in one]
            texts.append(str(failed[0]) if failed else f"{np.mean(errors):.4f} ± {np.std(errors):.4f}")
    return texts


def _work(found: list[dict[str, Any]]) -> list[str]:
    done = [one for one in found if FAILED not in one]
    if not done:
        return ["-", "-"]
    return [f"{np.mean([one[name] for one in done]):.0f}" for name in ("cpu", "peak_mb")]


def run(job: dict[str, Any], folder: Path) -> dict[str, float]:
    """One release and its largest error."""
    table = loans_like(folder) if job.get("data") == "loans" else load(folder, "adult-raw-codes")
    domain, n, k, r = table.domain, rows_of(table), job["k"], job["r"]
    cliques = drawn(domain, k, job["size"], job["trial"])
    made = {
        "rap": lambda: RAP(),
        "aim": lambda: AIM(preset="fast"),
        "cells": lambda: RAP(measure="cells", rounds=job["T"], queries=job["K"]),
    }[job["mechanism"]]()
    if job["mechanism"] == "aim" and k > 3:  # thresholds are read off its model of the triples
        asked = hush.Workload.marginals(
            domain, sorted({part for clique in cliques for part in combinations(clique, 3)})
        )
    elif r < k:
        asked = hush.Workload.thresholds(domain, k, r, cliques=cliques)
    else:
        asked = hush.Workload.marginals(domain, cliques)
    budget = hush.Budget(epsilon=job["epsilon"], delta=1 / n**2)
    started = time.process_time()
    release = hush.plan(asked, budget, mechanism=made, neighbours=Neighbours.REPLACE).release(table)
    model = release.model()
    cpu, peak = time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    worst, zero = 0.0, 0.0
    for clique in cliques:
        error, answer = largest(table, model, clique, r)
        worst, zero = max(worst, error), max(zero, answer)
    answers = sum(domain.size(clique) for clique in cliques)
    stddev = math.sqrt(len(cliques) / float(budget.limit)) / n  # a whole marginal at once: its L2 sensitivity is root 2
    gaussian = min(1.0, stddev * math.sqrt(2 * math.log(answers)))
    return {"error": worst / n, "zero": zero / n, "gaussian": gaussian, "cpu": cpu, "peak_mb": peak}


def drawn(domain: Domain, k: int, size: int, trial: int) -> list[Clique]:
    """Sets of k columns, all equally likely, without a filter for their size."""
    every = list(combinations(domain.attributes, k))
    generator = np.random.Generator(np.random.PCG64([SEED, trial, size, k]))
    return [every[index] for index in sorted(generator.choice(len(every), min(size, len(every)), replace=False))]


def largest(table: Any, model: hush.Model, clique: Clique, r: int) -> tuple[float, float]:
    """The largest error and the largest answer over all targets, some levels of the first column at a time.

    A row that agrees with level y of the first column needs r - 1 of the others, any other row needs r.
    """
    domain, (first, *rest) = table.domain, clique
    sizes = domain.sizes(rest)
    step = max(1, SLICE_CELLS // math.prod(sizes))
    others = np.array(table.counts([tuple(rest)])[tuple(rest)], dtype=np.float64)
    modelled = np.asarray(model.distribution.counts(rest))
    worst = zero = 0.0
    for start in range(0, domain[first], step):
        levels = np.arange(start, min(start + step, domain[first]))
        codes = np.where(np.isin(np.arange(domain[first]), levels), np.arange(domain[first]) - start, len(levels))
        exact = table.coarse({first: codes}).counts([clique])[clique] if len(levels) < domain[first] else None
        exact = table.counts([clique])[clique] if exact is None else exact
        block = Dense(np.equal.outer(levels, np.arange(domain[first])).astype(float))
        near = model.distribution.product(clique, [block, *(Identity(size) for size in sizes)])
        for index in range(len(levels)):
            truth = _agreeing(exact[index].astype(np.float64), others, r)
            worst = max(worst, float(np.abs(_agreeing(near[index], modelled, r) - truth).max()))
            zero = max(zero, float(truth.max()))
    return worst, zero


def _agreeing(level: Floats, everything: Floats, r: int) -> Floats:
    """Rows that agree with a target whose first column is this level."""
    inside = np.full(level.shape, level.sum()) if r == 1 else threshold_answers(level, r - 1)
    return inside if r > level.ndim else inside + threshold_answers(everything - level, r)


def loans_like(folder: Path) -> Any:
    """A generated table over the domain of LOANS: columns follow a few hidden types, most values are few."""
    domain = Domain(json.loads((folder / "loans-domain.json").read_text()))
    generator = np.random.Generator(np.random.PCG64(SEED))
    types = generator.integers(0, 12, LOANS_ROWS)
    codes = {}
    for name in domain:
        column = np.empty(LOANS_ROWS, dtype=np.int64)
        for kind in range(12):
            alike = types == kind
            shares = generator.dirichlet(np.full(domain[name], 0.05))
            column[alike] = generator.choice(domain[name], alike.sum(), p=shares)
        codes[name] = column
    return hush.read(pa.table(codes), hush.Schema.from_domain(domain))


if __name__ == "__main__":
    import sys

    if "--job" in sys.argv:
        given = json.loads(sys.argv[sys.argv.index("--job") + 1])
        print(json.dumps(run(given, Path(given["folder"]))))
    else:
        main()
