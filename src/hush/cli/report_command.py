"""`hush report`: write a release as a page to read, at no cost."""

from __future__ import annotations

from pathlib import Path

import click

import hush
from hush.cli.options import PATH, STDOUT, check_output, progress_bar
from hush.errors import ArchiveError


@click.command()
@click.argument("release", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="HTML file to write; - for standard output.")
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
def report(release: Path, output: Path, force: bool) -> None:
    """Write RELEASE as one HTML page to read.

    The page shows the privacy statement, charts, errors and example queries. It needs no network and no scripts, and
    prints well.
    """
    from hush.loading import load_release_or_model
    from hush.report import write_report
    from hush.report.page import report_html

    if output != STDOUT:
        check_output(output, force=force, inputs=[release])
    loaded = load_release_or_model(release)
    if isinstance(loaded, hush.Model):
        raise ArchiveError(f"{release} is a model; a report is of a release, so give the one it was fitted to")
    with progress_bar("writing the report") as progress:
        if output == STDOUT:
            click.echo(report_html(loaded, progress=progress), nl=False)
        else:
            write_report(loaded, output, progress=progress)
    for warning in loaded.statement.warnings:
        click.echo(f"hush: {warning}", err=True)
    spent = dict(loaded.statement.lines())["Spent"]
    where = "the page" if output == STDOUT else output
    click.echo(f"wrote {where}; nothing was spent, the release had spent {spent}", err=output == STDOUT)
