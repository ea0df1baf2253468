"""Draw how each mechanism works, from releases of invented people: `python docs/mechanism_pictures.py [NAME ...]`.

People are invented from public seeds. Noise has no seed, so every run draws slightly other pictures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any

import matplotlib
import numpy as np
import pyarrow as pa

import hush
from hush.mechanisms import RAP, Matrix
from hush.render.plots import COLOURS, INK, NAIVE, RULE, SOFT, new_axes
from hush.schema import Integer, Numeric, Outside, Schema

BLUE, ORANGE, GREEN = COLOURS[:3]
BUDGET = hush.Budget(epsilon=1.0, delta=1e-9)
ROWS, SEED = 20_000, 1
WIDTH, HEIGHT = 7.4, 3.0  # inches of a picture
THINNEST, THICKEST = 0.6, 6.0  # points of a line between two columns
SHOWN_RELAXED_ROWS, SHOWN_ROUNDS = 12, 12
WIDE_AGES, WIDE_INCOMES = 10, 12  # bins, few enough for names and shades to be read


def people_schema() -> Schema:
    """The invented people with ages and incomes in wide bins."""
    columns = {column.name: column for column in hush.datasets.people_schema()}
    wide = {
        "age": Numeric.equal_width(name="age", low=0, high=100, bins=WIDE_AGES, outside=Outside.CLAMP),
        "income": Numeric.equal_width(
            name="income", low=0, high=120_000, bins=WIDE_INCOMES, outside=Outside.CLAMP, missing=True
        ),
    }
    return Schema([wide.get(name, column) for name, column in columns.items()])


def release_people(mechanism: Any, order: int = 2) -> hush.Release:
    """A release of the invented people for all tables of so many columns."""
    schema = people_schema()
    table = hush.read(hush.datasets.people(ROWS, seed=SEED), schema)
    return hush.plan(hush.Workload.kway(schema.domain, order), BUDGET, mechanism=mechanism).release(table)


def panels(count: int, *, height: float = HEIGHT, widths: Sequence[float] | None = None) -> list[Any]:
    """Axes side by side in the style of all plots."""
    from matplotlib import pyplot

    ratios = None if widths is None else list(widths)
    figure, axes = pyplot.subplots(
        1, count, figsize=(WIDTH, height), layout="constrained", squeeze=False, width_ratios=ratios
    )
    figure.get_layout_engine().set(wspace=0.06)
    return [new_axes(each) for each in axes[0]]


def titled(axes: Any, title: str, below: str = "") -> Any:
    """A title on the left, and words under the axis."""
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    if below:
        axes.set_xlabel(below, fontsize=9, color=SOFT)
    return axes


def bare(axes: Any) -> None:
    """No ticks and no frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines["bottom"].set_visible(False)


def name_of(clique: Iterable[str]) -> str:
    """The columns of a table in words."""
    return " × ".join(clique) or "everyone"


def draw_residual() -> Any:
    """The share of the budget of every residual, and the errors of tables beside those of noise on each table."""
    names = ("sex", "region", "education")
    domain = hush.datasets.people_schema().domain.project(names)
    workload = hush.Workload.marginals(domain, list(combinations(names, 2)))
    plan = hush.plan(workload, BUDGET, mechanism="residual")
    baseline = hush.plan(workload, BUDGET, mechanism="direct")
    pieces, tables = panels(2)
    cliques = [clique for order in range(3) for clique in combinations(names, order)]
    shares = [cost_of(plan.strategy, clique) for clique in cliques]
    pieces.barh([name_of(clique) for clique in cliques], np.array(shares) / sum(shares) * 100, color=BLUE)
    pieces.invert_yaxis()
    titled(pieces, "What is measured: pieces", "percent of the budget")
    places, asked = np.arange(len(workload.cliques)), [domain.clique(clique) for clique in workload.cliques]
    for shift, each, colour, label in (
        (-0.2, plan, BLUE, "from pieces"),
        (0.2, baseline, NAIVE, "each table by itself"),
    ):
        errors = [float(np.sqrt(np.mean(each.strategy.term_variances(term)))) for term in workload.terms]
        tables.barh(places + shift, errors, 0.36, color=colour, label=label)
    tables.set_yticks(places, [name_of(clique) for clique in asked])
    tables.invert_yaxis()
    tables.set_ylim(len(asked) - 0.3, -1.1)  # room for the legend
    tables.legend(frameon=False, fontsize=8, loc="upper left", ncols=2, handlelength=1.0, columnspacing=1.0)
    return titled(tables, "What is asked: tables", "error of a count, in rows")


def cost_of(strategy: Any, clique: tuple[str, ...]) -> float:
    """What the residual of a set of columns costs."""
    number = [frozenset(names) for names in strategy.closure].index(frozenset(clique))
    return float(strategy.privacy[number])


def draw_matrix() -> Any:
    """The weighted sums that are measured for prefix sums of 64 ages, and the errors of all prefix sums."""
    domain = hush.Domain({"age": 64})
    workload = hush.Workload.product(domain, {"age": hush.queries.prefix})
    pure = hush.Budget(epsilon=1.0)
    best = hush.plan(workload, pure, mechanism="matrix")
    single = hush.plan(workload, pure, mechanism=Matrix(strategy="identity"))
    measured, errors = panels(2, widths=(1, 1.25))
    sums = np.abs(best.strategy.products[0].query.operator.dense())
    order = np.argsort((sums > sums.max() / 100).sum(axis=1), kind="stable")  # narrow sums first
    measured.imshow(sums[order], cmap="Blues", aspect="auto", interpolation="nearest")
    measured.set_yticks([])
    measured.set_ylabel("64 measured sums", fontsize=9, color=SOFT)
    titled(measured, "Weights of ages in each sum", "age")
    for plan, colour, label in ((single, NAIVE, "every age counted by itself"), (best, BLUE, "chosen sums")):
        errors.plot(np.sqrt(plan.strategy.term_variances(workload.terms[0])), color=colour, label=label, linewidth=2)
    errors.set_ylim(0)
    errors.grid(axis="y", color=RULE)
    errors.legend(frameon=False, fontsize=8, loc="upper left")
    return titled(errors, "Error of “how many are this old or younger?”", "age")


def draw_dawa_line() -> Any:
    """An income histogram: every level by itself, and the buckets that dawa chose."""
    size, rows = 1024, 2_000
    random = np.random.Generator(np.random.PCG64(SEED))
    incomes = random.lognormal(5.5, 0.4, rows).clip(0, size - 1).astype(np.int64)
    table = hush.read(pa.table({"income": incomes}), Schema([Integer(name="income", low=0, high=size - 1)]))
    workload = hush.Workload.product(table.domain, {"income": hush.queries.prefix})
    budget = hush.Budget(epsilon=0.2)
    exact = np.bincount(incomes, minlength=size)
    smooth = np.convolve(exact, np.ones(25) / 25, mode="same")
    axes = panels(2)
    axes[1].sharey(axes[0])
    single = hush.plan(workload, budget, mechanism=Matrix(strategy="identity")).release(table)
    release = hush.plan(workload, budget, mechanism="dawa").release(table)
    grid = release.record.buckets["income"]
    axes[0].plot(single.counts("income"), color=NAIVE, linewidth=0.5)
    titled(axes[0], "Every income counted by itself", "income")
    axes[1].fill_between(np.arange(size), smooth, color=NAIVE, alpha=0.4, linewidth=0, label="truth, smoothed")
    averages = np.add.reduceat(release.counts("income"), grid.cuts[:-1]) / grid.lengths
    axes[1].stairs(averages, grid.cuts, color=BLUE, linewidth=1.8, label="dawa")
    axes[1].plot(
        grid.cuts,
        np.full(len(grid.cuts), -3.0),
        "|",
        color=ORANGE,
        markersize=8,
        label=f"borders of {grid.buckets} buckets",
    )
    axes[1].legend(frameon=False, fontsize=8)
    return titled(axes[1], "Counted in buckets by dawa", "income")


def draw_dawa_map() -> Any:
    """Two towns on a map: the people, the blocks that dawa counted, and the counts."""
    from matplotlib.patches import Rectangle

    size = 64
    random = np.random.Generator(np.random.PCG64(SEED))
    places = np.concatenate([random.normal((20, 42), (5, 7), (1500, 2)), random.normal((47, 16), 2.5, (700, 2))])
    cells = places[((places >= 0) & (places < size)).all(axis=1)].astype(np.int64)
    schema = Schema([Integer(name=name, low=0, high=size - 1) for name in ("east", "north")])
    table = hush.read(pa.table({"east": cells[:, 0], "north": cells[:, 1]}), schema)
    workload = hush.Workload.product(table.domain, dict.fromkeys(schema.domain, hush.queries.prefix))
    release = hush.plan(workload, hush.Budget(epsilon=0.5), mechanism="dawa").release(table)
    exact, noisy = np.zeros((size, size)), np.asarray(release.counts("east", "north"))
    np.add.at(exact, tuple(cells.T), 1)
    axes = panels(3, height=2.7)
    for each, counts, title in ((axes[0], exact, "The people"), (axes[2], noisy, "The released counts")):
        each.imshow(counts.T, origin="lower", cmap="Blues", vmin=0, vmax=exact.max() * 0.7, interpolation="nearest")
        titled(each, title)
    record = release.record
    cut, (east, north) = record.cuts[-1], (grid.cuts for grid in record.grids)
    for block in range(len(cut.nodes)):
        across, up = np.nonzero(cut.block_of == block)
        left, low, right, high = east[across.min()], north[up.min()], east[across.max() + 1], north[up.max() + 1]
        axes[1].add_patch(Rectangle((left, low), right - left, high - low, fill=False, edgecolor=BLUE, linewidth=0.6))
    axes[1].set(xlim=(-0.5, size + 0.5), ylim=(-0.5, size + 0.5), aspect="equal")
    titled(axes[1], f"{len(cut.nodes)} blocks, chosen")
    for each in axes:
        bare(each)
    return axes[0]


def draw_circle(axes: Any, names: Sequence[str], lines: dict[tuple[str, ...], float], colour: str) -> None:
    """Columns on a circle, with a line of a given width between the two of a pair."""
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / len(names)
    spots = dict(zip(names, np.stack([np.cos(angles), np.sin(angles)], axis=1), strict=True))
    for (first, second), width in lines.items():
        ends = np.stack([spots[first], spots[second]])
        axes.plot(*ends.T, color=colour, linewidth=width, solid_capstyle="round", zorder=1, alpha=0.8)
    for name, (x, y) in spots.items():
        axes.plot(x, y, "o", color=INK, markersize=5, zorder=2)
        sideways = "center" if abs(x) < 0.2 else ("left" if x > 0 else "right")
        upright = "bottom" if y > 0.5 else ("top" if y < -0.5 else "center")
        axes.text(1.14 * x, 1.14 * y, name, ha=sideways, va=upright, fontsize=8, color=INK)
    axes.set(xlim=(-1.9, 1.9), ylim=(-1.4, 1.4), aspect="equal")
    bare(axes)


def pairs_of(measured: Iterable[Any]) -> set[tuple[str, ...]]:
    """The pairs of columns that are in some measured table."""
    return {pair for table in measured for pair in combinations(table.clique, 2)}


def draw_scout() -> Any:
    """The surveyed distances of all pairs, the tree that was measured first, and all that was measured in the end."""
    release = release_people("scout")
    names, (first, second) = list(release.domain), release.record.surveys
    tables = release.noisy_tables
    tree = pairs_of(tables[first.tables_before : second.tables_before])
    precise = min(table.stddev for table in tables if len(table.clique) > 1)
    final = {
        pair: max(THICKEST * precise / table.stddev, THINNEST)
        for table in sorted(tables, key=lambda table: -table.stddev)
        for pair in pairs_of([table])
    }
    distances = dict(zip(first.cliques, np.maximum(first.values, 0) / max(first.values), strict=True))
    axes = panels(3, height=1.9)
    widths = {pair: max(THICKEST * share, 0.1) for pair, share in distances.items()}
    draw_circle(axes[0], names, widths, NAIVE)
    titled(axes[0], "1. Survey of all pairs")
    draw_circle(axes[1], names, dict.fromkeys(tree, 2.5), ORANGE)
    titled(axes[1], "2. Tree, measured first")
    draw_circle(axes[2], names, final, BLUE)
    return titled(axes[2], "3. Measured in the end")


def draw_mst() -> Any:
    """All pairs, scored; and the spanning tree that was chosen, with the order of choices."""
    release = release_people("mst")
    names = list(release.domain)
    axes = panels(2, height=2.6)
    draw_circle(axes[0], names, dict.fromkeys(combinations(names, 2), 0.8), NAIVE)
    titled(axes[0], f"1. {len(names)} columns; {len(names) * (len(names) - 1) // 2} pairs to choose from")
    draw_circle(axes[1], names, {each.clique: 2.5 for each in release.rounds}, GREEN)
    return titled(axes[1], f"2. The {len(release.rounds)} chosen pairs")


def draw_aim() -> Any:
    """What the first rounds of AIM chose, and how far off the model was on each table."""
    release = release_people("aim")
    rounds = release.rounds[:SHOWN_ROUNDS]
    names = [f"{number}. {name_of(each.clique)}" for number, each in enumerate(rounds, 1)]
    (axes,) = panels(1, height=1.0 + 0.21 * len(rounds))
    off = [each.misfit / ROWS * 100 for each in rounds]
    noise = [each.stddev * np.sqrt(2 / np.pi) * release.domain.size(each.clique) / ROWS * 100 for each in rounds]
    places = np.arange(len(rounds))
    axes.barh(places, off, 0.7, color=BLUE, label="model and noisy table differ by")
    axes.plot(noise, places, "|", color=ORANGE, markersize=10, markeredgewidth=2, label="the noise alone")
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return titled(
        axes,
        f"The tables that the first {len(rounds)} of {len(release.rounds)} rounds chose",
        "sum of the differences of all counts, in percent of the rows",
    )


def draw_rap() -> Any:
    """Some relaxed rows: in every column the probabilities of its levels."""
    release = release_people(RAP(rows=100))
    model = release.model().distribution
    shown = ("sex", "region", "education", "employed")
    axes = panels(len(shown), height=2.7, widths=[release.domain[name] for name in shown])
    for each, name in zip(axes, shown, strict=True):
        block = model.coarse.spread(name, model.block(name)[:SHOWN_RELAXED_ROWS])
        each.imshow(block, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        labels = [release.schema[name].label(code) for code in range(block.shape[1])]
        each.set_xticks(range(len(labels)), labels, rotation=40, ha="right", fontsize=8)
        each.set_yticks([])
        each.set_xticks(np.arange(0.5, block.shape[1] - 1), minor=True)
        each.set_yticks(np.arange(0.5, len(block) - 1), minor=True)
        each.tick_params(which="minor", length=0)
        each.grid(which="minor", color="white", linewidth=1.5)
        titled(each, name)
    axes[0].set_ylabel(f"{SHOWN_RELAXED_ROWS} of {len(model.rows)} relaxed rows", fontsize=9, color=SOFT)
    return axes[0]


def draw_published() -> Any:
    """The pairs that the published mechanisms measured of the same people."""
    axes = panels(3, height=1.9)
    for each, name in zip(axes, ("privsyn", "privmrf", "swift"), strict=True):
        release = release_people(name)
        pairs = pairs_of(release.noisy_tables)
        draw_circle(each, list(release.domain), dict.fromkeys(pairs, 2.5), COLOURS[3])
        titled(each, name)
    return axes[0]


PICTURES: dict[str, Callable[[], Any]] = {
    "residual": draw_residual,
    "matrix": draw_matrix,
    "dawa-line": draw_dawa_line,
    "dawa-map": draw_dawa_map,
    "scout": draw_scout,
    "mst": draw_mst,
    "aim": draw_aim,
    "rap": draw_rap,
    "published": draw_published,
}


if __name__ == "__main__":
    from pictures import save  # beside this file

    matplotlib.use("Agg")
    for name in sys.argv[1:] or PICTURES:
        save(PICTURES[name](), f"how-{name}")
