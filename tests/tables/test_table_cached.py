"""Counts that are kept: the same as those of the table, within memory, and never before they are asked for."""

import numpy as np
import pyarrow as pa
import pytest

import hush
from hush import Domain
from hush.core.errors import DomainError, SizeError
from hush.tables.table import CachedTable
from hush.testing import TinyTable

DOMAIN = Domain({"a": 2, "b": 3, "c": 5})
ROWS = [(0, 0, 0), (1, 2, 4), (1, 2, 0), (0, 1, 1)]
ASKED = [[("a",)], [("a", "b"), ("a",)], [("c", "b")], [("b", "c"), ("a", "b")], [("a",), ("c", "b")]]


class Watched(TinyTable):
    """Notes which cliques are counted."""

    def counts(self, cliques):
        self.seen = [*getattr(self, "seen", []), *map(tuple, cliques)]
        return super().counts(cliques)


@pytest.mark.parametrize("memory", [0.0, 100.0, 1e9, None])
def test_counts_are_those_of_the_table(memory):
    table, plain = CachedTable(TinyTable(DOMAIN, ROWS), memory=memory), TinyTable(DOMAIN, ROWS)
    for cliques in ASKED:
        found, expected = table.counts(cliques), plain.counts(cliques)
        assert list(found) == cliques
        for own in cliques:
            np.testing.assert_array_equal(found[own], expected[own])
            assert found[own].dtype == np.int64


def test_each_table_is_counted_once():
    table = Watched(DOMAIN, ROWS)
    kept = CachedTable(table, memory=1e9)
    for cliques in ASKED:
        kept.counts([list(own) for own in cliques])
    assert sorted(table.seen) == sorted({own for cliques in ASKED for own in cliques})
    assert table.reads == 4  # the last question was answered from memory


def test_a_table_asked_for_twice_at_once_is_counted_once():
    table = Watched(DOMAIN, ROWS)
    assert list(CachedTable(table).counts([("a",), ("a",)])) == [("a",)]
    assert table.seen == [("a",)]


def test_memory_is_kept_to():
    table = Watched(DOMAIN, ROWS)
    kept = CachedTable(table, memory=8 * 9.0)  # (a, b) takes 48 bytes, (b,) then the 24 that are left
    for _ in range(3):
        kept.counts([("a", "b")])
        kept.counts([("b",)])
        kept.counts([("a",)])
    assert table.seen.count(("a", "b")) == table.seen.count(("b",)) == 1
    assert table.seen.count(("a",)) == 3


def test_what_is_kept_cannot_be_changed():
    kept = CachedTable(TinyTable(DOMAIN, ROWS), memory=1e9)
    with pytest.raises(ValueError, match="read-only"):
        kept.counts([("a",)])[("a",)][0] = 7


def test_nothing_is_read_before_it_is_asked_for():
    table = TinyTable(DOMAIN, ROWS)
    kept = CachedTable(table)
    assert (kept.schema, kept.domain, kept.unit) == (table.schema, table.domain, table.unit)
    kept.require([("a", "b")])
    kept.check()
    assert kept.counts([]) == {}
    assert table.reads == 0


def test_what_cannot_be_counted_is_refused_by_the_table():
    with pytest.raises(DomainError, match="'z'"):
        CachedTable(TinyTable(DOMAIN, ROWS)).require([("z",)])


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_merged_levels_are_counted_as_one_in_every_engine(engine: str) -> None:
    generator = np.random.Generator(np.random.PCG64(3))
    domain = Domain({"a": 5, "b": 300, "c": 3})
    codes = {name: generator.integers(0, domain[name], 500) for name in domain}
    table = hush.read(pa.table(codes), hush.Schema.from_domain(domain), engine=engine)
    merging = {"a": np.array([0, 1, 1, 2, 0]), "b": np.minimum(np.arange(300), 7)}
    coarse = CachedTable(table).coarse(merging)
    assert coarse.domain == Domain({"a": 3, "b": 8, "c": 3})
    merged = {name: merging[name][codes[name]] if name in merging else codes[name] for name in domain}
    for clique in (("a", "b"), ("c", "a"), ("a", "b", "c"), ()):
        expected = np.zeros(coarse.domain.sizes(clique), dtype=np.int64)
        np.add.at(expected, tuple(merged[name] for name in clique), 1 if clique else 500)
        assert np.array_equal(coarse.counts([clique])[clique], expected)
    assert np.array_equal(table.counts([("a",)])["a",], np.bincount(codes["a"], minlength=5))  # itself as before


def test_tables_over_wide_columns_are_not_made_where_levels_are_merged() -> None:
    """The whole table has 10^12 cells; what is counted has 8."""
    domain = Domain({"a": 10_000, "b": 10_000, "c": 10_000})
    table = hush.read(pa.table({name: [1, 5, 9_000] for name in domain}), hush.Schema.from_domain(domain))
    with pytest.raises(SizeError):
        table.require([("a", "b", "c")])
    split = (np.arange(10_000) > 100).astype(np.int64)
    coarse = CachedTable(table).coarse(dict.fromkeys(domain, split))
    coarse.require([("a", "b", "c")])
    assert coarse.counts([("a", "b", "c")])["a", "b", "c"].reshape(-1).tolist() == [2, 0, 0, 0, 0, 0, 0, 1]
    with pytest.raises(SizeError):
        CachedTable(table).coarse({}).require([("a", "b", "c")])
