"""Measure what each design choice in AIM is worth: its error on real tables, with one choice changed at a time.

`default` is what the library does, `paper` is the form stated in the paper. Every other variant changes one thing:

- unrestrained: fit to the end instead of stopping short of the noise
- unrestrained-1/sigma: the same, with weights 1/sigma instead of the likelihood
- anneals-x4: multiply the budget by four after one dull round, instead of by two after two
- columns-once: measure each column once, however noisy it is
- plain-scores: ignore what is already known about a table when scoring it
- generalized: select by the generalised exponential mechanism
- share-*: the fraction of a round's budget that measures
- rounds-*: T, in rounds per column
- merge-rare: count levels that seem rare as one

`x default` is printed beside the standard error of the mean. A difference below two standard errors means nothing.

Run: python -m benchmarks.aim_ablation --data FOLDER [--tables nltcs,titanic] [--epsilons 0.1,1,10] [--trials 5]
         [--variants default,paper] [--workload all|target|skewed] [--max-size-mb 16] [--seconds 1800] [--keep FILE]
As in benchmarks.synthetic, the folder holds tables of codes and each trial runs in its own process. Results are
appended to a file, and trials found there are not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.coded import DELTA, WORKLOADS, load, workload_of
from benchmarks.limited import FAILED, Jobs
from benchmarks.synthetic import listed, numbers, released
from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.mechanisms import AIM
from hush.mechanisms.aim import MEAN_ABSOLUTE, AIMRun
from hush.mechanisms.plan import Plan
from hush.mechanisms.session import Session


@dataclass(frozen=True, kw_only=True)
class PaperWeights(AIM):
    """AIM with its model fitted by the paper's weights, 1/sigma."""

    @property
    def loss(self) -> str:
        return "paper"


@dataclass(frozen=True, kw_only=True)
class PlainScores(AIM):
    """AIM with the paper's score, which ignores what is known about a table before it is measured."""

    def run(self, session: Session, plan: Plan) -> None:
        PlainRun(self, session, plan.workload).run()


class PlainRun(AIMRun):
    """A run whose scores are lowered by sqrt(2/pi) sigma n_r."""

    def _penalties(self, cliques: Sequence[Clique], stddev: float) -> Floats:
        return MEAN_ABSOLUTE * stddev * np.array([float(self.rounds.levels.cells(clique)) for clique in cliques])


@dataclass(frozen=True, kw_only=True)
class PaperAnnealing(AIM):
    """AIM that multiplies the budget by four after one dull round, as in the paper."""

    @property
    def growth(self) -> int:
        return 4

    @property
    def patience(self) -> int:
        return 1


@dataclass(frozen=True, kw_only=True)
class ColumnsOnce(AIM):
    """AIM that measures columns once, however noisy they are."""

    def run(self, session: Session, plan: Plan) -> None:
        ColumnsOnceRun(self, session, plan.workload).run()


class ColumnsOnceRun(AIMRun):
    """A run that never measures a column again."""

    def _columns_again(self) -> None:
        return


VARIANTS: dict[str, Callable[[Domain, float], AIM]] = {
    "default": lambda _, size: AIM(max_size_mb=size),
    "paper": lambda _, size: AIM(max_size_mb=size, paper=True),
    "unrestrained": lambda _, size: AIM(max_size_mb=size, restraint=0.0),
    "unrestrained-1/sigma": lambda _, size: PaperWeights(max_size_mb=size, restraint=0.0),
    "anneals-x4": lambda _, size: PaperAnnealing(max_size_mb=size),
    "columns-once": lambda _, size: ColumnsOnce(max_size_mb=size),
    "plain-scores": lambda _, size: PlainScores(max_size_mb=size),
    "generalized": lambda _, size: AIM(max_size_mb=size, selection="generalized"),
    "share-0.8": lambda _, size: AIM(max_size_mb=size, share=0.8),
    "share-0.95": lambda _, size: AIM(max_size_mb=size, share=0.95),
    "rounds-8d": lambda domain, size: AIM(max_size_mb=size, rounds=8 * len(domain)),
    "rounds-32d": lambda domain, size: AIM(max_size_mb=size, rounds=32 * len(domain)),
    "merge-rare": lambda _, size: AIM(max_size_mb=size, merge_rare=True),
}


def main() -> None:
    options = _options()
    jobs = Jobs("benchmarks.aim_ablation", options.data, options.seconds, options.keep)
    console = Console(width=120)
    for name in options.tables:
        shown = Table(
            title=f"{name}: AIM, {options.workload} 3-way, delta = {DELTA:g}, at most {options.max_size_mb:g} MB"
        )
        heads = ("epsilon", "variant", "trials", "error", "+-", "x default", "+-", "rounds", "CPU s", "model MB")
        for place, head in enumerate(heads):
            shown.add_column(head, justify="left" if place == 1 else "right")
        for epsilon in options.epsilons:
            base: tuple[float, float] | None = None
            for variant in options.variants:
                job = {
                    "table": name,
                    "workload": options.workload,
                    "epsilon": epsilon,
                    "variant": variant,
                    "max_size_mb": options.max_size_mb,
                }
                results = jobs.trials(job, options.trials)
                done = [one for one in results if FAILED not in one]
                if len(done) < len(results):
                    console.print(f"{name}, epsilon {epsilon:g}, {variant}: {results[-1][FAILED]}", style="yellow")
                if done:
                    own = _mean([one["error"] for one in done])
                    base = own if variant == "default" else base
                    shown.add_row(f"{epsilon:g}", variant, str(len(done)), *_cells(own, base, done))
            shown.add_section()
        console.print(shown)


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return float(np.mean(values)), spread / math.sqrt(len(values))


def _cells(own: tuple[float, float], base: tuple[float, float] | None, done: list[dict[str, float]]) -> list[str]:
    ratio = ["", ""]
    if base is not None:
        both = math.hypot(own[1] / own[0], 0.0 if own is base else base[1] / base[0])
        ratio = [f"{own[0] / base[0]:.3f}", "" if own is base else f"{own[0] / base[0] * both:.3f}"]
    means = [float(np.mean([one[name] for one in done])) for name in ("rounds", "cpu", "size_mb")]
    return [f"{own[0]:.5f}", f"{own[1]:.5f}", *ratio, f"{means[0]:.0f}", f"{means[1]:.1f}", f"{means[2]:.3f}"]


def measure(job: dict[str, Any]) -> dict[str, float]:
    """Run one variant and return its error."""
    table = load(Path(job["folder"]), job["table"])
    workload = workload_of(job["workload"], table.domain, job["table"])
    return released(table, workload, VARIANTS[job["variant"]](table.domain, job["max_size_mb"]), job["epsilon"])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", type=listed, default=["nltcs", "titanic"])
    parser.add_argument("--epsilons", type=numbers, default=[0.1, 1.0, 10.0])
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--variants", type=listed, default=list(VARIANTS))
    parser.add_argument("--workload", choices=WORKLOADS, default="all")
    parser.add_argument("--max-size-mb", type=float, default=16.0)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    unknown = [name for name in options.variants if name not in VARIANTS]
    if unknown:
        parser.error(f"--variants {', '.join(unknown)}: expected some of {', '.join(VARIANTS)}")
    return options


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        print(json.dumps(measure(json.loads(sys.argv[2]))))
    else:
        main()
