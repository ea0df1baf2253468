"""`hush studio`: the owner's page in a browser on this machine; `hush serve`: a release as a public page and API."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from hush.cli.long_work import NO_BAR, long_work
from hush.cli.options import PATH
from hush.core.errors import HushError, printable

NEEDED = ("starlette", "uvicorn", "python_multipart")


def require_studio() -> None:
    """Refuse to start without the packages of the extra."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise HushError(f"this command needs {' and '.join(missing)}: pip install 'hush[studio]'")


@click.command()
@click.argument("data", type=str, required=False)
@click.option("--table", help="Table of a database, or sheet of a spreadsheet.")
@click.option("--ledger", type=PATH, help="File that records every charge.  [default: budget.db beside the data]")
@click.option("--project", type=PATH, help="File that keeps your work.  [default: beside DATA, ending in .studio]")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback.  [default: any that is free]")
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
def studio(
    data: str | None, table: str | None, ledger: Path | None, project: Path | None, port: int, no_browser: bool
) -> None:
    """Plan, release and explore in a browser.

    Opens a page that only this browser can use. DATA is a file, a folder of Parquet, or the address of a database;
    without it, the page asks. Rows are read when you confirm a release, and never shown.
    """
    require_studio()
    import webbrowser

    from hush.studio.guard import HOST, new_code
    from hush.studio.owner import OwnerStudio
    from hush.studio.owner_app import serve_owner

    book = ledger and ledger.absolute()
    with long_work("starting the studio", "usually a second or two", private=True, after=NO_BAR):
        owner = OwnerStudio(Path.cwd(), project_path=project and project.absolute(), ledger=book)
        if data is not None:
            owner.choose(data, table or "")
    code = new_code()

    def ready(used: int, opener: Path) -> None:
        click.echo(f"hush studio runs at http://{HOST}:{used}/#{code}")
        click.echo("The link opens once, in one browser. Ctrl-C ends the server; all work is kept.")
        if owner.chosen is not None:
            click.echo(printable(f"Project: {owner.project.path}"))
        if not no_browser:
            webbrowser.open(opener.as_uri())

    serve_owner(owner, port=port, code=code, on_ready=ready)


@click.command()
@click.argument("release", type=PATH)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 exposes the page.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="Port to listen on.")
@click.option("--title", help="Heading of the page.  [default: name of the file]")
@click.option("--most-rows", type=click.IntRange(min=1), default=100_000, show_default=True, help="Rows per download.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    default=20.0,
    show_default=True,
    help="Requests per second of one visitor, in the long run; 0 for no limit, such as behind a proxy that has one.",
)
def serve(release: Path, host: str, port: int, title: str | None, most_rows: int, rate: float) -> None:
    """Let others ask RELEASE: a page and an API.

    Opens nothing but RELEASE, and costs no privacy. The page has tables, SQL, synthetic rows and the report; /api
    describes the API. For the public, put a proxy with TLS in front.
    """
    require_studio()
    from hush.studio.owner_app import bound_socket
    from hush.studio.public_app import PublicLimits, public_app, public_server

    limits = PublicLimits(most_rows=most_rows, requests_per_second=rate)
    with long_work("opening the release", "usually seconds, longer for many tables", after=NO_BAR):
        app = public_app(release, title=title, limits=limits)
    statement = app.public.release.statement
    for warning in statement.warnings:
        click.echo(f"hush: {printable(warning)}", err=True)
    listening = bound_socket(port, host)
    try:
        click.echo(
            f"{printable(app.public.title)} is served at http://{host}:{listening.getsockname()[1]}/; Ctrl-C ends it."
        )
        public_server(app).run(sockets=[listening])
    finally:
        app.desk.close()
        listening.close()
