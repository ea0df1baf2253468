"""Estimates from linear strategies against the dense matrices they stand for."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dense_twins import DenseEstimates
from hush.core.domain import Domain
from hush.core.errors import DataError, WorkloadError
from hush.inference.best_unbiased import combine_marginals
from hush.inference.linear_estimates import GlobalEstimates, LocalEstimates
from hush.inference.residual_estimates import covariance_of
from hush.linops import Dense, Identity, LevelsAndTotal, Prefix
from hush.privacy.measurement import Measurements
from hush.strategies.axis_strategy import AxisStrategy
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.product_strategy import ProductStrategy, Recovery
from hush.strategies.strategy import NoiseKind
from hush.workloads import ProductTerm, Workload

RANDOM = np.random.Generator(np.random.PCG64(11))
DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
MATRIX = np.vstack([7 * np.eye(4, dtype=int), RANDOM.integers(0, 6, (2, 4))])
JOINT = np.vstack([5 * np.eye(6, dtype=int), RANDOM.integers(-2, 3, (3, 6))])


def product(groups, factors, cost=Fraction(1, 3), noise=NoiseKind.GAUSSIAN) -> ProductStrategy:
    return ProductStrategy(groups, tuple(DOMAIN.sizes(group) for group in groups), factors, cost, noise)


PRODUCT = product(
    (("a",), ("b",), ("c",)),
    (AxisStrategy(LevelsAndTotal(3, levels=5, total=2)), AxisStrategy(Identity(2)), AxisStrategy.of(MATRIX, 4)),
)
GROUPED = product(
    (("a", "b"), ("c",)), (AxisStrategy.of(JOINT, 1), AxisStrategy.of(MATRIX, 4)), noise=NoiseKind.LAPLACE
)


def dense_strategy(own: ProductStrategy) -> np.ndarray:
    """The product's matrix over the whole domain of its clique."""
    matrix = np.ones((1, 1))
    for factor in own.factors:
        matrix = np.kron(matrix, factor.measure(np.eye(factor.size, dtype=np.int64), 0) / factor.scale)
    return matrix


def dense_twin(own: ProductStrategy, answers: np.ndarray) -> DenseEstimates:
    q = dense_strategy(own)
    inverse = np.linalg.pinv(q)
    return DenseEstimates(DOMAIN, inverse @ answers.ravel() / own.query.scale, own.variance * inverse @ inverse.T)


@pytest.mark.parametrize("own", [PRODUCT, GROUPED], ids=["product", "grouped"])
def test_local_estimates_are_least_squares_with_exact_covariances(own: ProductStrategy) -> None:
    strategy = LinearStrategy(DOMAIN, (own,), Recovery.LOCAL, "test")
    answers = Measurements(strategy)
    answers[0] = RANDOM.integers(-50, 50, own.query.shape)
    twin, estimates = dense_twin(own, answers[0]), LocalEstimates(answers)
    assert estimates.cliques == (DOMAIN.attributes,)
    for size in range(4):
        for clique in itertools.permutations(DOMAIN, size):
            assert estimates.covers(clique)
            np.testing.assert_allclose(estimates.counts(clique), twin.counts(clique), atol=1e-8)
            first, second = RANDOM.normal(size=(2, *DOMAIN.sizes(clique)))
            for groups in range(size + 1):
                np.testing.assert_allclose(
                    estimates.covariance(clique, first, second, groups),
                    twin.covariance(clique, first, second, groups),
                    atol=1e-8,
                )
            blocks = [Prefix(n) if n > 2 else Identity(n) for n in DOMAIN.sizes(clique)]
            for found, wanted in zip(estimates.product(clique, blocks), twin.product(clique, blocks), strict=True):
                np.testing.assert_allclose(found, wanted, atol=1e-8)
            term = ProductTerm(clique, tuple(blocks))
            np.testing.assert_allclose(strategy.term_variances(term), twin.product(clique, blocks)[1], atol=1e-8)
            assert strategy.total_variance(term) == pytest.approx(twin.product(clique, blocks)[1].sum())


def test_each_question_goes_to_the_part_that_knows_it_best() -> None:
    wide = product((("a",), ("b",)), (AxisStrategy(Identity(3)), AxisStrategy(Identity(2))), Fraction(1, 10))
    narrow = product((("a",),), (AxisStrategy(Identity(3)),), Fraction(1, 2))
    strategy = LinearStrategy(DOMAIN, (wide, narrow), Recovery.LOCAL, "test")
    answers = Measurements(strategy)
    answers[0] = np.arange(6).reshape(3, 2)
    answers[1] = np.array([100, 200, 300])
    estimates = LocalEstimates(answers)
    np.testing.assert_array_equal(estimates.counts(("a",)), [100, 200, 300])
    np.testing.assert_array_equal(estimates.counts(("b", "a")), np.arange(6).reshape(3, 2).T)
    assert not estimates.covers(("c",))
    assert estimates.cliques == (("a", "b"),)
    asked = Workload.marginals(DOMAIN, [("a",), ("a", "b")], weights=[2.0, 1.0])
    errors = strategy.errors(asked)
    np.testing.assert_allclose(errors.means, [narrow.variance, wide.variance])
    assert errors.rmse == pytest.approx(np.sqrt((6 * narrow.variance + 6 * wide.variance) / 12))
    assert errors.largest == pytest.approx(wide.variance)


def test_unsupported_queries_are_refused() -> None:
    halves = product((("c",),), (AxisStrategy.of([[1, 1, 0, 0], [0, 0, 1, 1]], 1),))
    strategy = LinearStrategy(DOMAIN, (halves,), Recovery.LOCAL, "test")
    with pytest.raises(WorkloadError, match="does not support the queries on c"):
        _ = strategy.errors(Workload.marginals(DOMAIN, [("c",)])).rmse
    answers = Measurements(strategy)
    answers[0] = np.array([3, 4])
    estimates = LocalEstimates(answers)
    assert not estimates.covers(("c",))
    assert estimates.covers(())
    values, variances = estimates.product(("c",), [Dense([[2, 2, 0, 0]])])
    assert values.item() == pytest.approx(6.0)
    assert variances.item() == pytest.approx(4 * halves.variance)
    with pytest.raises(WorkloadError, match="cannot be answered from what was measured"):
        estimates.counts(("c",))
    with pytest.raises(DataError, match="expected integers of shape"):
        answers[0] = np.array([1.0, 2.0])


@pytest.mark.parametrize("tilted", [False, True], ids=["plain", "tilted"])
def test_marginals_together_are_weighted_least_squares_over_all_of_them(tilted: bool) -> None:
    factors = {name: AxisStrategy(Identity(size)) for name, size in zip(DOMAIN, DOMAIN.shape, strict=True)}
    if tilted:
        factors |= {"a": AxisStrategy(LevelsAndTotal(3, levels=3, total=2)), "c": AxisStrategy.of(MATRIX, 4)}
    costs = {("a", "b"): Fraction(1, 3), ("b", "c"): Fraction(1, 5), ("a",): Fraction(1), (): Fraction(1, 7)}
    products = tuple(
        product(tuple((name,) for name in clique), tuple(factors[name] for name in clique), cost)
        for clique, cost in costs.items()
    )
    strategy = LinearStrategy(DOMAIN, products, Recovery.MARGINALS, "test")
    answers = Measurements(strategy)
    rows, noisy, weights = [], [], []
    for index, own in enumerate(products):
        answers[index] = RANDOM.integers(0, 40, own.query.shape)
        matrix = np.ones((1, 1))
        for name, size in zip(DOMAIN, DOMAIN.shape, strict=True):
            own_rows = factors[name].scaled.dense() if name in own.clique else np.ones((1, size))
            matrix = np.kron(matrix, own_rows)
        rows.append(matrix)
        noisy.append(answers[index].ravel() / own.query.scale)
        weights.append(np.full(len(matrix), 1 / own.variance))
    q, y, w = np.concatenate(rows), np.concatenate(noisy), np.concatenate(weights)
    inverse = np.linalg.pinv(q.T @ (w[:, None] * q))
    held = (("a", "b"), ("b", "c"))
    twin = DenseEstimates(DOMAIN, inverse @ (q.T @ (w * y)), inverse, cliques=held)
    estimates = combine_marginals(answers)
    assert set(estimates.cliques) == set(held)
    for clique in [("a", "b"), ("c", "b"), ("b",), ("a",), ("c",), ()]:
        np.testing.assert_allclose(estimates.counts(clique), twin.counts(clique), atol=1e-8)
        first, second = RANDOM.normal(size=(2, *DOMAIN.sizes(clique)))
        for groups in range(len(clique) + 1):
            np.testing.assert_allclose(
                estimates.covariance(clique, first, second, groups),
                twin.covariance(clique, first, second, groups),
                atol=1e-8,
            )
        blocks = tuple(Prefix(n) for n in DOMAIN.sizes(clique))
        np.testing.assert_allclose(
            strategy.term_variances(ProductTerm(clique, blocks)), twin.product(clique, blocks)[1], atol=1e-8
        )
    asked = Workload.marginals(DOMAIN, [("a", "b"), ("c",)]) + Workload.product(DOMAIN, {"b": Prefix, "c": Prefix})
    sums = [twin.product(term.clique, term.blocks)[1] for term in asked]
    errors = strategy.errors(asked)
    np.testing.assert_allclose(errors.totals, [own.sum() for own in sums])
    assert errors.largest == pytest.approx(max(own.max() for own in sums))
    combination = [(("a", "b"), RANDOM.normal(size=(3, 2))), (("c", "b"), RANDOM.normal(size=(4, 2))), ((), 2.0)]
    spread = (
        sum(
            np.broadcast_to(own.reshape([DOMAIN[n] if n in c else 1 for n in DOMAIN]), DOMAIN.shape)
            for c, own in [(("a", "b"), combination[0][1]), (("b", "c"), combination[1][1].T)]
        )
        + 2.0
    )
    assert covariance_of(strategy.residual, combination, combination) == pytest.approx(
        spread.ravel() @ inverse @ spread.ravel()
    )
    corner, beside = np.zeros((3, 2)), np.zeros((2, 4))
    corner[0, 0] = beside[0, 1] = 1.0
    between = covariance_of(strategy.residual, [(("a", "b"), corner)], [(("b", "c"), beside)])
    assert between == pytest.approx(twin_covariance(inverse, {"a": 0, "b": 0}, {"b": 0, "c": 1}))
    outer = np.multiply.outer(np.ones(2), np.arange(4.0))
    weighted = [(("b", "c"), outer)]
    assert covariance_of(strategy.residual, weighted, weighted) == pytest.approx(
        twin.covariance(("c",), np.arange(4.0), np.arange(4.0), 0)
    )
    assert not strategy.supports(ProductTerm(("a", "c"), (Identity(3), Identity(4))))


def twin_covariance(inverse: np.ndarray, first: dict, second: dict) -> float:
    """The covariance of two cells of marginals from that of all cells."""
    masks = []
    for cell in (first, second):
        mask = np.ones(())
        for name, size in zip(DOMAIN, DOMAIN.shape, strict=True):
            mask = np.multiply.outer(mask, np.eye(size)[cell[name]] if name in cell else np.ones(size))
        masks.append(mask.ravel())
    return float(masks[0] @ inverse @ masks[1])


@pytest.mark.parametrize("noise", list(NoiseKind))
def test_noise_is_the_least_within_the_cost(noise: NoiseKind) -> None:
    own = product((("c",),), (AxisStrategy.of(MATRIX, 4),), Fraction(1, 9), noise)
    l1, l2 = np.abs(MATRIX).sum(axis=0).max(), (MATRIX**2).sum(axis=0).max()
    wanted = l2 / (2 / 9) if noise is NoiseKind.GAUSSIAN else 2 * (l1 * 9) ** 2
    assert own.variance == pytest.approx(wanted / 16, rel=1e-3)


@pytest.mark.parametrize("small", [True, False], ids=["matrix", "iterative"])
def test_global_estimates_are_weighted_least_squares_over_all_parts(small: bool, monkeypatch) -> None:
    if not small:
        monkeypatch.setattr("hush.strategies.linear_strategy.LARGEST_MATRIX", 1)
    levels = product(
        (("a",), ("b",)),
        (AxisStrategy(LevelsAndTotal(3, levels=5, total=2)), AxisStrategy(Identity(2))),
        Fraction(1, 4),
    )
    ages = product((("c",),), (AxisStrategy.of(MATRIX, 4),), Fraction(1, 2))
    both = product((("b",), ("c",)), (AxisStrategy(Identity(2)), AxisStrategy.of(MATRIX, 4)), Fraction(1, 8))
    strategy = LinearStrategy(DOMAIN, (levels, ages, both), Recovery.GLOBAL, "test")
    answers = Measurements(strategy)
    rows, noisy, weights = [], [], []
    for index, own in enumerate(strategy):
        answers[index] = RANDOM.integers(0, 90, own.query.shape)
        matrix = np.ones((1, 1))
        for name, size in zip(DOMAIN, DOMAIN.shape, strict=True):
            inside = name in own.clique
            factor = own.factors[own.clique.index(name)] if inside else None
            matrix = np.kron(matrix, factor.scaled.dense() if factor else np.ones((1, size)))
        rows.append(matrix)
        noisy.append(answers[index].ravel() / own.query.scale)
        weights.append(np.full(len(matrix), 1 / own.variance))
    q, y, w = np.concatenate(rows), np.concatenate(noisy), np.concatenate(weights)
    inverse = np.linalg.pinv(q.T @ (w[:, None] * q))
    held = (("a", "b"), ("b", "c"))
    twin = DenseEstimates(DOMAIN, inverse @ (q.T @ (w * y)), inverse, cliques=held)
    estimates = GlobalEstimates(answers)
    assert set(estimates.cliques) == set(held)
    assert not estimates.covers(("a", "c"))
    for clique in [("a", "b"), ("c", "b"), ("b",), ("a",), ("c",), ()]:
        np.testing.assert_allclose(estimates.counts(clique), twin.counts(clique), atol=1e-6)
        first, second = RANDOM.normal(size=(2, *DOMAIN.sizes(clique)))
        for groups in range(len(clique) + 1):
            np.testing.assert_allclose(
                estimates.covariance(clique, first, second, groups),
                twin.covariance(clique, first, second, groups),
                rtol=1e-6,
                atol=1e-8,
            )
        blocks = [Prefix(n) for n in DOMAIN.sizes(clique)]
        for found, wanted in zip(estimates.product(clique, blocks), twin.product(clique, blocks), strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-6)
    with pytest.raises(WorkloadError, match="cannot be answered from what was measured"):
        estimates.counts(("a", "c"))
    if small:
        term = ProductTerm(("b", "c"), (Identity(2), Prefix(4)))
        _, variances = twin.product(term.clique, term.blocks)
        np.testing.assert_allclose(strategy.term_variances(term), variances, atol=1e-8)
        assert strategy.total_variance(term) == pytest.approx(variances.sum())
        local = LinearStrategy(DOMAIN, strategy.products, Recovery.LOCAL, "test")
        assert strategy.total_variance(term) < local.total_variance(term)


def test_sums_that_a_part_supports_are_answered_without_its_cells() -> None:
    """Halves of c by every level of b: half of c, grouped by b, is known; a single level of c is not."""
    halves = product((("b",), ("c",)), (AxisStrategy(Identity(2)), AxisStrategy.of([[1, 1, 0, 0], [0, 0, 1, 1]], 1)))
    strategy = LinearStrategy(DOMAIN, (halves,), Recovery.LOCAL, "test")
    answers = Measurements(strategy)
    answers[0] = np.array([[3, 4], [5, 6]])
    estimates = LocalEstimates(answers)
    asked = np.broadcast_to(np.array([1.0, 1.0, 0.0, 0.0]), (2, 4))
    found = estimates.for_sums(("b", "c"), asked, 1)
    np.testing.assert_allclose((found.counts(("b", "c")) * asked).sum(axis=1), [3, 5])
    np.testing.assert_allclose(found.covariance(("b", "c"), asked, asked, 1), [halves.variance] * 2)
    whole = np.ones((2, 4))
    total = estimates.for_sums(("b", "c"), whole, 0)
    assert total.covariance(("b", "c"), whole, whole, 0) == pytest.approx(4 * halves.variance)
    assert estimates.for_sums(("b", "c"), np.broadcast_to(np.array([1.0, 0.0, 0.0, 0.0]), (2, 4)), 1) is None
    assert estimates.for_sums(("c",), np.ones(4), 1) is None
    assert estimates.for_sums(("a",), np.ones(3), 0) is None
    together = GlobalEstimates(answers)
    found = together.for_sums(("b", "c"), asked, 1)
    np.testing.assert_allclose((found.counts(("b", "c")) * asked).sum(axis=1), [3, 5])
    np.testing.assert_allclose(found.covariance(("b", "c"), asked, asked, 1), [halves.variance] * 2)
    assert together.for_sums(("c",), np.ones(4), 1) is None
    with pytest.raises(WorkloadError, match="cannot be answered"):
        together.counts(("b", "c"))
