"""hush report: from a release file to a page."""

import datetime as dt
from functools import partial
from pathlib import Path

import pytest

from command_line import run_hush
from hush import Domain, Measurement, fit
from hush.datasets import people, people_schema
from hush.planning import plan
from hush.privacy.budget import Budget
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.tables import read
from hush.workloads import Workload

run = partial(run_hush, "report")


def release_file(path: Path, *, seeded: bool) -> Path:
    schema = people_schema()
    made = plan(Workload.marginals(schema.domain, [("sex", "region")]), Budget(rho=0.25))
    table = read(people(300, seed=5), schema)
    made.release(table, entropy=NotPrivateEntropy(seed=1) if seeded else None).save(path)
    return path


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return release_file(tmp_path / "people.hush", seeded=False)


def test_a_page_is_written_and_the_spent_budget_said(release: Path, tmp_path: Path) -> None:
    result = run(release, "-o", tmp_path / "people.html")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(
        f"wrote {tmp_path / 'people.html'}; nothing was spent, the release had spent epsilon="
    )
    assert "What this release says" in (tmp_path / "people.html").read_text(encoding="utf-8")


def test_the_heading_has_the_date_and_the_file_but_no_path(release: Path, tmp_path: Path) -> None:
    before = dt.date.today()
    assert run(release, "-o", tmp_path / "people.html").exit_code == 0
    page = (tmp_path / "people.html").read_text(encoding="utf-8")
    assert any(f"<bdi>{day}</bdi>" in page for day in (before, dt.date.today()))
    assert "<bdi>people.hush</bdi>" in page
    assert str(tmp_path) not in page
    assert "Owner" not in page


def test_the_heading_shows_what_the_options_say(release: Path, tmp_path: Path) -> None:
    heading = ["--dataset", "Our <people>", "--owner", "The office", "--date", "2026-01-31", "--file-name", "p.hush"]
    assert run(release, "-o", tmp_path / "people.html", *heading).exit_code == 0
    page = (tmp_path / "people.html").read_text(encoding="utf-8")
    assert "<h1><bdi>Our &lt;people&gt;</bdi></h1>" in page
    for text in ("The office", "2026-01-31", "p.hush"):
        assert f"<dd><bdi>{text}</bdi></dd>" in page


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [("--date", "31.1.2026", "31.1.2026"), ("--owner", " ", "owner=' ': expected some text; omit it")],
)
def test_what_cannot_be_a_heading_is_refused_in_one_line(
    release: Path, tmp_path: Path, option: str, text: str, message: str
) -> None:
    result = run(release, "-o", tmp_path / "people.html", option, text)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert message in result.stderr
    assert not (tmp_path / "people.html").exists()


def test_seeded_noise_is_called_out_on_the_terminal_too(tmp_path: Path) -> None:
    file = release_file(tmp_path / "test.hush", seeded=True)
    result = run(file, "-o", tmp_path / "test.html")
    assert result.exit_code == 0
    assert result.stderr.startswith("hush: NOT PRIVATE")


def test_a_page_that_exists_is_kept(release: Path, tmp_path: Path) -> None:
    page = tmp_path / "people.html"
    page.write_text("mine")
    result = run(release, "-o", page)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "exists already; choose another name or add --force" in result.stderr
    assert page.read_text() == "mine"
    assert run(release, "-o", page, "--force").exit_code == 0
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_what_is_no_release_is_refused_in_one_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.hush"
    bad.write_bytes(b"PK\x03\x04 not an archive")
    result = run(bad, "-o", tmp_path / "page.html")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert not (tmp_path / "page.html").exists()


def test_a_folder_that_does_not_exist(release: Path, tmp_path: Path) -> None:
    result = run(release, "-o", tmp_path / "none" / "page.html")
    assert result.exit_code == 2
    assert "is no folder; create it first" in result.stderr


def test_a_model_has_no_report(tmp_path: Path) -> None:
    fit(Domain({"a": 2}), [Measurement(("a",), [4.0, 5.0], 1.0)]).save(tmp_path / "model.hush")
    result = run(tmp_path / "model.hush", "-o", tmp_path / "page.html")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "is a model; a report is of a release" in result.stderr
    assert not (tmp_path / "page.html").exists()


def test_a_page_may_go_to_standard_output(release: Path, tmp_path: Path) -> None:
    result = run(release, "-o", "-")
    run(release, "-o", tmp_path / "people.html")
    assert result.exit_code == 0
    assert result.stdout == (tmp_path / "people.html").read_text(encoding="utf-8")
    assert "nothing was spent" in result.stderr
