"""Counts that are kept: the same as those of the table, within memory, and never before they are asked for."""

import numpy as np
import pytest

from hush import Domain
from hush.errors import DomainError
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
