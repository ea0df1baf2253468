"""Synthetic rows: codes drawn from the conditional tables of a junction tree, and values drawn inside their bins.

`draw_rows` draws codes, by randomised rounding or by sampling. `decoded` turns codes into values. If the mean value in
a bin is known, values inside it have that mean: on a bin from 0 to 1 their density is proportional to exp(a x), the one
of largest entropy with its mean,

    mean(a) = 1 / (1 - exp(-a)) - 1 / a,    x(u) = log(1 + u (exp(a) - 1)) / a,

which is uniform for a mean of 1/2. The u of the n rows of a bin are one from each of n equal parts of [0, 1), in random
order, so that the mean of the rows is off by less than 1 / n of the bin.

Reference: [Jaynes 1957] for the maximum entropy; systematic sampling for the draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import DataError, WorkloadError, shown
from hush.core.memory import require_memory
from hush.core.validation import check_choice, check_whole
from hush.models.graphical._row_kernels import EVERY_ROW_DRAWN, group_rows, round_cells, sample_cells
from hush.models.graphical.junction_tree import JunctionTree
from hush.schema.column_kinds import Date, Granularity, Integer, Numeric
from hush.schema.schema import Schema
from hush.schema.stamps import joined

if TYPE_CHECKING:
    import pyarrow as pa

Codes: TypeAlias = dict[str, np.ndarray[Any, np.dtype[np.unsignedinteger]]]
Method: TypeAlias = Literal["rounding", "sampling"]

DRAWING_METHODS = ("rounding", "sampling")
MOST_INT32 = 2**31 - 1
DIGITS_IN_BIN = 4  # numbers are rounded to this many digits of their bin's width
MOST_DECIMALS = 300  # 10^decimals would overflow for more
STEEPEST_TILT = 60.0  # of a group's levels; a larger one leaves a single level
LEAST_MEAN = 0.002  # of the width of a bin: means nearer to an end are moved here
BISECTION_STEPS = 60  # to the precision of floats


def draw_rows(
    tree: JunctionTree,
    conditionals: Sequence[Floats],
    rows: int,
    generator: np.random.Generator,
    *,
    method: Method = "rounding",
) -> Codes:
    """Codes of `rows` rows for every attribute, in domain order, each in the smallest unsigned type that fits.

    `conditionals[k]` has the shape (cells of node k's separator, cells of node k's rest), row-major over
    `node.axes`; row s is p(rest | separator = s) up to a scale of its own. Nodes are visited parents first, so that
    every row's separator cell is known. Rows that share a separator cell are a group.

    "rounding" (systematic sampling): a group of g rows has e_c = g p_c expected rows in cell c, and
    E_c = e_0 + ... + e_c in the cells up to c. With one v, uniform in [0, 1), cell c gets

        n_c = floor(E_c + v) - floor(E_{c-1} + v)  rows.

    As E floor(x + v) = x for every x, the expectation of n_c is exactly e_c. As n_c counts the integers in an interval
    of length e_c, it is floor(e_c) or ceil(e_c). The same holds for every run of consecutive cells, such as all cells
    with one value of the rest's first attribute. The cells go to the rows of the group in random order, so that the
    rest and earlier columns are independent given the separator.

    "sampling": every row draws its cell independently; n_c has variance g p_c (1 - p_c) instead of at most 1/4. With
    either method rows are in random order: any part of them, chosen by position, is a sample too.

    Privacy: post-processing of a public model; the generator may be seeded.
    Complexity: O(rows + cells) per node; 24 bytes per row in addition to the codes.
    Reference: [HDMM, sec. 4.4.3] for the idea; groups, systematic sampling and shuffling are ours.

    >>> from hush.core.domain import Domain
    >>> tree = JunctionTree.build(Domain({"sex": 2, "smokes": 2}), [("sex", "smokes")])
    >>> conditionals = [np.array([[0.25, 0.25, 0.5, 0.0]])]
    >>> rows = draw_rows(tree, conditionals, 8, np.random.Generator(np.random.PCG64(1)))
    >>> sorted(zip(rows["sex"].tolist(), rows["smokes"].tolist()))
    [(0, 0), (0, 0), (0, 1), (0, 1), (1, 0), (1, 0), (1, 0), (1, 0)]
    """
    # Check every argument before the first draw.
    check_choice(WorkloadError, "method", method, DRAWING_METHODS)
    if not isinstance(generator, np.random.Generator):
        raise WorkloadError(f"generator={shown(generator)}: expected a numpy.random.Generator")
    if len(conditionals) != len(tree.nodes):
        raise DataError(f"{len(conditionals)} conditional tables for {len(tree.nodes)} nodes; give one for each")
    for node, table in zip(tree.nodes, conditionals, strict=True):
        shape = (tree.domain.size(node.separator), tree.domain.size(node.rest))
        if np.shape(table) != shape:
            raise DataError(f"the conditional table of node {node.clique!r} has shape {np.shape(table)}, not {shape}")
        if not (np.min(table) >= 0 and np.max(table) < np.inf):  # NaN fails too
            raise DataError(f"the conditional table of node {node.clique!r} must be finite and not negative")
    return _draw(tree, conditionals, check_whole(WorkloadError, "rows", rows, least=0), generator, method)


def decoded(
    schema: Schema, codes: Mapping[str, Any], generator: np.random.Generator, means: Mapping[str, Floats] | None = None
) -> pa.Table:
    """Codes as a table of real values, like `Schema.decode`, but with a random number or day inside each level.

    A number of a `Numeric` column is drawn uniformly from its bin and rounded to about four digits of the bin's width,
    or drawn from the multiples of the column's step if the bin has some. An integer is drawn uniformly from its bin,
    and a day of a `Date` column from its period. Positions inside a level carry no information beyond the code.
    `means` has the mean value of every level for some columns; numbers are then drawn with these means. All other
    values are those of their levels; missing becomes null. Parts of times become whole times, drawn by
    `hush.schema.stamps.joined`. Encoding the table gives the codes again, unless parts of a time contradict each other.

    >>> schema = Schema([Numeric(name="height", edges=(100.0, 150.0, 200.0), missing=True)])
    >>> table = decoded(schema, {"height": np.array([0, 1, 2])}, np.random.Generator(np.random.PCG64(1)))
    >>> table["height"].to_pylist()
    [125.59, 197.52, None]
    """
    import pyarrow as pa

    # The values of levels; then times, numbers and days inside their levels, column by column.
    table = schema.decode(codes)
    stamps = {column.source: column.part.stamp for column in schema if column.part is not None}
    for index, name in enumerate(table.column_names):
        if name in stamps:
            times = joined(stamps[name], schema.part_codes(stamps[name], codes), generator)
            table = table.set_column(index, name, times)
            continue
        column, known = schema[name], None if means is None else means.get(name)
        if not isinstance(column, Numeric | Integer | Date):
            continue
        levels = np.asarray(codes[name]).astype(np.int64)
        if isinstance(column, Numeric):
            table = table.set_column(index, name, _numbers_in_bins(column, levels, generator, known))
        elif isinstance(column, Integer) and column.binned:
            ends = np.array([column.ends(code) for code in range(column.levels)])
            drawn = _integers_in_bins(ends, levels, generator, known)
            table = table.set_column(index, name, pa.array(drawn, mask=levels == column.missing_code))
        elif isinstance(column, Date) and column.granularity is not Granularity.DAY:
            periods, position = np.unique(np.minimum(levels, column.levels - 1), return_inverse=True)
            ends = np.array([column.days(code) for code in periods.tolist()], dtype="datetime64[D]").reshape(-1, 2)
            first, last = ends.astype(np.int64)[position].T
            days = generator.integers(first, last, endpoint=True).astype("datetime64[D]")
            table = table.set_column(index, name, pa.array(days, mask=levels == column.missing_code))
    return table


def _numbers_in_bins(
    column: Numeric, codes: np.ndarray[Any, np.dtype[np.int64]], generator: np.random.Generator, means: Floats | None
) -> pa.Array:
    """A number in the bin of each code, always below the bin's upper edge; null for missing."""
    import pyarrow as pa

    # A position in every bin, uniform or with the given mean.
    levels = np.minimum(codes, column.levels - 1)
    starts = np.array(column.level_starts)
    ends = np.array([column.ends(code) for code in range(column.levels)])  # of a point, both the point
    low, high = starts[levels], ends[levels, 1]
    if means is None:
        u = generator.random(len(codes))
    else:
        width = ends[:, 1] - ends[:, 0]
        shares = np.divide(means - ends[:, 0], width, out=np.full(len(width), 0.5), where=width > 0)
        u = shares_in_bins(codes, shares, generator)
    numbers = np.clip(low * (1 - u) + high * u, low, np.nextafter(high, low))

    # Round to a few digits of the width, if that stays inside. A width may overflow, and that of a point is zero.
    with np.errstate(over="ignore", divide="ignore"):
        scale = 10.0 ** np.clip(DIGITS_IN_BIN - 1 - np.floor(np.log10(high - low)), 0, MOST_DECIMALS)
        for rounded in (np.ceil(numbers * scale) / scale, np.floor(numbers * scale) / scale):
            numbers = np.where((low <= rounded) & (rounded < high), rounded + 0.0, numbers)

    # Prefer a multiple of the column's step, where the bin has one.
    if column.step is not None:
        runs = np.array([column.multiples(code) for code in range(column.levels)])
        scaled = None if means is None else means / column.step
        decimals = max(0, -int(Decimal(repr(column.step)).normalize().as_tuple().exponent))
        multiples = np.round(_integers_in_bins(runs, codes, generator, scaled) * column.step, decimals) + 0.0
        last = levels == column.levels - 1
        inside = (low <= multiples) & ((multiples < high) | (last & (multiples == high)))
        numbers = np.where((runs[levels, 0] <= runs[levels, 1]) & inside, multiples, numbers)
    return pa.array(numbers, mask=codes == column.missing_code)


def _integers_in_bins(
    ends: np.ndarray[Any, np.dtype[np.int64]],  # (levels, 2) the first and the last integer of each level
    codes: np.ndarray[Any, np.dtype[np.int64]],
    generator: np.random.Generator,
    means: Floats | None,
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """An integer of the level of each code, the first if a level has none; codes beyond the levels use the last."""
    first, last = ends[np.minimum(codes, len(ends) - 1)].T
    if means is None:
        return np.asarray(generator.integers(first, np.maximum(first, last), endpoint=True))
    width = np.maximum(ends[:, 1] - ends[:, 0] + 1, 1)
    u = shares_in_bins(codes, (means - ends[:, 0] + 0.5) / width, generator)
    numbers = first + np.floor(u * width[np.minimum(codes, len(ends) - 1)]).astype(np.int64)
    return np.asarray(np.maximum(np.minimum(numbers, last), first))


def _draw(
    tree: JunctionTree, conditionals: Sequence[Floats], rows: int, generator: np.random.Generator, method: Method
) -> Codes:
    """`draw_rows` after all checks."""
    domain = tree.domain
    dtypes = {name: np.min_scalar_type(domain[name] - 1) for name in domain}
    largest = max((rows, *(table.size for table in conditionals)))
    index = np.dtype(np.int32 if largest <= MOST_INT32 else np.int64)
    row_bytes = sum(dtype.itemsize for dtype in dtypes.values()) + 4 * index.itemsize + 8
    require_memory(rows * row_bytes, f"{rows} rows", "draw them in chunks, or fewer")
    keys, order, group, picked = np.empty((4, rows), dtype=index)
    uniforms = np.empty(rows)
    columns: Codes = {}
    for node, table in zip(tree.nodes, conditionals, strict=True):
        # Group the rows by the cell of the separator, whose columns are drawn already.
        keys[:] = 0
        for name in node.separator:
            keys *= domain[name]
            keys += columns[name]
        starts = np.zeros(len(table) + 1, dtype=np.int64)
        group_rows(keys, starts, order)

        # Draw the cell of the rest for every row, and split it into the columns of its attributes.
        generator.random(out=uniforms)
        table = np.ascontiguousarray(table, dtype=np.float64)
        if method == "rounding":
            stuck = round_cells(table, starts, order, uniforms, group, picked)
        else:
            width = table.shape[1]
            stuck = sample_cells(
                table, starts, order, uniforms, np.empty(width), np.empty(min(rows, width), index), picked
            )
        if stuck != EVERY_ROW_DRAWN:
            where = dict(zip(node.separator, np.unravel_index(stuck, domain.sizes(node.separator)), strict=True))
            values = ", ".join(f"{name} = {code}" for name, code in where.items()) or "any row"
            raise DataError(
                f"the conditional table of node {node.clique!r} has no positive finite total for {values}, which has "
                "rows: the tables do not belong to one model; take them from a calibrated one"
            )
        for name in reversed(node.rest[1:]):
            columns[name] = (picked % domain[name]).astype(dtypes[name])
            picked //= domain[name]
        for name in node.rest[:1]:
            columns[name] = picked.astype(dtypes[name])
    return {name: columns[name] for name in domain}


def tilts(means: Floats) -> Floats:
    """The a for which the density exp(a x) on [0, 1] has each of these means, by bisection.

    >>> tilts(np.array([0.1, 0.9])).round(3).tolist()
    [-9.995, 9.995]
    """
    targets = np.clip(means, LEAST_MEAN, 1 - LEAST_MEAN)
    low, high = np.full(targets.shape, -2 / LEAST_MEAN), np.full(targets.shape, 2 / LEAST_MEAN)
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        # mean(a) of the density, by its series near 0
        near = np.abs(middle) < 1e-4
        safe = np.where(near, 1.0, middle)
        with np.errstate(over="ignore"):
            below = np.where(near, 0.5 + middle / 12, -1 / np.expm1(-safe) - 1 / safe) < targets
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)


def shares_in_bins(
    levels: Integers,  # (rows,) the level of every row; levels beyond the last mean are uniform
    means: Floats,  # (levels,) the mean of each level as a share of its width
    generator: np.random.Generator,
) -> Floats:
    """The position of every row in its bin, as a share of the width from 0 to below 1.

    Privacy: post-processing; the generator may be seeded.
    """
    rows = len(levels)
    order = np.lexsort((generator.random(rows), levels))
    counts = np.bincount(levels, minlength=len(means))
    means = np.concatenate([means, np.full(len(counts) - len(means), 0.5)])
    rank = np.empty(rows, dtype=np.int64)
    rank[order] = np.arange(rows) - np.repeat(np.cumsum(counts) - counts, counts)
    u = (rank + generator.random(rows)) / counts[levels]
    a = tilts(means)[levels]
    flat = np.abs(a) < 1e-6
    safe = np.where(flat, 1.0, np.abs(a))
    # exp(-|a|) does not overflow, and x(u; a) = 1 - x(1 - u; -a)
    falling = -np.log1p(np.where(a < 0, u, 1 - u) * np.expm1(-safe)) / safe
    shares = np.where(flat, u, np.where(a < 0, falling, 1 - falling))
    return np.asarray(np.clip(shares, 0.0, np.nextafter(1.0, 0.0)))


def mean_tilts(
    counts: Floats,  # (groups, levels) rows of a model, in levels that have values
    values: Floats,  # (levels,) the mean value of each level
    measured: Floats,  # (groups,) means
    errors: Floats,  # (groups,) their standard errors
) -> Floats:
    """Log factors for the shares within each group that bring its mean near a measured one; the least such change.

    If the model's mean is d from the measured one, whose standard error is s, then t^2 = max(d^2 - s^2, 0) estimates
    the model's own squared error. The target is the precision-weighted mean of both, d s^2 / (s^2 + t^2) from the
    measured mean. Shares are multiplied by exp(a_g v) / Z_g: of all changes with that mean, the one of least relative
    entropy. The number of rows in each group does not change; groups without rows are left alone.

    Reference: [Csiszar 1975] for the projection; [Efron and Morris 1973] for the weight.
    """
    rows = counts.sum(axis=1)
    reach = max(float(np.abs(values - values.mean()).max(initial=0.0)), 1e-300)
    v = (values - values.mean()) / reach
    shares = counts / np.where(rows > 0, rows, 1.0)[:, None]
    d, s = shares @ values - measured, np.maximum(errors, 1e-300)
    weight = s**2 / (s**2 + np.maximum(d**2 - s**2, 0.0))
    target = (np.clip(measured + weight * d, values.min(), values.max()) - values.mean()) / reach
    low, high = np.full(len(rows), -STEEPEST_TILT), np.full(len(rows), STEEPEST_TILT)
    for _ in range(BISECTION_STEPS):
        a = (low + high) / 2
        weights = shares * np.exp(a[:, None] * v - np.abs(a)[:, None])
        mean = weights @ v / np.maximum(weights.sum(axis=1), 1e-300)
        low, high = np.where(mean < target, a, low), np.where(mean < target, high, a)
    moved = (rows > 0) & (np.abs(shares @ v - target) > 1e-12)  # false for NaN, where nothing was measured
    a = np.where(moved, (low + high) / 2, 0.0)
    scale = np.log(np.maximum((shares * np.exp(a[:, None] * v)).sum(axis=1), 1e-300))
    return np.asarray(a[:, None] * v - np.where(rows > 0, scale, 0.0)[:, None])
