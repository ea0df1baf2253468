"""Generated queries: without noise, hush answers what DuckDB answers, or refuses the query in one line."""

from __future__ import annotations

import datetime as dt
import functools
import math
import random
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pytest

from dense_twins import DenseEstimates
from hush.core.errors import HushError, QueryError, SizeError
from hush.release.sql_answers import answer_sql
from hush.schema import Boolean, Categorical, Date, Integer, Schema

SCHEMA = Schema(
    [
        Integer(name="age", low=0, high=9, missing=True),
        Categorical(name="sex", values=("F", "m", "Xy"), missing=True),
        Boolean(name="ok", missing=True),
        Date(name="day", start=dt.date(2023, 12, 30), end=dt.date(2024, 1, 8), missing=True),
    ]
)
ROWS, QUERIES = 60, 300


@functools.cache
def source() -> tuple[duckdb.DuckDBPyConnection, DenseEstimates]:
    rng = np.random.default_rng(5)
    codes = {column.name: rng.integers(0, column.size, ROWS) for column in SCHEMA}
    connection = duckdb.connect()
    connection.register("t", SCHEMA.decode(codes))
    table = np.zeros(SCHEMA.domain.shape)
    np.add.at(table, tuple(codes.values()), 1)
    return connection, DenseEstimates(SCHEMA.domain, table)


class Grammar:
    """Random pieces of SQL, of limited depth."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, *choices: Any) -> Any:
        chosen = self.random.choice(choices)
        return chosen() if callable(chosen) else chosen

    def whole(self) -> str:
        return self.one(
            "0", "1", "2", "3", "5", "10 - 4", "2 * 3", "-1", "CAST(4 AS INTEGER)", "CAST(2.5 AS INT)", "7 // 2"
        )

    def real(self) -> str:
        return self.one(
            "0.5", "0.1", "1.5", "2.50", "1e0", "2.5e0", "9 / 2", "0.1 + 0.2", "10 % 4", "CAST('2.5' AS DOUBLE)"
        )

    def number(self, depth: int = 2) -> str:
        if depth == 0:
            return self.one("age", self.whole, self.real)
        deeper = functools.partial(self.number, depth - 1)
        return self.one(
            "age",
            lambda: f"({deeper()} {self.one('+', '-', '*')} {deeper()})",
            lambda: f"({deeper()} / {self.one('2', '4', '0.5')})",
            lambda: f"CAST({deeper()} AS {self.one('INT', 'BIGINT', 'DOUBLE')})",
            lambda: f"{self.one('FLOOR', 'CEIL', 'ABS', 'ROUND')}({deeper()})",
            lambda: f"(age {self.one('%', '//')} {self.one('2', '3')})",
            lambda: f"COALESCE({deeper()}, {self.whole()})",
            lambda: f"NULLIF(age, {self.whole()})",
            lambda: f"EXTRACT({self.one('day', 'month', 'year', 'dow', 'week')} FROM day)",
            lambda: f"CASE WHEN {self.condition(0)} THEN {deeper()} ELSE {deeper()} END",
            lambda: "LENGTH(sex)",
            lambda: "(day - DATE '2024-01-01')",
        )

    def text(self) -> str:
        return self.one(
            "sex", "LOWER(sex)", "UPPER(sex)", "COALESCE(sex, 'none')", "CASE WHEN ok THEN sex ELSE 'F' END"
        )

    def date(self) -> str:
        return self.one("day", "day + 1", "day - INTERVAL 2 DAY", "COALESCE(day, DATE '2024-01-01')")

    def moment(self) -> str:
        return self.one(
            "'2024-1-5'", "DATE '2024-01-01' + INTERVAL 3 DAY", "DATE '2024-01-31' - INTERVAL 1 MONTH", "'2024/01/02'"
        )

    def condition(self, depth: int = 2) -> str:
        sign = self.one("=", "<>", "<", "<=", ">", ">=")
        leaves = (
            lambda: f"{self.number(1)} {sign} {self.one(self.whole, self.real)}",
            lambda: f"{self.whole()} {sign} {self.number(1)}",
            lambda: f"age {self.one('', 'NOT ')}BETWEEN {self.whole()} AND {self.whole()}",
            lambda: f"{self.number(1)} IN ({self.whole()}, {self.whole()})",
            lambda: f"{self.text()} {self.one('=', '<>')} {self.one(chr(39) + 'F' + chr(39), chr(39) + 'm' + chr(39))}",
            lambda: f"{self.text()} {self.one('LIKE', 'ILIKE', 'NOT LIKE')} '{self.one('%y', 'f', '_', 'X%', '%')}'",
            lambda: f"{self.date()} {sign} {self.moment()}",
            lambda: f"DATE_TRUNC('week', day) {sign} DATE '2024-01-01'",
            lambda: f"ok = '{self.one('yes', 'no', 't', 'false', 'Y', '0')}'",
            lambda: f"{self.one(self.number, self.text, self.date)} IS {self.one('', 'NOT ')}NULL",
            lambda: f"{self.number(1)} IS {self.one('', 'NOT ')}DISTINCT FROM {self.one(self.whole, 'NULL')}",
            "ok",
            "COALESCE(ok, FALSE)",
        )
        if depth == 0:
            return str(self.one(*leaves))
        deeper = functools.partial(self.condition, depth - 1)
        return str(
            self.one(
                *leaves,
                lambda: f"({deeper()} {self.one('AND', 'OR')} {deeper()})",
                lambda: f"NOT ({deeper()})",
                lambda: f"({deeper()}) {self.one('=', '<>')} {self.one('TRUE', 'FALSE', 'ok', '(age > 3)')}",
                lambda: f"({deeper()}) IS {self.one('NULL', 'TRUE', 'NOT FALSE')}",
                lambda: f"CASE WHEN {deeper()} THEN {self.whole()} END IS NULL",
            )
        )

    def aggregate(self) -> str:
        return str(
            self.one(
                "COUNT(*)",
                "COUNT(*)",
                lambda: f"COUNT(*) FILTER (WHERE {self.condition(1)})",
                lambda: f"COUNT({self.one(self.number, self.text, 'day')})",
                lambda: f"COALESCE(SUM({self.number()}), 0)",
                lambda: f"AVG({self.number(1)})",
                lambda: f"{self.one('VARIANCE', 'VAR_POP', 'STDDEV')}(age)",
                lambda: f"QUANTILE_DISC(age, {self.one('0.2', '0.4', '0.5', '0.8', '1 - 0.1')})",
            )
        )

    def query(self) -> tuple[str, int]:
        groups = self.one(
            [], [], ["sex"], ["ok", "age"], [self.number()], [self.text()], [self.date()], [self.condition(1)]
        )
        labels = [f"{group} AS g{place}" for place, group in enumerate(groups)]
        text = f"SELECT {', '.join([*labels, self.aggregate() + ' AS v'])} FROM t"
        text += f" WHERE {self.condition()}" if self.random.random() < 0.6 else ""
        text += " GROUP BY " + ", ".join(str(place + 1) for place in range(len(groups))) if groups else ""
        if groups and self.random.random() < 0.3:
            text += f" HAVING {self.one('COUNT(*)', 'COUNT(age)')} {self.one('>', '<=')} {self.whole()} + 0.5"
        return text, len(groups)


def plain(value: Any) -> Any:
    """A value in the form in which both sides have it."""
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, bool | str | dt.date) or value is None:
        return value
    return round(float(value), 9) if isinstance(value, int | float | Decimal) else value


def asked(text: str, groups: int) -> dict[tuple[Any, ...], Any]:
    connection, _ = source()
    rows = connection.execute(text).fetchall()
    return {tuple(map(plain, row[:groups])): plain(row[groups]) for row in rows}


def answered(text: str) -> dict[tuple[Any, ...], Any]:
    answers = answer_sql(text.replace("COALESCE(SUM", "(SUM").replace("), 0) AS v", ")) AS v"), SCHEMA, source()[1])
    labels = zip(*answers.labels.values(), strict=True) if answers.groups else [()] * len(answers)
    keys = [tuple(map(plain, label)) for label in labels]
    return dict(zip(keys, [None if math.isnan(v) else round(v, 9) for v in answers.estimate.tolist()], strict=True))


def differs(text: str, groups: int) -> str | None:
    """What hush says otherwise than DuckDB; None where both say the same, "refused" where hush refuses."""
    try:
        found = answered(text)
    except (QueryError, SizeError) as error:
        return "refused" if "\n" not in str(error) else str(error)
    try:
        wanted = asked(text, groups)
    except duckdb.Error as error:
        return None if "out of range" in str(error).lower() else f"DuckDB refuses: {error}"[:200]
    if not set(wanted) <= set(found):
        return f"lacks {set(wanted) - set(found)}"
    for key, value in found.items():
        expected = wanted.get(key, 0 if value == 0 else None)  # groups without rows
        if value != expected and not (
            None not in (value, expected) and math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-8)
        ):
            return f"{key}: {value}, expected {expected}"
    return None


@pytest.mark.parametrize("seed", range(3))
def test_generated_queries_agree_with_duckdb(seed: int) -> None:
    grammar, refused = Grammar(seed), 0
    for _ in range(QUERIES // 3):
        text, groups = grammar.query()
        found = differs(text, groups)
        refused += found == "refused"
        assert found in (None, "refused"), f"{text}\n{found}"
    assert refused < QUERIES // 3 * 0.25


def test_the_comparison_sees_a_difference() -> None:
    """Where the table that DuckDB has lacks rows, the same query differs."""
    text = "SELECT COUNT(*) AS v FROM t WHERE age > 3"
    assert differs(text, 0) is None
    with pytest.raises(HushError):
        answered("SELECT MIN(age) AS v FROM t")
    assert differs(text.replace("FROM t", "FROM (SELECT * FROM t LIMIT 30) AS t"), 0) == "refused"
    connection, _ = source()
    connection.execute("CREATE OR REPLACE TEMP VIEW fewer AS SELECT * FROM t LIMIT 30")
    assert differs(text.replace("FROM t", "FROM fewer"), 0) is not None
