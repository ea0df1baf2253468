import numpy as np
import pytest

from hush import Domain
from hush.core.errors import DomainError, SizeError
from hush.inference.estimates import ZeroEstimates
from hush.linops import Identity, Prefix

DOMAIN = Domain({"a": 2, "b": 3})


def test_every_answer_is_zero_and_no_error_is_known() -> None:
    zeros = ZeroEstimates(DOMAIN, [("a",), ("a", "b"), ("b",)])
    assert zeros.cliques == (("a", "b"),)
    assert zeros.counts(("b", "a")).tolist() == [[0.0, 0.0]] * 3
    values, variances = zeros.product(("a", "b"), [Identity(2), Prefix(3)])
    assert values.shape == variances.shape == (2, 3)
    assert not values.any()
    ones = np.ones((2, 3))
    covariance = zeros.covariance(("a", "b"), ones, ones, 1)
    assert covariance.shape == (2,)
    assert np.isnan([*variances.ravel(), *covariance]).all()
    assert zeros.error_law(("a", "b"), ones) is None


def test_unknown_columns_and_tables_beyond_memory_are_refused() -> None:
    with pytest.raises(DomainError, match="'z'"):
        ZeroEstimates(DOMAIN, []).covers(("z",))
    wide = Domain({f"c{i}": 1000 for i in range(5)})
    with pytest.raises(SizeError, match="fewer columns"):
        ZeroEstimates(wide, []).counts(tuple(wide))
