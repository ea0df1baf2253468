"""What every table promises: shapes, order, refusals before reading, and that it does not show its rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from hush.core.domain import Domain
from hush.core.errors import DataError, DomainError, SizeError
from hush.tables import Table, read

DOMAIN = Domain({"a": 2, "b": 3, "c": 300})
DATA = pa.table({"a": [0, 1, 1, 1], "b": [2, 0, 2, 2], "c": [299, 0, 5, 5]})
ENGINES = ("memory", "stream", "sql")


@pytest.fixture(params=ENGINES)
def table(request) -> Table:
    return read(DATA, DOMAIN, engine=request.param, memory_limit="100MB")


def test_counts_have_the_shape_and_order_asked_for(table) -> None:
    cliques = [("c", "a"), ("a", "c"), ("b",), (), ("c", "b", "a"), ("b",)]
    counts = table.counts(cliques)
    assert list(counts) == [("c", "a"), ("a", "c"), ("b",), (), ("c", "b", "a")]
    assert counts[()].shape == ()
    assert counts[()] == 4
    assert counts[("b",)].tolist() == [1, 0, 3]
    assert counts[("c", "b", "a")].shape == (300, 3, 2)
    np.testing.assert_array_equal(counts[("c", "a")], counts[("a", "c")].T)
    np.testing.assert_array_equal(counts[("c", "b", "a")].sum(axis=(0, 1)), counts[("a", "c")].sum(axis=1))
    assert all(array.dtype == np.int64 and array.flags.c_contiguous for array in counts.values())


def test_no_two_arrays_share_cells() -> None:
    one = read(pa.table({"a": [0], "b": [1]}), Domain({"a": 1, "b": 3}))
    counts = one.counts([("a", "b"), ("b", "a")])
    counts["a", "b"][:] = 7
    assert counts["b", "a"].tolist() == [[0], [1], [0]]


def test_lists_generators_and_nothing_are_fine(table) -> None:
    assert list(table.counts([["a", "b"]])) == [("a", "b")]
    assert list(table.counts(clique for clique in [("a",)])) == [("a",)]
    assert table.counts([]) == {}
    assert table.counts([()])[()] == 4


def test_results_are_the_callers_own(table) -> None:
    first = table.counts([("a",)])[("a",)]
    first[:] = 99
    assert table.counts([("a",)])[("a",)].tolist() == [1, 3]


@pytest.mark.parametrize(
    ("cliques", "words"),
    [
        ("ab", r"cliques = 'ab': expected a list of tuples, such as \[\('ab',\)\]"),
        (["ab"], r"clique 'ab': expected a tuple of names, such as \('ab',\)"),
        ([("a", "z")], "attribute 'z' is not in the domain"),
        ([("a",), ("b", "b")], "names an attribute twice"),
    ],
)
def test_bad_cliques_are_refused_before_any_row_is_read(table, cliques, words, monkeypatch) -> None:
    monkeypatch.setattr(type(table), "_count", lambda *_: pytest.fail("rows were read"))
    with pytest.raises(DomainError, match=words):
        table.counts(cliques)


def test_too_large_requests_are_refused_before_any_row_is_read(table, monkeypatch) -> None:
    monkeypatch.setattr(type(table), "_count", lambda *_: pytest.fail("rows were read"))
    big = read(pa.table({"a": [0], "b": [0]}), Domain({"a": 10**5, "b": 10**4}), memory_limit="1GB")
    with pytest.raises(SizeError, match="the largest is a, b with 1,000,000,000 cells"):
        big.counts([("a", "b")])


def test_a_table_shows_its_columns_and_unit_only(table) -> None:
    assert repr(table) == f"{type(table).__name__}(a, b, c; unit: row)"
    assert not hasattr(table, "__len__")
    assert table.domain == DOMAIN
    assert table.unit.column is None
    assert table.schema.domain == DOMAIN


def test_progress_is_a_fraction(table) -> None:
    seen: list[float] = []
    table.counts([("a",)], progress=seen.append)
    assert seen[-1] == 1.0
    assert seen == sorted(seen)
    assert all(0 <= fraction <= 1 for fraction in seen)


def test_nothing_is_printed(table, capsys) -> None:
    table.counts([("a", "b")])
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_table_without_rows_counts_zero(engine) -> None:
    counts = read(DATA.slice(0, 0), DOMAIN, engine=engine).counts([("a", "b"), ()])
    assert counts[()] == 0
    assert counts[("a", "b")].tolist() == [[0, 0, 0], [0, 0, 0]]


def test_check_reads_columns_that_nobody_counts() -> None:
    from hush.core.errors import DataError

    wrong = pa.table({"a": [0, 7], "b": [2, 0], "c": [0, 0]})
    for engine in ("stream", "sql"):
        lazy = read(wrong, DOMAIN, engine=engine)
        assert lazy.counts([("b",)])[("b",)].tolist() == [1, 0, 1]
        with pytest.raises(DataError, match="column 'a' holds values outside its declared levels"):
            lazy.check()
        assert read(DATA, DOMAIN, engine=engine).check() is None
    with pytest.raises(DataError, match="column 'a' holds values outside"):
        read(wrong, DOMAIN)
    assert read(DATA, DOMAIN).check() is None


def test_a_table_is_whatever_counts() -> None:
    class Two(Table):
        """The smallest table: two rows in the first cell."""

        def _count(self, cliques, progress):
            return {clique: np.full(self.domain.sizes(clique), 2, np.int64) for clique in cliques}

    two = Two(read(DATA, DOMAIN).schema, memory_limit=10**9)
    assert two.counts([("b", "a")])[("b", "a")].shape == (3, 2)
    assert two.check() is None


@pytest.mark.parametrize("engine", ["memory", "stream", "sql"])
def test_a_refused_value_is_found_before_anything_is_charged(engine: str, tmp_path) -> None:
    """Streams and databases are not read when they are opened; the release reads them once before it charges."""
    import hush

    (tmp_path / "x.csv").write_text("a\n0\n1\n7\n")
    domain = hush.Domain({"a": 2})
    ledger = hush.Ledger(tmp_path / "budget.db", cap=hush.Budget(rho=1.0))

    def release() -> object:
        table = hush.read(tmp_path / "x.csv", domain, engine=engine)
        return hush.plan(hush.Workload.kway(domain, 1), hush.Budget(rho=0.5)).release(table, ledger=ledger)

    with pytest.raises(DataError, match="column 'a'"):
        release()
    assert ledger.remaining == 1
