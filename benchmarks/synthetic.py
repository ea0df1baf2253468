"""Compare the workload errors of mechanisms on real tables with those printed in [AIM, sec. 6].

The error is that of [AIM, Def. 2], over 3-way workloads. It is the error of the model's tables if a mechanism has a
model, and of the noisy answers for `gaussian` and `residual`. `hdmm` and `residual-model` fit a model to what they
measured, an approximate one if an exact one is too large. `sample` is the share of the records whose plain random
sample is as far off. Published averages are over six tables and nine epsilons from 0.01 to 100, with 80 MB for AIM.

Run: python -m benchmarks.synthetic --data FOLDER [--tables adult,nltcs,titanic] [--epsilons 0.1,1,10] [--trials 3]
         [--mechanisms aim,mst,rap] [--workload all|target|skewed] [--max-size-mb 16] [--seconds 1800] [--keep FILE]
The folder holds NAME.csv (codes) and NAME-domain.json (name -> size). Each trial is a process; a trial that takes more
than --seconds is left out. With --keep, results are appended to a file, and trials found there are not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import hush
from benchmarks.coded import DELTA, WORKLOADS, error_and_sample, load, workload_of
from benchmarks.limited import FAILED, Jobs
from hush.mechanisms import (
    AIM,
    GEM,
    HDMM,
    MST,
    MWEM,
    RAP,
    SWIFT,
    DualQuery,
    Gaussian,
    Independent,
    PrivBayes,
    PrivMRF,
    PrivSyn,
    Residual,
    Scout,
)


@dataclass(frozen=True)
class Entrant:
    """A mechanism as a function of its model's size limit, and whether a model gives its answers."""

    made: Callable[[float], Any]
    model: bool = True
    average: float | None = None  # published error over AIM's, ALL-3WAY
    largest: float | None = None


ENTRANTS = {
    "aim": Entrant(lambda size: AIM(max_size_mb=size)),
    "mwem": Entrant(lambda size: MWEM(max_size_mb=size), average=2.1, largest=16.0),
    "privbayes": Entrant(lambda size: PrivBayes(max_size_mb=size), average=2.6, largest=14.7),
    "mst": Entrant(lambda size: MST(max_size_mb=size), average=8.4, largest=118.0),
    "independent": Entrant(lambda _: Independent()),
    "dualquery": Entrant(lambda size: DualQuery(max_size_mb=size)),
    "rap": Entrant(lambda _: RAP(), average=9.5, largest=47.1),
    "gem": Entrant(lambda _: GEM(), average=2.3, largest=11.7),
    "privmrf": Entrant(lambda size: PrivMRF(max_size_mb=size), average=1.3, largest=3.6),
    "privsyn": Entrant(lambda _: PrivSyn()),
    "swift": Entrant(lambda size: SWIFT(max_size_mb=size)),
    "scout": Entrant(lambda _: Scout()),
    "gaussian": Entrant(lambda _: Gaussian(), model=False),
    "hdmm": Entrant(lambda _: HDMM(noise="gaussian")),
    "residual": Entrant(lambda _: Residual(), model=False),
    "residual-model": Entrant(lambda _: Residual()),
}
USUAL = tuple(name for name in ENTRANTS if name != "residual-model")
SAMPLES = {  # median share of the records whose sample is as accurate as AIM, by epsilon and workload
    10.0: {"all": 0.37, "target": 0.62, "skewed": 0.85},
    1.0: {"all": 0.13, "target": 0.15, "skewed": 0.21},
}


def main() -> None:
    options = _options()
    jobs = Jobs("benchmarks.synthetic", options.data, options.seconds, options.keep)
    console = Console(width=120)
    ratios: dict[str, list[float]] = {}
    samples: dict[float, list[float]] = {}
    for name in options.tables:
        title = f"{name}: {options.workload} 3-way marginals, delta = {DELTA:g}, {options.trials} trials"
        heads = ("epsilon", "mechanism", "error", "min", "max", "x AIM", "sample", "CPU s", "rounds", "model MB")
        shown = Table(title=title)
        for place, head in enumerate(heads):
            shown.add_column(head, justify="left" if place == 1 else "right")
        for epsilon in options.epsilons:
            found = {}
            for mechanism in options.mechanisms:
                job = {
                    "table": name,
                    "workload": options.workload,
                    "epsilon": epsilon,
                    "mechanism": mechanism,
                    "max_size_mb": options.max_size_mb,
                }
                found[mechanism] = jobs.trials(job, options.trials)
            best = _mean([one for one in found.get("aim", []) if FAILED not in one], "error")
            for mechanism, results in found.items():
                done = [one for one in results if FAILED not in one]
                if len(done) < len(results):
                    console.print(f"{name}, epsilon {epsilon:g}, {mechanism}: {results[-1][FAILED]}", style="yellow")
                if done:
                    ratio = _mean(done, "error") / best
                    ratios.setdefault(mechanism, []).append(ratio)
                    shown.add_row(f"{epsilon:g}", mechanism, *_cells(done, ratio))
                if done and mechanism == "aim":
                    samples.setdefault(epsilon, []).append(_mean(done, "sample"))
            shown.add_section()
        console.print(shown)
    _summarise(console, ratios, samples, options.workload)


def _cells(done: Sequence[dict[str, float]], ratio: float) -> list[str]:
    errors = [one["error"] for one in done]
    return [
        *(f"{value:.4f}" for value in (np.mean(errors), min(errors), max(errors))),
        "" if np.isnan(ratio) else f"{ratio:.2f}",
        f"{_mean(done, 'sample'):.3g}",
        f"{_mean(done, 'cpu'):.1f}",
        f"{_mean(done, 'rounds'):.0f}",
        f"{_mean(done, 'size_mb'):.2f}",
    ]


def _summarise(console: Console, ratios: dict[str, list[float]], samples: dict[float, list[float]], kind: str) -> None:
    heads = ("mechanism", "settings", "average", "largest", "published average", "published largest")
    shown = Table(*heads, title="Error divided by AIM's, where both are known")
    for mechanism, given in ratios.items():
        own = [ratio for ratio in given if not np.isnan(ratio)]
        if mechanism != "aim" and own:
            told = ENTRANTS[mechanism]
            published = [f"{told.average:g}", f"{told.largest:g}"] if told.average and kind == "all" else ["", ""]
            shown.add_row(mechanism, str(len(own)), f"{np.mean(own):.2f}", f"{max(own):.2f}", *published)
    console.print(shown)
    shown = Table("epsilon", "equivalent sample for AIM, median over tables", "published median")
    for epsilon, own in samples.items():
        published = f"{SAMPLES[epsilon][kind]:g}" if epsilon in SAMPLES else ""
        shown.add_row(f"{epsilon:g}", f"{np.median(own):.3g}", published)
    console.print(shown)


def _mean(done: Sequence[dict[str, float]], name: str) -> float:
    return float(np.mean([one[name] for one in done])) if done else float("nan")


def measure(job: dict[str, Any]) -> dict[str, float]:
    """Run one mechanism and return its error."""
    table = load(Path(job["folder"]), job["table"])
    workload = workload_of(job["workload"], table.domain, job["table"])
    entrant = ENTRANTS[job["mechanism"]]
    return released(table, workload, entrant.made(job["max_size_mb"]), job["epsilon"], model=entrant.model)


def released(
    table: Any, workload: hush.Workload, mechanism: Any, epsilon: float, *, model: bool = True
) -> dict[str, float]:
    """Plan, release, fit a model if one gives the answers, and compute the error."""
    clock = time.process_time()
    release = hush.plan(workload, hush.Budget(epsilon=epsilon, delta=DELTA), mechanism=mechanism).release(table)
    fitted = release.model() if model else None
    seconds = time.process_time() - clock
    error, sample = error_and_sample(workload, table, release.tables if fitted is None else fitted.tables)
    return {
        "error": error,
        "sample": sample,
        "cpu": seconds,
        "rounds": float(len(getattr(release, "rounds", ()))),
        "size_mb": 0.0 if fitted is None else fitted.size_mb,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", type=listed, default=["adult", "nltcs", "titanic"])
    parser.add_argument("--epsilons", type=numbers, default=[0.1, 1.0, 10.0])
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--mechanisms", type=listed, default=list(USUAL))
    parser.add_argument("--workload", choices=WORKLOADS, default="all")
    parser.add_argument("--max-size-mb", type=float, default=16.0)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    unknown = [name for name in options.mechanisms if name not in ENTRANTS]
    if unknown:
        parser.error(f"--mechanisms {', '.join(unknown)}: expected some of {', '.join(ENTRANTS)}")
    return options


def listed(text: str) -> list[str]:
    return text.split(",")


def numbers(text: str) -> list[float]:
    return [float(one) for one in text.split(",")]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        print(json.dumps(measure(json.loads(sys.argv[2]))))
    else:
        main()
