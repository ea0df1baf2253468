"""Relaxed rows answer as the mixture of products that they are."""

from __future__ import annotations

import numpy as np
import pytest

from hush.core.domain import Domain
from hush.core.errors import DomainError, WorkloadError
from hush.linops import Identity, Prefix
from hush.models.relaxed.relaxed_rows import CoarseLevels, RelaxedRows
from hush.testing import check_operator
from hush.workloads.threshold_term import TargetRow

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})
CODES = {"a": np.array([0, 1, 0]), "b": np.arange(4), "c": np.arange(2)}
SHARES = {"a": np.array([0.25, 1.0, 0.75]), "b": np.ones(4), "c": np.ones(2)}


@pytest.fixture
def rows() -> RelaxedRows:
    generator = np.random.Generator(np.random.PCG64(5))
    coarse = CoarseLevels(DOMAIN, CODES, SHARES)
    blocks = [generator.dirichlet(np.ones(size), 7) for size in coarse.sizes]
    return RelaxedRows(coarse, np.concatenate(blocks, axis=1), 70.0, weights=generator.dirichlet(np.ones(7)))


def joint(rows: RelaxedRows) -> np.ndarray:  # type: ignore[type-arg]
    whole = [rows.coarse.spread(name, rows.block(name)) for name in DOMAIN]
    return 70.0 * np.einsum("r,ra,rb,rc->abc", rows.weights, *whole)


def test_every_table_is_one_of_the_same_distribution(rows: RelaxedRows) -> None:
    whole = joint(rows)
    assert rows.counts(("a", "b", "c")) == pytest.approx(whole)
    assert rows.counts(("c", "a")) == pytest.approx(whole.sum(axis=1).T)
    assert rows.counts(("b",)) == pytest.approx(whole.sum(axis=(0, 2)))
    assert float(rows.counts(())) == pytest.approx(70.0)
    assert rows.many([("a",)])[("a",)] == pytest.approx(whole.sum(axis=(1, 2)))


def test_products_are_those_of_the_table(rows: RelaxedRows) -> None:
    expected = np.cumsum(joint(rows).sum(axis=2), axis=1)
    assert rows.product(("a", "b"), [Identity(3), Prefix(4)]) == pytest.approx(expected)
    with pytest.raises(WorkloadError, match="1 query blocks for 2 attributes"):
        rows.product(("a", "b"), [Identity(3)])


def test_conditions_keep_what_meets_them(rows: RelaxedRows) -> None:
    part = rows.conditioned({"a": [1, 2], "c": 0})
    expected = joint(rows)
    expected[0] = 0
    expected[:, :, 1] = 0
    assert part.counts(("a", "b", "c")) == pytest.approx(expected)
    assert part.total == pytest.approx(expected.sum())
    with pytest.raises(DomainError, match="probability zero"):
        RelaxedRows(rows.coarse, np.array([[1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]]), 9.0).conditioned({"a": 1})


@pytest.mark.parametrize("method", ["rounding", "sampling"])
def test_drawn_rows_have_the_model_as_their_mean(rows: RelaxedRows, method: str) -> None:
    """Each of 24 cells is a mean of 20,000 rows: 6 standard errors fail with a probability below 1e-7 in all."""
    count = 20_000
    codes = rows.synthesize_codes(count, np.random.Generator(np.random.PCG64(8)), method=method)  # type: ignore[arg-type]
    cells = np.ravel_multi_index([codes[name].astype(np.int64) for name in DOMAIN], DOMAIN.shape)
    share = np.bincount(cells, minlength=24) / count
    p = joint(rows).reshape(-1) / 70
    assert (np.abs(share - p) <= 6 * np.sqrt(p * (1 - p) / count) + 1e-9).all()
    assert not (np.abs(share - np.roll(p, 1)) <= 6 * np.sqrt(p * (1 - p) / count)).all()  # a control that must fail
    if method == "rounding":
        for name, axis in (("b", 1), ("c", 2)):
            exact = joint(rows).sum(axis=tuple({0, 1, 2} - {axis})) / 70 * count
            assert np.abs(np.bincount(codes[name]) - exact).max() <= 2 * len(rows.rows)


def test_a_target_row_is_an_operator() -> None:
    for at_least in (1, 2, 3):
        check_operator(TargetRow((2, 3, 2), (1, 2, 0), at_least))
    with pytest.raises(WorkloadError, match="expected a level of each attribute"):
        TargetRow((2, 3), (1, 3), 1)
