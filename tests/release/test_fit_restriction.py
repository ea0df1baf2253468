"""Restriction: which measurements and tables lie inside some cliques."""

from typing import Any

import numpy as np
import pytest

from hush.core.domain import Domain
from hush.core.errors import DomainError, WorkloadError
from hush.privacy.measurement import Measurement
from hush.release.fit import Restriction

DOMAIN = Domain(dict.fromkeys("abcd", 2))
KNOWN = [
    Measurement(clique, np.ones((2,) * len(clique)), 1.0) for clique in [(), ("a",), ("b",), ("b", "a"), ("c", "d")]
]


def inside(*cliques: tuple[str, ...]) -> Restriction:
    return Restriction(DOMAIN, cliques, KNOWN)


def test_measurements_inside_some_clique_are_kept_with_the_total() -> None:
    assert [one.clique for one in inside(("a",), ("c", "b")).measurements] == [(), ("a",), ("b",)]
    assert inside(tuple("abcd")).measurements == KNOWN


def test_tables_are_the_largest_parts_that_hold_something_measured() -> None:
    largest = [("a", "b", "c"), ("c", "d")]
    assert inside(("a",)).tables(largest) == [("a",)]
    assert inside(("a",), ("b", "c", "d")).tables(largest) == [("a",), ("b", "c"), ("c", "d")]
    assert inside(("b", "a"), ("a", "d")).tables(largest) == [("a", "b")]
    assert inside(tuple("dcba")).tables(largest) == largest


@pytest.mark.parametrize("cliques", [[("a",), ("c",)], [()], []])
def test_cliques_that_hold_nothing_but_the_total_are_refused(cliques: Any) -> None:
    with pytest.raises(WorkloadError, match="nothing was measured inside"):
        Restriction(DOMAIN, cliques, KNOWN)


@pytest.mark.parametrize("cliques", ["a", [3], [("x",)], [("a", "a")]])
def test_what_is_no_clique_is_refused(cliques: Any) -> None:
    with pytest.raises(DomainError):
        Restriction(DOMAIN, cliques, KNOWN)
