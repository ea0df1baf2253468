"""Functions of single values, and constants folded by them: as DuckDB computes them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pytest

from hush.core.errors import QueryError
from hush.sql.parsing import parse
from hush.sql.scalars import exact, folded

CONSTANTS = """
2 * 3 | 10 - 5 | 7 // 2 | -7 // 2 | -7 % 3 | 7.5 % 2 | 9 / 2 | 0.1 + 0.2 | 0.1 * 3 | 1e0 + 0.5 | -(2 + 1) | NULL + 1
CAST(5 AS INTEGER) | CAST(2.5 AS INT) | CAST(-2.5 AS INT) | CAST(2.5e0 AS INT) | CAST(3.5e0 AS INT) | CAST(5 / 2 AS INT)
CAST('2.5' AS INT) | CAST(TRUE AS INT) | CAST(1.23456 AS DECIMAL) | CAST(2.5 AS DECIMAL(3, 0)) | CAST('1.5' AS DOUBLE)
CAST('yes' AS BOOLEAN) | CAST(0 AS BOOLEAN) | CAST(12 AS VARCHAR) | CAST('2024-1-5' AS DATE) | CAST('2024/1/5' AS DATE)
FLOOR(-2.5) | CEIL(2.1) | ROUND(2.5) | ROUND(-2.5e0) | ROUND(0.5e0) | ABS(-3) | LOWER('AbC') | UPPER('x') | LENGTH('aé')
DATE '2024-01-31' + INTERVAL 1 MONTH | DATE '2024-03-31' - INTERVAL 1 MONTH | DATE '2024-01-01' + 7
DATE '2024-01-08' - DATE '2024-01-01' | DATE '2024-02-29' + INTERVAL '1' YEAR | DATE '2024-01-01' + INTERVAL '2 weeks'
"""


@pytest.mark.parametrize(
    "text", [each.strip() for line in CONSTANTS.split("\n") for each in line.split("|") if each.strip()]
)
def test_constants_have_the_values_of_duckdb(text: str) -> None:
    (node,) = folded(parse(f"SELECT {text} FROM t")).items
    found, (wanted,) = exact(node), duckdb.connect().execute(f"SELECT {text}").fetchone() or ()
    if isinstance(wanted, dt.datetime):
        wanted = wanted.date()
    kinds: dict[type, type] = {Decimal: Fraction}
    assert type(found) is kinds.get(type(wanted), type(wanted))
    assert found == (Fraction(wanted) if isinstance(wanted, Decimal) else wanted)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "division by zero"),
        ("7 % 0", "division by zero"),
        ("'a' + 1", "arithmetic takes numbers"),
        ("TRUE + 1", "arithmetic takes numbers"),
        ("1e308 * 1e308", "is too large"),
        ("DATE '2024-01-01' + INTERVAL 3 HOUR", "whole number of days"),
        ("DATE '9999-12-31' + INTERVAL 1 DAY", "is too large"),
        ("CAST('maybe' AS BOOLEAN)", "neither TRUE nor FALSE"),
        ("7.5 // 2", "arithmetic takes numbers"),
    ],
)
def test_constants_without_a_value_are_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        folded(parse(f"SELECT COUNT(*) FROM t WHERE age > {text}"))


def test_positions_stay_positions() -> None:
    query = folded(parse("SELECT age, COUNT(*) FROM t GROUP BY 1 ORDER BY 1 + 1"))
    assert [node.sql() for node in (*query.groups, query.order[0].this)] == ["1", "1 + 1"]


def written(text: str) -> Any:
    return folded(parse(f"SELECT COUNT(*) FROM t WHERE {text}")).where.sql(dialect="duckdb")


def test_only_constants_are_folded() -> None:
    assert written("age > 2 * 3 AND age + 1 < 2") == "age > 6 AND age + 1 < 2"
    assert written("x BETWEEN 10 - 5 AND 0.1 + 0.2") == "x BETWEEN 5 AND 0.3"
