"""Unbiased estimates from whole tables and plain residuals: generalised least squares over every cell, written out."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dense_twins import DenseEstimates
from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, WorkloadError
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.inference.residual_estimates import NoisySource, ResidualEstimates
from hush.linops import AllRange, Identity, Prefix
from hush.models.fit_arguments import estimate_total
from hush.privacy.gate import MarginalQuery
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian
from hush.strategies.residual_strategy import is_residual, marginal_noise, plain_residual

DOMAIN = Domain({"a": 2, "one": 1, "b": 3, "c": 4})
VARYING = ("a", "b", "c")
INSIDE: list[Clique] = [clique for k in range(4) for clique in itertools.combinations(VARYING, k)]
EVERY: list[Clique] = [order for k in range(4) for order in itertools.permutations(DOMAIN, k)]
Chosen = list[tuple[Clique, float]]


def matrix(clique: Clique) -> Floats:
    """The marginal over a clique, in its order, as a matrix over the cells of the domain."""
    codes = np.unravel_index(np.arange(DOMAIN.size()), DOMAIN.shape)
    places = np.zeros(DOMAIN.size(), dtype=np.int64)
    for name in clique:
        places = places * DOMAIN[name] + codes[DOMAIN.attributes.index(name)]
    return np.asarray(np.eye(DOMAIN.size(clique))[places].T)


def residual_matrix(clique: Clique) -> Floats:
    """The table over a clique without its means along every axis."""
    centre = np.ones((1, 1))
    for size in DOMAIN.sizes(clique):
        centre = np.kron(centre, np.eye(size) - 1 / size)
    return np.asarray(centre @ matrix(clique))


def measured(whole: Chosen, alone: Chosen, seed: int) -> list[Measurement]:
    """Answers of the gate: integers with the discrete law of their noise."""
    random = np.random.default_rng(seed)
    answers = []
    for clique, stddev in whole:
        raw = random.integers(-50, 50, DOMAIN.sizes(clique))
        answers.append(Measurement.of(MarginalQuery(clique), raw, DiscreteGaussian(Fraction(stddev) ** 2)))
    for clique, stddev in alone:
        query = plain_residual(DOMAIN, clique)
        raw = random.integers(-50, 50, DOMAIN.sizes(clique))
        answers.append(Measurement.of(query, raw, DiscreteGaussian((Fraction(stddev) * query.scale) ** 2)))
    return answers


def least_squares(listed: list[Measurement]) -> DenseEstimates:
    """Generalised least squares over the cells of the whole domain, written out."""
    rows = np.concatenate(
        [residual_matrix(one.clique) if is_residual(one.asked) else matrix(one.clique) for one in listed]
    )
    precisions = np.concatenate([np.full(one.numbers, one.stddev**-2) for one in listed])
    noisy = np.concatenate([one.values.ravel() for one in listed])
    inverse = np.linalg.pinv(rows.T @ (rows * precisions[:, None]), rcond=1e-11, hermitian=True)
    return DenseEstimates(DOMAIN, inverse @ (rows.T @ (precisions * noisy)), inverse)


def known(whole: Chosen, alone: Chosen) -> set[Clique]:
    """The tables all of whose subsets are inside a whole table or a measured residual, written out."""
    residuals = {inner for clique, _ in whole for k in range(len(clique) + 1) for inner in powerset(clique, k)}
    residuals |= {clique for clique, _ in alone}
    return {
        clique
        for clique in INSIDE
        if all(inner in residuals for k in range(len(clique) + 1) for inner in powerset(clique, k))
    }


def powerset(clique: Clique, order: int) -> list[Clique]:
    ordered = tuple(name for name in VARYING if name in clique)
    return list(itertools.combinations(ordered, order))


STDDEVS = st.sampled_from([0.5, 1.0, 5.0])
WHOLE = st.lists(st.tuples(st.sampled_from([clique for clique in EVERY if len(clique) < 3]), STDDEVS), max_size=3)
ALONE = st.lists(st.tuples(st.sampled_from([clique for clique in INSIDE if clique]), STDDEVS), max_size=6)


@settings(max_examples=60, deadline=None)
@given(WHOLE, ALONE, st.integers(0, 99), st.data())
def test_is_generalised_least_squares(whole: Chosen, alone: Chosen, seed: int, data: st.DataObject) -> None:
    whole = [*whole, (("a",), 2.0)]
    listed = data.draw(st.permutations(measured(whole, alone, seed)))
    found = UnbiasedEstimates(DOMAIN, listed)
    covered = known(whole, alone)
    for clique in EVERY:
        assert found.covers(clique) == (DOMAIN.clique(DOMAIN.varying(clique)) in covered), clique
    twin = least_squares(listed)
    clique = data.draw(st.sampled_from([clique for clique in EVERY if found.covers(clique)]))
    np.testing.assert_allclose(found.counts(clique), twin.counts(clique), rtol=1e-8, atol=1e-8)
    first, second = np.random.default_rng(seed).normal(size=(2, *DOMAIN.sizes(clique)))
    for groups in range(len(clique) + 1):
        own, other = (each.covariance(clique, first, second, groups) for each in (found, twin))
        np.testing.assert_allclose(own, other, rtol=1e-8, atol=1e-8)
    ones = np.ones(DOMAIN.sizes(clique))
    np.testing.assert_allclose(twin.covariance(clique, ones, ones, len(clique)), found.variance(clique), rtol=1e-8)
    blocks = [data.draw(st.sampled_from([Identity, Prefix, AllRange]))(size) for size in DOMAIN.sizes(clique)]
    for own, other in zip(found.product(clique, blocks), twin.product(clique, blocks), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-8, atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(WHOLE, ALONE, st.data())
def test_the_error_law_and_the_largest_variance_are_those_of_the_cells(
    whole: Chosen, alone: Chosen, data: st.DataObject
) -> None:
    whole = [*whole, (("b",), 2.0)]
    listed = measured(whole, alone, 1)
    laws = data.draw(st.sampled_from([None, [one.law for one in listed]]))
    found, twin = UnbiasedEstimates(DOMAIN, listed, laws), least_squares(listed)
    clique = data.draw(st.sampled_from(sorted(known(whole, alone))))
    coefficients = np.random.default_rng(2).normal(size=DOMAIN.sizes(clique))
    variance = float(twin.covariance(clique, coefficients, coefficients, 0))
    law = found.error_law(clique, coefficients)
    assert law is not None
    assert law.stddev == pytest.approx(variance**0.5, rel=1e-7, abs=1e-9)
    rows = matrix(clique)
    dense = np.linalg.eigvalsh(rows @ twin.cell_covariance @ rows.T)  # type: ignore[arg-type]
    assert found.largest_variance(clique) == pytest.approx(dense.max(), rel=1e-8)


def test_a_whole_table_and_a_residual_of_the_same_clique_are_averaged() -> None:
    listed = measured([(("a", "b"), 3.0)], [(("a", "b"), 1.0), (("a", "b"), 2.0)], 5)
    found = UnbiasedEstimates(DOMAIN, listed)
    together = 1 / (1 / 9 + 1 + 1 / 4)
    assert found.varying.strategy.sigma_squared_of(("a", "b")) == pytest.approx(together)
    assert found.varying.strategy.sigma_squared_of(("a",)) == pytest.approx(27.0)  # summed over b, from the whole table
    table, first, second = (one.values.astype(float) for one in listed)

    def centred(values: Floats) -> Floats:
        values = values - values.mean(axis=0)
        return np.asarray(values - values.mean(axis=1, keepdims=True))

    average = together * (centred(table) / 9 + centred(first) + centred(second) / 4)
    np.testing.assert_allclose(found.counts(("a", "b")), table - centred(table) + average)
    np.testing.assert_allclose(found.counts(("a",)), table.sum(axis=1))


def test_a_residual_whose_smaller_tables_are_unknown_is_left_out() -> None:
    columns: Chosen = [(("a",), 1.0), (("b",), 1.0)]
    alone = [(("a", "b"), 1.0), (("b", "c"), 1.0), (("a", "b", "c"), 1.0)]
    listed = measured(columns, alone, 3)  # nothing says how rows spread over c
    found = UnbiasedEstimates(DOMAIN, listed)
    assert found.cliques == (("a", "b"),)
    assert not any(found.covers(clique) for clique in EVERY if "c" in clique)
    with pytest.raises(WorkloadError, match="nothing about it was measured"):
        found.counts(("b", "c"))
    without = UnbiasedEstimates(DOMAIN, listed[:3])
    np.testing.assert_array_equal(found.counts(("a", "b")), without.counts(("a", "b")))
    assert found.variance(("a", "b")) == without.variance(("a", "b"))
    assert len(found.varying._sources or ()) == 3


def test_the_order_of_residuals_does_not_matter() -> None:
    columns: Chosen = [((name,), 1.0) for name in VARYING]
    alone = [(clique, 2.0) for clique in reversed(INSIDE) if len(clique) > 1]  # the triple before its pairs
    found = UnbiasedEstimates(DOMAIN, measured(columns, alone, 4))
    assert found.cliques == (VARYING,)
    listed = measured(columns, alone, 4)
    np.testing.assert_allclose(found.counts(VARYING), least_squares(listed).counts(VARYING), atol=1e-9)


def test_residuals_alone_determine_no_total() -> None:
    listed = measured([], [(("a",), 1.0), (("a", "b"), 1.0)], 0)
    with pytest.raises(DataError, match="no measurement determines the total number of rows"):
        estimate_total(DOMAIN, listed)


def test_residuals_without_a_table_are_refused_in_words() -> None:
    with pytest.raises(DataError):
        UnbiasedEstimates(DOMAIN, measured([], [(("a",), 1.0), (("a", "b"), 1.0)], 0))


def test_residuals_do_not_move_the_estimated_total() -> None:
    columns = measured([(("a",), 1.0), (("b",), 0.5)], [], 6)
    columns = [Measurement(one.clique, one.values + 100.0, one.stddev) for one in columns]
    residuals = measured([], [(("a",), 0.1), (("a", "b"), 0.1)], 7)
    assert estimate_total(DOMAIN, [*columns, *residuals]) == pytest.approx(estimate_total(DOMAIN, columns))
    found = UnbiasedEstimates(DOMAIN, [*columns, *residuals])
    assert float(found.counts(())) == pytest.approx(estimate_total(DOMAIN, columns)[0])
    assert found.variance(()) == pytest.approx(estimate_total(DOMAIN, columns)[1] ** 2)


def test_the_noise_of_residuals_adds_precision_to_their_own_set_alone() -> None:
    whole = [(("a",), 4.0), (("b",), 9.0)]
    base = marginal_noise(DOMAIN, [*whole, (("a", "b"), 5.0)])
    more = marginal_noise(DOMAIN, [*whole, (("a", "b"), 5.0)], residuals=[(("a", "b"), 2.0)])
    for clique in ((), ("a",), ("b",)):
        assert more.sigma_squared_of(clique) == base.sigma_squared_of(clique)
    assert 1 / more.sigma_squared_of(("a", "b")) == pytest.approx(1 / base.sigma_squared_of(("a", "b")) + 1 / 2)


@pytest.mark.parametrize("clique", [("a",), ("b", "c"), ("a", "b", "c"), ("c", "a")])
def test_a_plain_residual_is_the_table_without_its_means(clique: Clique) -> None:
    query = plain_residual(DOMAIN, clique)
    cells = np.random.default_rng(8).integers(0, 30, DOMAIN.size())
    table = (matrix(clique) @ cells).reshape(DOMAIN.sizes(clique)).astype(np.int64)
    answer = query.answer({clique: table})
    np.testing.assert_allclose(answer.ravel() / query.scale, residual_matrix(clique) @ cells, atol=1e-12)
    assert query.scale == DOMAIN.size(clique)
    assert is_residual(query)
    assert not is_residual(MarginalQuery(clique))
    assert not is_residual(None)


def test_the_error_of_a_cell_looks_at_the_residuals_of_its_own_subsets_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of residuals a few count; the tests above show that the law is the same."""
    looked, original = [], ResidualEstimates._part

    def part(self: ResidualEstimates, source: NoisySource, *how: Any) -> Any:
        looked.append(source.clique)
        return original(self, source, *how)

    monkeypatch.setattr(ResidualEstimates, "_part", part)
    alone = [(clique, 2.0) for clique in INSIDE if len(clique) in (1, 2)]
    estimates = UnbiasedEstimates(DOMAIN, measured([((), 1.0)], alone, 1))
    estimates.error_law(("a", "b"), np.ones((2, 3)))
    assert sorted(looked) == [(), ("a",), ("a", "b"), ("b",)]
