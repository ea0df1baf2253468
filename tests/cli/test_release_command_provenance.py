"""A draft from private data on the command line: drafted, refused, reviewed, or released with a stamp."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import Result

import hush
from command_line import run_hush
from hush.cli.options import DataOptions, LedgerOptions, UnitOptions
from hush.cli.release_command import resume_command
from hush.schema import Schema

OLDEST, RARE = "113", "Creutzfeldt-Jakob"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [f"{age % 90},{('flu', 'cold')[age % 2]}" for age in range(400)]
    (tmp_path / "people.csv").write_text("\n".join(["age,diagnosis", *rows, f"{OLDEST},{RARE}"]) + "\n")
    return tmp_path


def draft(folder: Path, how: str = "--from-data") -> Path:
    schema = folder / f"schema{how}.toml"
    done = run_hush("schema", "draft", folder / "people.csv", how, "-o", schema)
    assert done.exit_code == 0, done.output
    return schema


def released(folder: Path, schema: Path, *more: object) -> Result:
    asked = more if "--plan" in more else ("--workload", "1-way", "--rho", 0.5, *more)
    return run_hush(
        "release", folder / "people.csv", "--schema", schema, *asked, "--ledger", folder / "b.db", "-o",
        folder / "r.hush",
    )  # fmt: skip


def test_a_draft_is_refused_unedited_and_nothing_is_spent(folder: Path) -> None:
    schema, plan = draft(folder), folder / "plan.hush"
    planned = run_hush("plan", schema, "--workload", "1-way", "--rho", 0.5, "-o", plan)
    assert planned.exit_code == 0
    assert "levels of the schema were drafted from private data: age, diagnosis" in " ".join(planned.output.split())
    (folder / "people.csv").rename(folder / "elsewhere.csv")  # refused before the rows are looked for
    for refused in (released(folder, schema), released(folder, schema, "--plan", plan)):
        assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
        assert refused.stderr.startswith("hush: the schema was drafted from private data: age, diagnosis; ")
        assert OLDEST not in refused.stderr
        assert RARE not in refused.stderr
    assert not (folder / "b.db").exists()
    assert not (folder / "r.hush").exists()


def test_a_reviewed_draft_is_released_without_a_stamp(folder: Path) -> None:
    schema = draft(folder)
    text = schema.read_text().replace(f"high = {OLDEST}", 'high = 99\noutside = "clamp"')
    text = text.replace(f'"{RARE}", ', "").replace("values =", "other = true\nvalues =")
    schema.write_text(re.sub("from_private_data = true.*\n", "", text))
    done = released(folder, schema)
    assert done.exit_code == 0, done.output
    assert "NOT PRIVATE" not in done.output
    assert run_hush("report", folder / "r.hush", "-o", folder / "r.html").exit_code == 0
    page = (folder / "r.html").read_text()
    assert OLDEST not in hush.load(folder / "r.hush").schema.to_toml()
    assert RARE not in page
    assert "The privacy promise" in page


def test_what_is_released_on_the_owners_word_is_called_not_private_by_every_command(folder: Path) -> None:
    warning = "NOT PRIVATE: parts of the schema were drafted from private data: age, diagnosis."
    done = released(folder, draft(folder), "--schema-is-public")
    assert done.exit_code == 0, done.output
    assert "Schema NOT PRIVATE: drafted from private data: age, diagnosis;" in " ".join(done.stdout.split())
    assert warning in done.stderr
    release = folder / "r.hush"
    for words in (
        ("report", release, "-o", folder / "r.html"),
        ("query", release, "SELECT COUNT(*) FROM t"),
        ("query", release, "SELECT COUNT(*) FROM t", "--format", "json"),
        ("query", release, "SELECT COUNT(*) FROM t", "--format", "csv"),
        ("model", release, "-o", folder / "m.hush"),
        ("query", folder / "m.hush", "SELECT COUNT(*) FROM t"),
        ("synth", release, "--rows", 5, "-o", folder / "one.csv"),
        ("synth", folder / "m.hush", "--rows", 5, "-o", folder / "two.csv"),
        ("evaluate", folder / "people.csv", release, "--schema", folder / "schema--from-data.toml"),
    ):
        said = run_hush(*words)
        assert said.exit_code == 0, said.output
        assert warning in " ".join(said.output.split()), words
    assert "No privacy promise" in (folder / "r.html").read_text()


def test_drafts_say_what_they_are(folder: Path) -> None:
    private = draft(folder)
    shown = run_hush("schema", "check", private)
    assert "NOT PRIVATE: drafted from private data: age, diagnosis" in shown.stdout
    converted = run_hush("schema", "convert", private)
    assert converted.stdout.count("from_private_data = true  # delete this line once") == 2
    assert RARE in Schema.load(draft(folder, "--from-public-data"))["diagnosis"].values  # type: ignore[attr-defined]
    assert Schema.load(folder / "schema--from-public-data.toml").from_private_data == ()
    assert "NOT PRIVATE" not in (folder / "schema--from-public-data.toml").read_text()
    assert released(folder, folder / "schema--from-public-data.toml").exit_code == 0
    both = run_hush("schema", "draft", folder / "people.csv", "--from-data", "--from-public-data")
    assert both.exit_code == 2
    assert "keep one" in both.stderr


def test_a_draft_from_names_alone_is_not_marked(folder: Path) -> None:
    names = run_hush("schema", "draft", folder / "people.csv")
    assert "from_private_data" not in names.stdout


def test_rules_that_were_learned_are_refused_like_a_draft(folder: Path) -> None:
    schema = folder / "ruled.toml"
    public = Schema.load(draft(folder, "--from-public-data"))
    public.forbid(["age", "diagnosis"], [[{"to": 5}, RARE]]).save(schema)
    schema.write_text(schema.read_text().replace("[[forbidden]]", "[[forbidden]]\nfrom_private_data = true"))
    refused = released(folder, schema)
    assert refused.exit_code == 2
    assert "drafted from private data: age × diagnosis;" in refused.stderr
    done = released(folder, schema, "--schema-is-public")
    assert done.exit_code == 0, done.output
    statement = hush.load(folder / "r.hush").statement  # type: ignore[union-attr]
    assert (statement.drafted, statement.private) == (("age × diagnosis",), False)
    assert statement.constraints in "".join(done.stdout.split())


def test_the_command_that_resumes_repeats_the_word() -> None:
    words = (DataOptions(data="d.csv"), Path("s.toml"), Path("r.hush"), UnitOptions(), LedgerOptions())
    assert shlex.split(resume_command(*words, schema_is_public=True))[-1] == "--schema-is-public"
    assert "--schema-is-public" not in resume_command(*words)
