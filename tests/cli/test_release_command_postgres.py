"""The address of a database in place of a file: release, draft, check, evaluate; no password is shown or stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import hush
from command_line import run_hush as run
from hush.cli.options import DataOptions, LedgerOptions, UnitOptions
from hush.cli.release_command import resume_command

SECRET, WHO = "hunter2", "anna"
SCHEMA = """
hush_schema = 1
[columns.sex]
kind = "categorical"
values = ["f", "m"]
[columns.age]
kind = "integer"
low = 0
high = 9
"""


@pytest.fixture(scope="module")
def visits(postgres) -> Iterator[str]:
    """The name of a table that anna may read."""
    with postgres.connect() as connection:
        connection.execute(f"CREATE ROLE {WHO} LOGIN")
        connection.execute(
            "CREATE TABLE visits AS SELECT CASE WHEN i % 3 = 0 THEN 'f' ELSE 'm' END AS sex, i % 10 AS age "
            "FROM generate_series(1, 3000) AS i"
        )
        connection.execute(f"GRANT SELECT ON visits TO {WHO}")
        yield "visits"
        connection.execute(f"DROP TABLE visits; DROP ROLE {WHO}")


def files_hold(folder: Path, word: str) -> list[str]:
    return [file.name for file in folder.iterdir() if word.encode() in file.read_bytes()]


def test_a_release_of_a_table_of_a_server(postgres, visits, tmp_path) -> None:
    address = postgres.address(user=WHO, password=SECRET)
    (tmp_path / "visits.toml").write_text(SCHEMA)
    words = ("--schema", tmp_path / "visits.toml", "--workload", "<=2-way", "--epsilon", "5", "--delta", "1e-9")
    kept = ("--ledger", tmp_path / "ledger.db", "-o", tmp_path / "visits.hush")
    done = run("release", address, "--table", visits, *words, *kept)
    assert done.exit_code == 0, done.output
    answer = hush.load(tmp_path / "visits.hush").sql("SELECT COUNT(*) FROM t WHERE sex = 'f'")
    assert answer.to_dict()["rows"][0]["estimate"] == pytest.approx(1000, abs=60)
    for word in (SECRET, f"{WHO}@", "127.0.0.1", str(postgres.port)):
        assert word not in done.output
        assert files_hold(tmp_path, word) == []
    again = run("release", address, "--query", "SELECT * FROM visits", *words, "-o", tmp_path / "again.hush")
    assert again.exit_code == 0, again.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--table", "nowhere"), "no such table"),
        (("--query", "DROP TABLE visits"), "must be one SELECT"),
        (("--query", "SELECT sex FROM visits"), "has no column 'age'"),
        (("--query", "SELECT sex, age + 5 AS age FROM visits"), "values outside its declared levels"),
        (("--table", "visits", "--timeout", "0"), "expected a number above 0"),
        ((), "needs either table= or query="),
    ],
)
def test_what_cannot_be_read_charges_nothing(postgres, visits, tmp_path, words, message) -> None:
    address = postgres.address(user=WHO, password=SECRET)
    (tmp_path / "visits.toml").write_text(SCHEMA)
    ledger = hush.Ledger.create(tmp_path / "ledger.db", hush.Budget(rho=1.0))
    asked = ("--schema", tmp_path / "visits.toml", "--workload", "1-way", "--rho", "0.5", "--ledger", ledger.path)
    done = run("release", address, *words, *asked, "-o", tmp_path / "visits.hush")
    assert done.exit_code != 0
    assert message in " ".join(done.output.split())
    assert SECRET not in done.output
    assert hush.Ledger.open(ledger.path).remaining == ledger.budget.limit
    assert not (tmp_path / "visits.hush").exists()


def test_a_draft_a_check_and_an_evaluation_of_a_server(postgres, visits, tmp_path) -> None:
    address = postgres.address(user=WHO, password=SECRET)
    (tmp_path / "visits.toml").write_text(SCHEMA)
    drafted = run("schema", "draft", address, "--table", visits)
    assert drafted.exit_code == 0, drafted.output
    assert "[columns.sex]" in drafted.output
    assert 'kind = "integer"' in drafted.output
    learnt = run("schema", "draft", address, "--table", visits, "--from-data")
    assert learnt.exit_code == 0, learnt.output
    assert 'values = ["f", "m"]' in learnt.output
    assert "from_private_data = true" in learnt.output
    checked = run("schema", "check", tmp_path / "visits.toml", address, "--table", visits)
    assert checked.exit_code == 0, checked.output
    assert "3,000 rows" in checked.output
    (tmp_path / "rows.csv").write_text("sex,age\n" + "f,1\nm,2\n" * 50)
    compared = run("evaluate", address, tmp_path / "rows.csv", "--table", visits, "--schema", tmp_path / "visits.toml")
    assert compared.exit_code == 0, compared.output
    for done in (drafted, learnt, checked, compared):
        assert SECRET not in done.output
        assert f"{WHO}@" not in done.output


def test_the_command_that_resumes_has_no_password_in_it() -> None:
    address = f"postgresql://{WHO}:{SECRET}@db/clinic?sslmode=require"
    rows = DataOptions(data=address, table="visits", timeout=9)
    told = resume_command(rows, Path("s.toml"), Path("x.hush"), UnitOptions(), LedgerOptions())
    assert told.startswith("hush release postgresql://db/clinic --schema s.toml")
    assert told.endswith("--table visits --timeout 9")
    assert SECRET not in told


def test_an_interrupted_release_resumes_under_another_name_of_the_host(postgres, visits, tmp_path) -> None:
    schema = hush.Schema.load(_written(tmp_path / "visits.toml"))
    workload = hush.Workload.upto(schema.domain, 2)
    plan = hush.plan(workload, hush.Budget(rho=0.5), "mst")
    job = hush.mechanisms.release_job.ReleaseJob(plan, output=tmp_path / "v.hush", ledger=tmp_path / "ledger.db")

    def stop(*_: object) -> None:
        job.stop()

    with pytest.raises(hush.core.errors.InterruptedRelease):
        job.run(hush.read(postgres.address(), schema, table=visits), progress=stop)
    with sqlite3.connect(tmp_path / "ledger.db") as book:
        assert "127.0.0.1" not in "".join(book.iterdump())
    other = hush.read(postgres.address(host="localhost"), schema, table=f"public.{visits}")
    rest = hush.mechanisms.release_job.ReleaseJob.resumed(
        hush.load(tmp_path / "v.hush"), output=tmp_path / "done.hush", ledger=tmp_path / "ledger.db"
    )
    assert rest.run(other).complete


def _written(path: Path) -> Path:
    path.write_text(SCHEMA)
    return path
