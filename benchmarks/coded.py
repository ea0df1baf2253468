"""Tables of codes, the workloads of [AIM, sec. 6.2] over them, and the error of any answers to those workloads.

A folder holds NAME.csv (codes, with a header) and NAME-domain.json (name -> size).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import hush
from hush.core.domain import Domain
from hush.evaluation.resampling import Resampling
from hush.evaluation.workload_error import Tables, paired
from hush.tables.table import Table

WORKLOADS = ("all", "target", "skewed")
TARGETS = {"adult": "income>50K", "titanic": "Survived"}
ORDER, DRAWS, SEED = 3, 256, 0
DELTA = 1e-9


def load(folder: Path, name: str) -> Table:
    """One table of the folder."""
    return hush.read(folder / f"{name}.csv", hush.Schema.load(folder / f"{name}-domain.json"))


def workload_of(kind: str, domain: Domain, name: str) -> hush.Workload:
    """All triples, those with a target, or 256 random ones. Tables without a known target get a random, fixed one."""
    if kind == "all":
        return hush.Workload.kway(domain, ORDER)
    if kind == "skewed":
        return hush.Workload.skewed(domain, ORDER, DRAWS, seed=SEED)
    other = domain.attributes[int(np.random.Generator(np.random.PCG64(SEED)).integers(len(domain)))]
    return hush.Workload.target(domain, TARGETS.get(name, other), ORDER)


def rows_of(table: Table) -> int:
    """The exact number of records."""
    return int(table.counts([()])[()])


def error_and_sample(workload: hush.Workload, table: Table, answered: Tables) -> tuple[float, float]:
    """Error(D, D^) of [AIM, Def. 2], and the share of the records whose plain sample has the same error [AIM, App. C].

    A table that was drawn c times counts c times, so k is the sum of weights. Noisy answers may add up to any
    number, even a negative one.
    """
    weights = dict(zip(workload.cliques, workload.weights, strict=True))
    rows = rows_of(table)
    sampled = Resampling(rows)
    error = 0.0
    for clique, exact, made in paired(workload.domain, workload.cliques, table.counts, answered):
        error += weights[clique] * float(np.abs(exact - made).sum())
        sampled.add(exact, weights[clique])
    error /= sum(weights.values()) * rows
    return error, sampled.fraction(error * sum(weights.values()) / sampled.tables)
