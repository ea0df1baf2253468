"""Compare AIM's error bounds with true errors: how often they fail, and how much larger than the error they are.

AIM runs on small tables that are drawn anew each time, with three structures: binary columns, columns of mixed sizes,
and a chain in which each column depends on the one before it. For supported and unsupported tables, it prints the share
of bounds at `--level` that are below the true L1 error, the share of runs in which any simultaneous bound is, and the
median of bound / error. As controls, it also checks bounds cut to a half and to a quarter. Last, it prints how often
exact intervals contain the true count, over the cells of supported tables. Published, for 95 % bounds on one larger
table at epsilon = 10: no failures, and medians of 4.4 for supported and 8.3 for unsupported tables.

Run: python -m benchmarks.bounds [--runs 100] [--level 0.95] [--data FOLDER] [--tables nltcs] [--table-runs 3]
With --data it also runs on all 3-way marginals of the tables in a folder of NAME.csv (codes) and NAME-domain.json
(name -> size).
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import hush
from benchmarks.coded import DELTA, load, workload_of
from benchmarks.synthetic import listed
from hush.core.arrays import Floats
from hush.mechanisms import AIM
from hush.privacy.exact_sampling import NotPrivateEntropy

STRUCTURES = {"binary": (2, 2, 2, 2, 2), "mixed": (2, 3, 5, 8), "chain": (4, 4, 3, 3)}
ROWS, RHOS = 500, (0.003, 0.03, 0.3)
KINDS = {"supported": 4.4, "unsupported": 8.3}  # published medians of bound / error
CUTS = (1.0, 0.5, 0.25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--level", type=float, default=0.95)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tables", type=listed, default=["nltcs"])
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--table-runs", type=int, default=3)
    options = parser.parse_args()
    heads = (
        "tables",
        "runs",
        "kind",
        "bounds",
        "fail",
        "fail at 1/2",
        "fail at 1/4",
        "runs that fail",
        "median",
        "published",
    )
    shown = Table(title=f"{options.level:.0%} bounds on the L1 error of AIM's tables")
    for place, head in enumerate(heads):
        shown.add_column(head, justify="left" if place in (0, 2) else "right")
    cells = Table("tables", "cells", f"inside {options.level:.0%} interval", "inside 50% interval")
    for structure in STRUCTURES:
        for rho in RHOS:
            _tell(
                shown, cells, f"{structure}, rho {rho:g}", Watched(options.level), _made(structure, rho, options.runs)
            )
        shown.add_section()
    for name in options.tables if options.data is not None else ():
        watched = _real(options.data, name, options.epsilon, options.table_runs)
        _tell(shown, cells, f"{name}, epsilon {options.epsilon:g}", Watched(options.level), watched)
    console = Console(width=120)
    console.print(shown)
    console.print("fail at 1/2, 1/4: bounds cut to that fraction; runs that fail: any simultaneous bound fails")
    console.print(cells)


class Watched:
    """Bounds and true errors over runs."""

    def __init__(self, level: float) -> None:
        self.level = level
        self.runs = 0
        self.pairs: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}  # bound and error
        self.broken = 0  # runs in which any simultaneous bound fails
        self.inside: list[tuple[bool, bool]] = []

    def add(self, table: Any, release: Any) -> None:
        """Add one run: the bounds of all its tables, and the intervals of all cells of supported tables."""
        self.runs += 1
        bounds, together = (release.error_bounds(level=self.level, simultaneous=own) for own in (False, True))
        cliques = [bound.clique for bound in bounds]
        true, made = table.counts(cliques), release.model().tables(cliques)
        broken = False
        for alone, joint in zip(bounds, together, strict=True):
            if alone.kind == "none":
                continue
            error = float(np.abs(true[alone.clique] - made[alone.clique]).sum())
            self.pairs[alone.kind].append((alone.bound, error))
            broken |= joint.bound < error
            if alone.kind == "supported":
                held = [_inside(release, alone.clique, true[alone.clique], level) for level in (self.level, 0.5)]
                self.inside += zip(*held, strict=True)
        self.broken += broken


def _inside(release: Any, clique: tuple[str, ...], true: Floats, level: float) -> list[bool]:
    answers, exact = release.marginal(*clique, level=level), true.ravel()
    return list((answers.lower <= exact) & (exact <= answers.upper))


def _tell(shown: Table, cells: Table, title: str, watched: Watched, runs: Iterator[tuple[Any, Any]]) -> None:
    for table, release in runs:
        watched.add(table, release)
    for kind, published in KINDS.items():
        bound, error = np.array(watched.pairs[kind]).reshape(-1, 2).T
        if len(bound):
            shown.add_row(
                title,
                str(watched.runs),
                kind,
                f"{len(bound):,}",
                *(f"{np.mean(cut * bound < error):.2%}" for cut in CUTS),
                f"{watched.broken / watched.runs:.2%}",
                f"{np.median(bound / np.maximum(error, 1e-9)):.1f}",
                f"{published:g}",
            )
    held = np.array(watched.inside)
    cells.add_row(title, f"{len(held):,}", *(f"{share:.2%}" for share in held.mean(axis=0)))


def _made(structure: str, rho: float, runs: int) -> Iterator[tuple[Any, Any]]:
    """Draw tables of one structure, each with its own seed, and release each one."""
    sizes = STRUCTURES[structure]
    domain = hush.Domain({f"c{place}": size for place, size in enumerate(sizes)})
    plan = AIM().plan(hush.Workload.kway(domain, 3), hush.Budget(rho=rho))
    for seed in range(runs):
        codes = drawn(structure, sizes, np.random.Generator(np.random.PCG64(seed)))
        table = hush.read(pa.table(dict(zip(domain, codes, strict=True))), hush.Schema.from_domain(domain))
        yield table, plan.release(table, entropy=NotPrivateEntropy(seed))


def drawn(structure: str, sizes: tuple[int, ...], random: np.random.Generator) -> list[Floats]:
    """Draw columns of codes. In a chain, seven in ten values follow the column before."""
    codes = [random.choice(size, ROWS, p=random.dirichlet(np.ones(size))) for size in sizes]
    if structure == "chain":
        for before, own in itertools.pairwise(range(len(sizes))):
            codes[own] = np.where(random.random(ROWS) < 0.7, codes[before] % sizes[own], codes[own])
    return codes


def _real(folder: Path, name: str, epsilon: float, runs: int) -> Iterator[tuple[Any, Any]]:
    table = load(folder, name)
    plan = AIM().plan(workload_of("all", table.domain, name), hush.Budget(epsilon=epsilon, delta=DELTA))
    for _ in range(runs):
        yield table, plan.release(table)


if __name__ == "__main__":
    main()
