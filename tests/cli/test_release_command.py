"""plan, release and query on the command line, as a user types them."""

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import csv, parquet

import hush
from command_line import run_hush
from hush.cli.main import main
from hush.datasets import people, people_schema
from hush.loading import load_release
from hush.privacy.total_epsilon import total_epsilon
from hush.schema import Schema

CANARY = "zebra-7319"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    csv.write_csv(people(2_000, seed=1), tmp_path / "people.csv")
    people_schema().save(tmp_path / "people.toml")
    return tmp_path


def released(folder: Path, *more: object) -> Result:
    return run_hush(
        "release", folder / "people.csv", "--schema", folder / "people.toml", "--workload", "<=2-way",
        "--epsilon", 1, "--delta", 1e-9, "-o", folder / "people.hush", *more,
    )  # fmt: skip


def test_a_release_takes_a_pipe_a_folder_and_files_of_databases(folder: Path) -> None:
    rows = people(2_000, seed=1)
    (folder / "parts").mkdir()
    parquet.write_table(rows, folder / "parts" / "part-0.parquet")
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.register("frame", rows)
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    with sqlite3.connect(folder / "people.sqlite") as book:
        book.execute(f"CREATE TABLE people ({', '.join(rows.column_names)})")
        marks = ", ".join("?" * rows.num_columns)
        book.executemany(f"INSERT INTO people VALUES ({marks})", zip(*rows.to_pydict().values(), strict=True))
    book.close()
    words = [
        "--schema",
        folder / "people.toml",
        "--workload",
        "sex",
        "--rho",
        1000,
        "-o",
        folder / "made.hush",
        "--force",
    ]
    exact = hush.read(rows, people_schema()).counts([("sex",)])["sex",].tolist()
    for data, more, piped in [
        ("-", [], (folder / "people.csv").read_bytes()),
        (folder / "parts", [], None),
        (folder / "people.duckdb", ["--table", "people"], None),
        (folder / "people.sqlite", ["--table", "people"], None),
    ]:
        done = CliRunner().invoke(main, [str(each) for each in ("release", data, *more, *words)], input=piped)
        assert done.exit_code == 0, done.output
        # noise of so large a budget is not 0 with a probability below exp(-200)
        assert load_release(folder / "made.hush").counts("sex").tolist() == exact
    refused = run_hush("release", folder / "people.sqlite", *words)
    assert refused.exit_code == 2
    assert "say which table with table= (on the command line --table): it has 'people'" in refused.output


def test_plan_shows_errors_without_any_data(folder: Path) -> None:
    (folder / "people.csv").unlink()
    shown = run_hush(
        "plan", folder / "people.toml", "--workload", "3-way", "--epsilon", 1, "--delta", 1e-9, "--details"
    )
    assert shown.exit_code == 0
    assert "35 tables" in shown.output
    assert re.search(r"3-way, least error: .*\n?.* 35 ", shown.output)
    assert re.search(r"noise\s+4\.9\s+%\s+below\s+the\s+zCDP\s+conversion", shown.output)
    words = ("--workload", "3-way", "--epsilon", 1, "--delta", 1e-9, "--mechanism", "residual")
    assert "rho=0.016558" in run_hush("plan", folder / "people.toml", *words, "--details").output
    asked = ("--workload", "age,sex", "--rho", 1, "--rows", 100_000)
    relative = run_hush("plan", folder / "people.toml", *asked, "--details")
    assert "error / uniform cell" not in run_hush("plan", folder / "people.toml", *asked).output
    assert "error / uniform cell" in relative.output
    assert "%" in relative.output


def test_plan_finds_the_budget_for_an_error(folder: Path) -> None:
    shown = run_hush("plan", folder / "people.toml", "--workload", "2-way", "--target-error", 20)
    assert shown.exit_code == 0
    assert "± 20 rows on a typical count" in shown.output
    assert re.search(r"Needs --rho 0\.\d+, or --epsilon \d", shown.output)


def test_release_query_and_budget(folder: Path) -> None:
    ledger = folder / "budget.db"
    done = released(folder, "--ledger", ledger)
    assert done.exit_code == 0, done.output
    assert "epsilon=1, delta=1e-09" in done.output
    assert "New ledger" in done.output
    sql = "SELECT sex, COUNT(*) AS n FROM t WHERE age >= 40 GROUP BY sex"
    asked = run_hush("query", folder / "people.hush", sql)
    assert asked.exit_code == 0
    assert "female" in asked.output
    assert "95 %" in asked.output
    as_csv = run_hush("query", folder / "people.hush", sql, "--format", "csv", "--level", 0.5)
    rows = csv.read_csv(pa.BufferReader(as_csv.output.encode()))
    assert rows.num_rows == 2
    shown = run_hush("budget", ledger)
    assert shown.exit_code == 0
    assert "people.hush" in shown.output
    again = released(folder, "--ledger", ledger, "--force")
    assert again.exit_code == 2
    assert "exceeds" in again.stderr


def test_rows_are_released_without_a_workload_or_a_mechanism(folder: Path) -> None:
    budget = ("--epsilon", 1, "--delta", 1e-9)
    shown = run_hush("plan", folder / "people.toml", "--goal", "rows", *budget, "--details")
    assert "Chosen scout: taken for synthetic rows" in " ".join(shown.stdout.split())
    released = run_hush(
        "release", folder / "people.csv", "--schema", folder / "people.toml", "--goal", "rows", *budget,
        "-o", folder / "people.hush",
    )  # fmt: skip
    assert released.exit_code == 0, released.stderr
    release = load_release(folder / "people.hush")
    assert release.mechanism == "scout"
    assert len(release.workload.cliques) == 21
    drawn = run_hush("synth", folder / "people.hush", "--rows", 50, "-o", folder / "rows.csv")
    assert drawn.exit_code == 0, drawn.stderr
    assert csv.read_csv(folder / "rows.csv").num_rows == 50


def test_rows_to_predict_a_label_are_released(folder: Path) -> None:
    budget = ("--epsilon", 1, "--delta", 1e-9)
    released = run_hush(
        "release", folder / "people.csv", "--schema", folder / "people.toml", "--goal", "rows", "--label", "income",
        *budget, "-o", folder / "people.hush",
    )  # fmt: skip
    assert released.exit_code == 0, released.stderr
    release = load_release(folder / "people.hush")
    domain = release.workload.domain
    assert release.workload == hush.Workload.kway(domain, 2) + hush.Workload.predict(domain, "income")
    for words, message in [
        (("plan", folder / "people.toml", "--label", "income", *budget), "add --goal rows"),
        (("plan", folder / "people.toml", "--goal", "rows", "--label", "incme", *budget), "did you mean 'income'"),
        (("plan", folder / "people.toml", "--label", "income", "--target-error", 3), "--label for synthetic rows"),
        (("audit", "--label", "income"), "leave --label out"),
    ]:
        done = run_hush(*words)
        assert done.exit_code == 2
        assert message in " ".join(done.stderr.split())


def test_a_plan_of_a_file_has_its_own_goal(folder: Path) -> None:
    budget = ("--epsilon", 1, "--delta", 1e-9)
    planned = run_hush("plan", folder / "people.toml", "--workload", "1-way", *budget, "-o", folder / "plan.hush")
    assert planned.exit_code == 0, planned.stderr
    for option in (("--goal", "rows"), ("--label", "income")):
        done = run_hush(
            "release", folder / "people.csv", "--schema", folder / "people.toml", "--plan", folder / "plan.hush",
            *option, "-o", folder / "x.hush",
        )  # fmt: skip
        assert done.exit_code == 2
        assert "--plan holds the mechanism" in " ".join(done.stderr.split())


def test_a_goal_and_a_mechanism_are_not_both_given(folder: Path) -> None:
    done = run_hush("plan", folder / "people.toml", "--goal", "rows", "--mechanism", "aim", "--rho", 1)
    assert done.exit_code == 2
    assert "--goal chooses the mechanism; leave it out, or leave out --mechanism aim" in " ".join(done.stderr.split())


def test_a_saved_plan_is_released(folder: Path) -> None:
    planned = run_hush(
        "plan", folder / "people.toml", "--workload", "age:prefix,sex; region", "--rho", 0.1, "-o", folder / "plan.hush"
    )
    assert planned.exit_code == 0
    done = run_hush(
        "release", folder / "people.csv", "--schema", folder / "people.toml", "--plan", folder / "plan.hush",
        "-o", folder / "x.hush",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert "rho=0.1" in done.output
    assert hush.load(folder / "x.hush").counts(("region",)).shape == (5,)
    limited = run_hush(
        "release", folder / "people.csv", "--schema", folder / "people.toml", "--plan", folder / "plan.hush",
        "--rho", 0.05, "-o", folder / "y.hush",
    )  # fmt: skip
    assert limited.exit_code == 2
    assert "more than the rho=0.05" in limited.stderr
    assert not (folder / "y.hush").exists()


def test_units_are_cut_on_the_command_line(folder: Path) -> None:
    rows = people(300, seed=2).append_column("id", pa.array([str(i // 3) for i in range(300)]))
    csv.write_csv(rows, folder / "people.csv")
    done = released(folder, "--unit", "id", "--max-rows-per-unit", 2)
    assert done.exit_code == 0, done.stderr
    assert "one id (at most 2 rows)" in done.output


def bad(folder: Path, *changes: object) -> list[tuple[list[object], str]]:
    base = ["release", folder / "people.csv", "--schema", folder / "people.toml", "-o", folder / "x.hush"]
    budget = ["--epsilon", 1, "--delta", 1e-9]
    ask = ["--workload", "age,sex"]
    return [
        ([*base, *ask], "no budget was given"),
        ([*base, *budget], "--workload"),
        ([*base, *ask, "--epsilon", 0, "--delta", 1e-9], "epsilon=0.0"),
        ([*base, *ask, "--epsilon", -1, "--delta", 1e-9], "epsilon=-1.0"),
        ([*base, *ask, "--epsilon", "nan", "--delta", 1e-9], "epsilon=nan"),
        ([*base, *ask, "--epsilon", 1, "--delta", 0.9], "delta=0.9: expected a number from 0 to 0.5"),
        ([*base, *ask, "--epsilon", 1, "--mechanism", "residual"], "add --delta 1e-9"),
        ([*base, *budget, "--workload", "agee"], "did you mean 'age'"),
        ([*base, *budget, "--workload", ""], "empty"),
        ([*base, *budget, *ask, "--mechanism", "magic"], "magic"),
        (["release", folder / "absent.csv", *base[2:], *budget, *ask], "absent.csv"),
        ([*base[:2], "--schema", folder / "absent.toml", *base[4:], *budget, *ask], "absent.toml"),
        ([*base[:4], "-o", folder / "no" / "x.hush", *budget, *ask], "no folder"),
        ([*base, *budget, "--workload", "8-way"], "order=8"),
    ]


@pytest.mark.parametrize("case", range(14))
def test_bad_input_is_one_line_exit_2_and_nothing_charged(folder: Path, case: int) -> None:
    arguments, text = bad(folder)[case]
    ledger = folder / "budget.db"
    done = run_hush(*arguments, "--ledger", ledger)
    assert done.exit_code == 2
    assert done.stderr.startswith("hush: ")
    assert done.stderr.count("\n") == 1
    assert re.search(text, done.stderr)
    assert not ledger.exists()
    assert not (folder / "x.hush").exists()


def test_an_existing_file_is_not_overwritten_nor_paid_for_twice(folder: Path) -> None:
    assert released(folder).exit_code == 0
    before = (folder / "people.hush").read_bytes()
    again = released(folder, "--ledger", folder / "budget.db")
    assert again.exit_code == 2
    assert "exists already" in again.stderr
    assert not (folder / "budget.db").exists()
    assert (folder / "people.hush").read_bytes() == before


def test_private_cells_never_reach_the_terminal(folder: Path) -> None:
    """A value outside its column, planted in the rows, appears in no output of any command."""
    text = (folder / "people.csv").read_text().splitlines()
    names = text[0].replace('"', "").split(",")
    cells = text[1].split(",")
    cells[names.index("region")] = CANARY
    (folder / "people.csv").write_text("\n".join([text[0], ",".join(cells), *text[2:]]))
    done = released(folder, "--ledger", folder / "budget.db")
    assert done.exit_code == 2
    assert "'region'" in done.stderr
    assert CANARY not in done.output + done.stderr
    assert not (folder / "budget.db").exists()


@pytest.mark.parametrize("arguments", [[], ["--help"], ["release", "--help"], ["plan", "--help"], ["query", "--help"]])
def test_help_is_there(arguments: list[str]) -> None:
    shown = run_hush(*arguments)
    assert "Usage:" in shown.output


def test_the_demo_runs_as_a_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hush", "demo", "--folder", str(tmp_path / "new")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    plan = done.stdout.split("2. A plan")[1].split("3. The release")[0].splitlines()
    assert [line.split("  ")[0] for line in plan[2:6]] == ["Protects", "Typical error", "Largest error", "Cost"]
    assert len(plan) < 10  # the lines to decide by, without the details
    assert "…" not in done.stdout  # headings fit a narrow terminal
    assert "4. Questions" in done.stdout
    assert done.stdout.count("95 % interval") == 3
    rows = csv.read_csv(tmp_path / "new" / "people-synthetic.csv")
    assert rows.num_rows == 1_000
    assert rows.column_names == list(people_schema().domain)
    shown = done.stdout.split("5. Synthetic rows")[1].splitlines()[2:7]
    assert [line.split()[0] for line in shown] == [str(age) for age in rows["age"].to_pylist()[:5]]
    assert str(tmp_path / "new" / "report.html") in done.stdout
    assert (tmp_path / "new" / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    ledger = hush.Ledger.open(tmp_path / "new" / "budget.db")
    assert ledger.budget == hush.Budget(epsilon=3.0, delta=1e-9)  # the cap, of which one release took its part
    assert 0.99 < total_epsilon(ledger.events(), 1e-9).epsilon <= 1.0
    assert ledger.remaining > ledger.limit / 2


def test_a_budget_beside_a_plan_limits_it_in_any_notion(folder: Path) -> None:
    """Gaussian noise never meets pure epsilon; pure epsilon meets epsilon with any delta."""
    base = ["release", folder / "people.csv", "--schema", folder / "people.toml", "-o", folder / "x.hush"]
    for name, budget in {"gauss": ["--epsilon", 1, "--delta", 1e-9], "pure": ["--epsilon", 1]}.items():
        asked = ["--workload", "age:prefix", "--mechanism", "direct" if name == "pure" else "residual"]
        made = run_hush("plan", folder / "people.toml", *asked, *budget, "-o", folder / f"{name}.plan")
        assert made.exit_code == 0, made.stderr
    refused = [
        ("gauss", ["--epsilon", 0.5]),
        ("gauss", ["--epsilon", 9]),
        ("pure", ["--epsilon", 0.5, "--delta", 1e-9]),
    ]
    for name, limit in refused:
        done = run_hush(*base, "--plan", folder / f"{name}.plan", *limit)
        assert done.exit_code == 2
        assert "more than the" in done.stderr
    for name, limit in [
        ("pure", ["--epsilon", 1, "--delta", 1e-9]),
        ("pure", ["--rho", 0.6]),
        ("gauss", ["--rho", 0.02]),
    ]:
        done = run_hush(*base, "--force", "--plan", folder / f"{name}.plan", *limit)
        assert done.exit_code == 0, done.stderr
        assert ("discrete Laplace" if name == "pure" else "discrete Gaussian") in done.output
        assert ("of pure differential privacy" in done.output) == (name == "pure")


def test_a_delta_above_one_over_the_rows_is_warned_of(folder: Path) -> None:
    asked = ("--workload", "sex", "--epsilon", 1, "--delta", 1e-3)
    warning = "delta=0.001 is above 1/2,000: showing a person at random would be as private"
    planned = run_hush("plan", folder / "people.toml", *asked, "--rows", 2000)
    assert (planned.exit_code, planned.stderr) == (0, "")
    assert warning in " ".join(planned.output.split())
    here = ("release", folder / "people.csv", "--schema", folder / "people.toml", "-o", folder / "people.hush")
    done = run_hush(*here, *asked, "--rows", 2000)
    assert done.exit_code == 0
    assert f"hush: {warning}" in done.stderr
    assert "delta" not in run_hush(*here, *asked, "--rows", 1000, "--force").stderr


def test_gaussian_noise_takes_a_delta_from_the_public_number_of_rows(folder: Path) -> None:
    asked = ("--workload", "sex", "--mechanism", "residual", "--epsilon", 1)
    plan = ("plan", folder / "people.toml", *asked)
    release = ("release", folder / "people.csv", "--schema", folder / "people.toml", "-o", folder / "a.hush", *asked)
    for command in (plan, release):
        refused = run_hush(*command)
        assert refused.exit_code != 0
        assert "epsilon=1: residual adds Gaussian noise, which needs a delta" in refused.stderr
        assert "add --delta 1e-9, or --rows" in refused.stderr
        zero = run_hush(*command, "--rows", 5000, "--delta", 0)
        assert "pure DP, which Gaussian noise cannot give" in zero.stderr
        told = run_hush(*command, "--rows", 5000)
        assert told.exit_code == 0, told.output
        assert "delta=2e-05 was chosen, 1/(10 rows) for --rows 5000" in told.stderr
        assert "was chosen" not in run_hush(*command, "--rows", 5000, "--delta", 1e-9, "--force").stderr
    run_hush(*release, "--rows", 5000, "--force")
    assert load_release(folder / "a.hush").statement.budget == hush.Budget(epsilon=1.0, delta=2e-05)


def test_epsilon_alone_stays_pure_where_a_mechanism_can_be(folder: Path) -> None:
    for mechanism in ("auto", "direct", "dawa"):
        asked = ("--workload", "sex", "--mechanism", mechanism, "--epsilon", 1, "--rows", 5000)
        planned = run_hush("plan", folder / "people.toml", *asked, "--json")
        assert json.loads(planned.stdout)["budget"] == {"epsilon": 1.0}
        assert "was chosen" not in planned.stderr
        assert "add --delta 1e-9 to allow Gaussian noise" in planned.stderr
    rho = run_hush("plan", folder / "people.toml", "--workload", "sex", "--rho", 1)
    assert rho.stderr == ""


def test_without_rows_a_delta_is_held_against_the_released_number_of_them(folder: Path) -> None:
    here = ("release", folder / "people.csv", "--schema", folder / "people.toml", "-o", folder / "people.hush")
    asked = ("--workload", "sex", "--mechanism", "residual", "--epsilon", 1, "--force", "--delta")
    large = run_hush(*here, *asked, 1e-3)
    rows = round(float(load_release(folder / "people.hush").counts(())))
    assert f"hush: delta=0.001 is above 1/{rows:,}: showing a person" in large.stderr
    assert "delta" not in run_hush(*here, *asked, 1e-4).stderr
    assert run_hush(*here, *asked, 0.01).stderr.count("delta") == 1  # told beforehand


def test_answers_to_the_workload_are_printed_by_term(folder: Path) -> None:
    queries = folder / "q.sql"
    queries.write_text(
        "SELECT sex, COUNT(*) FROM t WHERE age >= 65 GROUP BY sex;\nSELECT COUNT(*) FROM t WHERE employed;"
    )
    base = ["release", folder / "people.csv", "--schema", folder / "people.toml", "-o", folder / "x.hush"]
    done = run_hush(*base, "--workload-sql", queries, "--epsilon", 1, "--mechanism", "direct")
    assert done.exit_code == 0, done.stderr
    answered = run_hush("query", folder / "x.hush", "--term", 0)
    assert answered.exit_code == 0, answered.stderr
    assert "female" in answered.output
    again = run_hush("query", folder / "x.hush", "SELECT sex, COUNT(*) FROM t WHERE age >= 65 GROUP BY sex")
    assert again.exit_code == 0, again.stderr
    assert [line.split()[1] for line in again.output.splitlines() if "male" in line] == [
        line.split()[-6] for line in answered.output.splitlines() if "male" in line
    ]
    neither = run_hush("query", folder / "x.hush")
    assert neither.exit_code == 2
    refused = run_hush("query", folder / "x.hush", "SELECT age, COUNT(*) FROM t GROUP BY age")
    assert refused.exit_code == 2
    assert "--term" in refused.stderr


def histogram(folder: Path) -> Path:
    """The invented people by region and sex, counted, with one line of nobody."""
    rows = people(2_000, seed=1).group_by(["region", "sex"]).aggregate([([], "count_all")])
    rows = rows.rename_columns(["region", "sex", "n"])
    csv.write_csv(pa.concat_tables([rows, pa.table({"region": ["nowhere"], "sex": ["x"], "n": [0]})]), folder / "h.csv")
    Schema([people_schema()["region"], people_schema()["sex"]]).save(folder / "h.toml")
    return folder / "h.csv"


def release_counts(data: Path, *more: object) -> Result:
    return run_hush(
        "release", data, "--schema", data.with_suffix(".toml"), "--workload", "2-way", "--rho", 1000,
        "-o", data.with_suffix(".hush"), *more,
    )  # fmt: skip


def test_a_histogram_is_released_as_its_rows_are(folder: Path) -> None:
    done = release_counts(histogram(folder), "--counts", "n", "--ledger", folder / "b.db")
    assert done.exit_code == 0
    exact = hush.read(people(2_000, seed=1), folder / "h.toml").counts([("region", "sex")])["region", "sex"]
    released = load_release(folder / "h.hush")
    assert abs(released.counts(("region", "sex")) - exact).max() < 2
    assert released.statement.unit.column is None


@pytest.mark.parametrize("count", ["-7319", "0.7319", "", "zebra-7319", "9" * 30])
def test_what_is_no_count_stops_the_command_before_the_charge(folder: Path, count: str) -> None:
    data = histogram(folder)
    data.write_text(data.read_text().rstrip().rsplit(",", 1)[0] + f",{count}\n")
    refused = release_counts(data, "--counts", "n", "--ledger", folder / "b.db")
    assert refused.exit_code == 2
    assert "the counts column 'n' holds counts that are negative, fractional, missing" in refused.stderr
    assert "7319" not in refused.output
    assert not (folder / "h.hush").exists()
    assert not (folder / "b.db").exists() or hush.Ledger.open(folder / "b.db").remaining == 1000


def test_counts_do_not_go_with_ids(folder: Path) -> None:
    refused = release_counts(histogram(folder), "--counts", "n", "--unit", "who", "--max-rows-per-unit", 1)
    assert refused.exit_code == 2
    assert "counts = 'n' goes with rows as units only, and the unit here is 'who'" in refused.stderr


def test_zeros_are_released_and_asked_at_no_cost(folder: Path) -> None:
    done = released(folder, "--mechanism", "all-zero")
    assert (done.exit_code, done.stderr) == (0, "")  # without a ledger there is no spending to lose
    assert "nothing: no row was counted" in done.output
    asked = "SELECT COUNT(*) FROM t WHERE (sex = 'female') + (region = 'North') + (employed = TRUE) >= 2"
    answer = run_hush("query", folder / "people.hush", asked)
    assert answer.exit_code == 0
    assert "standard errors are not known" in answer.output
    assert "nothing was measured" in answer.output
    rows = run_hush("synth", folder / "people.hush", "-o", folder / "rows.csv")
    assert rows.exit_code == 2
    assert "nothing was measured" in rows.stderr
    assert not (folder / "rows.csv").exists()


def test_noise_on_every_answer_of_thresholds_has_intervals(folder: Path) -> None:
    base = ["release", folder / "people.csv", "--schema", folder / "people.toml", "--workload", "2-of-3"]
    words = ["--mechanism", "direct", "-o", folder / "direct.hush"]
    done = run_hush(*base, *words, "--epsilon", 1, "--delta", 1e-9)
    assert done.exit_code == 0
    asked = "SELECT COUNT(*) FROM t WHERE (sex = 'female') + (region = 'North') + (employed = TRUE) >= 2"
    answer = load_release(folder / "direct.hush").sql(asked)
    assert answer.basis.tolist() == ["exact"]
    assert 0 < answer.std_error[0] < (answer.upper - answer.lower)[0]
    asked = ("--workload", "2-of-3", "--rho", 0.1, "--mechanism", "direct")
    told = run_hush("plan", folder / "people.toml", *asked, "--details")
    assert "noise on every answer" in told.output
    assert "no unbiased linear mechanism" not in told.output
    pure = run_hush(*base, "--mechanism", "direct", "-o", folder / "pure.hush", "--epsilon", 1)
    assert pure.exit_code == 2
    assert "give a delta" in pure.stderr
    assert not (folder / "pure.hush").exists()
