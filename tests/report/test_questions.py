"""Example queries: made from the schema, asked of the release, shown with its answers."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from hush.release.release import Release
from hush.render.labels import error_text, rounded
from hush.report import report_html
from hush.report.figures import rank_columns, rank_pairs
from hush.report.questions import Example, covered, examples, levels_of
from hush.schema import Boolean, Categorical, Column, Date, Integer, Numeric, Schema
from hush.workloads import Workload


def made(release: Release) -> list[Example]:
    columns = rank_columns(release.estimates)
    return examples(release, columns, rank_pairs(release.estimates, columns))


def test_three_examples_of_three_kinds(people_release: Release) -> None:
    by_category, in_range, two_filters = made(people_release)
    assert by_category.sql.endswith(" GROUP BY " + by_category.answers.groups[0].name)
    assert by_category.question.startswith("How many rows by ")
    assert "WHERE" in in_range.sql
    assert len(in_range.answers) == 1
    assert " AND " in two_filters.sql


def test_answers_on_the_page_are_those_of_the_query(people_release: Release, read_page: Any) -> None:
    page = read_page(report_html(people_release))
    for example in made(people_release)[1:]:
        assert example.sql in page.texts("code")
        (answer,) = people_release.sql(example.sql)
        error = answer["std_error"]
        low, high = rounded(answer["lower"], error), rounded(answer["upper"], error)
        margin = error_text((answer["upper"] - answer["lower"]) / 2)
        line = f"{rounded(answer['estimate'], error)} ± {margin} rows: 95 % interval {low} to {high}"
        assert f"{line}, standard error {error_text(error)}." in page.texts("p")


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        (Integer(name="n", low=-3, high=8), "n BETWEEN 0 AND 6"),
        (Numeric(name="n", edges=(0, 0.5, 1.25, 3, 1e20)), "n >= 0.5 AND n < 3"),
        (Date(name="n", start=dt.date(2020, 1, 1), end=dt.date(2020, 1, 8)), "n >= DATE '2020-01-05'"),
        (Integer(name="Group", low=-3, high=8), '"Group" BETWEEN 0 AND 6'),
        (Integer(name='a "b"', low=-3, high=8), '"a ""b""" BETWEEN 0 AND 6'),
    ],
    ids=["integer", "numeric", "date", "keyword", "quotes"],
)
def test_ranges_of_every_kind_are_answered(make: Callable[..., Release], column: Column, condition: str) -> None:
    example = made(make(Schema([column])))[-1]
    assert example.sql == f"SELECT COUNT(*) FROM t WHERE {condition}"
    assert example.question.startswith(f"How many rows have {column.name} ")
    assert len(example.answers) == 1


def test_categories_are_quoted(make: Callable[..., Release]) -> None:
    schema = Schema([Categorical(name="who", values=("it's", "b")), Categorical(name="k", values=(1, 2.5))])
    counts = {("who",): [9.0, 1.0], ("k",): [1.0, 9.0]}
    found = made(make(schema, counts=counts))[-1]
    assert found.sql == "SELECT COUNT(*) FROM t WHERE who = 'it''s' AND k = 2.5"


def test_names_that_cannot_be_shown_have_no_examples(make: Callable[..., Release]) -> None:
    schema = Schema([Boolean(name="a\u202eb"), Boolean(name="x" * 300)])
    assert made(make(schema)) == []


def test_what_can_be_asked_is_listed_in_few_words(make: Callable[..., Release], people_release: Release) -> None:
    assert covered(people_release) == "<ul><li>Every combination of two columns: 21 tables.</li></ul>"
    schema = Schema([Boolean(name="a"), Boolean(name="<b>")])
    assert covered(make(schema)) == "<p>Any combination of the 2 columns.</p>"


def test_many_tables_are_listed_up_to_a_number(make: Callable[..., Release]) -> None:
    schema = Schema([Boolean(name=f"c{i}") for i in range(14)])
    release = make(schema, cliques=Workload.kway(schema.domain, 2).cliques[1:])
    text = covered(release)
    assert text.count("<li>") == 61
    assert "and 30 more over two columns" in text


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (Integer(name="x", low=0, high=99), "every integer from 0 to 99"),
        (Integer.equal_width(name="x", low=0, high=99, bins=10), "0 to 99 in 10 bins, the first 0 to 9"),
        (Numeric(name="x", edges=(0, 5, 9)), "0 to 9 in 2 bins, the first 0 to 5"),
        (Numeric(name="x", edges=(0, 5, 9), points=(0,)), "0 to 9 in 2 bins, the first 0 to 5, and exactly 0"),
    ],
)
def test_levels_in_words(column: Column, words: str) -> None:
    assert str(levels_of(column)) == words


@pytest.mark.parametrize(
    "column",
    [
        Numeric(name="x", edges=(0, 5, 9, 12), points=(0, 7)),
        Integer.equal_width(name="x", low=0, high=99, bins=10, points=(40,)),
    ],
)
def test_ranges_of_bins_beside_points_are_answered(column: Column, make: Callable[..., Release]) -> None:
    release = make(Schema([column]))
    assert any("WHERE" in example.sql for example in made(release))
