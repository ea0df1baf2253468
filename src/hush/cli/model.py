"""`hush model`: fit the model of a release once and keep it; costs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import hush
from hush.cli.fitted import APPROXIMATE, fitted, named, say, summary
from hush.cli.options import PATH
from hush.cli.output import check_output
from hush.domain import Clique
from hush.printable import printable


@click.command()
@click.argument("file", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="File to write the model to.")
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
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
    help="exact refuses a model beyond the largest size, auto makes an approximate one then.",
)
def model(
    file: Path, output: Path, force: bool, cliques: tuple[str, ...], max_size_mb: float | None, method: Any
) -> None:
    """Fit one model to a release FILE and save it. Spends nothing.

    A release of an adaptive mechanism holds its model already, which is saved as it is unless other wishes are given.
    `hush query` and `hush synth` take the saved model and fit nothing again. A model answers what the release does not
    hold, without errors.
    """
    from hush.loading import load_release_or_model

    check_output(output, force=force, inputs=[file])
    loaded = load_release_or_model(file)
    if isinstance(loaded, hush.Model):
        raise click.UsageError(f"{file} is a model already; give a release, or draw rows with `hush synth`")
    made = fitted(loaded, cliques=stated_cliques(loaded, cliques), method=method, max_size_mb=max_size_mb)
    made.save(output)
    for caveat in made.caveats:
        say(f"hush: {printable(caveat)}", err=True)
    click.echo(f"Wrote {output}; nothing was spent.")
    click.echo(summary(made))
    say(f"Largest tables fitted: {named(made.cliques)}.")
    if not made.exact:
        say(APPROXIMATE)


def stated_cliques(release: hush.Release, texts: tuple[str, ...]) -> list[Clique] | None:
    """The cliques that options such as "age,sex; region" name; None where there are none."""
    from hush.workloads.text import parse_workload

    if not texts:
        return None
    return [term.clique for text in texts for term in parse_workload(release.domain, text).terms]
