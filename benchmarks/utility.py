"""Compare mechanisms that make synthetic rows, on many tables, workloads and budgets, as ratios to one of them.

The error of a run is the total variation distance between the exact table and the model's table, both in shares,
averaged over the tables of the workload. The same is computed for synthetic rows, as many as the table has. Workloads:

- 2-way, 3-way: all pairs or triples of columns with at most 10,000 cells; of more than 500 triples, 500 are compared
- target: all pairs with one column
- skewed: a third of the pairs, with random weights
- prefix: asks for all pairs; compares prefix sums along columns of more than 8 levels, averaged over prefixes

benchmarks/utility_tables.py makes the tables and splits them into two halves by name. Tune a mechanism on one half, and
judge it once on the other.

Run: python -m benchmarks.utility [--data FOLDER] [--half tuning|judging|both] [--tables "tree-*,adult"] [--runs 5]
         [--workloads 2-way,3-way] [--epsilon .1,1,10] [--delta 1e-9] [--mechanisms aim,residual,rap,mst]
         [--reference aim] [--limit 120] [--jobs 1] [--out utility.jsonl] [--retry] [--report] [--details]
A mechanism may have settings: "aim:preset=fast;rounds=30". A label keeps results apart after a change of the code:
"aim@new" runs aim. Without --data there are only generated tables.

Every run is one line of the file --out and is not repeated, unless it took too long and --limit is higher now, or it
failed and --retry is given. --report runs nothing; options given with it select what it shows of the file.

In the report, `x aim` is the geometric mean over tables of the error divided by aim's, `+-` its standard error by the
noise of the runs, `rows x` the same for rows, and `spread` the standard deviation between runs over their mean, of the
median table and the worst. CPU seconds are the median for plan, release, model and rows on one core. MB is the peak of
a process, which runs one mechanism on one table.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from itertools import combinations, product
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import hush
from benchmarks.coded import TARGETS, rows_of
from benchmarks.limited import ONE_CORE
from benchmarks.synthetic import listed, numbers
from benchmarks.utility_tables import HALVES, half_of, make_table, seeded, table_names
from hush.core.arrays import Floats
from hush.core.domain import Domain
from hush.core.errors import HushError
from hush.evaluation.workload_error import term_errors
from hush.linops import Identity, Prefix
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.registry import mechanism_class
from hush.render.text_table import TextColumn, TextTable, number_columns
from hush.workloads.term import ProductTerm

WORKLOADS = ("2-way", "3-way", "target", "skewed", "prefix")
ERRORS = ("model_error", "rows_error")
KEY = ("table", "mechanism", "workload", "epsilon", "delta", "run")
LARGEST_CELLS, MOST_COMPARED, NARROW_LEVELS = 10_000, 500, 8
SMALLEST_ERROR = 1e-9  # keeps ratios finite
REPORT_WIDTH = 200
Line: TypeAlias = dict[str, Any]


class OverLimit(BaseException):
    """The run took too long. Not an Exception, so that no mechanism catches it."""


def main() -> None:
    options = _options()
    if not options.report:
        if any(os.environ.get(name) != "1" for name in ONE_CORE):  # numpy reads these when it is imported
            environment = {**os.environ, **dict.fromkeys(ONE_CORE, "1")}
            os.execve(sys.executable, [sys.executable, "-m", "benchmarks.utility", *sys.argv[1:]], environment)
        run_all(options)
    lines = [line for line in results_of(options.out).values() if _is_chosen(line["table"], options)]
    if options.report:
        mechanisms = [options.reference, *options.mechanisms] if options.mechanisms else None
        chosen = {"workload": options.workloads, "epsilon": options.epsilon, "mechanism": mechanisms}
        lines = [line for line in lines if all(not some or line[name] in some for name, some in chosen.items())]
    report(lines, options.reference, details=options.details)


def _is_chosen(table: str, options: argparse.Namespace) -> bool:
    return options.half in (half_of(table), "both") and any(fnmatch(table, pattern) for pattern in options.tables)


def run_all(options: argparse.Namespace) -> None:
    """Run what is not in the file yet, each mechanism on each table in a process of its own."""
    known = results_of(options.out)
    runs = [options.workloads or WORKLOADS[:2], options.epsilon or (0.1, 1.0, 10.0), [options.delta]]
    tables = [table for table in table_names(options.data) if _is_chosen(table, options)]
    queue: list[list[Line]] = []
    for table, mechanism in product(tables, options.mechanisms or ("aim", "residual", "rap", "mst")):
        queue.append([])
        for key in product([table], [mechanism], *runs, range(options.runs)):
            earlier = known.get(key, {})
            again = "failure" in earlier and (options.retry or earlier.get("limit", math.inf) < options.limit)
            if not earlier or again:
                queue[-1].append({**dict(zip(KEY, key, strict=True)), "half": half_of(table)})
    queue = [jobs for jobs in queue if jobs]
    total, done = sum(map(len, queue)), 0
    start = options.out.stat().st_size if options.out.exists() else 0
    running: dict[Any, tuple[Any, list[Line]]] = {}
    while queue or running:
        while queue and len(running) < options.jobs:
            jobs = queue.pop(0)
            process = multiprocessing.get_context("fork").Process(target=run_jobs, args=(jobs, options), daemon=True)
            process.start()
            running[process.sentinel] = process, jobs
        for sentinel in wait(list(running)):
            process, jobs = running.pop(sentinel)
            process.join()
            finished = results_of(options.out, start)
            left = [job for job in jobs if _key(job) not in finished]
            if left:  # the process died in the first of these
                killed = {"limit": options.limit} if process.exitcode == -signal.SIGXCPU else {}
                failure = f"the process ended with code {process.exitcode}"
                append(options.out, left[0] | {"failure": failure} | killed)
                queue[:0] = [left[1:]] if left[1:] else []
            done += len(jobs) - len(left[1:])
            print(f"{done:,} of {total:,}: {jobs[0]['table']}, {jobs[0]['mechanism']}", file=sys.stderr, flush=True)


def run_jobs(jobs: list[Line], options: argparse.Namespace) -> None:
    """Run one mechanism on one table with several workloads and budgets, and append each result to the file."""
    table, mechanism = make_table(jobs[0]["table"], options.data), mechanism_of(jobs[0]["mechanism"])
    rows = rows_of(table)
    signal.signal(signal.SIGPROF, _stop)
    prepared: dict[str, Any] = {}
    slow = set()
    for job in jobs:
        kind, budget = job["workload"], hush.Budget(epsilon=job["epsilon"], delta=job["delta"])
        if kind not in prepared:
            workloads = workloads_of(kind, job["table"], table.domain)
            prepared[kind] = workloads and (*workloads, table.counts(workloads[1].cliques))
        if prepared[kind] is None:
            append(options.out, job | {"skipped": "the table has no such workload"})
            continue
        if (kind, job["epsilon"]) in slow:
            failure = f"not tried: an earlier run took more than {options.limit:g} s of CPU"
            append(options.out, job | {"failure": failure, "limit": options.limit})
            continue
        asked, compared, factors, exact = prepared[kind]
        try:
            _limit_cpu(options.limit)
            clock = time.process_time()
            model = hush.plan(asked, budget, mechanism=mechanism).release(table).model()
            synthetic = model.synthesize(rows=rows)
            seconds = time.process_time() - clock
            _limit_cpu(options.limit)  # the comparison has as much time again
            sources = (model.tables, hush.read(synthetic, table.schema).counts)
            errors = [float(factors @ term_errors(compared, exact, source).distances) for source in sources]
            result: Line = dict(zip(ERRORS, errors, strict=True)) | {"seconds": round(seconds, 3)}
        except OverLimit:
            slow.add((kind, job["epsilon"]))
            result = {"failure": f"took more than {options.limit:g} s of CPU", "limit": options.limit}
        except Exception as error:  # noqa: BLE001 - every failure is a result
            result = {"failure": f"{type(error).__name__}: {error}"}
        finally:
            _limit_cpu(0.0)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        append(options.out, job | result | {"megabytes": round(peak)})


def _limit_cpu(seconds: float) -> None:
    """Raise OverLimit after some seconds of CPU, and kill code that Python cannot interrupt later; 0 lifts both."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    killed = int(time.process_time() + 1.5 * seconds) + 10 if seconds else hard
    resource.setrlimit(resource.RLIMIT_CPU, (killed, hard))
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0 if seconds else 0.0)


def _stop(_signal: int, _frame: object) -> None:
    raise OverLimit


def workloads_of(kind: str, name: str, domain: Domain) -> tuple[hush.Workload, hush.Workload, Floats] | None:
    """What the mechanism is asked for, what is compared, and the factor of each compared term; None if empty."""
    order = 3 if kind == "3-way" else 2
    cliques = [clique for clique in combinations(domain.varying(), order) if domain.size(clique) <= LARGEST_CELLS]
    random = seeded(f"{name} {kind}")
    if kind == "target":
        usual = TARGETS.get(name.split("-")[0])
        column = usual if usual in domain.varying() else domain.varying()[-1]
        cliques = [clique for clique in cliques if column in clique]
    elif kind == "skewed":
        chosen = random.choice(len(cliques), math.ceil(len(cliques) / 3), replace=False)
        cliques = [cliques[index] for index in sorted(chosen)]
    wide = {column for column in domain if domain[column] > NARROW_LEVELS} if kind == "prefix" else set()
    compared = [clique for clique in cliques if kind != "prefix" or wide & set(clique)]
    if not compared:
        return None
    weights = random.exponential(size=len(cliques)) if kind == "skewed" else np.ones(len(cliques))
    asked = hush.Workload.marginals(domain, cliques, weights.tolist())
    if kind == "3-way" and len(compared) > MOST_COMPARED:
        compared = [compared[index] for index in sorted(random.choice(len(compared), MOST_COMPARED, replace=False))]
    weights = weights if kind == "skewed" else np.ones(len(compared))
    # The distance of a term adds up over all prefixes of its wide columns; the factor makes it the mean over them.
    blocks = {column: (Prefix if column in wide else Identity)(domain[column]) for column in domain}
    terms = [ProductTerm(clique, tuple(blocks[column] for column in clique)) for clique in compared]
    prefixes = [math.prod(domain[column] for column in clique if column in wide) for clique in compared]
    return asked, hush.Workload(domain, terms), weights / weights.sum() / prefixes


def mechanism_of(text: str) -> Mechanism:
    """The mechanism of a text such as "aim", "aim:preset=fast;rounds=30" or "aim@label"."""
    name, _, settings = text.split("@")[0].partition(":")
    values: dict[str, Any] = {}
    for setting in filter(None, settings.split(";")):
        key, _, value = setting.partition("=")
        try:
            values[key] = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            values[key] = value  # a plain word, such as fast
    return mechanism_class(name)(**values)


def append(file: Path, line: Line) -> None:
    """Add one result to the file."""
    with file.open("a", encoding="utf-8") as opened:
        opened.write(json.dumps(line) + "\n")


def results_of(file: Path, start: int = 0) -> dict[tuple[Any, ...], Line]:
    """The last line of each run in the file, from a position in bytes on."""
    lines = map(json.loads, file.read_bytes()[start:].splitlines() if file.exists() else ())
    return {_key(line): line for line in lines}


def _key(line: Line) -> tuple[Any, ...]:
    return tuple(line[name] for name in KEY)


def report(lines: Sequence[Line], reference: str, *, details: bool) -> None:
    """Print one table for every half, workload and budget, and how many runs are missing."""
    lines = [line for line in lines if "skipped" not in line]
    mechanisms = sorted({line["mechanism"] for line in lines}, key=lambda name: (name != reference, name))
    if reference not in mechanisms:
        print(f"no runs of {reference}, so there are no ratios; name another mechanism with --reference")
    settings: dict[tuple[Any, ...], list[Line]] = {}
    for line in sorted(lines, key=lambda line: (HALVES.index(line["half"]), line["workload"], line["epsilon"])):
        settings.setdefault((line["half"], line["workload"], line["epsilon"], line["delta"]), []).append(line)
    for (half, workload, epsilon, delta), chosen in settings.items():
        finished: dict[str, dict[str, list[Line]]] = {name: {} for name in (reference, *mechanisms)}
        for line in chosen:
            if "failure" not in line:
                finished[line["mechanism"]].setdefault(line["table"], []).append(line)
        tables = list(dict.fromkeys(line["table"] for line in chosen))
        runs = len({(line["table"], line["run"]) for line in chosen})
        size = f"tables: {len(tables)}, runs of a mechanism: {runs}"
        print(f"\n{half} half, {workload}, epsilon {epsilon:g}, delta {delta:g}; {size}")
        headings = ("missing", "tables", f"x {reference}", "+-", "worst x", "rows x", "+-", "spread", "worst spread")
        columns = [TextColumn(heading="mechanism"), *number_columns(*headings, "rows/model", "CPU s", "MB")]
        cells = [_summary(name, finished[name], finished[reference], runs) for name in mechanisms]
        print(TextTable(columns=[*columns, TextColumn(heading="worst table")], rows=cells).text(REPORT_WIDTH))
        if details:
            cells = []
            for table in tables:
                means = [[_short(_mean(finished[name].get(table), which)) for which in ERRORS] for name in mechanisms]
                cells.append([table, *(f"{model} ({rows})" for model, rows in means)])
            columns = [TextColumn(heading="error of model (of rows)"), *number_columns(*mechanisms)]
            print(f"\n{TextTable(columns=columns, rows=cells).text(REPORT_WIDTH)}")
    total = len({tuple(line[name] for name in KEY if name != "mechanism") for line in lines})
    print()
    for name in mechanisms:
        reasons = Counter(line.get("failure", "") for line in lines if line["mechanism"] == name)
        reasons["not run"] = total - reasons.total()
        reasons.pop("", None)
        listing = "".join(f"; {count:,} x {reason}" for reason, count in reasons.most_common() if count)
        print(f"{name}: {reasons.total():,} of {total:,} runs are missing{listing}")


def _summary(name: str, own: dict[str, list[Line]], base: dict[str, list[Line]], runs: int) -> list[str]:
    """The cells of one mechanism. Ratios are over the tables that both it and the reference finished."""
    cells, worst = [], ""
    both = [table for table in own if table in base]
    for which in ERRORS:
        ratios = {table: _mean(own[table], which) / _mean(base[table], which) for table in both}
        # Delta method: the mean of T logarithms has the sum of their relative variances, over T^2, as its variance.
        variances = [_spread(side[table], which) ** 2 / len(side[table]) for table in both for side in (own, base)]
        ratio = _geometric_mean(ratios.values())
        cells += [ratio, 0.0 if own is base else ratio * math.sqrt(sum(variances)) / max(len(both), 1)]
        if which == "model_error":
            worst = max(ratios, key=lambda table: ratios[table], default="")
            cells.append(ratios.get(worst, math.nan))
    spreads = [_spread(lines, "model_error") for lines in own.values() if len(lines) > 1] or [math.nan]
    lines = [line for finished in own.values() for line in finished]
    cells += [float(np.median(spreads)), max(spreads)]
    cells.append(_geometric_mean(_mean(lines, "rows_error") / _mean(lines, "model_error") for lines in own.values()))
    cells.append(float(np.median([line["seconds"] for line in lines] or math.nan)))
    cells.append(max((line["megabytes"] for line in lines), default=math.nan))
    return [name, str(runs - len(lines)), str(len(both)), *map(_short, cells), worst]


def _mean(lines: Sequence[Line] | None, which: str) -> float:
    return max(float(np.mean([line[which] for line in lines])), SMALLEST_ERROR) if lines else math.nan


def _spread(lines: Sequence[Line], which: str) -> float:
    """The standard deviation between runs over their mean; NaN for a single run."""
    return float(np.std([line[which] for line in lines], ddof=1)) / _mean(lines, which) if len(lines) > 1 else math.nan


def _geometric_mean(values: Iterable[float]) -> float:
    logarithms = [math.log(value) for value in values]
    return math.exp(np.mean(logarithms)) if logarithms else math.nan


def _short(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--half", choices=(*HALVES, "both"), default="both")
    parser.add_argument("--tables", type=listed, default=["*"], help="names or patterns; all by default")
    parser.add_argument("--workloads", type=listed, help="2-way,3-way by default")
    parser.add_argument("--epsilon", type=numbers, help=".1,1,10 by default")
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--mechanisms", type=listed, help="aim,residual,rap,mst by default")
    parser.add_argument("--reference", default="aim")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of CPU that a run may take")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--out", type=Path, default=Path("utility.jsonl"))
    parser.add_argument("--retry", action="store_true", help="run again what failed")
    parser.add_argument("--report", action="store_true", help="only print the tables from the file")
    parser.add_argument("--details", action="store_true", help="one line per table with all errors")
    options = parser.parse_args()
    if unknown := set(options.workloads or ()) - set(WORKLOADS):
        parser.error(f"--workloads {', '.join(unknown)}: expected some of {', '.join(WORKLOADS)}")
    for text in options.mechanisms or ():
        try:
            mechanism_of(text)
        except (HushError, TypeError) as error:
            parser.error(f"--mechanisms {text}: {error}")
    return options


if __name__ == "__main__":
    main()
