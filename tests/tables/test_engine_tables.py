"""Counts pushed down to the database: what the query asks for, and in how many parts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hush.core.domain import Domain
from hush.core.errors import DataError
from hush.tables import engine_tables as database
from hush.tables import read
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.engine_tables import key_of
from hush.tables.scan_plan import Way, plan_scans

DOMAIN = Domain(dict.fromkeys("abcdef", 3))
RANDOM = np.random.default_rng(4)
DATA = pa.table({name: RANDOM.integers(0, 3, 500) for name in DOMAIN})


@pytest.mark.parametrize("most", [1, 2, 7, 256])
def test_many_scans_are_asked_for_in_parts(most, monkeypatch) -> None:
    cliques = [clique for k in range(4) for clique in itertools.combinations(DOMAIN, k)]
    expected = read(DATA, DOMAIN).counts(cliques)
    monkeypatch.setattr(type(DUCKDB), "most_keys", most)
    seen: list[float] = []
    counts = read(DATA, DOMAIN, engine="sql").counts(cliques, progress=seen.append)
    for clique in cliques:
        np.testing.assert_array_equal(counts[clique], expected[clique])
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@pytest.mark.parametrize("counts", [None, "n"])
@pytest.mark.parametrize("way", list(Way))
def test_every_way_gives_the_same_counts(way, counts) -> None:
    cliques = list(itertools.combinations(DOMAIN, 2))
    rows = DATA.append_column("n", pa.array(RANDOM.integers(0, 4, 500)))
    table: Any = read(rows, DOMAIN, engine="sql", counts=counts)
    table._ways = (way,)
    found, expected = table.counts(cliques), read(rows, DOMAIN, counts=counts).counts(cliques)
    assert table.way is way
    assert all((found[clique] == expected[clique]).all() for clique in cliques)


@pytest.mark.parametrize("way", database.SQL_WAYS)
def test_a_row_is_refused_by_the_columns_that_are_asked_for(way, monkeypatch) -> None:
    wide = Domain(dict.fromkeys("abcd", 40))  # two pairs are too large to be counted as one table
    rows = pa.table({name: [99 if name == "c" else 0, *[1] * 499] for name in wide})
    table: Any = read(rows, wide, engine="sql")
    table._ways, asked = (way,), []
    kept = database.statement
    monkeypatch.setattr(database, "statement", lambda *words: asked.append(kept(*words)) or asked[-1])
    with pytest.raises(DataError, match="column 'c' holds values outside its declared levels"):
        table.counts([("a", "b"), ("c", "d")])
    assert table.counts([("a", "b")])["a", "b"].sum() == 500
    one_by_one = ["k0 IS NULL OR k1 IS NULL AS refused" in query for query in asked]
    assert one_by_one == {Way.SEPARATE: [True, False, True]}.get(way, [False, True])


def test_rows_that_arrive_as_a_whole_are_sent_only_if_they_fit(monkeypatch) -> None:
    table: Any = read(DATA, DOMAIN, engine="sql")
    table._ways = tuple(Way)
    for most, ways in ((None, set(Way)), (2 * 6 * 500, set(Way)), (2 * 6 * 500 - 1, set(database.SQL_WAYS))):
        monkeypatch.setattr(type(DUCKDB), "most_collected", most)
        assert set(table.predict([("a", "b")])) == ways


def test_the_query_has_one_key_per_scan() -> None:
    plan = plan_scans([3, 4], [(0, 1), ()], rows=0)
    query = DUCKDB.grouped_counts({scan: key_of(plan, scan) for scan in range(2)}, "SELECT 1 AS k0")
    assert query.count("GROUPING SETS ((s0), (s1))") == 1
    assert "* 4 + k1" in query


def test_a_source_that_changes_between_two_looks_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(database, "add", lambda *_: False)
    with pytest.raises(DataError, match="changed while it was read; count again when it is at rest"):
        read(DATA, DOMAIN, engine="sql").counts([("a",)])
