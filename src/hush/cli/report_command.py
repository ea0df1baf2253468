"""`hush report`: write a release as a page to read, at no cost."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click

import hush
from hush.cli.long_work import long_work
from hush.cli.options import PATH, OutputOptions, output_options
from hush.core.errors import ArchiveError


@click.command()
@click.argument("release", type=PATH)
@output_options("HTML file to write; - for standard output.", required=True)
@click.option("--dataset", help="Name of the dataset, for the heading.")
@click.option("--owner", help="Who is responsible for the data, for the heading.")
@click.option("--date", type=click.DateTime(["%Y-%m-%d"]), help="Date of the report.  [default: today]")
@click.option("--file-name", help="Name of the released file, for the heading.  [default: that of RELEASE]")
def report(
    release: Path,
    output: OutputOptions,
    dataset: str | None,
    owner: str | None,
    date: dt.datetime | None,
    file_name: str | None,
) -> None:
    """Write RELEASE as one HTML page to read.

    The page says what the release promises to one person and how good its numbers are, and shows charts, example
    queries and the technical statement. It needs no network and no scripts, and prints well. Of the path of RELEASE
    only the file name is shown.
    """
    from hush.loading import load_release_or_model
    from hush.report import report_html

    output.check(release, stdout=True)
    loaded = load_release_or_model(release)
    if isinstance(loaded, hush.Model):
        raise ArchiveError(f"{release} is a model; a report is of a release, so give the one it was fitted to")
    with long_work("writing the report", "usually seconds, longer for many tables") as progress:
        page = report_html(
            loaded,
            dataset=dataset,
            owner=owner,
            date=dt.date.today() if date is None else date.date(),
            file_name=release.name if file_name is None else file_name,
            progress=progress,
        )
        output.write(page)
    for warning in loaded.statement.warnings:
        click.echo(f"hush: {warning}", err=True)
    facts = dict(loaded.statement_lines())
    spent = "; ".join(facts[name] for name in ("Spent", "Discovery") if name in facts)
    where = "the page" if output.stdout else output.path
    click.echo(f"wrote {where}; nothing was spent, the release had spent {spent}", err=output.stdout)
