"""Synthetic rows compared with the real ones: distances of columns and pairs, association, and workload error.

Numeric columns are also compared as numbers, not by bins: distances between distributions, means and exact zeros.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, DomainError, WorkloadError
from hush.evaluation.resampling import LARGEST_FRACTION, Resampling
from hush.evaluation.workload_error import Progress, Tables, TermErrors, paired, term_errors
from hush.linops import AllRange, Dense, Identity, LevelsAndTotal, LinearOperator, Permuted, Prefix, Total, WidthRange
from hush.release.model import Model
from hush.release.release import Release
from hush.render.markup import join, tag
from hush.render.text_table import TextColumn, TextTable, counted, number_columns
from hush.schema import Integer, Numeric, Schema
from hush.tables.read import count_numbers
from hush.tables.table import Counts, Table
from hush.workloads import Workload


def cramers_v(table: Any) -> float:
    """Cramér's V of a two-way table: sqrt(chi^2 / (N min(r - 1, c - 1))), 0 for independent columns, 1 for a function.

    Only the r rows and c columns with counts are used; if either is one, V is 0. There is no correction for small
    samples: few records in a large table raise V.

    >>> cramers_v([[10, 0], [0, 10]]), cramers_v([[5, 5], [5, 5]]), cramers_v([[5, 5], [0, 0]])
    (1.0, 0.0, 0.0)
    """
    counts = np.asarray(table, dtype=np.float64)
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    least = min(counts.shape) - 1
    if least < 1:
        return 0.0
    p = counts / counts.sum()
    expected = np.outer(p.sum(axis=1), p.sum(axis=0))
    return min(math.sqrt(float(((p - expected) ** 2 / expected).sum()) / least), 1.0)


STAMP = "internal: computed on private data, not for release"
ZERO_ONE_BLOCKS = (Identity, Total, Prefix, AllRange, WidthRange, LevelsAndTotal)
MOST_ROWS = 10  # of columns, and of pairs
BAR_WIDTH = 16  # characters for the worst distance


@dataclass(frozen=True, slots=True)
class Pair:
    """Two columns: the total variation distance of their tables, and their association in each.

    `real` and `synthetic` are Cramér's V, from 0 for independent columns to 1.
    """

    columns: Clique
    distance: float
    real: float
    synthetic: float

    @property
    def difference(self) -> float:
        """How far the association is off."""
        return abs(self.real - self.synthetic)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberComparison:
    """A column of numbers in both tables; NaN where one of them has no number in it.

    `wasserstein` is the distance by which numbers must be moved on average to turn one distribution into the other,
    in the unit of the column. `kolmogorov` is the largest difference between the shares of rows up to a number: 0 for
    equal distributions, 1 for no overlap. Zeros are the shares of numbers that are exactly 0.

    Privacy: every figure comes from private data without noise, and must not be published.
    """

    column: str
    wasserstein: float
    kolmogorov: float
    real_mean: float
    synthetic_mean: float
    real_zeros: float
    synthetic_zeros: float

    def to_dict(self) -> dict[str, Any]:
        """The figures for JSON, in which NaN is null."""

        def known(number: float) -> float | None:
            return number if math.isfinite(number) else None

        return {
            "column": self.column,
            "wasserstein": known(self.wasserstein),
            "kolmogorov": known(self.kolmogorov),
            "mean": {"real": known(self.real_mean), "synthetic": known(self.synthetic_mean)},
            "zeros": {"real": known(self.real_zeros), "synthetic": known(self.synthetic_zeros)},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How close synthetic data is to the real data; `print` it, or take `to_dict`.

    Distances are total variation, 1/2 ||p - p^||_1 between shares of rows: 0 for equal shares, 1 for no value in
    common. `errors` are those of the workload. A sample of `equivalent_fraction` of the real rows, drawn with
    replacement, would have the same error; None if a query does not count a set of records.

    Privacy: every figure comes from private data without noise. It costs no budget because it is not a release: it is
    for those who may see the data, and must not be published.
    """

    real_rows: int
    synthetic_rows: float
    modelled: bool  # whether tables of a model were compared instead of rows
    columns: Mapping[str, float]  # distances, the worst first
    pairs: tuple[Pair, ...]  # the worst distance first
    workload: Workload
    errors: TermErrors
    equivalent_fraction: float | None
    numbers: tuple[NumberComparison, ...] = ()  # from `compare_numbers`, if it was given

    @property
    def error(self) -> float:
        """The workload error in counts, Def. 2 of AIM; see `workload_error`."""
        return self.errors.error

    @property
    def same_rows(self) -> bool:
        """Whether the numbers of rows agree within a percent, so that counts can be compared directly."""
        return abs(self.synthetic_rows - self.real_rows) <= 0.01 * self.real_rows

    @property
    def capped(self) -> bool:
        """Whether the equivalent fraction is at its limit, and may be more."""
        return self.equivalent_fraction is not None and self.equivalent_fraction >= LARGEST_FRACTION

    def to_dict(self) -> dict[str, Any]:
        """Every figure as numbers, texts and lists, the stamp first; for JSON.

        Privacy: as private as the comparison.
        """
        terms = zip(self.workload, self.errors.absolute, self.errors.distances, strict=True)
        rows = self.synthetic_rows if self.modelled else round(self.synthetic_rows)
        return {
            "stamp": STAMP,
            "rows": {"real": self.real_rows, "synthetic": rows, "modelled": self.modelled},
            "workload": {
                "tables": len(self.workload),
                "numbers": self.workload.queries,
                "error": self.error,
                "share_error": self.errors.share_error,
                "mean_distance": self.errors.mean_distance,
                "equivalent_fraction": self.equivalent_fraction,
                "equivalent_fraction_or_more": self.capped,
                "terms": [
                    {
                        "columns": list(term.clique),
                        "weight": term.weight,
                        "absolute_error": float(absolute),
                        "distance": float(distance),
                    }
                    for term, absolute, distance in terms
                ],
            },
            "columns": [{"column": name, "distance": distance} for name, distance in self.columns.items()],
            "pairs": [
                {
                    "columns": list(pair.columns),
                    "distance": pair.distance,
                    "cramers_v": {"real": pair.real, "synthetic": pair.synthetic},
                }
                for pair in self.pairs
            ],
            "numbers": [entry.to_dict() for entry in self.numbers],
        }

    def __str__(self) -> str:
        return "\n\n".join([STAMP, *(table.text(100) for table in comparison_tables(self))])

    def _repr_html_(self) -> str:
        return join(tag("p", tag("strong", STAMP)), *(table.html() for table in comparison_tables(self)))


def compare(
    real: Table,
    synthetic: Table | Release | Model,
    workload: Workload | None = None,
    *,
    numbers: Sequence[NumberComparison] = (),
    progress: Progress | None = None,
) -> Comparison:
    """Compare synthetic rows, or the model of a release, with the real rows.

    By default the workload is every table over two columns. The equivalent fraction uses errors in shares, so it does
    not depend on the number of synthetic rows. `numbers`, from `compare_numbers`, adds a comparison of numbers that are
    not in bins. The answers of a release that measured nothing are all 0. `progress` is called with the fraction done.

    Privacy: reads the real rows exactly and spends no budget, so its result is not a release: it is private, is stamped
    so, and is for those who may see the data. Choosing among releases by it, and publishing the choice, leaks too.

    Reference: [AIM, Def. 2 and App. C].

    >>> import hush
    >>> schema = hush.datasets.people_schema()
    >>> real, synthetic = (hush.read(hush.datasets.people(500, seed=seed), schema) for seed in (1, 2))
    >>> comparison = compare(real, synthetic)
    >>> comparison.real_rows, len(comparison.pairs), round(comparison.equivalent_fraction, 2)
    (500, 21, 0.38)
    >>> str(comparison).splitlines()[0]
    'internal: computed on private data, not for release'
    """
    _check_sources(real, synthetic)
    workload = default_workload(real.schema) if workload is None else workload
    if workload.domain != real.domain:
        raise WorkloadError("the workload is over another domain than the real rows; build it from real.domain")

    # Where the tables of both sides come from, and how many rows each side has.
    compared = synthetic.model() if isinstance(synthetic, Release) and synthetic.record.tables else synthetic
    estimated = compared.tables if isinstance(compared, Release | Model) else compared.counts
    rows, total = (float(source([()])[()]) for source in (real.counts, estimated))
    zeros = isinstance(compared, Release)  # nothing was measured, and every answer is 0
    if not (rows > 0 and (total > 0 or zeros)):
        raise DataError("one of the tables has no rows, so nothing can be compared; give tables with rows")

    # Distances, the error of the workload, and the sample of real rows that would have the same error.
    columns, pairs = _column_distances(real.domain, real.counts, estimated)
    sets = all(term.product is not None and all(map(_is_set, term.product.blocks)) for term in workload)
    sampled = Resampling(rows)
    take = (lambda term, answers: sampled.add(answers, term.weight)) if sets else None
    errors = term_errors(workload, real.counts, estimated, zeros=zeros, seen=take, progress=progress)
    return Comparison(
        real_rows=round(rows),
        synthetic_rows=total,
        modelled=isinstance(synthetic, Release | Model),
        columns=columns,
        pairs=pairs,
        workload=workload,
        errors=errors,
        equivalent_fraction=sampled.fraction(errors.share_error) if sets else None,
        numbers=tuple(numbers),
    )


def _check_sources(real: Table, synthetic: Table | Release | Model) -> None:
    """Refuse anything but tables, releases and models, and schemas that differ."""
    if isinstance(real, Release | Model) or not hasattr(real, "counts"):
        raise DataError(
            f"real: expected a table of the private rows, got {type(real).__name__}; write hush.read(rows, schema)"
        )
    if not isinstance(synthetic, Release | Model) and not hasattr(synthetic, "counts"):
        given = type(synthetic).__name__
        raise DataError(
            f"synthetic: expected a table, a release or a model, got {given}; write hush.read(rows, schema)"
        )
    check_schemas(real.schema, synthetic.schema)


def _column_distances(domain: Domain, exact: Tables, estimated: Tables) -> tuple[dict[str, float], tuple[Pair, ...]]:
    """The distances of all columns and pairs, the worst first, and the association of each pair."""
    columns = {
        clique[0]: _distance(truth, estimate)
        for clique, truth, estimate in paired(domain, [(name,) for name in domain], exact, estimated)
    }
    several = [name for name in domain if domain[name] > 1]
    pairs = [
        Pair(clique, _distance(truth, estimate), cramers_v(truth), cramers_v(estimate))
        for clique, truth, estimate in paired(domain, list(itertools.combinations(several, 2)), exact, estimated)
    ]
    worst = dict(sorted(columns.items(), key=lambda item: -item[1]))
    return worst, tuple(sorted(pairs, key=lambda pair: -pair.distance))


def default_workload(schema: Schema) -> Workload:
    """Every table over two columns of several levels, or over the only one."""
    several = [name for name in schema.domain if schema.domain[name] > 1]
    return Workload.marginals(schema.domain, itertools.combinations(several, min(len(several), 2)))


def check_schemas(real: Schema, synthetic: Schema) -> None:
    """Refuse to compare tables whose columns or levels differ."""
    real_columns, synthetic_columns = ({column.name: column for column in schema} for schema in (real, synthetic))
    for name in (*real_columns, *synthetic_columns):
        if name not in real_columns or name not in synthetic_columns:
            where = "synthetic" if name in real_columns else "real"
            raise DomainError(f"column {name!r} is not in the schema of the {where} data; use one schema for both")
        if real_columns[name] != synthetic_columns[name]:
            raise DomainError(
                f"column {name!r} has other levels in the schema of the synthetic data; use one schema for both"
            )


def _distance(truth: np.ndarray[Any, Any], estimate: np.ndarray[Any, Any]) -> float:
    """Total variation distance 1/2 ||p - p^||_1."""
    return 0.5 * float(np.abs(truth / truth.sum() - estimate / (estimate.sum() or 1.0)).sum())


def _is_set(block: LinearOperator) -> bool:
    """Whether each query counts the records in a set, so that its answer on a sample is binomial."""
    if isinstance(block, Permuted):
        return _is_set(block.operator)
    if isinstance(block, Dense):
        entries = block.dense()
        return bool(((entries == 0) | (entries == 1)).all())
    return isinstance(block, ZERO_ONE_BLOCKS)


def comparison_tables(comparison: Comparison) -> list[TextTable]:
    """The figures of the workload, and the worst columns, pairs and columns of numbers.

    Privacy: the figures are private; see `Comparison`.
    """
    tables = [TextTable.facts(_lines(comparison)), _worst("Columns", "column", comparison.columns.items())]
    if comparison.pairs:
        pairs = [(_named(pair.columns), pair.distance) for pair in comparison.pairs]
        strengths = [(f"{pair.real:.3f}", f"{pair.synthetic:.3f}") for pair in comparison.pairs]
        tables.append(_worst("Pairs", "pair", pairs, number_columns("V real", "V synthetic"), strengths))
    return [*tables, numbers_table(comparison.numbers)] if comparison.numbers else tables


def bar(share: float) -> str:
    """A bar of up to `BAR_WIDTH` characters for a number from 0 to 1; any number above 0 shows.

    >>> bar(0.25), bar(0.0), bar(1e-9)
    ('████', '', '▏')
    """
    eighths = min(max(round(8 * BAR_WIDTH * share), 1 if share > 0 else 0), 8 * BAR_WIDTH)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + ("▏▎▍▌▋▊▉"[rest - 1] if rest else "")


def _lines(comparison: Comparison) -> Iterable[tuple[str, str]]:
    errors, workload = comparison.errors, comparison.workload
    kind = "in the model" if comparison.modelled and comparison.synthetic_rows else "synthetic"
    yield "Rows", f"{comparison.real_rows:,} real, {comparison.synthetic_rows:,.0f} {kind}"
    yield "Workload", f"{counted(len(workload), 'table')}, {counted(workload.queries, 'number')}"
    scale = "0 = identical, 2 = disjoint" if workload.plain else "0 = identical"
    yield "Error", f"{errors.share_error:.3g} ({scale}), after scaling to equal size"
    if comparison.same_rows:
        yield "", f"{errors.error:.3g} in counts per real row (AIM's workload error)"
    else:
        yield "", "The numbers of rows differ, so counts are not compared; draw as many rows for AIM's workload error"
    worst = int(np.argmax(errors.distances))
    where = f"; worst {errors.distances[worst]:.3g}: {_named(workload.terms[worst].clique)}"
    beyond = "" if workload.plain else " (queries overlap, so it may pass 1)"
    yield "Distance", f"mean {errors.mean_distance:.3g} over the tables{where if len(workload) > 1 else ''}{beyond}"
    yield "Worth", _worth(comparison)
    if comparison.pairs:
        off = [pair.difference for pair in comparison.pairs]
        most = comparison.pairs[int(np.argmax(off))]
        strengths = f"{most.real:.2f} real, {most.synthetic:.2f} synthetic"
        yield (
            "Association",
            f"Cramér's V is off by {np.mean(off):.3g} on average; most: {_named(most.columns)} ({strengths})",
        )


def _worth(comparison: Comparison) -> str:
    fraction = comparison.equivalent_fraction
    if fraction is None:
        return "unknown as a sample: the workload asks for more than counts of records"
    if comparison.capped:
        return f"more than a sample of {fraction:.0f} times the real rows"
    if fraction == 0:
        return "no more than a sample of one real row"
    rows = counted(max(round(fraction * comparison.real_rows), 1), "row")
    beyond = "; more than all rows, since samples repeat rows" if fraction > 1 else ""
    share = f"{100 * fraction:.3g} %" if fraction < 10 else f"{100 * fraction:,.0f} %"
    return f"as close as a sample of {share} of the real rows ({rows}, with replacement){beyond}"


def _worst(
    title: str,
    noun: str,
    entries: Iterable[tuple[str, float]],
    more_columns: Sequence[TextColumn] = (),
    more_cells: Sequence[tuple[str, ...]] | None = None,
) -> TextTable:
    """The first entries with their distances, and bars relative to the worst."""
    listed = list(entries)
    distances = [distance for _, distance in listed]
    figures = f"total variation distance: mean {np.mean(distances):.3g}, median {np.median(distances):.3g}"
    cut = f"; the worst {MOST_ROWS} of {len(listed):,}" if len(listed) > MOST_ROWS else ""
    most = distances[0]
    rows = [
        (name, f"{distance:.4f}", f"{bar(distance / most if most > 0 else 0.0):<{BAR_WIDTH}}", *more)
        for (name, distance), more in zip(listed, more_cells or [()] * len(listed), strict=True)
    ][:MOST_ROWS]
    columns = (TextColumn(heading=noun, fit="fold"), *number_columns("distance"), TextColumn(), *more_columns)
    return TextTable(columns=columns, rows=rows, title=f"{title}, {figures}{cut}")


def _named(clique: Iterable[str]) -> str:
    return " x ".join(clique) or "(total)"


def compare_numbers(
    real: Any,
    synthetic: Any,
    schema: Schema | str | Path,
    *,
    table: str | None = None,
    where: str | None = None,
    counts: str | None = None,
) -> tuple[NumberComparison, ...]:
    """The integer and numeric columns of two sources compared as numbers, the worst first.

    `table` says which table of the real source is meant, if that is a database, and `where` which of its rows;
    `counts` names the column that says how many rows each of its lines stands for.

    Sources are those of `hush.read` that can be read again. All rows are compared, and each number as it is in the
    source: neither in its bin nor clamped, except that infinite ones stand at the nearer bound of their column.
    Missing values are left out.

    Privacy: reads the real rows exactly; the result is private. See `hush.evaluation.compare`.

    >>> import pyarrow as pa
    >>> schema = Schema([Numeric(name="fare", edges=(0, 50, 100))])
    >>> real, synthetic = pa.table({"fare": [0.0, 0.0, 10.0, 30.0]}), pa.table({"fare": [20.0, 20.0, 20.0, 20.0]})
    >>> (fare,) = compare_numbers(real, synthetic, schema)
    >>> fare.wasserstein, fare.kolmogorov, fare.real_mean, fare.real_zeros, fare.synthetic_zeros
    (15.0, 0.75, 10.0, 0.5, 0.0)
    """
    declared = schema if isinstance(schema, Schema) else Schema.load(schema)
    exact = count_numbers(real, declared, table=table, where=where, counts=counts)
    estimated = count_numbers(synthetic, declared)
    # Infinite numbers stand at the nearer bound, so that means and distances stay finite.
    entries = []
    for column in declared:
        if isinstance(column, Integer | Numeric) and column.part is None:
            low, high = column.low, column.high
            pairs = [
                (np.where(np.isinf(values), np.clip(values, low, high), values), rows)
                for values, rows in (exact[column.name], estimated[column.name])
            ]
            wasserstein, kolmogorov = distances(*pairs[0], *pairs[1])
            (real_mean, real_zeros), (synthetic_mean, synthetic_zeros) = (_mean_and_zeros(*pair) for pair in pairs)
            entries.append(
                NumberComparison(
                    column=column.name,
                    wasserstein=wasserstein,
                    kolmogorov=kolmogorov,
                    real_mean=real_mean,
                    synthetic_mean=synthetic_mean,
                    real_zeros=real_zeros,
                    synthetic_zeros=synthetic_zeros,
                )
            )
    return tuple(sorted(entries, key=lambda entry: -entry.kolmogorov if math.isfinite(entry.kolmogorov) else -math.inf))


def distances(first: Any, first_rows: Any, second: Any, second_rows: Any) -> tuple[float, float]:
    """The Wasserstein-1 and Kolmogorov distances of two distributions, given as numbers and the rows of each.

    With F and G the shares of rows up to a number, these are the integral of |F - G| and its maximum; O(n log n).
    NaN if one has no rows.
    """
    numbers = np.concatenate([first, second]).astype(np.float64)
    if not (len(first) and len(second)):
        return math.nan, math.nan
    order = np.argsort(numbers, kind="stable")
    steps = np.concatenate(
        [np.asarray(first_rows) / np.sum(first_rows), -np.asarray(second_rows) / np.sum(second_rows)]
    )
    numbers, apart = numbers[order], np.abs(np.cumsum(steps[order]))
    last = np.append(numbers[1:] > numbers[:-1], True)  # F and G are known after all rows of a number
    return float(apart[:-1] @ np.diff(numbers)), float(apart[last].max())


def _mean_and_zeros(numbers: Floats, rows: Counts) -> tuple[float, float]:
    """The mean, and the share of exact zeros."""
    total = float(rows.sum())
    if not total:
        return math.nan, math.nan
    return float(numbers @ rows) / total, float(rows[numbers == 0].sum()) / total


def numbers_table(entries: Sequence[NumberComparison]) -> TextTable:
    """The worst columns as a table.

    Privacy: the figures are private.
    """
    columns = (
        TextColumn(heading="column", fit="fold"),
        *number_columns("mean real", "synthetic", "off by", "distance", "zeros real", "synthetic"),
    )
    rows = []
    for entry in entries[:MOST_ROWS]:
        figures = [("{:,.5g}", number) for number in (entry.real_mean, entry.synthetic_mean, entry.wasserstein)]
        figures.append(("{:.4f}", entry.kolmogorov))
        figures += [("{:.1f} %", 100 * share) for share in (entry.real_zeros, entry.synthetic_zeros)]
        texts = (text.format(number) if math.isfinite(number) else "n/a" for text, number in figures)
        rows.append((entry.column, *texts))
    cut = f"; the worst {MOST_ROWS} of {len(entries):,}" if len(entries) > MOST_ROWS else ""
    notes = [
        "off by: how far a number must be moved, on average, to get from one column to the other (Wasserstein-1).",
        "distance: the largest difference between the shares of rows up to a number (Kolmogorov), from 0 to 1.",
        "zeros: the share of numbers that are exactly 0.",
    ]
    return TextTable(columns=columns, rows=rows, title=f"Numbers, compared without bins{cut}", notes=notes)
