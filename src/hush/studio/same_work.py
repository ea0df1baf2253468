"""The same work as a Python script and as commands, so that what was clicked can be read, kept and repeated."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from hush.privacy.budget import Budget, number_text
from hush.studio.project import ProjectFile

if TYPE_CHECKING:
    from hush.studio.owner import OwnerStudio
    from hush.studio.planned import Planned

SCHEMA_NAME = "schema.toml"
SCHEMA_NOTE = "# schema.toml is on the page of columns, under `Schema files`."
PASSWORD_NOTE = "# The password of the database is in no file: put it into the environment variable PGPASSWORD first."


def same_script(studio: OwnerStudio, state: ProjectFile, planned: Planned, name: str, cap: Budget | None) -> str:
    """A Python script that makes the same release."""
    data = state.data
    location, table = ("", "") if data is None else (data.location, data.table)
    ledger, dataset = str(studio.ledger_path(state)), state.budget.dataset
    goal = ', goal="rows"' if planned.goal == "rows" else ""
    goal += f", label={planned.label!r}" if planned.label else ""
    goal += f", mechanism={planned.plan.mechanism!r}" if planned.fitted else ""
    named = "" if dataset == "default" else f", dataset={dataset!r}"
    lines = [
        *_notes(state),
        "import hush",
        "",
        f"schema = hush.Schema.load({SCHEMA_NAME!r})",
        f"plan = hush.plan({planned.text!r}, hush.{planned.plan.budget!r}, schema=schema{goal})",
        *(
            [f"plan = plan.fitting(hush.Ledger.open({ledger!r}{named}))  # the ledger has no room for less noise"]
            if planned.fitted
            else []
        ),
        "print(plan)  # how accurate it will be; nothing is spent yet",
        "",
        *([f"hush.Ledger.create({ledger!r}, hush.{cap!r}{named})  # the cap of all releases together"] if cap else []),
        f"table = hush.read({location!r}, schema{f', table={table!r}' if table else ''})",
        f"release = plan.release(table, ledger={ledger!r}{named}, name={name!r})",
        f"release.save({name!r})",
        "",
        f"release = hush.load({name!r})  # from here on, nothing is spent",
        'print(release.sql("SELECT COUNT(*) FROM t"))',
        "rows = release.synthesize()",
    ]
    return "\n".join(lines) + "\n"


def same_commands(studio: OwnerStudio, state: ProjectFile, planned: Planned, name: str, cap: Budget | None) -> str:
    """Commands that make the same release."""
    data = state.data
    location, table = ("", "") if data is None else (data.location, data.table)
    ledger, dataset = str(studio.ledger_path(state)), state.budget.dataset
    question = ["--workload", planned.text, *_budget_options(planned.plan.budget)]
    question += ["--goal", "rows"] if planned.goal == "rows" else []
    question += ["--label", planned.label] if planned.label else []
    question += ["--mechanism", planned.plan.mechanism] if planned.fitted else []
    named = [] if dataset == "default" else ["--dataset", dataset]
    commands = [["hush", "plan", SCHEMA_NAME, *question]]
    if cap is not None:
        commands.append(["hush", "budget", "init", ledger, *_budget_options(cap), *named])
    release = ["hush", "release", location, *(["--table", table] if table else []), "--schema", SCHEMA_NAME, *question]
    commands.append([*release, "--ledger", ledger, *named, "-o", name])
    commands += [
        ["hush", "query", name, "SELECT COUNT(*) FROM t"],
        ["hush", "synth", name, "-o", f"{name.removesuffix('.hush')}-rows.csv"],
        ["hush", "report", name, "-o", f"{name.removesuffix('.hush')}.html"],
    ]
    return "\n".join([*_notes(state), *map(shlex.join, commands)]) + "\n"


def _notes(state: ProjectFile) -> list[str]:
    """What is needed besides the script or the commands."""
    return [SCHEMA_NOTE, *([PASSWORD_NOTE] if state.data is not None and state.data.password else [])]


def _budget_options(budget: Budget) -> list[str]:
    """A budget as options."""
    options = ["--epsilon", number_text(budget.epsilon or 0.0)]
    return options if budget.pure else [*options, "--delta", number_text(budget.delta or 0.0)]
