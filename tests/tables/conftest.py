"""What tests of tables share: a plain Python twin of the encoder, and ways to see the codes of a column."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hush.schema import Boolean, Categorical, Column, Date, Integer, Numeric, Outside, Schema
from hush.schema.column import LARGEST_INTEGER, canonical
from hush.schema.text_folding import folded
from hush.tables import frames
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.encoding import FALSE_TEXTS, TRUE_TEXTS
from hush.tables.rows_per_unit import CappedRows

Code = int | None


def place(column: Column, value: Any) -> Code:
    """The code of a Python value by the rules, one value at a time; None where it is refused."""
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        return column.missing_code
    match column:
        case Categorical():
            text = folded(canonical(value), column.ignore)
            if text in [folded(missing, column.ignore) for missing in column.missing_values]:
                return column.missing_code
            return column.texts.index(text) if text in column.texts else column.other_code
        case Date():
            return _place_date(column, value)
        case _:
            return _place_number(column, value)


def _place_number(column: Column, value: Any) -> Code:
    text = value.strip() if isinstance(value, str) else None
    number = _float(value) if text is None else column.number_spelling.read(text)
    if text in column.missing_values or (number is not None and number in _numbers(column)):
        return column.missing_code
    if number is not None and math.isnan(number):
        return column.missing_code
    if isinstance(column, Boolean):
        low = canonical(value).lower()
        return 0 if low in FALSE_TEXTS else 1 if low in TRUE_TEXTS else None
    assert isinstance(column, Integer | Numeric)
    if number is None:
        return None
    if isinstance(column, Integer):
        if math.isfinite(number) and number != math.trunc(number):
            return None
        exact = value if isinstance(value, int) else number
        cuts = {*column.starts, *column.points, *(point + 1 for point in column.points)} or range(column.low, 2**53)
        return _bounded(column, exact, column.low, column.high, lambda: _behind(cuts, column.low, exact))
    cuts = {*column.edges[:-1], *column.points, *(math.nextafter(point, math.inf) for point in column.points)}
    return _bounded(column, number, column.edges[0], column.edges[-1], lambda: _behind(cuts, column.edges[0], number))


def _behind(cuts: Any, low: Any, number: Any) -> int:
    """How many cuts above `low` lie at or below a number."""
    if isinstance(cuts, range):
        return int(number) - low
    return sum(low < cut <= number for cut in cuts)


def _place_date(column: Date, value: Any) -> Code:
    if isinstance(value, str):
        if value.strip() in column.missing_values:
            return column.missing_code
        try:
            value = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, dt.datetime):
        value = (value.astimezone(dt.UTC) if value.tzinfo else value).date()
    if value.isoformat() in column.missing_values:
        return column.missing_code
    return _bounded(column, value, column.start, column.end, lambda: column.ordinal(value))


def _bounded(column: Any, value: Any, low: Any, high: Any, inside: Callable[[], int]) -> Code:
    if low <= value <= high:
        return inside()
    if column.outside is Outside.REFUSE:
        return None
    return 0 if value < low else column.levels - 1


def _float(value: Any) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _numbers(column: Column) -> list[float]:
    return [number for text in column.missing_values if (number := _float(text)) is not None]


def encode(column: Column, array: pa.Array, connection: Any) -> list[Code]:
    """The codes that the SQL gives, None where a value is refused."""
    frame = frames.from_arrow(pa.table([array], names=[column.name]), [0])
    source = DUCKDB.open_frame("the Arrow table", [column.name], frame, connection)
    rows = CappedRows(source, Schema([column]), [column])
    with rows.session() as session:
        batches = list(DUCKDB.stream(session, rows.sql, 1000, lambda trouble: trouble))
    return [code for batch in batches for code in batch.column(0).to_pylist()]


@pytest.fixture(scope="session")
def reference() -> Callable[[Column, Any], Code]:
    return place


@pytest.fixture(scope="session")
def sql_codes() -> Iterator[Callable[[Column, pa.Array], list[Code]]]:
    connection = DUCKDB.connect(2**30)
    connection.execute("SET threads = 1")  # one thread keeps the order of rows
    yield lambda column, array: encode(column, array, connection)
    connection.close()


@pytest.fixture(scope="session")
def brute_counts() -> Callable[[Schema, Sequence[Sequence[int]], Sequence[str]], np.ndarray[Any, Any]]:
    """Counts of one clique from rows of codes, one row at a time."""

    def count(schema: Schema, rows: Sequence[Sequence[int]], clique: Sequence[str]) -> np.ndarray[Any, Any]:
        names = schema.domain.attributes
        counts = np.zeros(schema.domain.sizes(clique), np.int64)
        for row in rows:
            counts[tuple(row[names.index(name)] for name in clique)] += 1
        return counts

    return count


@pytest.fixture(scope="session")
def all_cliques() -> Callable[[Schema], list[tuple[str, ...]]]:
    """Every subset of at most three columns, in every order."""

    def cliques(schema: Schema) -> list[tuple[str, ...]]:
        names = schema.domain.attributes
        return [c for k in range(min(3, len(names)) + 1) for c in itertools.permutations(names, k)]

    return cliques


assert LARGEST_INTEGER == 2**53
