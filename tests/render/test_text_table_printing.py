"""What is printed: names of strangers never steer the terminal, and no amount is rounded in anyone's favour."""

import io
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from rich.console import Console

import hush
from hush.cli.main import main
from hush.cli.query_command import shown_texts
from hush.core.errors import printable
from hush.mechanisms.plan_table import plan_tables
from hush.privacy.budget import Budget
from hush.privacy.events import GaussianEvent, NonPrivateEvent
from hush.privacy.sensitivity import Neighbours
from hush.release.statement import Statement
from hush.schema import Categorical, Schema, Unit
from hush.testing import TinyTable
from hush.workloads import Workload

HOSTILE = [
    "b[/red][bold]",
    "\x1b[31mred",
    "a\u202eb\u2066c",
    "line\nbreak",
    "\x9b2J",
    "[link=http://x]y[/link]",
    "\x07",
]


def safe(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("name", HOSTILE)
def test_printable_is_one_line_that_prints_as_itself(name: str) -> None:
    assert printable(name).isprintable()
    assert printable(printable(name)) == printable(name)
    if name.isprintable():
        assert printable(name) == name


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("attributes", [2, 8])
def test_names_in_a_plan_are_shown_and_not_obeyed(name: str, attributes: int, tmp_path: Path) -> None:
    """With two attributes every table has a row of its own, with eight the best and worst do."""
    domain = hush.Domain({name: 9} | {f"x{i}": 2 for i in range(attributes - 1)})
    hush.plan(Workload.kway(domain, 2), hush.Budget(rho=0.5)).save(tmp_path / "plan.hush")
    made = hush.load(tmp_path / "plan.hush")
    assert safe(made.details())
    assert printable(name) in re.sub(r"\s*\n\s*", "", made.details()) or printable(name) in made.details()
    console = Console(force_terminal=True, color_system=None, width=100, record=True, file=io.StringIO())
    console.print(*plan_tables(made))  # type: ignore[arg-type]
    assert safe(console.export_text())


def test_the_loss_of_a_plan_file_is_not_obeyed() -> None:
    made = hush.plan(Workload.kway(hush.Domain({"a": 3, "b": 2}), 1), hush.Budget(rho=0.5))
    made.loss = "\x1b[2Jrmse[bold]"
    assert safe(made.details())
    assert "\\x1b[2Jrmse[bold]" in made.details()


def statement(**changes: object) -> Statement:
    fields = {
        "budget": Budget(rho=0.5),
        "neighbours": Neighbours.ADD_REMOVE,
        "unit": Unit(),
        "event": GaussianEvent(Fraction(1), Fraction(1)),
        "seeded": False,
    }
    return Statement(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_statement_shows_the_unit_and_the_ledger_on_one_line(name: str) -> None:
    made = statement(ledger_head=name)
    unit = Unit(column="id", max_rows=2)
    object.__setattr__(unit, "column", name)  # as a file might state it, should the check of names ever change
    for text in dict(replace(made, unit=unit).lines()).values():
        assert text.isprintable()


@pytest.fixture
def release_file(tmp_path: Path) -> Path:
    schema = Schema([Categorical(name="tag", values=("=1+1", "\x1b[31mred", "a\nb", "r\u202el"))])

    class Tagged(TinyTable):
        @property
        def schema(self) -> Schema:
            return schema

    made = hush.plan(Workload.kway(schema.domain, 1), hush.Budget(rho=0.5))
    made.release(Tagged(schema.domain, [(0,), (1,)])).save(tmp_path / "x.hush")
    return tmp_path / "x.hush"


QUERY = "SELECT tag, COUNT(*) FROM t GROUP BY tag"


def test_labels_in_answers_are_shown_and_not_obeyed(release_file: Path) -> None:
    answers = hush.load(release_file).sql(QUERY)  # type: ignore[union-attr]
    assert safe(str(answers))
    assert safe(repr(answers))
    assert safe(answers._repr_html_())
    shown = CliRunner().invoke(main, ["query", str(release_file), QUERY])
    assert shown.exit_code == 0
    assert safe(shown.output)


def test_csv_is_faithful_in_a_pipe_and_safe_on_a_terminal(release_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = ["query", str(release_file), QUERY, "--format", "csv"]
    piped = CliRunner().invoke(main, call).output
    assert "\x1b[31mred" in piped
    assert '"\'=1+1"' in piped  # no formula to a spreadsheet

    monkeypatch.setattr("hush.cli.query_command._on_terminal", lambda: True)
    shown = CliRunner().invoke(main, call).output
    assert safe(shown)
    assert '"\\x1b[31mred"' in shown
    assert '"\'=1+1"' in shown
    assert len(shown.splitlines()) == 5


def test_shown_tables_keep_their_numbers() -> None:
    table = pa.table({"a\x1b": ["x\n", None], "n": pa.array([1, None], pa.int64())})
    assert shown_texts(table).to_pydict() == {"a\\x1b": ["x\\n", None], "n": [1, None]}


# amounts


def test_spent_amounts_are_rounded_up() -> None:
    """rho = 1/6 = 0.166666..., and the epsilon shown is never below that of the exact rho."""
    made = statement(event=GaussianEvent(Fraction(3), Fraction(1)), budget=Budget(epsilon=2.5, delta=1e-6))
    spent = dict(made.lines())["Spent"]
    assert "rho=0.16667 of zCDP" in spent
    epsilon = float(re.search(r"epsilon=([0-9.]+)", spent)[1])  # type: ignore[index]
    assert 0 <= epsilon - Budget(rho=made.rho).epsilon_at(1e-6) < 1e-4
    third = statement(event=GaussianEvent(Fraction(3, 2), Fraction(1)))
    assert "rho=0.33334 of zCDP" in dict(third.lines())["Spent"]
    assert "without bound" in dict(statement(event=NonPrivateEvent("x")).lines())["Spent"]


@pytest.mark.parametrize("rho", [1 / 3, 0.123456789, 0.0149731449, 0.5])
def test_plans_round_what_they_spend_up(rho: float) -> None:
    made = hush.plan(Workload.kway(hush.Domain({"a": 3, "b": 2}), 1), Budget(rho=rho))
    text = " ".join(made.details().split())
    rho_shown, mu, epsilon = (
        float(re.search(rf"{what}=([0-9.]+)", text)[1]) for what in ("spends rho", "mu", "epsilon")
    )  # type: ignore[index]
    assert f"Privacy rho={rho!r};" in text
    assert 0 <= Fraction(str(rho_shown)) - made.rho < Fraction(rho) / 1000
    assert 0 <= mu**2 / 2 - rho < rho / 1000
    assert 0 <= epsilon - Budget(rho=rho).epsilon_at(1e-9) < epsilon / 1000


def test_a_budget_is_shown_as_stated_and_a_large_delta_is_warned_of() -> None:
    workload = Workload.kway(hush.Domain({"a": 3, "b": 2}), 1)
    budget = Budget(epsilon=1.23456789, delta=0.4999999)
    loose = " ".join(hush.plan(workload, budget).details().split())
    assert "Privacy epsilon=1.23456789, delta=0.4999999 (noise" in loose
    assert "delta=0.4999999 is the chance of an arbitrary leak; use far less, such as 1e-9" in loose
    assert dict(statement(budget=budget).lines())["Budget"] == "epsilon=1.23456789, delta=0.4999999"
    assert "at delta=0.4999999" in dict(statement(budget=budget).lines())["Spent"]
    for fine in (Budget(epsilon=1.0, delta=1e-3), Budget(rho=0.5)):
        assert "arbitrary leak" not in hush.plan(workload, fine).details()
    assert dict(statement(budget=Budget(epsilon=1.0, delta=1e-9)).lines())["Budget"] == "epsilon=1, delta=1e-09"


@pytest.mark.parametrize("target", [3.0, 7.7, 20.0])
def test_the_budget_that_plan_names_reaches_the_target(tmp_path: Path, target: float) -> None:
    Schema.from_domain(hush.Domain({"a": 3, "b": 2, "c": 7})).save(tmp_path / "x.toml")
    call = ["plan", str(tmp_path / "x.toml"), "--workload", "2-way", "--target-error", str(target)]
    output = " ".join(CliRunner().invoke(main, call).output.split())
    found = re.search(r"Needs --rho (\S+), or --epsilon (\S+) --delta (\S+)", output)
    assert found
    rho, epsilon, delta = map(float, found.groups())
    workload = Workload.kway(hush.Domain({"a": 3, "b": 2, "c": 7}), 2)
    for budget in (Budget(rho=rho), Budget(epsilon=epsilon, delta=delta)):
        reached = hush.plan(workload, budget).rmse
        assert reached is not None
        assert reached <= target
