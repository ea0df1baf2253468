import numpy as np
import pytest

from hush.core.domain import Domain
from hush.core.errors import DomainError, SizeError, WorkloadError
from hush.inference.factors import Factors

DOMAIN = Domain({"a": 2, "b": 3, "c": 4, "one": 1})


def test_cliques_in_domain_order_without_repetitions() -> None:
    factors = Factors(DOMAIN, [("c", "a"), (), ("b",), ("a", "c"), ("one",)])
    assert factors.cliques == (("a", "c"), (), ("b",), ("one",))
    assert factors.offsets.tolist() == [0, 8, 9, 12, 13]
    assert factors.offsets.dtype == np.int64
    assert (factors.size, len(factors)) == (13, 4)
    assert [factors.shape(i) for i in range(4)] == [(2, 4), (), (3,), (1,)]
    assert factors.index(("c", "a")) == 0
    assert ("b",) in factors
    assert ("a", "b") not in factors
    assert repr(factors) == "Factors(4 cliques, 13 cells)"


def test_tables_are_views() -> None:
    factors = Factors(DOMAIN, [("a", "b"), ("c",)])
    flat = np.arange(10.0)
    factors.table(flat, 1)[2] = -1
    factors.tables(flat)[0][1, 2] = -2
    assert flat.tolist() == [0, 1, 2, 3, 4, -2, 6, 7, -1, 9]
    assert flat[factors.span(1)].tolist() == [6, 7, -1, 9]


def test_equality() -> None:
    one, same = Factors(DOMAIN, [("a",), ("b",)]), Factors(DOMAIN, [("a",), ("b",), ("a",)])
    assert one == same
    assert hash(one) == hash(same)
    assert one != Factors(DOMAIN, [("b",), ("a",)])
    assert one != Factors(Domain({"a": 2, "b": 3}), [("a",), ("b",)])


def test_misfits_are_refused() -> None:
    with pytest.raises(DomainError, match="'d' is not in the domain"):
        Factors(DOMAIN, [("d",)])
    with pytest.raises(WorkloadError, match=r"\('c',\) is not among the 1 cliques; add it"):
        Factors(DOMAIN, [("a",)]).index(("c",))
    wide = Domain({f"x{i}": 10 for i in range(20)})
    with pytest.raises(SizeError, match="use smaller cliques"):
        Factors(wide, [wide.attributes])


def test_more_attributes_than_arrays_have_axes_are_refused() -> None:
    domain = Domain({f"a{i}": 1 for i in range(64)})
    with pytest.raises(SizeError, match="64 attributes: expected 63 at most; leave out those of one level"):
        Factors(domain, [tuple(domain)])
    factors = Factors(domain, [tuple(domain)[1:]])
    assert factors.table(np.ones(1), 0).ndim == 63
