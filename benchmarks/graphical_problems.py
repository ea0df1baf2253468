"""The fitting problems of the comparison: Adult with a spanning tree, AIM-like models on Adult, chains, growing models.

The noise is Gaussian with a fixed seed. These are speed tests on public tables, and nothing here is private. For the
same reason the cliques of a model are chosen on exact counts.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.graphical_choice import Codes, counts, greedy, ones, spanning_tree
from benchmarks.graphical_files import Problem
from hush.core.domain import Clique, Domain
from hush.models.graphical.junction_tree import JunctionTree

SEED = 20220101
SMALL_MB, LARGE_MB = 8.0, 80.0
SEQUENCE = 30


def read_table(folder: Path, name: str) -> tuple[Domain, Codes]:
    """`<name>.csv` with integer codes, and `<name>-domain.json` with sizes."""
    domain = Domain(json.loads((folder / f"{name}-domain.json").read_text()))
    with (folder / f"{name}.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    table = np.array(rows, dtype=np.int64)
    return domain, {column: table[:, header.index(column)] for column in domain.attributes}


def noisy(
    name: str, domain: Domain, codes: Codes, cliques: Sequence[Clique], stddev: Sequence[float], first: int = 0
) -> Problem:
    """The cliques of a table with Gaussian noise."""
    generator = np.random.Generator(np.random.PCG64(SEED))
    exact = [counts(domain, codes, clique) for clique in cliques]
    values = [table + generator.normal(0, s, table.shape) for table, s in zip(exact, stddev, strict=True)]
    size = JunctionTree.build(domain, cliques).size_mb
    sizes = dict(zip(domain.attributes, domain.shape, strict=True))
    notes = {"model MB": size, "rows": len(codes[domain.attributes[0]])}
    return Problem(
        name=name, sizes=sizes, cliques=cliques, values=values, stddev=list(stddev), first=first, notes=notes
    )


def adult_tree(domain: Domain, codes: Codes) -> Problem:
    """(a) All one-way marginals and the spanning tree, sigma = 50."""
    cliques = ones(domain) + spanning_tree(domain, codes)
    return noisy("a-tree", domain, codes, cliques, [50.0] * len(cliques))


def adult_aim(domain: Domain, codes: Codes, name: str, limit_mb: float, count: int, paced: bool = False) -> Problem:
    """(b), (d) One-way marginals, then `count` cliques chosen as in AIM, with noise that falls as AIM anneals."""
    stddev = [float(s) for s in np.geomspace(100, 10, count)]
    chosen = greedy(domain, codes, limit_mb, stddev, paced)
    single = ones(domain)
    first = len(single) if paced else 0
    return noisy(name, domain, codes, [*single, *chosen], [100.0] * len(single) + stddev[: len(chosen)], first)


def adult_growing(domain: Domain, codes: Codes) -> Problem:
    """(e) Thirty models: one-way marginals, then one clique more each time, to 8 MB."""
    return adult_aim(domain, codes, "e-growing", SMALL_MB, SEQUENCE - 1, paced=True)


def chain_rows(attributes: int, levels: int, rows: int) -> tuple[Domain, Codes]:
    """A Markov chain: every attribute depends on the one before, by a random table."""
    generator = np.random.Generator(np.random.PCG64(SEED))
    names = [f"a{i}" for i in range(attributes)]
    codes = {names[0]: generator.integers(0, levels, rows)}
    for before, name in itertools.pairwise(names):
        rising = generator.dirichlet(np.full(levels, 0.5), size=levels).cumsum(axis=1)
        drawn = generator.random(rows)[:, None] > rising[codes[before]]
        codes[name] = np.minimum(drawn.sum(axis=1), levels - 1)
    return Domain(dict.fromkeys(names, levels)), codes


def chain(attributes: int, name: str = "", levels: int = 10, rows: int = 100_000) -> Problem:
    """(c) The marginals of (i, i+1, i+2), sigma = 50 [HDMM, fig. 4.2b]."""
    domain, codes = chain_rows(attributes, levels, rows)
    names = domain.attributes
    cliques = [names[i : i + 3] for i in range(attributes - 2)]
    return noisy(name or f"chain-{attributes}", domain, codes, cliques, [50.0] * len(cliques))


def triples(chosen: Sequence[tuple[int, int, int]], name: str, attributes: int = 100) -> Problem:
    """Chosen triples of the chain's attributes, sigma = 50 [HDMM, fig. 4.2c]."""
    domain, codes = chain_rows(attributes, 10, 10_000)
    cliques = [tuple(f"a{i}" for i in triple) for triple in chosen]
    return noisy(name, domain, codes, cliques, [50.0] * len(cliques))


def comparison(folder: Path) -> dict[str, Callable[[], Problem]]:
    """The problems (a) to (e), by their letters."""
    domain, codes = read_table(folder, "adult")
    return {
        "a": lambda: adult_tree(domain, codes),
        "b": lambda: adult_aim(domain, codes, "b-aim", SMALL_MB, 40),
        "c": lambda: chain(100, "c-chain"),
        "d": lambda: adult_aim(domain, codes, "d-aim", LARGE_MB, 60),
        "e": lambda: adult_growing(domain, codes),
    }
