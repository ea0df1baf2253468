"""The printed tables: the harness, what it marks, and the closed forms of one document."""

import importlib
import io
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def papers(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT))
    yield importlib.import_module("benchmarks.papers")
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        del sys.modules[name]


def test_every_document_has_tables_and_further_commands(papers: ModuleType) -> None:
    documents = {table.document for table in papers.TABLES}
    assert documents == set(papers.DOCUMENTS) == set(papers.OTHERS)
    assert len({(table.document, table.place, table.title) for table in papers.TABLES}) == len(papers.TABLES) > 25
    commands = {command.split()[0] for further in papers.OTHERS.values() for command, *_ in further}
    assert all((ROOT / "benchmarks" / f"{command}.py").exists() for command in commands)


def test_the_list_makes_nothing(papers: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    papers.main(["--list", "--document", "004"])
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == sum(table.document == "004" for table in papers.TABLES)
    assert all(line.startswith("004  ") and " s" in line for line in shown)


def test_differences_are_marked_beyond_rounding(papers: ModuleType) -> None:
    printed = importlib.import_module("benchmarks.printed")
    given = {"document": "004", "place": "", "title": "", "rows": lambda _: [], "seconds": 1.0}
    plain = printed.PrintedTable(**given)
    less = printed.PrintedTable(**given, less_is_better=True)
    noisy = printed.PrintedTable(**given, random=True)
    off = printed.Row("off", 10.0, None, 10.2)
    assert printed.differs(off, plain)
    assert not printed.differs(off, noisy)
    assert not printed.differs(printed.Row("better", 10.0, None, 5.0), less)
    assert printed.differs(printed.Row("worse", 10.0, None, 11.0), less)
    assert not printed.differs(printed.Row("rounded", 0.24, None, 0.2363), plain)
    assert printed.differs(printed.Row("not rounded", 0.24, None, 0.2463), plain)
    assert not printed.differs(printed.Row("as recomputed", 10.0, 20.0, 20.0), plain)
    assert not printed.differs(printed.Row("unknown", None, None, math.nan), plain)


def test_a_table_shows_as_many_digits_as_mean_something(papers: ModuleType) -> None:
    printed = importlib.import_module("benchmarks.printed")
    rows = [printed.Row("large", 132336, None, 132336.04), printed.Row("small", "> 1", None, 0.0123456)]
    given = {"document": "004", "place": "Table 0", "title": "t", "rows": lambda _: rows, "seconds": 1.0}

    def shown(**more: object) -> str:
        out = io.StringIO()
        papers.show(printed.PrintedTable(**given, **more), papers.Options(), out)
        return out.getvalue()

    assert "| large | 132,336 | - | 132,336 |  |" in shown()
    assert "| small | > 1 | - | 0.012346 | **differs** |" in shown()
    assert "| small | > 1 | - | 0.0123 |  |" in shown(random=True)
    assert "### Table 0: t\n\n| case" in shown()
    assert "### Table 0: t\n\nSeconds. A note.\n\n| case" in shown(unit="Seconds", note="A note.")


def test_strategies_that_others_search_for_stand_beside_ours(papers: ModuleType) -> None:
    (table,) = (table for table in papers.TABLES if table.place == "Tables 3.2 and 3.3")
    rows = {row.name: row for row in table.rows(papers.Options(quick=True))}
    assert rows["laplace, AllRange 64, GreedyH"].ours == pytest.approx(6.34, rel=0.01)
    assert rows["gaussian, AllRange 64, COA"].ours == pytest.approx(9.73, rel=0.001)
    assert rows["laplace, AllRange 64, LRM"].printed == 7.02
    assert math.isnan(rows["laplace, AllRange 64, LRM"].ours)


def test_residual_planners_tables_are_as_printed(papers: ModuleType) -> None:
    out = io.StringIO()
    papers.page(["004"], papers.Options(quick=True), out)
    page = out.getvalue()
    sections = {section.splitlines()[0]: section for section in page.split("### ")[1:]}
    errors = sections["Tables 15 to 18: RMSE of ResidualPlanner"]
    assert "| Adult, 5-way | 17.844 | - | 17.844 |  |" in errors
    marked = [name for name, text in sections.items() if "**differs**" in text]
    assert [name for name in marked if "seconds" not in name] == []
    assert sum(text.count("\n| ") for text in sections.values()) > 120


def test_cheap_tables_of_the_other_documents_are_as_recomputed(papers: ModuleType) -> None:
    options = papers.Options(quick=True)
    cheap = [
        table
        for table in papers.TABLES
        if table.document in {"001", "003"} and table.quick_seconds is not None and table.quick_seconds <= 1
    ]
    assert len(cheap) >= 6
    differing = {(t.title, row.name) for t in cheap for row in t.rows(options) if papers.differs(row, t)}
    assert differing == set()


def test_papers_is_a_command_of_the_benchmarks(
    papers: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "papers", "--list", "--document", "001"])
    importlib.import_module("benchmarks.__main__").main()
    assert "Table 3: workload error of AIM" in capsys.readouterr().out


def test_the_page_is_that_of_the_registry(papers: ModuleType) -> None:
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    made = [table for table in papers.TABLES if table.quick_seconds is not None and not table.needs_data]
    assert {table.title for table in made if f"### {table.place}: {table.title}" not in page} == set()
