import math

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Workload
from hush.mechanisms import Independent
from hush.testing import TinyTable

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
WORKLOAD = Workload.kway(DOMAIN, 2)
TABLE = TinyTable(DOMAIN, [(0, 0, 0), (1, 2, 1), (1, 2, 0), (0, 1, 1)] * 25)


def test_every_column_once_with_equal_noise_whatever_is_asked() -> None:
    budget = Budget(rho=0.03)
    for workload in (WORKLOAD, Workload.marginals(DOMAIN, [("a",)])):
        release = hush.plan(workload, budget, mechanism="independent").release(TABLE)
        assert [table.clique for table in release.noisy_tables] == [("a",), ("b",), ("c",)]
        assert [table.stddev for table in release.noisy_tables] == pytest.approx(
            [math.sqrt(3 / (2 * 0.03))] * 3, rel=1e-6
        )
        assert release.rounds == ()


def test_the_model_is_the_product_of_its_columns() -> None:
    release = Independent().plan(WORKLOAD, Budget(rho=1.0)).release(TABLE)
    model = release.model()
    a, b = model.tables([("a",)])[("a",)], model.tables([("b",)])[("b",)]
    np.testing.assert_allclose(model.tables([("a", "b")])[("a", "b")], np.outer(a, b) / a.sum(), rtol=1e-6)


def test_with_much_budget_the_columns_come_back_and_nothing_else() -> None:
    model = Independent().plan(WORKLOAD, Budget(rho=800.0)).release(TABLE).model()
    np.testing.assert_allclose(model.tables([("b",)])[("b",)], [25, 25, 50], atol=0.1)
    exact = TABLE.counts([("a", "b")])[("a", "b")]
    assert np.abs(model.tables([("a", "b")])[("a", "b")] - exact).sum() == pytest.approx(100, abs=1)
