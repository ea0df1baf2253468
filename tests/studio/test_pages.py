"""The pages over HTTP: a hundred columns, the owner's check, PostgreSQL, and the same work elsewhere."""

import re
import shlex
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner

import hush
from hush.cli.main import main
from hush.mechanisms.plan import Plan
from hush.studio.owner import OwnerStudio, without_password
from hush.studio.project import ChosenData, Project
from hush.studio.releases_page import saved_as
from postgres_server import Server
from studio_visitor import PEOPLE_COLUMNS, Visitor, describe_people, running, write_people

SECRET = 987_654_321


@pytest.fixture
def studio(tmp_path: Path) -> OwnerStudio:
    studio = OwnerStudio(tmp_path)
    studio.choose(str(write_people(tmp_path / "people.csv")))
    return studio


@pytest.fixture
def owner(studio: OwnerStudio) -> Iterator[Visitor]:
    with running(studio) as visitor:
        yield visitor.enter()


def released(owner: Visitor) -> str:
    """The address of a release that was made in the usual way."""
    describe_people(owner)
    form = next(form for form in owner.get("/confirm").page.forms if form.action == "/spend")
    address = owner.post("/spend", form.fields).location
    assert '"state": "done"' in owner.get(address.replace("/progress", "/events")).body.decode()
    return address.removesuffix("/progress")


def test_every_page_leads_to_the_data_until_some_is_chosen(tmp_path: Path) -> None:
    write_people(tmp_path / "people.csv")
    with running(OwnerStudio(tmp_path)) as visitor:
        visitor.enter()
        for path in ("/", "/columns", "/people", "/questions", "/budget", "/confirm", "/releases", "/ledger"):
            assert visitor.get(path).location == "/data"
        hush.Ledger.create(tmp_path / "budget.db", hush.Budget(epsilon=1.0))
        choices = visitor.get("/data").body.decode()
        assert 'value="people.csv"' in choices
        assert "budget.db" not in choices
        assert visitor.post("/spend", {"token": "x"}).location == "/data"
        refused = visitor.fill("/data", {"location": "/nowhere/nothing.csv", "table": "visits"}).page
        assert "nothing.csv" in refused.alerts[0]
        assert {("location", "/nowhere/nothing.csv"), ("table", "visits")} <= set(refused.forms[0].fields)
        assert visitor.fill("/data", {"file": "people.csv", "location": "typed.csv"}).status == 400
        assert visitor.fill("/data", {"file": "people.csv"}).location == "/columns"
        assert visitor.get("/").location == "/columns"


def test_a_hundred_columns_are_described_by_two_edits(tmp_path: Path) -> None:
    names = [*(f"n{i}" for i in range(60)), *(f"t{i}" for i in range(40))]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    studio = OwnerStudio(tmp_path)
    studio.choose("wide.csv")
    with running(studio) as visitor:
        visitor.enter()
        numbers = {"action": "bulk", "chosen": [str(i) for i in range(60)], "bulk-kind": "integer"}
        assert visitor.fill("/columns", numbers | {"bulk-low": "0", "bulk-high": "9"}).status == 303
        texts = {"action": "bulk", "chosen": [str(i) for i in range(60, 100)], "bulk-values": "1, 2"}
        assert visitor.fill("/columns", texts | {"bulk-kind": "categorical", "bulk-action": "missing"}).status == 303
        assert visitor.fill("/columns", {"action": "next"}).location == "/people"
        schema = hush.Schema.load(_saved(tmp_path, visitor.get("/columns/schema.toml").body))
    assert len(schema) == 100
    assert {schema[f"n{i}"].size for i in range(60)} == {10}
    assert {schema[f"t{i}"].size for i in range(40)} == {3}


def _saved(folder: Path, content: bytes) -> Path:
    path = folder / "schema.toml"
    path.write_bytes(content)
    return path


def test_what_was_typed_is_kept_while_it_is_wrong(owner: Visitor, studio: OwnerStudio) -> None:
    reply = owner.fill("/columns", PEOPLE_COLUMNS | {"c1-high": "a hundred", "action": "next"})
    assert reply.status == 400
    assert "'a hundred': expected a whole number" in reply.page.alerts[0]
    assert ("c1-high", "a hundred") in reply.page.forms[0].fields
    assert OwnerStudio(studio.folder).chosen is None
    again = OwnerStudio(studio.folder)
    again.choose("people.csv")
    assert again.state.columns[1].texts["high"] == "a hundred"
    assert "a hundred" in owner.get("/confirm").page.alerts[0]


def test_marked_columns_are_refused_with_what_to_do(owner: Visitor) -> None:
    marked = {"action": "bulk", "chosen": ["1"], "bulk-action": "discover"}
    assert owner.fill("/columns", PEOPLE_COLUMNS | marked).status == 303
    assert owner.fill("/columns", {"action": "next"}).location == "/people"
    assert "'age' is marked for private discovery" in owner.get("/confirm").page.alerts[0]


def test_no_page_shows_a_row_but_the_check_that_says_so(owner: Visitor, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text(people.read_text() + f"1,{SECRET},f,north,2024-01-01\n")
    describe_people(owner)
    for path in ("/data", "/columns", "/people", "/questions", "/budget", "/budget/effect", "/confirm", "/ledger"):
        assert str(SECRET) not in owner.get(path).body.decode()
    check = owner.fill("/columns", {}, at="/columns/check")
    assert str(SECRET) in check.page.text
    assert "exact numbers and values of your data" in check.page.text
    assert str(SECRET) not in (tmp_path / "people.csv.studio").read_text()


def test_a_schema_file_is_taken_over(owner: Visitor, tmp_path: Path) -> None:
    schema = (
        'hush_schema = 1\n[unit]\ncolumn = "person_id"\nmax_rows = 2\n'
        '[columns.age]\nkind = "integer"\nlow = 0\nhigh = 99\nbins = 5\npoints = [18]\n'
        '[columns.sex]\nkind = "categorical"\nvalues = ["f", "m"]\n'
    )
    (tmp_path / "ready.toml").write_text(schema)
    assert owner.fill("/columns", {"path": "ready.toml"}, at="/columns/schema").location == "/columns"
    taken = hush.Schema.load(_saved(tmp_path, owner.get("/columns/schema.toml").body))
    assert taken == hush.Schema.load(tmp_path / "ready.toml")
    (tmp_path / "other.toml").write_text(schema.replace("columns.sex", "columns.gender"))
    refused = owner.fill("/columns", {"path": "other.toml"}, at="/columns/schema")
    assert "The data has no column 'gender'" in refused.page.alerts[0]


def test_questions_are_added_and_removed(owner: Visitor, studio: OwnerStudio) -> None:
    owner.fill("/columns", PEOPLE_COLUMNS | {"action": "save"})
    owner.fill("/questions", {"table": ["age", "sex"], "action": "add-table"})
    owner.fill("/questions", {"table": ["sex", "age"], "action": "add-table"})
    owner.fill("/questions", {"average": "age", "by": "sex", "action": "add-average"})
    assert studio.state.questions.tables == [["age", "sex"]]
    assert studio.state.questions.averages == [["age", "sex"]]
    owner.fill("/questions", {"action": "remove-table-0"})
    owner.fill("/questions", {"action": "remove-table-7"})
    assert studio.state.questions.tables == []
    form = owner.get("/questions").page.forms[0]
    reply = owner.post("/questions", [*form.fields, ("table", "nobody"), ("action", "add-table")])
    assert "'nobody' is no column" in reply.page.alerts[0]


def test_a_release_is_explored(owner: Visitor) -> None:
    address = released(owner)
    query = urllib.parse.urlencode({"columns": "age,sex", "sql": "SELECT sex, COUNT(*) FROM t GROUP BY sex"})
    page = owner.get(f"{address}?{query}").page
    assert page.alerts == []
    assert page.tags.count("svg") == 1
    assert page.text.count("95 % interval") >= 2
    wrong = owner.get(f"{address}?sql=SELECT%20agee").page
    assert wrong.alerts
    assert owner.get(f"{address}?column=age&column=sex").location == f"{address}?columns=age%2Csex#tables"
    assert owner.get(f"{address}/rows.csv?rows=7").body.count(b"\n") == 8
    disposition = owner.get(f"{address}/rows.csv?rows=7").headers["content-disposition"]
    assert disposition == "attachment; filename*=UTF-8''people-1-rows.csv"
    assert saved_as('ł "x".csv').isascii()
    assert owner.get(f"{address}/rows.parquet?rows=7").body.startswith(b"PAR1")
    assert b"expected a whole number" in owner.get(f"{address}/rows.csv?rows=many").body
    report = owner.get(f"{address}/report")
    assert "The privacy promise" in report.page.text
    assert "script-src" not in report.headers["content-security-policy"]
    assert {'"age"', "\"'north'\""} <= set(owner.get(f"{address}/words.json").body.decode().strip("[]").split(","))
    for missing in ("/releases/none.hush", "/releases/..%2Fpeople.csv", "/releases/none.hush/report"):
        assert owner.get(missing).status in (400, 404)


def test_the_script_and_the_commands_do_the_same_work(
    owner: Visitor, studio: OwnerStudio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released(owner)
    entry, made = studio.release("people-1.hush")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    _saved(elsewhere, owner.get("/columns/schema.toml").body)
    monkeypatch.chdir(elsewhere)
    for kind, text in (("script", entry.script), ("commands", entry.commands)):
        # with a new ledger for each, as the studio began with a new one
        text = text.replace(str(tmp_path / "budget.db"), str(elsewhere / f"{kind}.db"))
        text = text.replace("people-1", kind)
        if kind == "script":
            exec(text, {})
        else:
            lines = [shlex.split(line) for line in text.splitlines() if not line.startswith("#")]
            results = [CliRunner().invoke(main, words[1:]) for words in lines]
            assert [result.exit_code for result in results] == [0] * 6
        again = hush.load(elsewhere / f"{kind}.hush")
        assert isinstance(again, hush.Release)
        assert (again.schema, again.workload, again.mechanism) == (made.schema, made.workload, made.mechanism)
        assert again.statement.budget == made.statement.budget
        assert hush.Ledger.open(elsewhere / f"{kind}.db").budget == hush.Budget(epsilon=9.0, delta=1e-9)


def test_a_column_to_predict_is_kept_shown_and_repeated_elsewhere(
    owner: Visitor, studio: OwnerStudio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe_people(owner, goal="rows")
    assert owner.fill("/questions", {"label": "sex", "action": "next"}).location == "/budget"
    assert Project(studio.project.path).read().questions.label == "sex"
    assert ("label", "sex") in owner.get("/questions").page.forms[0].fields
    page = owner.get("/confirm").page
    assert "synthetic rows, made for predicting the column sex, and all tables behind them" in page.text
    # The plans of the script and of the commands are the plan that was shown.
    (waiting,) = studio.spending._shown.values()
    shown = studio.planner.planned(studio.state).plan
    monkeypatch.chdir(tmp_path)
    _saved(tmp_path, owner.get("/columns/schema.toml").body)
    made: dict[str, Plan] = {}
    exec(waiting.script[: waiting.script.index("print(plan)")], made)
    (words,) = (shlex.split(line) for line in waiting.commands.splitlines() if line.startswith("hush plan"))
    assert CliRunner().invoke(main, [*words[1:], "-o", "rows.plan"]).exit_code == 0
    for plan in (made["plan"], hush.load("rows.plan")):
        assert isinstance(plan, Plan)
        assert (plan.mechanism, plan.workload, plan.budget) == (shown.mechanism, shown.workload, shown.budget)
    (released,) = (shlex.split(line) for line in waiting.commands.splitlines() if line.startswith("hush release"))
    assert set(words[3:]) <= set(released)


def test_a_column_to_predict_that_is_not_used_is_refused(owner: Visitor, tmp_path: Path) -> None:
    describe_people(owner, goal="rows")
    form = next(form for form in owner.get("/questions").page.forms if form.action == "/questions")
    reply = owner.post("/questions", [*form.fields, ("label", "income")])
    assert "'income' is no column that is used" in reply.page.alerts[0]
    owner.fill("/questions", {"label": "region"})
    owner.fill("/columns", {"c3-used": None})
    for path in ("/budget/effect", "/confirm"):
        body = owner.get(path).body.decode()
        assert "The column to predict, &#x27;region&#x27;, is no longer used; choose another one, or none." in body
        assert '<a href="/questions">Go to Questions</a>' in body
        assert 'action="/spend"' not in body
    assert not (tmp_path / "budget.db").exists()
    (notice,) = owner.get("/questions").page.alerts
    assert "The column to predict, region, is no longer used" in notice
    owner.fill("/questions", {"action": "save"})
    assert "/spend" in [form.action for form in owner.get("/confirm").page.forms]


def test_the_cap_is_raised_once_with_a_reason(owner: Visitor, tmp_path: Path) -> None:
    released(owner)
    page = owner.get("/ledger").page
    assert re.search(r"One more release like people-1.hush would cost [\d.]+ % of the cap", page.text)
    form = next(form for form in page.forms if form.action == "/ledger/raise")
    fields = dict(form.fields)
    refused = owner.post("/ledger/raise", fields | {"epsilon": "12", "reason": " "})
    assert "needs a reason" in refused.page.alerts[0]
    for status in (303, 400):  # a second click finds that the ledger changed
        assert owner.post("/ledger/raise", fields | {"epsilon": "12", "reason": "a second survey"}).status == status
    ledger = hush.Ledger.open(tmp_path / "budget.db")
    assert ledger.budget == hush.Budget(epsilon=12.0, delta=1e-9)
    assert [entry.note for entry in ledger.entries()].count("a second survey") == 1


def test_a_failure_shows_its_type_and_nothing_else(owner: Visitor, capfd: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object, **__: object) -> str:
        raise ZeroDivisionError("a private cell")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hush.studio.releases_page.report_html", broken)
        reply = owner.get(released(owner) + "/report")
    assert reply.status == 500
    assert "Internal error (ZeroDivisionError)" in reply.page.text
    assert "a private cell" not in reply.page.text
    shown = capfd.readouterr()
    assert "private cell" not in shown.out + shown.err


@pytest.fixture(scope="module")
def people_address(postgres: Server) -> str:
    """The address of a database with a table of people."""
    with postgres.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS studio_people")
        connection.execute(
            "CREATE TABLE studio_people AS SELECT i AS person_id, (i * 7) % 100 AS age, "
            "CASE WHEN i % 2 = 0 THEN 'f' ELSE 'm' END AS sex, "
            "CASE WHEN i % 3 = 0 THEN 'north' ELSE 'south' END AS region, "
            "DATE '2024-01-01' + i % 300 AS visited FROM generate_series(1, 400) AS i"
        )
    return postgres.address()


def test_the_whole_way_on_postgresql(people_address: str, tmp_path: Path) -> None:
    with running(OwnerStudio(tmp_path)) as visitor:
        visitor.enter()
        reply = visitor.fill("/data", {"location": people_address, "table": "studio_people"})
        assert reply.location == "/columns", reply.page.alerts
        kinds = dict(visitor.get("/columns").page.forms[0].fields)
        assert (kinds["c1-kind"], kinds["c4-kind"]) == ("integer", "date")
        address = released(visitor)
        text = visitor.get(f"{address}?sql=SELECT%20COUNT(*)%20FROM%20t").page.text
    assert "95 % interval" in text
    assert len(list(tmp_path.glob("*.studio"))) == 1


def test_a_password_is_kept_in_memory_only(tmp_path: Path) -> None:
    studio = OwnerStudio(tmp_path)
    typed = "postgresql://anna:se%40cret@127.0.0.1:9/clinic?sslmode=require&password=again"
    address, password = without_password(typed)
    assert (address, password) == ("postgresql://anna@127.0.0.1:9/clinic?sslmode=require", "se@cret")
    studio._passwords[address] = password
    assert studio._with_password(address) == "postgresql://anna:se%40cret@127.0.0.1:9/clinic?sslmode=require"
    with running(studio) as visitor:
        visitor.enter()
        reply = visitor.fill("/data", {"location": typed, "table": "people"})
        assert reply.status == 400
        assert "se@cret" not in reply.body.decode()
        assert "se%40cret" not in reply.body.decode()
    assert not any("cret" in path.read_text() for path in tmp_path.iterdir())


def test_a_forgotten_password_is_asked_for_before_anything_is_spent(
    owner: Visitor, studio: OwnerStudio, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe_people(owner)
    database = ChosenData("postgresql://anna@db/clinic", "people", password=True)
    studio.project.change(data=database)
    page = owner.get("/confirm").page
    assert "The password of the database was in memory only" in page.alerts[0]
    assert "/spend" not in [form.action for form in page.forms]
    monkeypatch.setitem(studio._passwords, database.location, "secret-word")
    page = owner.get("/confirm").page
    form = next(form for form in page.forms if form.action == "/spend")
    shown = studio.spending._shown[dict(form.fields)["token"]]
    for text in (shown.script, shown.commands):
        assert "PGPASSWORD" in text
        assert "secret-word" not in text


def test_every_table_of_a_database_has_a_project_of_its_own(tmp_path: Path) -> None:
    address = "postgresql://anna@db:5432/clinic"
    paths = {Project.beside(address, table, tmp_path).path.name for table in ("", "people", "public.visits")}
    assert paths == {"db-5432-clinic.studio", "db-5432-clinic.people.studio", "db-5432-clinic.public-visits.studio"}
    assert Project.beside("/data/a.duckdb", "visits", tmp_path).path == Path("/data/a.duckdb.visits.studio")


def test_a_missing_step_is_linked_and_all_problems_are_named(owner: Visitor) -> None:
    for path in ("/confirm", "/budget/effect"):
        body = owner.get(path).body.decode()
        assert body.count("column &#x27;") + body.count("column '") >= 3
        assert '<a href="/columns">Go to Columns</a>' in body
    refused = owner.fill("/columns", {"c1-discover": "yes", "action": "next"})
    assert {"'sex'", "'region'", "'visited'"} <= set(re.findall("'[a-z]+'", refused.page.alerts[0]))


def test_a_project_that_was_spoiled_is_named_by_every_action(owner: Visitor, studio: OwnerStudio) -> None:
    studio.project.path.write_text("{")
    for path in ("/columns", "/data", "/spend"):
        reply = owner.post(path, {"location": "people.csv"})
        assert reply.status == 400
        assert "is no project of hush studio" in reply.page.alerts[0]


def test_folders_of_parquet_are_listed_and_tables_of_a_database_are_named(tmp_path: Path) -> None:
    for part in range(2):
        (tmp_path / "visits").mkdir(exist_ok=True)
        pyarrow.parquet.write_table(pa.table({"age": [1, 2]}), tmp_path / "visits" / f"{part}.parquet")
    (tmp_path / "empty").mkdir()
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as database:
        database.execute("CREATE TABLE first AS SELECT 1 AS age; CREATE TABLE second AS SELECT 2 AS age")
    with running(OwnerStudio(tmp_path)) as visitor:
        listed = visitor.enter().get("/data").body.decode()
        assert 'value="visits"' in listed
        assert 'value="empty"' not in listed
        assert visitor.fill("/data", {"file": "visits"}).location == "/columns"
        page = visitor.fill("/data", {"location": "clinic.duckdb"}).page
        assert "say which table under \"Table or sheet\": it has 'first', 'second'" in page.alerts[0]


def test_entries_of_a_discovery_stay_folded_away(owner: Visitor, studio: OwnerStudio) -> None:
    describe_people(owner)
    owner.fill("/columns", {"c1-bins": "", "c1-more": "starts = [0, 50]"})
    assert '<details class="toml"><summary>further settings (some are set)' in owner.get("/columns").body.decode()
    owner.fill("/columns", {"c1-more": "starts = ["})
    assert '<details class="toml" open="open">' in owner.get("/columns").body.decode()


def test_rows_of_people_with_several_are_not_called_people(owner: Visitor) -> None:
    describe_people(owner)
    assert "people on a count of" in owner.get("/confirm").page.text
    owner.fill("/people", {"max_rows": "3"})
    assert "rows on a count of" in owner.get("/confirm").page.text
    assert "± this many rows" in owner.get("/budget").page.text
