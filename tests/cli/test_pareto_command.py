"""`hush pareto` as it is typed: exact curves, a search on a stand-in, and refusals in one line."""

import json
import re
from pathlib import Path

import pyarrow.csv
import pytest
from click.testing import CliRunner, Result

import hush
from hush.cli import pareto_command
from hush.cli.main import main
from hush.core.unit import Unit
from hush.pareto import Front, stand_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    schema = hush.Schema(
        [column for column in hush.datasets.people_schema() if column.name in ("sex", "region", "employed")]
    )
    schema.save(tmp_path / "people.toml")
    table = hush.datasets.people(300, seed=1).select(["sex", "region", "employed"])
    pyarrow.csv.write_csv(table, tmp_path / "public.csv")
    return tmp_path


def run(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["pareto", str(folder / "people.toml"), "--workload", "<=2-way", *words])


def test_exact_curves_are_printed_with_the_best_of_each_epsilon(folder: Path) -> None:
    result = run(folder, "--at-epsilon", "1", "--for-error", "5", "-o", str(folder / "curves.html"))
    assert result.exit_code == 0, result.output
    assert "residual" in result.output
    assert "the least RMSE at this epsilon" in result.output
    said = re.findall(
        r"At epsilon 1, the best RMSE is .*|To keep the RMSE at 5 or below takes epsilon .*", result.output
    )
    page = (folder / "curves.html").read_text()
    assert len(said) == 2
    assert [f'<p class="lead">{answer}</p>' in page for answer in said] == [True, True]
    assert "none is read; the errors hold for every table with the schema people.toml (3 columns)" in page
    assert "&lt;=2-way (7 questions, 34 numbers)" in page
    assert "<svg" in page


def test_json_holds_the_curves(folder: Path) -> None:
    result = run(folder, "--format", "json", "--points", "3", "--mechanism", "Residual", "--to", "1")
    assert [epsilon for epsilon, _ in json.loads(result.stdout)["curves"]["residual"]] == [
        0.01,
        pytest.approx(0.1),
        1.0,
    ]


def test_a_stand_in_is_searched_saved_and_gone_on_with(folder: Path) -> None:
    words = ("--stand-in", str(folder / "public.csv"), "--mechanism", "MST", "--delta", "1e-6")
    files = ("--save", str(folder / "front.json"), "--checkpoint", str(folder / "search.json"))
    result = run(folder, *words, *files, "--evaluations", "7")
    assert result.exit_code == 0, result.output
    assert "Made from a stand-in table" in result.output
    assert len(Front.load(folder / "front.json").evaluations) == 7
    more = run(folder, *words, *files, "--evaluations", "9", "--force")
    assert more.exit_code == 0, more.output
    assert Front.load(folder / "front.json").evaluations[:7] == Front.load(folder / "search.json").evaluations[:7]
    assert len(Front.load(folder / "front.json").evaluations) == 9


def test_rows_may_be_invented_for_a_search(folder: Path) -> None:
    words = ("--invent", "200", "--mechanism", "independent", "--evaluations", "6", "--error", "largest")
    first, again = (run(folder, *words) for _ in range(2))
    assert first.exit_code == 0, first.output
    assert "Made from a stand-in table" in first.output
    assert first.output == again.output


def test_rows_of_units_are_invented_and_read(folder: Path) -> None:
    schema, table = hush.Schema.load(folder / "people.toml"), pyarrow.csv.read_csv(folder / "public.csv")
    pyarrow.csv.write_csv(table.append_column("patient", [[i // 3 for i in range(300)]]), folder / "units.csv")
    words = ("--mechanism", "independent", "--evaluations", "6", "--from", "1", "--to", "2", "--format", "json")
    least = []
    for max_rows in (1, 3):
        schema.with_unit(Unit(column="patient", max_rows=max_rows)).save(folder / "people.toml", overwrite=True)
        for source in (("--stand-in", str(folder / "units.csv")), ("--invent", "30000")):
            result = run(folder, *words, *source, "--workload", "sex; region")
            assert result.exit_code == 0, result.output
        least.append(min(min(each["errors"]) for each in json.loads(result.stdout)["evaluations"]))
    assert least[1] > 1.5 * least[0]  # noise for three rows of a unit


def test_a_table_beside_a_ledger_is_refused_before_it_is_read(folder: Path) -> None:
    hush.Ledger.create(folder / "budget.db", hush.Budget(rho=1.0))
    words = ("--stand-in", str(folder / "public.csv"), "--mechanism", "independent", "--evaluations", "6")
    refused = run(folder, *words)
    assert refused.exit_code == 2
    assert "--front-not-private" in refused.output
    assert refused.output.count("\n") == 1
    taken = run(folder, *words, "--front-not-private")
    assert taken.exit_code == 0, taken.output
    assert "PRIVATE: made from private rows" in taken.output


def test_a_link_to_a_table_in_the_folder_of_a_ledger_is_refused(folder: Path) -> None:
    (folder / "private").mkdir()
    hush.Ledger.create(folder / "private" / "budget.db", hush.Budget(rho=1.0))
    table = (folder / "public.csv").rename(folder / "private" / "people.csv")
    (folder / "harmless.csv").symlink_to(table)
    words = ("--stand-in", str(folder / "harmless.csv"), "--mechanism", "independent", "--evaluations", "6")
    refused = run(folder, *words)
    assert refused.exit_code == 2
    assert "the ledger budget.db is in the folder of" in refused.output


def test_the_largest_error_is_searched_for_and_named(folder: Path) -> None:
    words = ("--stand-in", str(folder / "public.csv"), "--mechanism", "independent", "--evaluations", "6")
    files = ("--save", str(folder / "front.json"), "-o", str(folder / "front.html"))
    result = run(folder, *words, *files, "--workload", "2-of-3 + sex,region", "--error", "largest")
    assert result.exit_code == 0, result.output
    assert "largest error" in result.output
    page = (folder / "front.html").read_text()
    assert re.search(r"<p class=\"lead\">(At|Up to) epsilon [\d.]+, the best largest error is 0", page)
    for fact in (
        "the stand-in public.csv, with the schema people.toml (3 columns)",
        "2-of-3 + sex,region (",
        "<dd>300</dd>",
    ):
        assert fact in page
    assert Front.load(folder / "front.json").measure == "largest error"
    assert (*stand_in.ERRORS,) == pareto_command.ERROR_NAMES


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from", "5", "--to", "1"), "the smaller first"),
        (("--mechanism", "aim"), "search on a stand-in table instead"),
        (("--stand-in", "public.csv", "--mechanism", "aim", "--mechanism", "mst"), "one mechanism"),
        (("--stand-in", "none.csv"), "none.csv"),
        (("--stand-in", "public.csv", "--evaluations", "2"), "at least 10, the number of initial points"),
        (("--for-error", "1e-9"), "no mechanism reaches"),
        (("--stand-in", "public.csv", "--worst-error", "0"), "worst_error=0"),
        (
            ("--stand-in", "public.csv", "--mechanism", "independent", "--evaluations", "6", "--worst-error", "1e-7"),
            "1e-07) lies inside the front",
        ),
        (("--points", "x"), "whole number"),
        (("--error", "largest"), "give one with --stand-in"),
        (("--invent", "9", "--stand-in", "public.csv"), "both say what to search on"),
        (("--invent", "0", "--mechanism", "independent", "--evaluations", "6"), "has no rows"),
    ],
)
def test_bad_input_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], says: str
) -> None:
    monkeypatch.chdir(folder)
    result = run(folder, *words)
    assert result.exit_code == 2
    message = [line for line in result.output.splitlines() if line.startswith("hush: ")]
    assert len(message) == 1
    assert says in message[0]
