"""Tables of text cells: they keep to the width, drop what matters least, and let no cell steer a terminal or a page."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from hush.render.markup import Markup
from hush.render.text_table import TextColumn, TextTable, fixed_text, number_columns, wrapped

COLUMNS = (
    TextColumn(heading="name", fit="clip"),
    TextColumn(heading="why", fit="fold", style="dim"),
    *number_columns("cells", "error"),
    TextColumn(heading="interval", align="right", optional=True),
)
ROWS = [("age", "asked for", "100", "1.5", "1 to 2"), ("region of birth", "measured with noise", "7", "12.5", "3 to 4")]
TABLE = TextTable(columns=COLUMNS, rows=ROWS, title="a title", more="... 3 more rows", notes=["a note of some words"])
HOSTILE = ("\x1b[31mred", "line\nbreak", "a\u202eb", "[bold]", "<b>&amp;", "\x07")


def test_a_table_with_room_shows_every_cell_in_its_place() -> None:
    assert TABLE.text(80).splitlines() == [
        "a title",
        "name             why                  cells  error  interval",
        "age              asked for              100    1.5    1 to 2",
        "region of birth  measured with noise      7   12.5    3 to 4",
        "... 3 more rows",
        "a note of some words",
    ]


def test_a_narrow_table_loses_optional_columns_then_folds_and_clips() -> None:
    assert TABLE.text(44).splitlines() == [
        "a title",
        "name             why            cells  error",
        "age              asked for        100    1.5",
        "region of birth  measured with      7   12.5",
        "                 noise",
        "... 3 more rows",
        "a note of some words",
    ]
    assert "region…" in TABLE.text(30)
    assert "not shown" not in TABLE.text(30)


def test_columns_that_do_not_fit_are_left_out_and_named() -> None:
    lines = TABLE.text(20).splitlines()
    assert "not shown: why," in lines
    assert lines[1].split() == ["name", "cells"]


@given(
    st.lists(st.lists(st.text(max_size=30), min_size=5, max_size=5), max_size=4),
    st.integers(min_value=20, max_value=90),
)
def test_no_line_is_wider_than_asked_and_none_steers_the_terminal(rows: list[list[str]], width: int) -> None:
    lines = TextTable(columns=COLUMNS, rows=rows, notes=["note"]).text(width).split("\n")
    assert all(cell_len(line) <= width for line in lines)
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("text", HOSTILE)
def test_cells_titles_and_notes_are_shown_and_not_obeyed(text: str) -> None:
    columns = (TextColumn(heading=text), TextColumn(heading="n"))
    table = TextTable(columns=columns, rows=[(text, text)], title=text, notes=[text])
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system=None, width=80)
    console.print(table)
    assert file.getvalue().rstrip("\n") == table.text(80)
    assert all(line.isprintable() for line in table.text(80).split("\n"))
    page = table.html()
    assert page.isprintable()
    assert "<b>&amp;" not in page
    assert page.count("<td") == 2


def test_a_terminal_gets_the_styles_and_the_same_words() -> None:
    file = io.StringIO()
    Console(file=file, force_terminal=True, color_system="standard", width=80, legacy_windows=False).print(TABLE)
    assert "\x1b[1ma title\x1b[0m" in file.getvalue()
    assert "\x1b[2masked for" in file.getvalue()


def test_html_for_a_page_has_classes_and_for_a_notebook_styles() -> None:
    page, notebook = TABLE.html(page=True), TABLE.html()
    assert '<th scope="row">age</th>' in page
    assert '<td class="number">100</td>' in page
    assert "a title</caption>" in page
    assert 'class="short"' in page
    assert '<td style="text-align: right; vertical-align: top; white-space: nowrap">100</td>' in notebook
    assert "<p>... 3 more rows<br>a note of some words</p>" in notebook
    assert "scope" not in notebook


def test_markup_is_kept_as_it_is_in_html() -> None:
    table = TextTable(columns=[TextColumn(heading="x")], rows=[(Markup("<bdi>a</bdi>"),)])
    assert '<td style="text-align: left; vertical-align: top; white-space: nowrap"><bdi>a</bdi></td>' in table.html()


def test_facts_keep_their_names_whole_and_fold_what_is_said() -> None:
    facts = TextTable.facts([("Error", "one two three four"), ("Work", "five")])
    assert facts.text(16).splitlines() == ["Error  one two", "       three", "       four", "Work   five"]


def test_wide_characters_take_two_cells() -> None:
    table = TextTable(columns=[TextColumn(), TextColumn()], rows=[("日本", "x"), ("ab", "y")])
    assert table.text().splitlines() == ["日本  x", "ab    y"]


def test_wrapped_lines_are_indented_and_long_words_broken() -> None:
    assert wrapped("one two three", 8, indent="  ") == ["one two", "  three"]
    assert wrapped("abcdefghij", 4) == ["abcd", "efgh", "ij"]


@pytest.mark.parametrize(("number", "text"), [(float("inf"), "inf"), (1e15, "1e+15"), (-0.04, "0.0"), (2.25, "2.2")])
def test_numbers(number: float, text: str) -> None:
    assert fixed_text(number, 1) == text
