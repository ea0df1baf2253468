"""Every engine counts the same values and the same rows per unit for a discovery, hostile texts included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from hush.schema import Unit
from hush.tables.dialects.dialect import Dialect
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.dialects.postgres import POSTGRES
from hush.tables.dialects.spark import SPARK
from hush.tables.discovery_sources import DistinctValues, UnitSizes
from planting import suite

SOURCES, ENGINES = suite("tables/test_discovery_sources.py"), suite("tables/test_engines_agree.py")
counted, source_of = SOURCES.counted, SOURCES.source_of
UNIT = Unit(column="id", max_rows=3)
# PostgreSQL stores no zero byte
TEXTS = [text for text in SOURCES.HOSTILE if "\0" not in text] + [
    "ÄÖ",
    "äö",
    "ЖЯ",
    "Σ",
    "ς",
    "İ",
    "ẞ",
    "a\r\nb",
    "z\u200bz",
]
ROWS = [(f"{k % 83}", None if k % 29 == 0 else TEXTS[(17 * k + k // 23) % len(TEXTS)]) for k in range(600)]
IN_ENGINE: dict[str, tuple[Dialect, Callable[[pytest.FixtureRequest], Any]]] = {
    "duckdb": (DUCKDB, ENGINES.InDuckDB),
    "postgres": (POSTGRES, ENGINES.InPostgres),
    "spark": (SPARK, lambda request: ENGINES.InSpark(request.getfixturevalue("spark"))),
}


@pytest.mark.parametrize("engine", list(IN_ENGINE))
def test_all_engines_count_the_same_values_and_units(request: pytest.FixtureRequest, engine: str) -> None:
    dialect, holder = IN_ENGINE[engine]
    table = pa.table({name: pa.array([row[at] for row in ROWS], pa.string()) for at, name in enumerate(("id", "v"))})
    with holder(request).holding(table) as (connection, query):
        source = dialect.open_table(connection, None, query)
        for unit, most, ignore in (
            (Unit(), 1, ()),
            (UNIT, 1, ("case",)),
            (UNIT, 3, ("spaces",)),
            (UNIT, 2, ("case", "spaces")),
        ):
            asked = {"most_values": most, "ignore": ignore, "no_keys": ["A", "äö", "'; DROP TABLE t; --"]}
            here = DistinctValues(source, "v", unit, **asked)
            here.check()
            right = counted(DistinctValues(source_of(ROWS), "v", unit, **asked))
            assert len(right) > 10
            assert counted(here) == right
            assert counted(here, 3) == {text: units for text, units in right.items() if units >= 3}
        sizes = [UnitSizes(held, UNIT, (1, 3, 7, 8, 30)) for held in (source, source_of(ROWS))]
        counts = [each.counts([each.clique])[each.clique].tolist() for each in sizes]
        assert counts[0] == counts[1]
        assert sum(counts[0]) == 83
