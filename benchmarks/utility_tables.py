"""Tables for `benchmarks.utility`: tables of a folder with variants, and generated tables of known structure.

The part of a name before its first hyphen is the base: `adult-coarse` and `adult-raw-codes` belong to `adult`,
`tree-2000` and `tree-50000` to `tree`. A hash of the base decides whether a table is for tuning or for judging.
Everything random is drawn from a seed made of the table's name, so every computer makes the same tables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv

import hush
from hush.core.arrays import Floats, Integers
from hush.tables.table import Table

COARSE_LEVELS = 8
HALVES = ("tuning", "judging")
VARIANTS = ("coarse", "half", "tenth")
Coded: TypeAlias = tuple[list[Integers], list[int]]  # the codes and the number of levels of each column
Random: TypeAlias = np.random.Generator


def table_names(folder: Path | None) -> list[str]:
    """All tables: those of the folder with their variants, and the generated ones."""
    names = []
    for path in sorted(folder.glob("*.csv")) if folder is not None else ():
        domain = path.with_name(f"{path.stem}-domain.json")
        if domain.exists():
            wide = max(json.loads(domain.read_text()).values()) > COARSE_LEVELS
            variants = VARIANTS if wide else VARIANTS[1:]  # without wide columns, coarse would be the table itself
            names += [path.stem, *(f"{path.stem}-{variant}" for variant in variants)]
    return names + [f"{base}-{rows}" for base, (_, *sizes) in GENERATED.items() for rows in sizes]


def half_of(name: str) -> str:
    """Whether a table is for tuning or for judging: by the name of its base, never by results."""
    return HALVES[_hashed(name.split("-")[0]) % 2]


def seeded(name: str) -> Random:
    """Public random numbers for one purpose."""
    return np.random.Generator(np.random.PCG64(_hashed(name)))


def _hashed(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16)


def make_table(name: str, folder: Path | None) -> Table:
    """The table of a name that `table_names` lists."""
    base, _, last = name.rpartition("-")
    if base in GENERATED and last.isdigit():
        columns, sizes = GENERATED[base][0](int(last), seeded(name))
        codes = {f"{base}{index}": column for index, column in enumerate(columns)}
        domain = dict(zip(codes, sizes, strict=True))
    else:
        variant = last if last in VARIANTS else ""
        path = Path(folder or "", f"{base if variant else name}.csv")
        domain = json.loads(path.with_name(f"{path.stem}-domain.json").read_text())
        rows = pyarrow.csv.read_csv(path)
        codes = {column: rows[column].to_numpy() for column in domain}
        if variant == "coarse":
            wide = [column for column, size in domain.items() if size > COARSE_LEVELS]
            codes |= {column: codes[column] * COARSE_LEVELS // domain[column] for column in wide}
            domain |= dict.fromkeys(wide, COARSE_LEVELS)
        elif variant == "half":
            kept = seeded(name).choice(len(domain), (len(domain) + 1) // 2, replace=False)
            domain = {column: size for index, (column, size) in enumerate(domain.items()) if index in kept}
        elif variant == "tenth":
            chosen = seeded(name).choice(rows.num_rows, rows.num_rows // 10, replace=False)
            codes = {column: values[chosen] for column, values in codes.items()}
    kept_codes = pa.table({column: codes[column].astype(np.int64) for column in domain})
    return hush.read(kept_codes, hush.Schema.from_domain(hush.Domain(domain)))


def _drawn(chances: Floats, given: Integers, random: Random) -> Integers:  # (values, levels), (rows,) -> (rows,)
    """One level for each row, by the probabilities for that row's given value."""
    codes = np.zeros(len(given), dtype=np.int64)
    for value, probabilities in enumerate(chances):
        rows = np.flatnonzero(given == value)
        codes[rows] = random.choice(len(probabilities), len(rows), p=probabilities)
    return codes


def _tree(rows: int, random: Random, columns: int = 12) -> Coded:
    """Every column depends on one earlier column, strongly or weakly."""
    sizes = random.integers(2, 11, size=columns).tolist()
    codes = [random.choice(sizes[0], rows, p=random.dirichlet(np.ones(sizes[0])))]
    for size in sizes[1:]:
        parent = random.integers(len(codes))
        chances = random.dirichlet(np.full(size, random.choice([0.2, 0.5, 2.0])), sizes[parent])
        codes.append(_drawn(chances, codes[parent], random))
    return codes, sizes


def _functional(rows: int, random: Random) -> Coded:
    """Five columns of a tree, and five that equal a function of one of these in all but 3 % of the rows."""
    codes, sizes = _tree(rows, random, 5)
    for source, levels in list(zip(codes, sizes, strict=True)):
        size = int(random.integers(3, 12))
        function, exceptions = random.integers(size, size=levels), random.random(rows) < 0.03
        codes.append(np.where(exceptions, random.integers(size, size=rows), function[source]))
        sizes.append(size)
    return codes, sizes


def _cliques(rows: int, random: Random) -> Coded:
    """Groups of three or four columns; most of a group's combinations are rare, and groups are independent."""
    codes: list[Integers] = []
    sizes: list[int] = []
    for group in (3, 4, 3, 4):
        shape = random.integers(2, 7, size=group).tolist()
        cells = random.choice(np.prod(shape), rows, p=random.dirichlet(np.full(np.prod(shape), 0.1)))
        codes += np.unravel_index(cells, shape)
        sizes += shape
    return codes, sizes


def _mixture(rows: int, random: Random, large: int = 0) -> Coded:
    """Six hidden classes of rows, within which columns are independent; some columns have 100 to 500 levels."""
    sizes = [*random.integers(100, 501, size=large).tolist(), *random.integers(2, 13, size=12 - 2 * large).tolist()]
    hidden = random.choice(6, rows, p=random.dirichlet(np.full(6, 2.0)))
    return [_drawn(random.dirichlet(np.full(size, 0.3), 6), hidden, random) for size in sizes], sizes


def _sparse(rows: int, random: Random) -> Coded:
    """40 of 120 combinations of three columns occur; each other column is a function of two earlier columns."""
    sizes = [6, 5, 4, *random.integers(2, 11, size=7).tolist()]
    occurring = random.choice(120, 40, replace=False)
    codes = list(np.unravel_index(random.choice(occurring, rows, p=random.dirichlet(np.full(40, 0.5))), sizes[:3]))
    for index, size in enumerate(sizes[3:], start=3):
        one, other = random.choice(index, 2, replace=False)
        codes.append(random.integers(size, size=(sizes[one], sizes[other]))[codes[one], codes[other]])
    return codes, sizes


def _zipf(rows: int, random: Random) -> Coded:
    """Few levels hold most rows; half of the rows copy the rank of the column before."""
    codes: list[Integers] = []
    sizes, ranks = random.integers(10, 61, size=10).tolist(), np.zeros(rows, dtype=np.int64)
    for size in sizes:
        chances = np.arange(1.0, size + 1) ** -random.uniform(1.0, 2.0)
        fresh = random.choice(size, rows, p=chances / chances.sum())
        ranks = np.where((random.random(rows) < 0.5) & (len(codes) > 0), ranks % size, fresh)
        codes.append(random.permutation(size)[ranks])
    return codes, sizes


def _binary(rows: int, random: Random) -> Coded:
    """24 binary columns that depend on three hidden normal factors."""
    loadings, offsets = random.normal(scale=1.5, size=(3, 24)), random.normal(scale=1.5, size=24)
    chances = 1 / (1 + np.exp(-(random.normal(size=(rows, 3)) @ loadings + offsets)))
    return list((random.random((rows, 24)) < chances).astype(np.int64).T), [2] * 24


def _ordered(rows: int, random: Random) -> Coded:
    """Eight correlated numbers, half of them skewed, in 16 to 64 bins of equal width, and a binary column."""
    values = random.normal(size=(rows, 2)) @ random.normal(size=(2, 9)) + 0.6 * random.normal(size=(rows, 9))
    values[:, 4:8] = np.exp(0.5 * values[:, 4:8])
    sizes = [*random.integers(16, 65, size=8).tolist(), 2]
    low, high = np.quantile(values, [0.005, 0.995], axis=0)
    bins = np.clip((values - low) / (high - low) * sizes, 0, np.array(sizes) - 1)
    return list(bins.astype(np.int64).T), sizes


GENERATED: dict[str, tuple[Callable[[int, Random], Coded], int, int]] = {  # with a small and a large number of rows
    "tree": (_tree, 2_000, 50_000),
    "functional": (_functional, 2_000, 20_000),
    "cliques": (_cliques, 5_000, 50_000),
    "mixture": (_mixture, 2_000, 20_000),
    "large": (partial(_mixture, large=3), 20_000, 100_000),
    "sparse": (_sparse, 10_000, 100_000),
    "zipf": (_zipf, 5_000, 50_000),
    "binary": (_binary, 10_000, 100_000),
    "ordered": (_ordered, 5_000, 50_000),
}
