"""Synthetic rows compared with the real ones: distances of columns and pairs, association, and workload error."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, DomainError, WorkloadError
from hush.evaluation.numeric_columns import NumberComparison, numbers_table
from hush.evaluation.resampling import LARGEST_FRACTION, Resampling
from hush.evaluation.workload_error import Progress, Tables, TermErrors, paired, term_errors
from hush.linops import AllRange, Dense, Identity, LevelsAndTotal, LinearOperator, Permuted, Prefix, Total, WidthRange
from hush.release.model import Model
from hush.release.release import Release
from hush.render.text_table import TextColumn, TextTable, counted, number_columns
from hush.schema import Schema
from hush.tables.table import Table
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


def compare(
    real: Table,
    synthetic: Table | Release | Model,
    workload: Workload | None = None,
    *,
    numbers: Sequence[NumberComparison] = (),
    progress: Progress | None = None,
) -> Comparison:
    """Compare synthetic rows, or the model of a release, with the real rows.

    A release that measured nothing is compared by its answers, which are all 0, and so are its shares.
    By default the workload is every table over two columns. The equivalent fraction uses errors in shares, so it does
    not depend on the number of synthetic rows. Tables hold numbers by bins only: `numbers`, from `compare_numbers`,
    adds a comparison of the numbers themselves. `progress` is called with the fraction done.

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
    domain = real.domain
    workload = default_workload(real.schema) if workload is None else workload
    if workload.domain != domain:
        raise WorkloadError("the workload is over another domain than the real rows; build it from real.domain")

    # Where the tables of both sides come from, and how many rows each side has.
    compared = synthetic.model() if isinstance(synthetic, Release) and synthetic.record.tables else synthetic
    exact: Callable[[Sequence[Clique]], Mapping[Clique, Any]] = real.counts
    estimated: Callable[[Sequence[Clique]], Mapping[Clique, Any]]
    estimated = compared.tables if isinstance(compared, Release | Model) else compared.counts
    rows, total = (float(source([()])[()]) for source in (exact, estimated))
    zeros = isinstance(compared, Release)  # nothing was measured, and every answer is 0
    if not (rows > 0 and (total > 0 or zeros)):
        raise DataError("one of the tables has no rows, so nothing can be compared; give tables with rows")

    columns, pairs = _column_distances(domain, exact, estimated)

    # The error of the workload, and the sample of real rows that would have the same error.
    products = [term.product for term in workload]
    sets = all(product is not None and all(map(_is_set, product.blocks)) for product in products)
    sampled = Resampling(rows)
    take = (lambda term, answers: sampled.add(answers, term.weight)) if sets else None
    errors = term_errors(workload, exact, estimated, zeros=zeros, seen=take, progress=progress)
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
    """Refuse what is no table, release or model, and schemas that differ."""
    if isinstance(real, Release | Model) or not hasattr(real, "counts"):
        raise DataError(f"real: expected a table of the private rows, got {type(real).__name__}; use hush.read")
    if not isinstance(synthetic, Release | Model) and not hasattr(synthetic, "counts"):
        raise DataError(f"synthetic: expected a table, a release or a model, got {type(synthetic).__name__}")
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
