"""Text folding: what columns ignore, and that files, queries and all engines ignore the same."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hush
from hush.core.errors import QueryError, SchemaError
from hush.schema import Categorical, Schema
from hush.schema.schema_toml import read_toml, write_toml
from hush.schema.text_folding import CAPITALS, SMALL_LETTERS, folded
from hush.tables import read

CITY = Categorical(
    name="city", values=("New York", "=SUM", "Ålesund"), other=True, missing=True, missing_values=("N/A",),
    ignore=("spaces", "case"),
)  # fmt: skip


def test_the_table_of_letters_is_one_to_one_and_folds_what_it_says() -> None:
    assert len(CAPITALS) == len(SMALL_LETTERS) > 400
    assert len(set(CAPITALS)) == len(CAPITALS)
    assert not set(CAPITALS) & set(SMALL_LETTERS)
    assert folded("ÀÉÎÕÜ ŁŽ ΑΩΣ ЖЯЁ Ss", ("case",)) == "àéîõü łž αωσ жяё ss"
    assert folded("İSTANBUL ẞ", ("case",)) == "İstanbul ẞ"  # no single small letter, or not in the table


@given(st.text(), st.sampled_from([(), ("case",), ("spaces",), ("case", "spaces")]))
def test_folding_twice_changes_nothing(text: str, ignore: tuple[str, ...]) -> None:
    once = folded(text, ignore)
    assert folded(once, ignore) == once
    assert folded(f" {text}\n", ignore) == once


def test_texts_that_differ_in_what_is_ignored_are_one_level(sql_codes_of) -> None:
    cells = ["new york", " NEW \t\u3000YORK", "'=sum", "=Sum", "ålesund", "ÅLESUND", "n/a", "", "newyork", "N/A "]
    assert sql_codes_of(CITY, cells) == [0, 0, 1, 1, 2, 2, 4, 4, 3, 4]


@pytest.fixture
def sql_codes_of():
    def codes(column: Categorical, cells: list[str]) -> list[int]:
        """The code of each cell, one table per cell."""
        counted = [read(pa.table({"city": [cell]}), Schema([column])).counts([("city",)])[("city",)] for cell in cells]
        return [int(counts.argmax()) for counts in counted]

    return codes


def test_a_file_keeps_what_is_ignored() -> None:
    text = write_toml(Schema([CITY]))
    assert 'ignore = ["case", "spaces"]' in text
    assert read_toml(text)["city"] == CITY
    assert read_toml(text)["city"].ignore == ("case", "spaces")
    assert "ignore" not in write_toml(Schema([Categorical(name="city", values=("a",))]))


def test_queries_and_rules_compare_texts_as_the_column_does() -> None:
    schema = Schema([CITY])
    table = hush.read(pa.table({"city": ["New York", "new york", "x"]}), schema)
    plan = hush.plan(hush.Workload.kway(schema.domain, 1), hush.Budget(rho=500.0))
    release = plan.release(table)
    answer = release.sql("SELECT COUNT(*) AS n FROM t WHERE city = ' NEW  york'")
    assert round(float(answer["n"].estimate[0])) == 2
    with pytest.raises(QueryError, match="means missing"):
        release.sql("SELECT COUNT(*) AS n FROM t WHERE city = 'n/a'")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"values": ("a", "A"), "ignore": ("case",)}, "declares the value 'a' twice"),
        ({"values": ("a",), "ignore": "case"}, "expected a list such as"),
        ({"values": ("a",), "ignore": ("cases",)}, "did you mean 'case'"),
        ({"values": ("?", "X"), "missing": True, "missing_values": ("x",), "ignore": ("case",)}, "both as a value"),
        ({"values": ("OTHER",), "other": True, "ignore": ("case",)}, "already gives that level"),
    ],
)
def test_values_that_would_be_one_level_are_refused(entries, message) -> None:
    with pytest.raises(SchemaError, match=message):
        Categorical(name="city", **entries)
