"""Non-negative least squares against a dense active-set solver, its certificate, and both ways to fit a release."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from hush.core.domain import Domain
from hush.core.errors import ConvergenceError, SizeError, WorkloadError
from hush.inference.best_unbiased import combine_marginals
from hush.inference.linear_estimates import GlobalEstimates, LinearMeasurements, LocalEstimates
from hush.inference.nonnegative_cells import block_answers, measured_clique, nonnegative_cells, nonnegative_squares
from hush.linops import AllRange, Dense, Equivalent, Identity, LevelsAndTotal, Prefix, Total
from hush.privacy.measurement import Measurements
from hush.strategies.axis_strategy import AxisStrategy
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.product_strategy import ProductStrategy, Recovery
from hush.strategies.strategy import NoiseKind
from hush.workloads import ProductTerm, Workload

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
TREE = np.vstack([np.eye(4, dtype=int), [[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]]])
HAAR = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]])
FINE = {"tolerance": 1e-8}


def product(groups, factors, cost=Fraction(1, 3)) -> ProductStrategy:
    return ProductStrategy(groups, tuple(DOMAIN.sizes(group) for group in groups), factors, cost, NoiseKind.GAUSSIAN)


def plain(clique: tuple[str, ...], cost: Fraction) -> ProductStrategy:
    return product(
        tuple((name,) for name in clique), tuple(AxisStrategy(Identity(DOMAIN[name])) for name in clique), cost
    )


UNION = (
    product(
        (("a",), ("b",)),
        (AxisStrategy(LevelsAndTotal(3, levels=5, total=2)), AxisStrategy(Identity(2))),
        Fraction(1, 4),
    ),
    product((("c",),), (AxisStrategy.of(TREE, 1),), Fraction(1, 2)),
    product((("b",), ("c",)), (AxisStrategy(Identity(2)), AxisStrategy.of(HAAR, 1)), Fraction(1, 8)),
)
GROUPED = (product((("a", "b"), ("c",)), (AxisStrategy(Identity(6)), AxisStrategy.of(TREE, 1))),)
MARGINALS = tuple(
    plain(clique, cost) for clique, cost in {("a", "b"): Fraction(1, 3), ("b", "c"): Fraction(1, 5)}.items()
)
CASES = {
    "local": (UNION, Recovery.LOCAL, LocalEstimates),
    "global": (UNION, Recovery.GLOBAL, GlobalEstimates),
    "one": (GROUPED, Recovery.LOCAL, LocalEstimates),
    "marginals": (MARGINALS, Recovery.MARGINALS, combine_marginals),
}
ASKED = Workload(
    DOMAIN,
    [
        ProductTerm(("b", "c"), (Identity(2), Prefix(4)), 2.0),
        ProductTerm(("a",), (AllRange(3),), 0.5),
        ProductTerm(("c", "b"), (Dense([[1, -1, 0, 0], [1, 1, 1, 2]]), Total(2))),
        ProductTerm(("c",), (Equivalent(np.eye(4) + 1, queries=16),)),
        ProductTerm((), ()),
    ],
)


def noisy(products: tuple[ProductStrategy, ...], recovery: Recovery, seed: int) -> LinearMeasurements:
    """Answers with many negative estimates."""
    random = np.random.Generator(np.random.PCG64(seed))
    answers = Measurements(LinearStrategy(DOMAIN, products, recovery, "test"))
    for index, own in enumerate(products):
        answers[index] = random.integers(-12, 13, own.query.shape)
    return answers


def over_all(clique: tuple[str, ...], matrices: list[np.ndarray]) -> np.ndarray:
    """A product of matrices on a clique in domain order, as a matrix over the whole domain."""
    own, made = dict(zip(clique, matrices, strict=True)), np.ones((1, 1))
    for name, size in zip(DOMAIN, DOMAIN.shape, strict=True):
        made = np.kron(made, own.get(name, np.ones((1, size))))
    return made


def dense_problem(answers: LinearMeasurements, estimates, method: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows and targets of the least squares problem, weights multiplied in."""
    rows, targets = [], []
    if method == "nnls":
        for index, own in enumerate(answers.strategy):
            matrix = np.ones((1, 1))
            for name, size in zip(DOMAIN, DOMAIN.shape, strict=True):
                heads = [group for group in own.groups if group[0] == name]
                if name not in own.clique:
                    matrix = np.kron(matrix, np.ones((1, size)))
                elif heads:
                    factor = own.factors[own.groups.index(heads[0])]
                    matrix = np.kron(matrix, factor.scaled.dense())
            rows.append(matrix / math.sqrt(own.variance))
            targets.append(answers[index].ravel() / own.query.scale / math.sqrt(own.variance))
    else:
        for term in ASKED:
            order = sorted(range(len(term.clique)), key=lambda i, term=term: DOMAIN.attributes.index(term.clique[i]))
            values, _ = estimates.product(term.clique, term.blocks)
            clique = tuple(term.clique[i] for i in order)
            rows.append(over_all(clique, [term.blocks[i].dense() for i in order]) * math.sqrt(term.weight))
            targets.append(np.transpose(values, order).ravel() * math.sqrt(term.weight))
    return np.concatenate(rows), np.concatenate(targets)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", ["hybrid", "nnls"])
@pytest.mark.parametrize("case", list(CASES))
def test_cells_are_the_non_negative_least_squares_of_the_dense_problem(case: str, method: str, seed: int) -> None:
    products, recovery, kind = CASES[case]
    answers = noisy(products, recovery, seed)
    estimates = kind(answers)
    solution = nonnegative_cells(answers, estimates, ASKED, method=method, **FINE)
    x = solution.checked()
    a, y = dense_problem(answers, estimates, method)
    wanted, _ = nnls(a, y)
    assert x.shape == DOMAIN.shape
    assert x.min() >= 0
    np.testing.assert_allclose(a @ x.ravel(), a @ wanted, atol=1e-5 * np.linalg.norm(y))
    assert np.linalg.norm(a @ (x.ravel() - wanted)) <= solution.stats["distance"] + 1e-9 * np.linalg.norm(y)
    gradient = a.T @ (a @ x.ravel() - y)
    scale = np.abs(a.T @ y).max()
    assert gradient.min() >= -1e-5 * scale
    assert np.abs(x.ravel() * gradient).max() <= 1e-5 * scale * max(1.0, x.max())
    assert x.min() == 0 or np.abs(gradient).max() <= 1e-5 * scale


@settings(max_examples=60)
@given(
    rows=st.integers(1, 12),
    columns=st.integers(1, 10),
    seed=st.integers(0, 10**6),
    signed=st.booleans(),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_the_certificate_holds_and_is_reached(rows: int, columns: int, seed: int, signed: bool, scale: float) -> None:
    """Rank-deficient problems too; the distance that is certified is never below the true one."""
    random = np.random.Generator(np.random.PCG64(seed))
    a = random.integers(-2 if signed else 0, 4, (rows, columns)).astype(float)
    y = random.normal(size=rows) * scale
    best, _ = nnls(a, y)
    solution = nonnegative_squares(lambda x: a.T @ (a @ x), a.T @ y, accuracy=1e-5 * scale)
    assert solution.solved
    assert solution.value.min() >= 0
    true = np.linalg.norm(a @ (solution.value - best))
    assert true <= 1e-4 * scale
    assert true <= solution.stats["distance"] + 1e-8 * scale


def test_a_loose_stop_is_certified_as_loose() -> None:
    """With an accuracy of a half the point is off the optimum by no more than is said, and by more than rounding."""
    random = np.random.Generator(np.random.PCG64(5))
    a, y = np.tri(60), np.cumsum(random.normal(size=60) + 0.5)
    best, _ = nnls(a, y)
    solution = nonnegative_squares(lambda x: a.T @ (a @ x), a.T @ y, accuracy=0.5)
    true = np.linalg.norm(a @ (solution.value - best))
    assert 1e-6 < true <= solution.stats["distance"] <= 0.5


def test_what_was_not_reached_is_said() -> None:
    a = np.tri(60)
    y = np.sin(np.arange(60.0)) * 10
    solution = nonnegative_squares(lambda x: a.T @ (a @ x), a.T @ y, accuracy=1e-9, iterations=25)
    assert not solution.solved
    with pytest.raises(ConvergenceError, match="raise iterations"):
        solution.checked()


def test_identity_measurements_are_clipped_by_nnls_and_not_by_hybrid() -> None:
    answers = noisy((plain(("a", "b", "c"), Fraction(1, 3)),), Recovery.LOCAL, 3)
    estimates = LocalEstimates(answers)
    x = nonnegative_cells(answers, estimates, ASKED, method="nnls", **FINE).checked()
    np.testing.assert_allclose(x, np.maximum(answers[0], 0), atol=1e-6)
    total = Workload(DOMAIN, [ProductTerm((), ())])
    y = nonnegative_cells(answers, estimates, total, method="hybrid", **FINE).checked()
    assert y.sum() == pytest.approx(max(0.0, float(answers[0].sum())), abs=1e-5)


@pytest.mark.parametrize("case", ["local", "one", "marginals"])
def test_answers_of_non_negative_data_are_kept(case: str) -> None:
    """Next to exact answers from data with many empty cells: hybrid gives the least squares answers back."""
    products, recovery, kind = CASES[case]
    random = np.random.Generator(np.random.PCG64(8))
    counts = random.integers(0, 3, DOMAIN.shape) * 10
    answers = Measurements(LinearStrategy(DOMAIN, products, recovery, "test"))
    for index, own in enumerate(products):
        gone = tuple(axis for axis, name in enumerate(DOMAIN) if name not in own.clique)
        tensor = counts.sum(axis=gone).reshape([factor.size for factor in own.factors])
        for axis, factor in enumerate(own.factors):
            tensor = factor.measure(tensor, axis)
        answers[index] = tensor
    estimates = kind(answers)
    x = nonnegative_cells(answers, estimates, ASKED, **FINE).checked()
    for term in ASKED:
        found = block_answers(measured_clique(answers), x, term)
        np.testing.assert_allclose(found, estimates.product(term.clique, term.blocks)[0], atol=1e-4)


def test_only_measured_attributes_have_axes() -> None:
    answers = noisy((UNION[1],), Recovery.LOCAL, 1)
    asked = Workload.product(DOMAIN, {"c": Prefix})
    assert measured_clique(answers) == ("c",)
    assert nonnegative_cells(answers, LocalEstimates(answers), asked).checked().shape == (4,)


def test_queries_that_do_not_support_every_cell_can_be_fitted() -> None:
    halves = product((("c",),), (AxisStrategy.of([[1, 1, 0, 0], [0, 0, 1, 1]], 1),))
    answers = Measurements(LinearStrategy(DOMAIN, (halves,), Recovery.LOCAL, "test"))
    answers[0] = np.array([-3, 8])
    asked = Workload(DOMAIN, [ProductTerm(("c",), (Dense([[1, 1, 0, 0], [1, 1, 1, 1]]),))])
    x = nonnegative_cells(answers, LocalEstimates(answers), asked, **FINE).checked()
    np.testing.assert_allclose([x[:2].sum(), x[2:].sum()], [0, 5], atol=1e-4)
    y = nonnegative_cells(answers, LocalEstimates(answers), asked, method="nnls", **FINE).checked()
    np.testing.assert_allclose([y[:2].sum(), y[2:].sum()], [0, 8], atol=1e-4)


def test_bad_input_is_refused_before_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = noisy(UNION, Recovery.LOCAL, 0)
    estimates = LocalEstimates(answers)
    with pytest.raises(WorkloadError, match="method='best': expected one of 'hybrid', 'nnls'"):
        nonnegative_cells(answers, estimates, ASKED, method="best")
    with pytest.raises(WorkloadError, match="does not support the queries on a, c"):
        nonnegative_cells(answers, estimates, Workload.marginals(DOMAIN, [("a", "c")]))
    with pytest.raises(WorkloadError, match="before anything was measured"):
        nonnegative_cells(Measurements(answers.strategy), estimates, ASKED)
    with pytest.raises(WorkloadError, match="accuracy=0"):
        nonnegative_squares(lambda x: x, np.ones(2), accuracy=0)
    with pytest.raises(WorkloadError, match="expected a vector of finite numbers"):
        nonnegative_squares(lambda x: x, np.array([np.nan]), accuracy=1)
    monkeypatch.setattr("hush.core.memory.UNCHECKED_BYTES", 0)
    monkeypatch.setattr("hush.core.memory.available_memory", lambda: 1000)
    with pytest.raises(SizeError, match="kind='nonnegative'"):
        nonnegative_cells(answers, estimates, ASKED)
