"""`hush model`: fit the model of a release once and save it, at no cost."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

import hush
from hush.cli.options import PATH, OutputOptions, output_options
from hush.core.domain import Clique
from hush.core.errors import printable
from hush.core.memory import readable

if TYPE_CHECKING:
    from hush.release.fit import Route

LONG_MB = 1.0  # smaller models are fitted within a moment
MOST_NAMED = 8  # cliques in a summary
APPROXIMATE_NOTE = (
    "The model is approximate: its tables agree on what they share, and rows are moved close to all of them."
)


def fitted(
    release: hush.Release,
    *,
    cliques: Sequence[Clique] | None = None,
    method: Route = "auto",
    max_size_mb: float | None = None,
) -> hush.Model:
    """The model of a release; announces its size if it has to be fitted."""
    if keeps_model(release, cliques, method, max_size_mb):
        return release.model(method=method)
    release.record.require_tables()
    megabytes, kind = predicted(release, cliques, method, max_size_mb)
    if megabytes >= LONG_MB:
        click.echo(f"hush: fitting {kind} of {readable(1e6 * megabytes)} ...", err=True)
    return release.model(cliques, method=method, max_size_mb=max_size_mb)


def keeps_model(
    release: hush.Release, cliques: Sequence[Clique] | None, method: Route, max_size_mb: float | None
) -> bool:
    """Whether the release already holds the model, so that nothing is fitted."""
    plain = cliques is None and max_size_mb is None and method != "approximate"
    return plain and release.record.fitted is not None


def predicted(
    release: hush.Release, cliques: Sequence[Clique] | None, method: Route, max_size_mb: float | None
) -> tuple[float, str]:
    """The megabytes and the kind of the model that `release.model` would fit."""
    from hush.models.graphical.junction_tree import BYTES_PER_CELL
    from hush.release.fit import FitChoice, model_total

    domain = release.domain
    inside = set(_inside((measurement.clique for measurement in release.measurements()), cliques))
    noisy = [measurement for measurement in release.measurements() if measurement.clique in inside]
    rules = [rule.clique for rule in release.schema.constraints]
    if method == "exact":
        return hush.model_size_mb(domain, [*inside, *rules]), "a model"
    choice = FitChoice.of(domain, noisy, rules, max_size_mb, model_total(release))
    if method == "auto" and choice.kind != "approximate":
        rows = f"{choice.rows or 0:,} relaxed rows or an approximate model"
        return choice.megabytes, "a model" if choice.kind == "exact" else rows
    tables = _inside(release.estimates.cliques, cliques)
    return 1e-6 * BYTES_PER_CELL * sum(domain.size(clique) for clique in tables), "an approximate model"


def summary(model: hush.Model) -> str:
    """One line on the kind of model and its fit."""
    from hush.models.relaxed.relaxed_rows import RelaxedRows

    relaxed = isinstance(model.distribution, RelaxedRows)
    kind = "relaxed rows" if relaxed else "exact" if model.exact else "approximate"
    size = readable(1e6 * model.size_mb)
    return f"Model: {kind}, {size}, total {model.total:,.0f}, fit {printable(model.status)}."


def named(cliques: Iterable[Clique]) -> str:
    """The number of maximal cliques, and the first few by name.

    >>> named([("sex",), ("age", "sex"), ("region",)])
    '2: (age, sex), (region)'
    """
    from hush.core.domain import maximal_cliques

    largest = maximal_cliques(list(cliques))
    texts = [f"({', '.join(map(printable, clique))})" for clique in largest[:MOST_NAMED]]
    more = [f"and {len(largest) - MOST_NAMED:,} more"] if len(largest) > MOST_NAMED else []
    return f"{len(largest):,}: {', '.join([*texts, *more])}"


def say(text: str, *, err: bool = False) -> None:
    """Print a text, wrapped to the width of the terminal."""
    from hush.render.text_table import wrapped

    for line in wrapped(text, max(shutil.get_terminal_size().columns, 20), indent="  "):
        click.echo(line, err=err)


def _inside(candidates: Iterable[Clique], cliques: Sequence[Clique] | None) -> Iterator[Clique]:
    outer = None if cliques is None else [set(clique) for clique in cliques]
    return (clique for clique in candidates if outer is None or any(set(clique) <= names for names in outer))


@click.command()
@click.argument("file", type=PATH)
@output_options("File to write the model to.", required=True)
@click.option(
    "--cliques",
    multiple=True,
    metavar="COLUMNS",
    help="Fit only what was measured inside these tables, such as 'age,sex; sex,region'; may be repeated.",
)
@click.option(
    "--max-size-mb",
    type=click.FloatRange(min=0, min_open=True),
    help="Largest exact model.  [default: a fifth of free memory]",
)
@click.option(
    "--method",
    type=click.Choice(["auto", "exact", "approximate"]),
    default="auto",
    show_default=True,
    help="exact refuses a model above the largest size; auto takes what is fitted within seconds.",
)
def model(file: Path, output: OutputOptions, cliques: tuple[str, ...], max_size_mb: float | None, method: Any) -> None:
    """Fit one model to a release FILE and save it. Spends nothing.

    A release of an adaptive mechanism already holds its model, which is saved as it is unless you set options here.
    `hush query` and `hush synth` use the saved model without fitting it again. A model also answers what the release
    does not hold, without errors.
    """
    from hush.loading import load_release_or_model

    output.check(file)
    loaded = load_release_or_model(file)
    if isinstance(loaded, hush.Model):
        raise click.UsageError(f"{file} is a model already; give a release, or draw rows with `hush synth`")
    fitted_model = fitted(loaded, cliques=stated_cliques(loaded, cliques), method=method, max_size_mb=max_size_mb)
    fitted_model.save(cast(Path, output.path), overwrite=True)
    for caveat in fitted_model.caveats:
        say(f"hush: {printable(caveat)}", err=True)
    click.echo(f"Wrote {output.path}; nothing was spent.")
    click.echo(summary(fitted_model))
    say(f"Largest tables fitted: {named(fitted_model.cliques)}.")
    if not fitted_model.exact:
        say(APPROXIMATE_NOTE)


def stated_cliques(release: hush.Release, texts: tuple[str, ...]) -> list[Clique] | None:
    """The cliques named by options such as "age,sex; region"; None without options."""
    from hush.workloads.workload_text import parse_workload

    if not texts:
        return None
    return [term.clique for text in texts for term in parse_workload(release.domain, text).terms]
