"""Measure rap and relaxed rows beside AIM and the document's regression: largest errors, seconds and memory.

marginals: random, unfiltered 3-way marginals of ADULT in its raw codes (E1). thresholds: r of 4 columns, and 1 of 3
(E2). future: 1 of 3 columns, the error of tomorrow's questions by the number of yesterday's and by drift (E3). rounds:
single answers in T rounds of K, with T K fixed; the document's public code measured a neighbour of the chosen answer
after round one, so its figures for many rounds cannot be compared. loans: a generated table over the domain of LOANS,
where no junction tree of the asked marginals fits. choice: the worst single answers of 64 sets of four columns.

Errors are the largest over all answers of the workload, as shares of the records; one row per setting, the mean of
--trials runs, each with another workload. all-zero answers 0 to everything; gaussian is the document's baseline, which
answers each target with a share of the budget of its own; all at once is what noise of the L2 sensitivity of all
answers would leave. Thresholds of AIM are read off its model of the triples in the sets. Privacy is that of the
document: delta = 1 / n^2, neighbours exchange a row. rap has one default and nothing tuned. The document
prints no errors: `by regression` follows from the coefficients of the regression that it prints, for the best of a grid
over (T, K) that it did not charge; `recomputed` is a run of another implementation of its algorithm.

Run: python -m benchmarks.rap --data FOLDER [--parts marginals,thresholds,future,rounds,loans,choice] [--trials 5]
[--sizes 16,64] [--keep FILE]
The folder, or its folder tables, holds adult-raw-codes.csv, adult-raw-codes-domain.json and loans-domain.json.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from itertools import combinations, product
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
from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.evaluation import ColumnChances, future_study
from hush.evaluation.future_error import drawn_thresholds
from hush.linops import Dense, Identity
from hush.mechanisms import AIM, RAP
from hush.mechanisms.candidates import threshold_answers
from hush.privacy.sensitivity import Neighbours
from hush.workloads import ThresholdTerm

SEED = 7
SLICE_CELLS = 1 << 22
MARGINALS = {  # epsilon, marginals -> the error by the document's regression
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
HISTORIES, DRIFTS, FUTURE_DRAWS = (4, 16, 64), (0.0, 0.1, 0.2, 0.5, 1.0), 40
LOANS_ROWS = 42_535
YARDSTICKS, WORK = ("all-zero", "gaussian", "all at once"), ("seconds", "MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", type=listed, default=list(PARTS))
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--sizes", type=listed, default=None, help="of the workloads; all by default")
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--keep", type=Path, default=None)
    options = parser.parse_args()
    folder = options.data / "tables" if (options.data / "tables").is_dir() else options.data
    jobs = Jobs("benchmarks.rap", folder.resolve(), options.seconds, options.keep)
    sizes = None if options.sizes is None else {int(size) for size in options.sizes}
    console = Console(width=140)
    for part in options.parts:
        console.print(PARTS[part](jobs, options.trials, sizes))


def marginals(jobs: Jobs, trials: int, sizes: set[int] | None) -> Shown:
    shown = _table(
        "3-way marginals of ADULT", "epsilon", "marginals", "by regression", *YARDSTICKS, "aim", "rap", *WORK
    )
    for (epsilon, size), by_regression in MARGINALS.items():
        if sizes is None or size in sizes:
            job = {"k": 3, "epsilon": epsilon, "size": size}
            aim = jobs.trials({**job, "mechanism": "aim"}, trials)
            found = jobs.trials({**job, "r": 3, "mechanism": "rap"}, trials)
            errors = [*_yardsticks(found, 3), _error(aim, 3), _error(found, 3)]
            shown.add_row(f"{epsilon:g}", str(size), f"{by_regression:.3f}", *errors, *_work(found))
    return shown


def thresholds(jobs: Jobs, trials: int, sizes: set[int] | None) -> Shown:
    shown = _table("thresholds of ADULT", "r of k", "epsilon", "sets", "recomputed", *YARDSTICKS, "aim", "rap", *WORK)
    for (k, r, epsilon, size), recomputed in THRESHOLDS.items():
        if sizes is None or size in sizes:
            job = {"k": k, "epsilon": epsilon, "size": size}
            aim = jobs.trials({**job, "mechanism": "aim"}, trials)  # one model for every r
            found = jobs.trials({**job, "r": r, "mechanism": "rap"}, trials)
            errors = [*_yardsticks(found, r), _error(aim, r), _error(found, r)]
            text = "" if recomputed is None else f"{recomputed:.3f}"
            shown.add_row(f"{r} of {k}", f"{epsilon:g}", str(size), text, *errors, *_work(found))
    return shown


def rounds(jobs: Jobs, trials: int, sizes: set[int] | None) -> Shown:
    shown = _table("single answers, 64 marginals, epsilon 0.1", "T", "K", "rap, cells", *WORK)
    for turns, each in ROUNDS:
        job = {"k": 3, "r": 3, "epsilon": 0.1, "size": 64, "mechanism": "cells", "T": turns, "K": each}
        found = jobs.trials(job, trials)
        shown.add_row(str(turns), str(each), _error(found, 3), *_work(found))
    return shown


def future(jobs: Jobs, trials: int, sizes: set[int] | None) -> Shown:
    """The document prints no figures: its error falls with the history, and rises from a drift of about 0.4."""
    shown = _table("1 of 3 columns of ADULT, epsilon 0.1", "history", "drift", "total variation", "all-zero", "rap")
    for size in HISTORIES:
        if sizes is None or size in sizes:
            drifts = DRIFTS if size == HISTORIES[0] else DRIFTS[:1]
            found = jobs.one({"future": size, "runs": trials, "drifts": drifts})
            for index, drift in enumerate(drifts):
                if FAILED in found:
                    shown.add_row(str(size), f"{drift:g}", "", "", str(found[FAILED]))
                    continue
                low, mean, high = (found[f"{name}_{index}"] for name in ("low", "mean", "high"))
                moved, zero = found[f"moved_{index}"], found[f"zero_{index}"]
                shown.add_row(
                    str(size), f"{drift:g}", f"{moved:.2f}", f"{zero:.3f}", f"{mean:.3f} ({low:.3f} to {high:.3f})"
                )
    return shown


def loans(jobs: Jobs, trials: int, sizes: set[int] | None) -> Shown:
    shown = _table("64 marginals of a table like LOANS", "epsilon", "by regression", *YARDSTICKS, "rap", *WORK)
    found = jobs.trials({"data": "loans", "k": 3, "r": 3, "epsilon": 1.0, "size": 64, "mechanism": "rap"}, trials)
    shown.add_row("1", "0.043", *_yardsticks(found, 3), _error(found, 3), *_work(found))
    return shown


def choice(jobs: Jobs, trials: int, sizes: set[int] | None) -> Shown:
    shown = _table("single answers of 64 sets of four columns", "r of k", "epsilon", "answers", "rap, cells", *WORK)
    for r in (1, 4):
        job = {"k": 4, "r": r, "epsilon": 1.0, "size": 64, "mechanism": "cells", "T": 4, "K": 16}
        found = jobs.trials(job, min(trials, 1))
        answers = f"{found[0].get('answers', float('nan')):.3g}"
        shown.add_row(f"{r} of 4", "1", answers, _error(found, r), *_work(found))
    return shown


PARTS = {
    "marginals": marginals,
    "thresholds": thresholds,
    "future": future,
    "rounds": rounds,
    "loans": loans,
    "choice": choice,
}


def _table(title: str, *names: str) -> Shown:
    shown = Shown(title=title)
    for name in names:
        shown.add_column(name, justify="right")
    return shown


def _error(found: list[dict[str, Any]], r: int) -> str:
    failed = [one[FAILED] for one in found if FAILED in one]
    errors = [one[f"error_{r}"] for one in found if FAILED not in one]
    return str(failed[0]) if failed else f"{np.mean(errors):.4f} ± {np.std(errors):.4f}"


def _yardsticks(found: list[dict[str, Any]], r: int) -> list[str]:
    """Those of the yardsticks, on the first workload."""
    return [f"{found[0][name]:.3f}" if name in found[0] else "-" for name in (f"zero_{r}", "gaussian", "at_once")]


def _work(found: list[dict[str, Any]]) -> list[str]:
    done = [one for one in found if FAILED not in one]
    if not done:
        return ["-", "-"]
    return [f"{np.mean([one[name] for one in done]):.0f}" for name in ("cpu", "peak_mb")]


def run(job: dict[str, Any], folder: Path) -> dict[str, float]:
    """One release and its largest errors; of AIM for every r, since its model serves them all."""
    if "future" in job:
        return run_future(job, folder)
    table = loans_like(folder) if job.get("data") == "loans" else load(folder, "adult-raw-codes")
    domain, n, k = table.domain, rows_of(table), job["k"]
    asked_for = [job["r"]] if "r" in job else [k] if k == 3 and job["size"] != 16 else list(range(1, k + 1))
    cliques = drawn(domain, k, job["size"], job["trial"])
    made = {
        "rap": lambda: RAP(),
        "aim": lambda: AIM(preset="fast"),
        "cells": lambda: RAP(measure="cells", rounds=job["T"], queries=job["K"]),
    }[job["mechanism"]]()
    if job["mechanism"] == "aim":  # thresholds are read off its model of the triples
        asked = hush.Workload.marginals(
            domain, sorted({part for clique in cliques for part in combinations(clique, 3)})
        )
    elif job["r"] < k:
        asked = hush.Workload.thresholds(domain, k, job["r"], cliques=cliques)
    else:
        asked = hush.Workload.marginals(domain, cliques)
    budget = hush.Budget(epsilon=job["epsilon"], delta=1 / n**2)
    started = time.process_time()
    release = hush.plan(asked, budget, mechanism=made, neighbours=Neighbours.REPLACE).release(table)
    model = release.model()
    cpu, peak = time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    worst, zero = dict.fromkeys(asked_for, 0.0), dict.fromkeys(asked_for, 0.0)
    yardsticks = job["mechanism"] == "rap" and job["trial"] == 0
    for clique in cliques:
        for r, (error, answer) in largest(table, model, clique, asked_for, zero=yardsticks).items():
            worst[r], zero[r] = max(worst[r], error), max(zero[r], answer)
    answers = sum(domain.size(clique) for clique in cliques)
    at_least = asked_for[0]  # a row is one of `agreeing` answers of a table, and exchanging it moves twice as many
    moved = sum(ThresholdTerm(clique, domain.sizes(clique), at_least).agreeing for clique in cliques)
    stddev = math.sqrt(moved / float(budget.limit)) / n
    at_once = min(1.0, stddev * math.sqrt(2 * math.log(answers)))
    gaussian = min(1.0, math.sqrt(answers / (2 * float(budget.limit)) * 2 * math.log(answers)) / n)
    found = {f"error_{r}": error / n for r, error in worst.items()}
    if yardsticks:
        found |= {f"zero_{r}": answer / n for r, answer in zero.items()}
        found |= {"gaussian": gaussian, "at_once": at_once}
    return {**found, "answers": float(answers), "cpu": cpu, "peak_mb": peak}


def run_future(job: dict[str, Any], folder: Path) -> dict[str, float]:
    """The error of tomorrow's questions, for a history that was drawn by geometric chances of columns."""
    table = load(folder, "adult-raw-codes")
    n = rows_of(table)
    chances = ColumnChances.geometric(table.domain)
    history = drawn_thresholds(table.domain, chances, 3, 1, job["future"], seed=SEED)
    study = future_study(
        table,
        history,
        hush.Budget(epsilon=0.1, delta=1 / n**2),
        mechanism=RAP(),
        chances=chances,
        drifts=tuple(job["drifts"]),
        draws=FUTURE_DRAWS,
        runs=job["runs"],
        seed=SEED,
    )
    found = {}
    for index, row in enumerate(study.rows):
        low, high = row.error.interval
        found |= {f"low_{index}": low, f"mean_{index}": row.error.mean, f"high_{index}": high}
        found |= {f"moved_{index}": row.distance, f"zero_{index}": row.zeros}
    return found


def drawn(domain: Domain, k: int, size: int, trial: int) -> list[Clique]:
    """Sets of k columns, all equally likely, without a filter for their size."""
    every = list(combinations(domain.attributes, k))
    generator = np.random.Generator(np.random.PCG64([SEED, trial, size, k]))
    return [every[index] for index in sorted(generator.choice(len(every), min(size, len(every)), replace=False))]


def largest(
    table: Any, model: hush.Model, clique: Clique, asked: list[int], *, zero: bool
) -> dict[int, tuple[float, float]]:
    """The largest error and, for `zero`, the largest answer over all targets for each r, some levels at a time.

    A row that agrees with level y of the first column needs r - 1 of the others, any other row needs r. Answers are
    linear in the table, so those of the differences are the errors.
    """
    domain, (first, *rest) = table.domain, clique
    sizes = domain.sizes(rest)
    step = max(1, SLICE_CELLS // math.prod(sizes))
    others = np.array(table.counts([tuple(rest)])[tuple(rest)], dtype=np.float64)
    wrong = np.asarray(model.distribution.counts(rest)) - others
    found = dict.fromkeys(asked, (0.0, 0.0))
    for start in range(0, domain[first], step):
        levels = np.arange(start, min(start + step, domain[first]))
        codes = np.where(np.isin(np.arange(domain[first]), levels), np.arange(domain[first]) - start, len(levels))
        exact = table.coarse({first: codes}).counts([clique])[clique] if len(levels) < domain[first] else None
        exact = table.counts([clique])[clique] if exact is None else exact
        block = Dense(np.equal.outer(levels, np.arange(domain[first])).astype(float))
        near = model.distribution.product(clique, [block, *(Identity(size) for size in sizes)])
        for index, r in product(range(len(levels)), asked):
            error = float(np.abs(_agreeing(near[index] - exact[index], wrong, r)).max())
            answer = float(_agreeing(exact[index].astype(np.float64), others, r).max()) if zero else 0.0
            found[r] = max(found[r][0], error), max(found[r][1], answer)
    return found


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
