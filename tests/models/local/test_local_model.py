import itertools
from typing import Any

import numpy as np
import pytest

from hush.core.arrays import Floats
from hush.core.constraints import Constraint
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, DomainError, SizeError, WorkloadError
from hush.inference.factors import Factors
from hush.models.local.local_fit import fit_locally
from hush.models.local.local_model import LocalModel
from hush.privacy.measurement import Measurement

DOMAIN = Domain({"a": 3, "b": 4, "c": 2, "d": 3, "e": 2})
PAIRS: list[Clique] = list(itertools.combinations(("a", "b", "c", "d"), 2))


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def joint() -> Floats:
    """Counts with every pair of a, b, c and d dependent, and e dependent on none."""
    made = np.exp(generator(1).normal(0.0, 0.4, DOMAIN.shape[:4]))
    for i, j in itertools.combinations(range(4), 2):
        shape = [size if axis in (i, j) else 1 for axis, size in enumerate(made.shape)]
        made = made * np.exp(generator(10 * i + j).normal(0.0, 0.8, shape))
    return np.asarray(1000.0 * made[..., None] * np.array([0.5, 0.5]) / made.sum())


def margin(clique: Clique) -> Floats:
    return np.asarray(joint().sum(axis=tuple(i for i, name in enumerate(DOMAIN) if name not in clique)))


def model(cliques: list[Clique], **options: Any) -> LocalModel:
    return fit_locally(DOMAIN, [Measurement(clique, margin(clique), 0.01) for clique in cliques], **options).value


def test_counts_are_in_the_order_asked_for() -> None:
    found = model(PAIRS)
    assert found.covers(("b", "a"))
    assert found.counts(("b", "a")).shape == (4, 3)
    np.testing.assert_allclose(found.counts(("b", "a")), margin(("a", "b")).T, atol=0.02)
    np.testing.assert_allclose(found.counts(("d",)), margin(("d",)), atol=0.02)
    assert found.counts(()) == pytest.approx(1000.0)


def test_tables_inside_no_clique_are_those_of_the_largest_entropy() -> None:
    found = model([("a", "b"), ("b", "c")])
    assert not found.covers(("a", "c"))
    product = margin(("a",))[:, None] * margin(("c",)) / 1000.0
    np.testing.assert_allclose(found.counts(("a", "c")), product, atol=0.05)
    chain = margin(("a", "b"))[:, :, None] * margin(("b", "c")) / margin(("b",))[:, None]
    np.testing.assert_allclose(found.counts(("a", "b", "c")), chain, atol=0.05)
    np.testing.assert_allclose(found.counts(("c", "a", "b")), chain.transpose(2, 0, 1), atol=0.05)


def test_a_loop_is_met_by_its_joint_table() -> None:
    found = model(PAIRS).counts(("a", "b", "c"))
    for axis, pair in enumerate([("b", "c"), ("a", "c"), ("a", "b")]):
        np.testing.assert_allclose(found.sum(axis=axis), margin(pair), atol=0.05)


def test_attributes_of_no_clique_are_uniform() -> None:
    found = model(PAIRS)
    assert not found.covers(("e",))
    np.testing.assert_allclose(found.counts(("e", "c")), np.array([1, 1])[:, None] * margin(("c",)) / 2, atol=0.02)


def test_tables_that_agree_without_a_distribution_are_said_to_be_approximate() -> None:
    domain = Domain({"a": 2, "b": 2, "c": 2})
    unequal, equal = [[0.0, 5.0], [5.0, 0.0]], [[5.0, 0.0], [0.0, 5.0]]
    cliques = [("a", "b"), ("b", "c"), ("a", "c")]
    listed = [Measurement(c, t, 0.01) for c, t in zip(cliques, [equal, equal, unequal], strict=True)]
    found = fit_locally(domain, listed).value
    np.testing.assert_allclose(found.counts(("a", "c")), unequal, atol=0.01)
    assert not found.exact
    assert "approximate" in repr(found)
    assert found.counts(("a", "b", "c")).sum() == pytest.approx(10.0)
    rows = found.synthesize_codes(100, generator())
    assert found.row_error(rows) >= 0.2  # one of the three is missed


def test_rows_have_the_tables_of_a_model_that_fits() -> None:
    found = model(PAIRS)
    rows = found.synthesize_codes(5000, generator())
    assert list(rows) == list(DOMAIN)
    for clique in PAIRS:
        table = np.zeros(DOMAIN.sizes(clique))
        np.add.at(table, tuple(rows[name] for name in clique), 0.2)
        assert np.abs(table - margin(clique)).max() < 5.0
    assert found.row_error(rows) < 0.01


def test_rows_of_a_model_that_does_not_fit_are_repaired_or_left() -> None:
    found = model(PAIRS)
    small = 8e-6 * 24  # room for some pairs only
    assert found.row_model(small).value.size_mb <= small
    drawn = found.synthesize_codes(5000, generator(), max_size_mb=small, passes=0)
    moved = found.synthesize_codes(5000, generator(), max_size_mb=small)
    assert found.row_error(moved) < 0.8 * found.row_error(drawn)
    assert found.row_model(small) is found.row_model(small)


def test_rows_keep_to_constraints() -> None:
    rules = [Constraint.forbid(DOMAIN, ("a", "b"), [(0, 0), (2, 1)]), Constraint.forbid(DOMAIN, ("c", "e"), [(0, 1)])]
    found = model(PAIRS, constraints=rules)
    for size in (8e-6 * 40, 1.0):
        rows = found.synthesize_codes(3000, generator(), max_size_mb=size)
        assert not np.any((rows["a"] == 0) & (rows["b"] == 0))
        assert not np.any((rows["a"] == 2) & (rows["b"] == 1))
        assert not np.any((rows["c"] == 0) & (rows["e"] == 1))


def test_the_same_seeds_give_the_same_rows() -> None:
    first, second = (model(PAIRS).synthesize_codes(200, generator(3), max_size_mb=3e-4) for _ in range(2))
    assert all((first[name] == second[name]).all() for name in DOMAIN)


def test_no_rows_and_one_clique() -> None:
    found = model([("a",)])
    assert len(found.synthesize_codes(0, generator())["a"]) == 0
    rows = found.synthesize_codes(1000, generator())
    np.testing.assert_allclose(np.bincount(rows["a"]), margin(("a",)), atol=1.5)
    assert set(rows) == set(DOMAIN)


def test_tables_inside_others_are_dropped() -> None:
    factors = Factors(DOMAIN, [("a",), ("a", "c")])
    tables = np.concatenate([[2.0, 2.0, 4.0], [1.0, 1.0, 1.0, 1.0, 2.0, 2.0]])
    found = LocalModel.of_tables(factors, tables, 8.0)
    assert found.cliques == (("a", "c"),)
    assert found.counts(("a",)).tolist() == [2.0, 2.0, 4.0]
    assert found.size_mb == pytest.approx(48e-6)


def test_bad_input_is_refused() -> None:
    found = model(PAIRS)
    with pytest.raises(DomainError, match="not in the domain"):
        found.counts(("age",))
    with pytest.raises(WorkloadError, match="max_size_mb=0"):
        found.row_model(0)
    with pytest.raises(WorkloadError, match="passes=-1"):
        found.synthesize_codes(10, generator(), passes=-1)
    with pytest.raises(DataError, match="an array for every attribute"):
        found.row_error({"a": np.zeros(3, dtype=np.uint8)})
    wide = Domain({f"a{i}": 1000 for i in range(12)})
    large = fit_locally(wide, [Measurement(("a0",), np.ones(1000), 1.0)]).value
    with pytest.raises(SizeError, match="ask for fewer attributes"):
        large.counts(wide.attributes)
