"""`hush query`: ask a release; costs nothing."""

from __future__ import annotations

from pathlib import Path

import click

from hush.cli.options import PATH
from hush.errors import WorkloadError
from hush.loading import load_release


@click.command()
@click.argument("release", type=PATH)
@click.argument("sql")
@click.option("--level", type=float, default=0.95, show_default=True, help="Of the intervals.")
@click.option("--format", "form", type=click.Choice(["table", "csv"]), default="table", show_default=True)
def query(release: Path, sql: str, level: float, form: str) -> None:
    """Answer SQL, a counting query such as "SELECT sex, COUNT(*) FROM t WHERE age >= 40 GROUP BY sex"."""
    if not 0 < level < 1:
        raise WorkloadError(f"level={level}: expected a number between 0 and 1, such as 0.95")
    answers = load_release(release).sql(sql, level=level)
    if form == "csv":
        from pyarrow import BufferOutputStream, csv

        sink = BufferOutputStream()
        csv.write_csv(answers.to_arrow(), sink)
        click.echo(sink.getvalue().to_pybytes().decode("utf-8"), nl=False)
    else:
        click.echo(str(answers))
