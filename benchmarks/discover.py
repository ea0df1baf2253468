"""Discovered bounds, bins and levels: errors after a release, next to other schemas at the same total budget.

    python -m benchmarks.discover [--quick] [--data FOLDER] [--rows 50000] [--trials 5] [--epsilon 1] [--pipeline]
    python -m benchmarks.discover --keys 10000000     # memory and seconds for so many distinct values

Numbers. Every way spends the same epsilon and delta on one column, and its release is the same apart from the schema:

    discovered   bounds and bins found with the share of the budget that `quick_release` takes
    expert       32 quantile bins of the rows themselves and a level for each value of 2 % of them: nobody is as good
    true bounds  32 bins of equal width between the least and the largest number of the rows
    ten times    32 bins of equal width over a range ten times as wide
    header only  32 bins of equal width from 0 (or minus the end) to a power of ten above ten times the largest number
    medians      32 bins between private medians down a tree, as dpsynth finds them, with the same share and more of it
                 at finer levels, from 65,536 candidates of equal distance over the range of "ten times"
    OpenDP       bins between 15 quantiles by OpenDP's `make_private_quantile`, with the same share, from 1,000
                 candidates of equal distance over the range of "ten times"; needs the package opendp

"Wasserstein" is the distance of the released distribution from the rows, spread evenly in bins, in percent of the
rows' mean distance from their median. "Ranges" is the mean error of 500 ranges between two random rows, in percent of
all rows.

Pipeline. A whole table of invented people, discovered and released as synthetic rows; the error of pairs of conditions
on two columns. The expert and "true bounds" know the cities of 0.1 % and 1 % of the rows, "header only" knows one.

Levels. Values with Zipf frequencies; recall by the number of units that hold a value, measured and by the exact law,
next to the optimum of mechanisms that spend the whole (epsilon, delta) on this column alone and decide value by value;
with several values per unit, epsilon and delta are divided among them.

Reference: [Desfontaines et al. 2022, Thm 1] for the optimum.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import importlib.util
import math
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv

import hush
from hush.core.arrays import Floats
from hush.core.errors import HushError
from hush.discovery.discover import discover
from hush.discovery.discovery_step import DiscoveryStep
from hush.discovery.guessed_draft import OPEN_ENTRIES
from hush.discovery.level_discovery import discover_levels
from hush.discovery.quick_release import DISCOVERY_SHARE, quick_release
from hush.evaluation.comparison import distances
from hush.privacy.account import Allowance
from hush.privacy.discovery import KeyDiscovery
from hush.privacy.gaussian_filter import EVENTS_DELTA
from hush.schema import Categorical, Column, Date, Integer, Numeric, Schema, Unit
from hush.schema.discovery_draft import read_draft_column
from hush.tables.dialects.duckdb import DUCKDB

DELTA = 1e-9
DISCRETE_MARGIN = 0.005
BINS, HEAVY_SHARE = 32, 0.02
QUANTILES, CANDIDATES = 15, 1000
TREE_LEVELS, TREE_CELLS, TREE_GROWTH = 5, 2**16, 1.5  # of the tree of medians; budget of a level over that of the last
RANGES = 500
SPREAD = 64  # numbers that stand for a bin
EPOCH = dt.date(1970, 1, 1)
FREQUENCIES = (1, 30, 100, 300, 1000, math.inf)


@dataclass(frozen=True)
class Shape:
    """A column of a benchmark: its name, its kind, and its numbers; days since 1970 for a date."""

    name: str
    kind: str
    numbers: Any


def generated(rows: int, random: np.random.Generator) -> Iterator[Shape]:
    """Columns of many shapes."""
    yield Shape("uniform", "numeric", random.uniform(20, 80, rows).round(3))
    yield Shape("heavy tail", "numeric", (random.pareto(1.5, rows) * 1000).round(2))
    spikes = np.array([0, 9.99, 19.99, 49, 100, 499])[random.integers(0, 6, rows)]
    yield Shape("spiky", "numeric", np.where(random.random(rows) < 0.6, spikes, random.gamma(2, 60, rows)).round(2))
    peaks = np.array([-300.0, 0.0, 15.0, 4000.0])[random.integers(0, 4, rows)]
    yield Shape("multimodal", "numeric", (peaks + random.normal(0, 10, rows)).round(2))
    income = np.where(random.random(rows) < 0.3, 0.0, np.exp(random.normal(10.3, 0.8, rows)))
    yield Shape("income", "numeric", income.round(0))
    fare = np.maximum(3, random.gamma(2.2, 6, rows)).round(1)
    yield Shape("fare", "numeric", np.where(random.random(rows) < 0.06, 52.0, fare))
    days = 16_000 + np.minimum(random.exponential(500, rows), 2900).astype(np.int64)
    yield Shape("days", "date", days - days % 7 * (random.random(rows) < 0.3))
    yield Shape("age", "integer", np.clip(random.normal(45, 17, rows), 0, 104).astype(np.int64))


def real(folder: Path) -> Iterator[Shape]:
    """The wide columns of the tables of a folder."""
    for name, columns in (
        ("adult-raw-codes", ("age", "fnlwgt", "capital-gain", "hours-per-week")),
        ("titanic", ("Age", "Fare")),
    ):
        table = pyarrow.csv.read_csv(folder / f"{name}.csv")
        for column in columns:
            yield Shape(f"{name} {column}", "integer", table[column].to_numpy().astype(np.int64))


def table_of(shape: Shape) -> pa.Table:
    if shape.kind == "date":
        return pa.table({"x": pa.array(shape.numbers.astype(np.int32)).cast(pa.date32())})
    return pa.table({"x": shape.numbers})


# Schemas


def evenly(shape: Shape, low: float, high: float) -> Column:
    """Bins of equal width between two numbers; the finest calendar that has at most twice as many for days."""
    if shape.kind == "date":
        start, end = (
            dt.date.fromordinal(min(max(EPOCH.toordinal() + int(day), 1), dt.date.max.toordinal()))
            for day in (low, high)
        )
        columns = [
            Date(name="x", start=start, end=end, granularity=width, outside="clamp")
            for width in ("day", "week", "month", "quarter", "year")
        ]
        return next((column for column in columns if column.levels <= 2 * BINS), columns[-1])
    if shape.kind == "integer":
        low, high = math.floor(low), math.ceil(high)
        return Integer.equal_width(name="x", low=low, high=high, bins=min(BINS, high - low + 1), outside="clamp")
    return Numeric.equal_width(name="x", low=low, high=high, bins=BINS, outside="clamp")


def between(shape: Shape, edges: Any, points: Any = ()) -> Column:
    """Bins between given numbers."""
    distinct = sorted({float(edge) for edge in edges})
    if shape.kind == "integer":
        starts = sorted({math.floor(edge) for edge in distinct})
        return Integer(
            name="x",
            low=starts[0],
            high=max(math.ceil(distinct[-1]), starts[-1]),
            starts=tuple(starts),
            points=tuple(int(point) for point in points),
            outside="clamp",
        )
    if len(distinct) == 1:
        distinct.append(distinct[0] + 1)
    return Numeric(name="x", edges=tuple(distinct), points=tuple(map(float, points)), outside="clamp")


def expert(shape: Shape) -> Column:
    if shape.kind == "date":
        return evenly(shape, shape.numbers.min(), shape.numbers.max())
    values, counts = np.unique(shape.numbers, return_counts=True)
    if shape.kind == "integer" and values[-1] - values[0] < 4 * BINS:
        return Integer(name="x", low=int(values[0]), high=int(values[-1]))
    heavy = values[counts >= HEAVY_SHARE * len(shape.numbers)]
    rest = shape.numbers[~np.isin(shape.numbers, heavy)]
    edges = np.quantile(rest if len(rest) else values, np.linspace(0, 1, BINS + 1))
    return between(shape, [values[0], *edges[1:-1], values[-1]], heavy)


def wide(shape: Shape) -> tuple[float, float]:
    """A range ten times as wide as that of the rows, around its middle; from 0 on if no number is below 0."""
    low, high = float(shape.numbers.min()), float(shape.numbers.max())
    if low >= 0 and shape.kind != "date":
        return 0.0, 10 * high
    return (low + high) / 2 - 5 * (high - low), (low + high) / 2 + 5 * (high - low)


def header_only(shape: Shape) -> Column:
    """What somebody fills in who knows the sign and roughly the magnitude."""
    if shape.kind == "date":
        return Date(name="x", start=dt.date(1900, 1, 1), end=dt.date(2099, 12, 31), granularity="year", outside="clamp")
    end = 10.0 ** math.ceil(math.log10(10 * float(np.abs(shape.numbers).max())))
    return evenly(shape, 0.0 if shape.numbers.min() >= 0 else -end, end)


def median_bins(shape: Shape, budget: hush.Budget, random: np.random.Generator) -> Column:
    """Bins between medians that the exponential mechanism chooses, halves first, with a share of the budget in zCDP.

    A row is in one part of each level. It moves the difference of the rows on both sides of a candidate by one, so the
    choice with weights exp(-e |difference| / 2) costs e^2 / 8.
    """
    low, high = wide(shape)
    cells = np.linspace(low, high, TREE_CELLS + 1)
    below = np.concatenate([[0], np.cumsum(np.histogram(shape.numbers, cells)[0])])
    share = TREE_GROWTH ** np.arange(TREE_LEVELS)
    rho = budget.rho * float(DISCOVERY_SHARE) * share / share.sum()
    cuts = [0, TREE_CELLS]
    for epsilon in np.sqrt(8 * rho):
        chosen = []
        for start, end in pairwise(cuts):
            unequal = np.abs(2 * below[start : end + 1] - below[start] - below[end])
            noisy = -epsilon * unequal / 2 + random.gumbel(size=len(unequal))
            chosen.append(start + int(np.argmax(noisy)))
        cuts = sorted([*cuts, *chosen])
    return between(shape, cells[cuts])


def opendp_bins(shape: Shape, budget: hush.Budget) -> Column:
    """Bins between quantiles that OpenDP finds with a share of the budget, in zCDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    low, high = wide(shape)
    candidates = np.linspace(low, high, CANDIDATES).tolist()
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    rho = budget.rho * float(DISCOVERY_SHARE) / QUANTILES
    rows = shape.numbers.astype(float).tolist()

    def measurement(scale: float, alpha: float) -> Any:
        measure = dp.zero_concentrated_divergence()
        return dp.m.make_private_quantile(*space, measure, candidates=candidates, alpha=alpha, scale=scale)

    # the scale that costs this rho is the same for every quantile
    scale = dp.binary_search_param(lambda scale: measurement(scale, 0.5), d_in=1, d_out=rho, T=float)
    return between(shape, [measurement(scale, alpha)(rows) for alpha in np.linspace(0.005, 0.995, QUANTILES)])


# Errors


def released(shape: Shape, column: Column, budget: hush.Budget) -> tuple[Column, Floats]:
    """The counts of the levels of a column, from a release with the whole budget."""
    schema = Schema([column])
    plan = hush.plan(hush.Workload.kway(schema.domain, 1), budget, "residual")
    return column, plan.release(hush.read(table_of(shape), schema)).counts("x")


def discovered(shape: Shape, budget: hush.Budget) -> tuple[Column, Floats]:
    """The same from one budget for discovery and release."""
    first, rest = parts_of_budget(budget)
    schema = discover(table_of(shape), {"x": {"kind": shape.kind, **OPEN_ENTRIES[shape.kind]}}, first).schema
    return released(shape, schema["x"], rest)


def parts_of_budget(budget: hush.Budget) -> tuple[hush.Budget, hush.Budget]:
    """What a discovery and the release after it may spend within one account, in units of mu^2/2."""
    rest = float(budget.limit * (1 - DISCOVERY_SHARE))
    # discrete noise of this rho costs a little more than rho in mu^2/2
    return budget.part(DISCOVERY_SHARE), hush.Budget(rho=rest * (1 - DISCRETE_MARGIN))


def distribution(column: Column, counts: Floats) -> tuple[Floats, Floats]:
    """Numbers that stand for released counts, spread evenly within bins, and the rows of each."""
    masses = np.maximum(np.asarray(counts, dtype=float)[: column.levels], 0)
    numbers, rows = [], []
    for code, mass in enumerate(masses):
        if isinstance(column, Date):
            first, last = column.days(code)
            low, high = float((first - EPOCH).days), float((last - EPOCH).days)
        elif isinstance(column, Integer):
            starts = column.level_starts or range(column.low, column.high + 1)
            low = float(starts[code])
            high = float(starts[code + 1] - 1 if code + 1 < len(starts) else column.high)
        else:
            low, high = column.ends(code)  # type: ignore[attr-defined]
        inside = np.array([low]) if low == high else low + (high - low) * (np.arange(SPREAD) + 0.5) / SPREAD
        numbers.append(inside)
        rows.append(np.full(len(inside), mass / len(inside)))
    return np.concatenate(numbers), np.concatenate(rows)


def errors(shape: Shape, column: Column, counts: Floats, seed: int) -> tuple[float, float]:
    """Wasserstein and range errors, in percent."""
    truth = np.sort(shape.numbers.astype(float))
    numbers, rows = distribution(column, counts)
    if not rows.sum():
        return math.nan, math.nan
    moved, _ = distances(truth, np.ones(len(truth)), numbers, rows)
    spread = float(np.abs(truth - np.median(truth)).mean())
    random = np.random.default_rng(seed)
    ends = np.sort(truth[random.integers(0, len(truth), (RANGES, 2))], axis=1)
    order = np.argsort(numbers, kind="stable")
    held = np.append(0.0, np.cumsum(rows[order])) / rows.sum()

    def share(sorted_numbers: Any, sums: Any) -> Any:
        after, before = (np.searchsorted(sorted_numbers, ends[:, at], side) for at, side in ((1, "right"), (0, "left")))
        return sums[after] - sums[before]

    exact = share(truth, np.arange(len(truth) + 1) / len(truth))
    return 100 * moved / spread, 100 * float(np.abs(share(numbers[order], held) - exact).mean())


def ways(budget: hush.Budget) -> dict[str, Callable[[Shape], tuple[Column, Floats]]]:
    """Every way to a released column, by its name."""
    found: dict[str, Callable[[Shape], tuple[Column, Floats]]] = {
        "discovered": lambda shape: discovered(shape, budget),
        "expert": lambda shape: released(shape, expert(shape), budget),
        "true bounds": lambda shape: released(shape, evenly(shape, shape.numbers.min(), shape.numbers.max()), budget),
        "ten times": lambda shape: released(shape, evenly(shape, *wide(shape)), budget),
        "header only": lambda shape: released(shape, header_only(shape), budget),
    }
    rest, random = hush.Budget(rho=budget.rho * float(1 - DISCOVERY_SHARE)), np.random.default_rng(31)
    found["medians"] = lambda shape: released(shape, median_bins(shape, budget, random), rest)
    if importlib.util.find_spec("opendp") is None:
        print("opendp is not installed: its way is left out")
    else:
        found["OpenDP"] = lambda shape: released(shape, opendp_bins(shape, budget), rest)
    return found


def compare_numbers(shapes: list[Shape], budget: hush.Budget, trials: int) -> None:
    """Print the mean errors of every way on every column, and their geometric means as ratios to `expert`."""
    arms = ways(budget)
    print(f"\n{budget}, {trials} trials: Wasserstein | ranges, both in percent")
    print(f"{'':32}" + "".join(f"{name:>17}" for name in arms))
    logs: dict[str, list[Any]] = {name: [] for name in arms}
    for shape in shapes:
        cells = []
        for name, way in arms.items():
            if name in ("medians", "OpenDP") and shape.kind == "date":
                cells.append(f"{'-':>17}")
                continue
            try:
                both = np.mean([errors(shape, *way(shape), seed) for seed in range(trials)], axis=0)
            except HushError as error:
                print(f"{shape.name}, {name}: {error}")
                both = np.full(2, math.nan)
            logs[name].append((shape.name, both))
            cells.append(f"{both[0]:>8.2f} |{both[1]:>7.2f}")
        print(f"{f'{shape.name}, {len(shape.numbers):,} rows':32}" + "".join(cells), flush=True)
    best = dict(logs["expert"])
    ratios = {
        name: np.exp(np.nanmean([np.log(both / best[column]) for column, both in pairs], axis=0))
        for name, pairs in logs.items()
    }
    print(f"{'geometric mean / expert':32}" + "".join(f"{both[0]:>8.2f} |{both[1]:>7.2f}" for both in ratios.values()))


# The whole pipeline


def people(rows: int, random: np.random.Generator) -> pa.Table:
    """Invented people whose columns depend on each other: age, income, fare, day and city."""
    age = np.clip(random.normal(45, 17, rows), 18, 95).astype(np.int64)
    rank = np.minimum(random.zipf(1.6, rows), 5000)
    income = np.exp(random.normal(9.6, 0.7, rows) + np.minimum(age - 18, 40) / 50 + 0.5 / rank).round(0)
    income[random.random(rows) < np.where(age > 66, 0.6, 0.15)] = 0
    fare = np.where(random.random(rows) < 0.1, 52.0, np.maximum(3, random.gamma(2.2, 6 + age / 20, rows)).round(1))
    day = 16_000 + np.minimum(random.exponential(300 + 4 * age, rows), 2900).astype(np.int32)
    city = np.char.add("city ", rank.astype(str))
    return pa.table({"age": age, "income": income, "fare": fare, "day": pa.array(day).cast(pa.date32()), "city": city})


def shape_of(table: pa.Table, name: str) -> Shape:
    """A column of a table as a shape, whose numbers are days since 1970 for a date."""
    kind = {"age": "integer", "day": "date"}.get(name, "numeric")
    numbers = table[name].cast(pa.int32()) if kind == "date" else table[name]
    return Shape(name, kind, numbers.to_numpy())


def schema_by(table: pa.Table, column_by: Callable[[Shape], Column], least_share: float) -> Schema:
    """The schema that a way gives to every column of numbers, and the cities that a share of the rows lives in."""
    columns: list[Any] = [
        dataclasses.replace(column_by(shape_of(table, name)), name=name) for name in table.column_names[:-1]
    ]
    cities, counts = np.unique(table["city"].to_numpy(zero_copy_only=False), return_counts=True)
    common = tuple(map(str, cities[counts >= least_share * table.num_rows]))
    return Schema([*columns, Categorical(name="city", values=common or (str(cities[0]),), other=True)])


def conditions(table: pa.Table, random: np.random.Generator) -> list[dict[str, Any]]:
    """Pairs of conditions on two columns: a range between two random rows, or the city of a random row."""
    asked = []
    for _ in range(RANGES):
        pair = random.choice(len(table.column_names), 2, replace=False)
        chosen = {}
        for name in (table.column_names[at] for at in pair):
            ends = [table[name][int(at)].as_py() for at in random.integers(0, table.num_rows, 2)]
            chosen[name] = ends[:1] * 2 if name == "city" else sorted(ends)
        asked.append(chosen)
    return asked


def shares(table: pa.Table, asked: list[dict[str, Any]]) -> Any:
    """The share of rows that meets each pair of conditions."""
    held = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
    held["day"] = held["day"].astype("datetime64[D]")
    return np.array(
        [
            np.mean(np.all([(held[name] >= low) & (held[name] <= high) for name, (low, high) in pair.items()], axis=0))
            for pair in asked
        ]
    )


def compare_pipelines(rows: int, budget: hush.Budget, trials: int, random: np.random.Generator) -> None:
    """Print the errors of pairs of conditions on synthetic rows, after discovery and release and after a release."""
    table = people(rows, random)
    asked = conditions(table, random)
    exact = shares(table, asked)

    kinds = dict(zip(table.column_names, ("integer", "numeric", "numeric", "date", "categorical"), strict=True))
    draft = {name: {"kind": kind, **OPEN_ENTRIES[kind]} for name, kind in kinds.items()}

    def error_of(drawn: pa.Table) -> float:
        return 100 * float(np.abs(shares(drawn.cast(table.schema), asked) - exact).mean())

    def error(schema: Schema) -> float:
        plan = hush.plan("2-way", budget, "auto", schema=schema, goal="rows")
        return error_of(plan.release(hush.read(table, schema)).synthesize(rows))

    print(
        f"\n{budget}, {rows:,} invented people of 5 columns, {trials} trials: mean error of "
        f"{RANGES} pairs of conditions"
    )
    arms = {
        "expert": lambda: error(schema_by(table, expert, 1e-3)),
        "discovered": lambda: error_of(quick_release(table, budget, draft=draft).release.synthesize(rows)),
        "true bounds": lambda: error(
            schema_by(table, lambda shape: evenly(shape, shape.numbers.min(), shape.numbers.max()), 1e-2)
        ),
        "header only": lambda: error(schema_by(table, header_only, 1.0)),
    }
    best = 0.0
    for name, run in arms.items():
        measured = [run() for _ in range(trials)]
        mean, deviation = float(np.mean(measured)), float(np.std(measured)) / math.sqrt(trials)
        best = best or mean
        print(f"{name:14}{mean:>8.3f} % of rows, ± {deviation:.3f}; {mean / best:.2f} times the expert's", flush=True)


def step_of(source: Any, unit: Unit, budget: hush.Budget) -> DiscoveryStep:
    """A step that may spend the whole budget."""
    delta = Fraction(budget.delta or 0) * EVENTS_DELTA
    account = Allowance(budget)
    return DiscoveryStep(source=source, unit=unit, account=account, cost=budget.limit, delta=delta, failure=0.01)


def compare_levels(rows: int, budget: hush.Budget, per_unit: int, random: np.random.Generator) -> None:
    """Print the recall of values by how many units hold them, next to the optimum for the same total budget."""
    values = np.minimum(random.zipf(1.3, rows), 10**7)
    held = pa.table({"id": np.arange(rows) // per_unit, "x": pa.array(values).cast(pa.string())})
    distinct = held.group_by(["id", "x"]).aggregate([])
    truth = dict(
        zip(*(column.to_pylist() for column in distinct.group_by("x").aggregate([([], "count_all")])), strict=True)
    )
    if not isinstance(next(iter(truth)), str):
        truth = {text: units for units, text in truth.items()}
    source = DUCKDB.open_frame("the rows", held.column_names, held, duckdb.connect())
    unit = Unit() if per_unit == 1 else Unit(column="id", max_rows=per_unit)
    column = read_draft_column("x", {"kind": "categorical", "levels": "discover", "values_per_unit": per_unit})
    found = discover_levels(step_of(source, unit, budget), column)  # type: ignore[arg-type]
    stated = found.provenance
    shown = set(found.column.values)  # type: ignore[union-attr]
    epsilon, delta = Fraction(budget.epsilon or 0), Fraction(budget.delta or 0)
    bits = KeyDiscovery(epsilon / per_unit, delta / per_unit)
    print(
        f"\n{budget}, {rows:,} rows, {per_unit} value(s) per unit: shown from a noisy count of {stated.threshold}, "
        f"noise {stated.units_stddev:.1f}; the optimum shows half of the values of {bits.usual} units"
    )
    print(f"{'units that hold a value':26}{'values':>10}{'recall':>10}{'by the law':>12}{'optimum':>10}")
    for low, high in pairwise(FREQUENCIES):
        inside = {text: units for text, units in truth.items() if low <= units < high}
        if not inside:
            continue
        recall = np.mean([text in shown for text in inside])
        normal = NormalDist(0, stated.units_stddev or 1)
        law = np.mean([1 - normal.cdf((stated.threshold or 0) - 0.5 - units) for units in inside.values()])
        best = np.mean([float(bits.probability(units)) for units in inside.values()])
        name = f"{low:,} or more" if math.isinf(high) else f"{low:,} to {high - 1:,}"
        print(f"{name:26}{len(inside):>10,}{recall:>10.1%}{law:>12.1%}{best:>10.1%}")


def many_keys(keys: int, budget: hush.Budget) -> None:
    """Print seconds and memory for a column of so many distinct values."""
    connection = duckdb.connect()
    connection.execute(
        f"CREATE TABLE t AS SELECT 'value ' || i AS x FROM range({keys}) r(i) UNION ALL "
        "SELECT 'common ' || i % 100 FROM range(100000) r(i)"
    )
    source = DUCKDB.open_table(connection, "t", None)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    column = read_draft_column("x", {"kind": "categorical", "levels": "discover"})
    found = discover_levels(step_of(source, Unit(), budget), column)  # type: ignore[arg-type]
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{keys:,} distinct values: {len(found.column.values)} shown, "  # type: ignore[union-attr]
        f"{seconds:.1f} s, at most {(after - before) / 1024:.0f} MB more than before"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3,000 rows and one trial")
    parser.add_argument("--data", type=Path, help="folder with adult-raw-codes.csv and titanic.csv")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--pipeline", action="store_true", help="measure discovery and release of a whole table alone")
    parser.add_argument("--keys", type=int, help="measure the search for levels among so many distinct values alone")
    options = parser.parse_args()
    budget = hush.Budget(epsilon=options.epsilon, delta=DELTA)
    if options.keys:
        many_keys(options.keys, budget)
        return
    rows, trials = (3_000, 1) if options.quick else (options.rows, options.trials)
    random = np.random.default_rng(30)
    shapes = [*generated(rows, random), *(real(options.data) if options.data else ())]
    if not options.pipeline:
        compare_numbers(shapes, budget, trials)
    compare_pipelines(rows, budget, trials, random)
    if options.pipeline:
        return
    for per_unit in (1, 4):
        compare_levels(10 * rows, budget, per_unit, random)


if __name__ == "__main__":
    main()
