import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dense_twins import DenseEstimates
from hush import queries
from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, SizeError, WorkloadError
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.inference.estimates import Estimates
from hush.linops import AllRange, Dense, Identity, Prefix
from hush.models.fit_arguments import estimate_total
from hush.privacy.measurement import Measurement

DOMAIN = Domain({"a": 2, "one": 1, "b": 3, "c": 4})
CLIQUES = [order for k in range(4) for order in itertools.permutations(DOMAIN, k)]


def matrix(clique: Clique) -> Floats:
    """The marginal over a clique, in its order, as a matrix over the cells of the domain."""
    codes = np.unravel_index(np.arange(DOMAIN.size()), DOMAIN.shape)
    places = np.zeros(DOMAIN.size(), dtype=np.int64)
    for name in clique:
        places = places * DOMAIN[name] + codes[DOMAIN.attributes.index(name)]
    return np.asarray(np.eye(DOMAIN.size(clique))[places].T)


def least_squares(listed: list[Measurement]) -> DenseEstimates:
    """Generalised least squares over the cells of the whole domain, written out."""
    rows = np.concatenate([matrix(one.clique) for one in listed])
    precisions = np.concatenate([np.full(one.numbers, one.stddev**-2) for one in listed])
    noisy = np.concatenate([one.values.ravel() for one in listed])
    inverse = np.linalg.pinv(rows.T @ (rows * precisions[:, None]), rcond=1e-11, hermitian=True)
    cells = inverse @ (rows.T @ (precisions * noisy))
    return DenseEstimates(DOMAIN, cells, inverse, tuple(one.clique for one in listed))


def tables(chosen: list[tuple[Clique, float]], seed: int) -> list[Measurement]:
    random = np.random.default_rng(seed)
    return [Measurement(clique, random.normal(size=DOMAIN.sizes(clique)) * 9, stddev) for clique, stddev in chosen]


CHOSEN = st.lists(st.tuples(st.sampled_from(CLIQUES), st.sampled_from([0.2, 1.0, 5.0])), min_size=1, max_size=5)


@settings(max_examples=60)
@given(CHOSEN, st.integers(0, 99), st.data())
def test_is_generalised_least_squares(chosen: list[tuple[Clique, float]], seed: int, data: st.DataObject) -> None:
    listed = tables(chosen, seed)
    found: Estimates = UnbiasedEstimates(DOMAIN, listed)
    dense = least_squares(listed)
    inside = [clique for clique in CLIQUES if any(set(clique) <= {*one.clique, "one"} for one in listed)]
    assert [clique for clique in CLIQUES if found.covers(clique)] == inside
    clique = data.draw(st.sampled_from(inside))
    twin = DenseEstimates(DOMAIN, dense.table, dense.cell_covariance)
    np.testing.assert_allclose(found.counts(clique), twin.counts(clique), rtol=1e-8, atol=1e-8)
    random = np.random.default_rng(seed)
    first, second = random.normal(size=(2, *DOMAIN.sizes(clique)))
    groups = data.draw(st.integers(0, len(clique)))
    np.testing.assert_allclose(
        found.covariance(clique, first, second, groups), twin.covariance(clique, first, second, groups), atol=1e-8
    )
    ones = np.ones(DOMAIN.sizes(clique))
    variances = found.covariance(clique, ones, ones, len(clique))
    np.testing.assert_allclose(variances, UnbiasedEstimates(DOMAIN, listed).variance(clique), rtol=1e-9)
    blocks = [data.draw(st.sampled_from([Identity, Prefix, AllRange]))(size) for size in DOMAIN.sizes(clique)]
    for own, other in zip(found.product(clique, blocks), twin.product(clique, blocks), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-8, atol=1e-8)
    assert found.for_sums(clique, first, groups) is None


@settings(max_examples=40)
@given(CHOSEN, st.data())
def test_the_largest_variance_is_an_eigenvalue(chosen: list[tuple[Clique, float]], data: st.DataObject) -> None:
    listed = tables(chosen, 0)
    found = UnbiasedEstimates(DOMAIN, listed)
    clique = data.draw(st.sampled_from([clique for clique in CLIQUES if found.covers(clique)]))
    rows = matrix(clique)
    dense = np.linalg.eigvalsh(rows @ least_squares(listed).cell_covariance @ rows.T)  # type: ignore[arg-type]
    assert found.largest_variance(clique) == pytest.approx(dense.max(), rel=1e-8)
    assert found.largest_variance(clique) >= found.variance(clique) * (1 - 1e-9)


def test_the_largest_cliques() -> None:
    listed = tables([(("b", "a"), 1.0), (("a",), 1.0), (("c", "one"), 1.0)], 0)
    assert UnbiasedEstimates(DOMAIN, listed).cliques == (("c",), ("a", "b"))


def test_a_block_on_the_only_level() -> None:
    found = UnbiasedEstimates(DOMAIN, [Measurement(("a",), [3.0, 5.0], 2.0)])
    values, variances = found.product(("one", "a"), [Dense([[2.0], [-1.0]]), Identity(2)])
    np.testing.assert_allclose(values, [[6, 10], [-3, -5]])
    np.testing.assert_allclose(variances, [[16, 16], [4, 4]])


def test_agrees_with_the_estimated_total() -> None:
    listed = tables([(("a", "b"), 1.0), (("c",), 0.3), ((), 5.0)], 3)
    listed = [Measurement(one.clique, one.values + 100, one.stddev) for one in listed]
    found = UnbiasedEstimates(DOMAIN, listed)
    total, stddev = estimate_total(DOMAIN, listed)
    assert found.counts(()) == pytest.approx(total)
    assert found.variance(()) == pytest.approx(stddev**2)


def test_what_is_refused() -> None:
    with pytest.raises(WorkloadError, match=r"the measurement of \('a',\) has a query: expected a table measured cell"):
        UnbiasedEstimates(DOMAIN, [Measurement(("a",), [1.0, 2.0], 1.0, {"a": queries.prefix})])
    with pytest.raises(DataError, match="no measurements"):
        UnbiasedEstimates(DOMAIN, [])
    found = UnbiasedEstimates(DOMAIN, tables([(("a",), 1.0)], 0))
    with pytest.raises(WorkloadError, match="nothing about it was measured"):
        found.counts(("b",))
    with pytest.raises(WorkloadError, match="1 query blocks for 2 attributes; give one each"):
        found.product(("a", "one"), [Identity(2)])


def test_too_many_attributes_of_several_levels_are_refused() -> None:
    domain = Domain({**{f"a{i}": 2 for i in range(13)}, "one": 1})
    with pytest.raises(SizeError, match=r"13 attributes of several levels: .* 12 at most; ask `marginal`"):
        UnbiasedEstimates(domain, [Measurement(tuple(domain), np.zeros(2**13), 1.0)])
