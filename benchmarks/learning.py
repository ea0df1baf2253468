"""Train classifiers on synthetic rows and test them on real rows, next to classifiers trained on real rows.

A public seed splits each table once into 2/3 of the rows for training and 1/3 for testing. A mechanism releases the
training rows, and as many synthetic rows are drawn. Two classifiers learn the label from these rows, with the default
settings of scikit-learn: logistic regression on one-hot columns, and boosted trees (HistGradientBoostingClassifier) on
codes, whose order they use. Their AUC is measured on the real test rows. Tables:

- adult: whether income exceeds $50K
- titanic: whether a passenger survived; rows without the label are left out
- if FOLDER has them: churn of customers (wachurn), being out of work (rwm5yr), health insurance (hi), support for
  abortion (gssabortion), votes (tv16) and union membership (nlswork). `benchmarks.utility_tables.half_of` says which
  are for tuning and which for judging.
- effects: generated, 30,000 rows. Twelve columns form a tree, and the log-odds of the label add up effects of six of
  them and of two pairs of columns. Only tables of a pair and the label show the effects of pairs, and logistic
  regression cannot learn them. The exact log-odds have an AUC of .931 on the test rows.
- additive: generated, 15,000 rows. Twelve columns depend on hidden classes, and each has an effect of its own.
- crossed: generated, 45,000 rows. Fourteen columns in groups; six pairs of columns have effects, no column alone has.
- few: generated, 900 rows. Two columns have 100 to 500 levels, eight have 2 to 12, and five columns have effects.

`few-2` is another table of the kind `few`; any number will do, and any generated kind.

Workloads: `2-way` asks for all pairs of columns, `label` also for `predict LABEL`, as hush.plan does with label=LABEL.

Run: python -m benchmarks.learning [--data FOLDER] [--tables adult,titanic,effects] [--mechanisms aim,mst,residual]
         [--workload 2-way|label] [--epsilon 1] [--delta 1e-9] [--runs 5] [--out learning.jsonl] [--report]
FOLDER is that of benchmarks/README.md; its tables above can be chosen, and those whose name starts with such a name and
a dash. Without it only generated tables are run. Mechanisms may have settings and labels as in benchmarks.utility:
"aim:preset=fast", "aim@new".

Every run is one line of the file --out and is not repeated unless it failed. --report runs nothing and shows the whole
file.

In the report, `gap` is the mean AUC of real rows minus that of synthetic rows, and `+-` its standard error over runs.
The error that comes from the split is not in it: the test part of titanic has 297 rows, so no gap below several
hundredths means anything there. CPU seconds are the median for plan, release, model and rows on one core.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv

import hush
from benchmarks.coded import TARGETS
from benchmarks.limited import ONE_CORE
from benchmarks.synthetic import listed, numbers
from benchmarks.utility import KEY, REPORT_WIDTH, Line, append, mechanism_of, results_of
from benchmarks.utility_tables import GENERATED, Coded, seeded
from hush.core.arrays import Integers
from hush.core.errors import HushError
from hush.render.text_table import NO_NUMBER, TextColumn, TextTable, number_columns

WORKLOADS = ("2-way", "label")
CLASSIFIERS = ("logistic", "trees")
REAL = "real rows"  # stands for a mechanism in the file
LABELS = TARGETS | {  # the column to predict in each real table; a third level means that it is missing
    "wachurn": "churn",
    "rwm5yr": "outwork",
    "hi": "whi",
    "gssabortion": "abany",
    "tv16": "votetrump",
    "nlswork": "union",
}
LABELLED: dict[str, tuple[Callable[[int, np.random.Generator], Coded], int, int, int]] = {
    # the columns, the number of rows, the number of columns and of pairs that have an effect on the label
    "effects": (GENERATED["tree"][0], 30_000, 6, 2),
    "additive": (GENERATED["mixture"][0], 15_000, 12, 0),
    "crossed": (GENERATED["cliques"][0], 45_000, 0, 6),
    "few": (partial(GENERATED["large"][0], large=2), 900, 5, 0),
}
Codes: TypeAlias = dict[str, Integers]  # one array per column, in domain order


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledTable:
    """Codes of the training and of the test rows of a table whose label is 0 or 1."""

    domain: hush.Domain
    label: str
    train: Codes
    test: Codes


def main() -> None:
    options = _options()
    if not options.report:
        if any(os.environ.get(name) != "1" for name in ONE_CORE):  # numpy reads these when it is imported
            environment = {**os.environ, **dict.fromkeys(ONE_CORE, "1")}
            os.execve(sys.executable, [sys.executable, "-m", "benchmarks.learning", *sys.argv[1:]], environment)
        run_all(options)
    lines = list(results_of(options.out).values())
    if not options.report:
        chosen = {"table": options.tables, "mechanism": [REAL, *options.mechanisms]}
        chosen |= {"workload": [options.workload], "epsilon": options.epsilon, "delta": [options.delta]}
        lines = [line for line in lines if all(line[name] in (None, *some) for name, some in chosen.items())]
    report(lines)


def table_names(folder: Path | None) -> list[str]:
    """All tables that have a label: those of the folder and the generated ones."""
    paths = folder.glob("*.csv") if folder is not None else ()
    names = sorted(path.stem for path in paths if path.with_name(f"{path.stem}-domain.json").exists())
    return [*(name for name in names if name.split("-")[0] in LABELS), *LABELLED]


def run_all(options: argparse.Namespace) -> None:
    """Run what is not in the file yet or failed, and append each result to the file."""
    known = results_of(options.out)
    budgets = [options.epsilon, [options.delta], range(options.runs)]
    for name in options.tables:
        keys = [(name, REAL, None, None, None, run) for run in range(options.runs)]
        keys += product([name], options.mechanisms, [options.workload], *budgets)
        jobs = [dict(zip(KEY, key, strict=True)) for key in keys if "failure" in known.get(key, {"failure": ""})]
        table = make_table(name, options.data) if jobs else None
        for done, job in enumerate(jobs, start=1):
            try:
                result = run_job(job, table)
            except Exception as error:  # noqa: BLE001 - every failure is a result
                result = {"failure": f"{type(error).__name__}: {error}"}
            append(options.out, job | result)
            print(f"{name}: {done:,} of {len(jobs):,}, {job['mechanism']}", file=sys.stderr, flush=True)


def make_table(name: str, folder: Path | None) -> LabelledTable:
    """The table of a name that `table_names` lists, split into its two parts."""
    if name.split("-")[0] in LABELLED:
        codes, sizes = _generated(name)
        label = next(reversed(codes))
    else:
        path, label = Path(folder or "", f"{name}.csv"), LABELS[name.split("-")[0]]
        sizes = json.loads(path.with_name(f"{name}-domain.json").read_text()) | {label: 2}
        rows = pyarrow.csv.read_csv(path)
        has_label = rows[label].to_numpy() < 2
        codes = {column: rows[column].to_numpy()[has_label].astype(np.int64) for column in sizes}
    order = seeded(f"{name} split").permutation(len(codes[label]))
    parts = np.split(order, [2 * len(order) // 3])
    train, test = ({column: values[part] for column, values in codes.items()} for part in parts)
    return LabelledTable(domain=hush.Domain(sizes), label=label, train=train, test=test)


def _generated(name: str) -> tuple[Codes, dict[str, int]]:
    """Columns of a known structure, and a label whose log-odds are a sum over columns and pairs of columns."""
    random = seeded(name)
    kind, rows, alone, pairs = LABELLED[name.split("-")[0]]
    columns, sizes = kind(rows, random)
    log_odds = np.zeros(rows)
    for column in random.choice(len(columns), alone, replace=False):
        log_odds += random.normal(size=sizes[column])[columns[column]]
    for one, other in random.choice(len(columns), (pairs, 2), replace=False):
        effects = random.normal(scale=2.0, size=(sizes[one], sizes[other]))
        if not alone:  # neither column of a pair has an effect of its own
            effects = effects - effects.mean(axis=0) - effects.mean(axis=1, keepdims=True)
        log_odds += effects[columns[one], columns[other]]
    labels = random.random(rows) < 1 / (1 + np.exp(log_odds.mean() - log_odds))
    codes = {f"column{index}": values for index, values in enumerate(columns)} | {"label": labels.astype(np.int64)}
    return codes, dict(zip(codes, [*sizes, 2], strict=True))


def workload_of(kind: str, domain: hush.Domain, label: str) -> hush.Workload:
    """All pairs of columns; with `label` also what predicting the label needs."""
    pairs = hush.Workload.kway(domain, 2)
    return pairs + hush.Workload.predict(domain, label) if kind == "label" else pairs


def run_job(job: Line, table: LabelledTable) -> Line:
    """Train on synthetic rows of a mechanism, or on the real rows, and test on real rows."""
    if job["mechanism"] == REAL:
        return aucs(table.train, table, seed=job["run"])
    private = hush.read(pa.table(table.train), hush.Schema.from_domain(table.domain))
    workload = workload_of(job["workload"], table.domain, table.label)
    budget = hush.Budget(epsilon=job["epsilon"], delta=job["delta"])
    clock = time.process_time()
    model = hush.plan(workload, budget, mechanism=mechanism_of(job["mechanism"])).release(private).model()
    synthetic = model.synthesize(rows=len(table.train[table.label]))
    seconds = time.process_time() - clock
    codes = {column: synthetic[column].to_numpy() for column in table.domain}
    return aucs(codes, table, seed=job["run"]) | {"seconds": round(seconds, 3)}


def aucs(train: Codes, table: LabelledTable, *, seed: int) -> dict[str, float]:
    """The AUC of each classifier on the test rows; 1/2 if the training rows hold one value of the label only."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    if len(np.unique(train[table.label])) < 2:
        return dict.fromkeys(CLASSIFIERS, 0.5)
    inputs = [column for column in table.domain if column != table.label]
    one_hot = OneHotEncoder(categories=[np.arange(table.domain[column]) for column in inputs])
    logistic = make_pipeline(one_hot, LogisticRegression(max_iter=1000))
    trees = HistGradientBoostingClassifier(random_state=seed)
    train_inputs, test_inputs = (np.column_stack([part[column] for column in inputs]) for part in (train, table.test))
    found = {}
    for name, classifier in zip(CLASSIFIERS, (logistic, trees), strict=True):
        chances = classifier.fit(train_inputs, train[table.label]).predict_proba(test_inputs)[:, 1]
        found[name] = float(roc_auc_score(table.test[table.label], chances))
    return found


def report(lines: Sequence[Line]) -> None:
    """Print one table for every workload and budget, with all tables and mechanisms, and what failed."""
    finished: dict[tuple[object, ...], list[Line]] = {}
    failures: Counter[tuple[str, str, str]] = Counter()
    for line in lines:
        if "failure" in line:
            failures[line["table"], line["mechanism"], line["failure"]] += 1
        else:
            finished.setdefault(tuple(line[name] for name in KEY[:-1]), []).append(line)
    real = {key[0]: runs for key, runs in finished.items() if key[1] == REAL}
    settings = dict.fromkeys(key[2:] for key in finished if key[1] != REAL)
    headings = ("runs", *("logistic AUC", "gap", "+-"), *("trees AUC", "gap", "+-"), "CPU s")
    columns = [TextColumn(heading="table"), TextColumn(heading="training rows"), *number_columns(*headings)]
    for workload, epsilon, delta in settings or [(None, None, None)]:
        shown = []
        for table, of_table in real.items():
            shown.append([table, REAL, *_cells(of_table, of_table)])
            for key, runs in finished.items():
                if key[0] == table and key[2:] == (workload, epsilon, delta):
                    shown.append([table, str(key[1]), *_cells(runs, of_table)])
        print(f"\n{workload} workload, epsilon {epsilon:g}, delta {delta:g}" if workload else "\nno synthetic rows")
        print(TextTable(columns=columns, rows=shown).text(REPORT_WIDTH))
    for (table, mechanism, failure), count in failures.items():
        print(f"{table}, {mechanism}: {count:,} x {failure}")


def _cells(runs: Sequence[Line], real: Sequence[Line]) -> list[str]:
    """The number of runs, the AUC and gap of each classifier, and the CPU seconds."""
    cells = [str(len(runs))]
    for name in CLASSIFIERS:
        own, base = ([line[name] for line in side] for side in (runs, real))
        cells.append(f"{np.mean(own):.4f}")
        if runs is real:
            cells += ["", ""]
            continue
        enough = min(len(own), len(base)) > 1
        error = math.sqrt(sum(np.var(side, ddof=1) / len(side) for side in (own, base))) if enough else math.nan
        cells += [f"{np.mean(base) - np.mean(own):.4f}", f"{error:.4f}" if enough else NO_NUMBER]
    seconds = [line["seconds"] for line in runs if "seconds" in line]
    return [*cells, f"{np.median(seconds):,.1f}" if seconds else ""]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tables", type=listed, help="all that have a label by default")
    parser.add_argument("--mechanisms", type=listed, default=["aim", "mst", "residual"])
    parser.add_argument("--workload", choices=WORKLOADS, default=WORKLOADS[0])
    parser.add_argument("--epsilon", type=numbers, default=[1.0], help="one or several, 1 by default")
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("learning.jsonl"))
    parser.add_argument("--report", action="store_true", help="only print the tables from the file")
    options = parser.parse_args()
    known = table_names(options.data)
    options.tables = options.tables or [name for name in (*LABELS, *LABELLED) if name in known]
    kinds = {*known, *(f"{kind}-" for kind in LABELLED)}
    if unknown := {name for name in options.tables if name not in kinds and name.rstrip("0123456789") not in kinds}:
        parser.error(
            f"--tables {', '.join(unknown)}: expected some of {', '.join(known)}; --data FOLDER adds its tables"
        )
    for text in options.mechanisms:
        try:
            mechanism_of(text)
        except (HushError, TypeError) as error:
            parser.error(f"--mechanisms {text}: {error}")
    if not options.report and find_spec("sklearn") is None:
        parser.error("scikit-learn is not installed: pip install 'hush[bench]'")
    return options


if __name__ == "__main__":
    main()
