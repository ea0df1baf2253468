"""Memory: what is asked for is compared with the limit before anything is allocated."""

from __future__ import annotations

import pytest

from hush.core.domain import Domain
from hush.core.errors import SizeError
from hush.core.memory import available_memory, memory_limit
from hush.tables.table import check_counts


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4GB", 4 * 10**9), ("4 gb", 4 * 10**9), ("1.5MiB", 3 * 2**19), ("512", 512), (" 2k ", None), (7, 7)],
)
def test_limits_are_read(text, expected) -> None:
    if expected is None:
        with pytest.raises(SizeError, match="in bytes, or a text such as '4GB'"):
            memory_limit(text)
    else:
        assert memory_limit(text) == expected


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, "", "GB", "-3GB", "4XB", "1e9"])
def test_a_limit_that_is_none_is_refused(bad) -> None:
    with pytest.raises(SizeError, match="memory_limit=.*: expected a whole number of at least 1, in bytes"):
        memory_limit(bad)


def test_the_default_is_a_share_of_what_is_available() -> None:
    assert 0 < memory_limit(None) <= available_memory() * 1.5


def test_a_container_without_a_limit_is_no_limit(monkeypatch, tmp_path) -> None:
    cap, use = tmp_path / "max", tmp_path / "current"
    cap.write_text("max\n")
    use.write_text("1000\n")
    monkeypatch.setattr("hush.core.memory._CONTAINER_FILES", ((str(cap), str(use)),))
    free = available_memory()
    cap.write_text(str(2**28))
    assert available_memory() == 2**28 - 1000 < free


def test_what_does_not_fit_is_refused_with_advice() -> None:
    domain = Domain({"age": 100, "zip": 100_000, "sex": 2})
    check_counts(domain, [("age", "sex")], 10**6)
    with pytest.raises(SizeError) as caught:
        check_counts(domain, [("age", "zip"), ("age",)], 10**6)
    message = str(caught.value)
    assert "needs 160.0 MB, more than the 500.0 KB that memory_limit = 1.0 MB leaves" in message
    assert "the largest is age, zip with 10,000,000 cells; drop an attribute, use wider bins" in message


def test_a_clique_of_too_many_cells_is_refused_at_any_limit() -> None:
    domain = Domain({"a": 2**20, "b": 2**20})
    with pytest.raises(SizeError, match=r"the table over a, b has 1,099,511,627,776 cells, at most 4,294,967,296"):
        check_counts(domain, [("a", "b")], 10**30)


def test_nothing_needs_nothing() -> None:
    assert check_counts(Domain({"a": 2}), [], 1) is None
