import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hush import queries
from hush.core.arrays import Floats
from hush.core.domain import Domain
from hush.core.errors import DataError, DomainError, HushError, SizeError, WorkloadError
from hush.inference.factors import Factors
from hush.linops import AllRange, Dense, Identity, Kronecker, LinearOperator, Prefix, Stack, Total, WidthRange
from hush.linops.combination import Reordered
from hush.models.graphical import likelihood
from hush.models.graphical.likelihood import (
    EIGENVALUE_MARGIN,
    AbsoluteLoss,
    CustomLoss,
    HuberLoss,
    MarginalLoss,
    SquaredLoss,
    SumLoss,
    largest_eigenvalue,
    loss_of,
)
from hush.privacy import measurement
from hush.privacy.measurement import Measurement

DOMAIN = Domain({"a": 2, "b": 3, "c": 4, "one": 1})
CLIQUES = [order for k in range(4) for order in itertools.permutations(DOMAIN, k)]
KINDS = ["table", "flat", "prefix", "blocks", "matrix"]
RANDOM = np.random.default_rng(2)
OPERATORS: list[LinearOperator] = [
    Identity(5),
    Total(7),
    Prefix(30),
    AllRange(12),
    WidthRange(20, 6),
    -3.0 * Prefix(9),
    Kronecker([Prefix(4), AllRange(3), Identity(2)]),
    Reordered(Dense(RANDOM.normal(size=(5, 24))), (2, 3, 4), (2, 0, 1)),
    Dense(RANDOM.normal(size=(40, 25))),
    Stack([Identity(10), Prefix(10)]),
]


def measured(clique: tuple[str, ...], kind: str, seed: int, stddev: float, noise: Any = "gaussian") -> Measurement:
    random = np.random.default_rng(seed)
    cells = DOMAIN.size(clique)
    block = [queries.prefix, queries.ranges, queries.identity][seed % 3]
    query: Any = {
        "table": None,
        "flat": None,
        "prefix": Prefix(cells),
        "blocks": dict.fromkeys(clique, block),
        "matrix": Dense(random.normal(size=(4, cells))),
    }[kind]
    values = random.normal(size=written_out(clique, query).shape[0]) * 3
    return Measurement(
        clique, values.reshape(DOMAIN.sizes(clique)) if kind == "table" else values, stddev, query, noise
    )


def written_out(clique: tuple[str, ...], query: Any) -> Floats:
    """The matrix of a query on the flat table over a clique in its own order."""
    if isinstance(query, LinearOperator):
        return query.dense()
    product = np.ones((1, 1))
    for name in clique:
        product = np.kron(product, np.eye(DOMAIN[name]) if query is None else query[name](DOMAIN[name]).dense())
    return product


MEASUREMENTS = st.lists(
    st.builds(
        measured,
        st.sampled_from(CLIQUES),
        st.sampled_from(KINDS),
        st.integers(0, 999),
        st.sampled_from([0.5, 1.0, 3.0]),
        st.sampled_from(["gaussian", "laplace"]),
    ),
    min_size=1,
    max_size=5,
)
SEEDS = st.integers(0, 999)


def plain_loss(
    listed: list[Measurement], factors: Factors, flat: Floats, cost: Callable[[Floats, float], float]
) -> float:
    """The loss by its formula: each table in the measurement's own order, the query written out."""
    total = 0.0
    for one in listed:
        ordered = DOMAIN.clique(one.clique)
        table = factors.table(flat, factors.index(ordered))
        own = table.transpose([ordered.index(name) for name in one.clique]).ravel()
        total += cost(written_out(one.clique, one.query) @ own - one.values.ravel(), one.stddev)
    return total


def squared(t: Floats, s: float) -> float:
    return float(t @ t) / (2 * s**2)


def paper(t: Floats, s: float) -> float:
    return float(t @ t) / s


def absolute(t: Floats, s: float) -> float:
    return math.sqrt(2) / s * float(np.abs(t).sum())


def huber(t: Floats, s: float, width: float = 0.7) -> float:
    w = width * s
    return math.sqrt(2) / s * float(np.where(np.abs(t) <= w, t**2 / (2 * w), np.abs(t) - w / 2).sum())


def evaluated(loss: MarginalLoss, flat: Floats) -> tuple[float, Floats]:
    gradient = np.full(loss.factors.size, np.nan)
    return loss.value_and_gradient(flat, gradient), gradient


def everything(listed: list[Measurement]) -> Factors:
    """Factors of all cliques as given, those summed out among them."""
    return Factors(DOMAIN, [(), *(one.clique for one in listed), *(one.on(DOMAIN).clique for one in listed)])


def smooth_losses(listed: list[Measurement]) -> list[tuple[MarginalLoss, Callable[[Floats, float], float]]]:
    factors = everything(listed)
    return [
        (SquaredLoss(DOMAIN, listed, factors=factors), squared),
        (SquaredLoss(DOMAIN, listed, "paper", factors=factors), paper),
        (AbsoluteLoss(DOMAIN, listed, factors=factors).smoothed(0.7), huber),
    ]


def losses(listed: list[Measurement]) -> list[tuple[MarginalLoss, Callable[[Floats, float], float]]]:
    return [*smooth_losses(listed), (AbsoluteLoss(DOMAIN, listed, factors=everything(listed)), absolute)]


@given(MEASUREMENTS, SEEDS)
def test_values_are_those_of_the_formulas(listed: list[Measurement], seed: int) -> None:
    flat = np.random.default_rng(seed).normal(size=everything(listed).size) * 3
    for loss, cost in losses(listed):
        value, _ = evaluated(loss, flat)
        assert value == pytest.approx(plain_loss(listed, loss.factors, flat, cost), rel=1e-12)
        assert loss.value(flat) == value
        parts = [plain_loss([one], loss.factors, flat, cost) for one in listed]
        assert loss.parts(flat) == pytest.approx(parts, rel=1e-12)
        assert loss.numbers == sum(one.numbers for one in listed)


@given(MEASUREMENTS, SEEDS)
def test_gradients_are_differences_of_values(listed: list[Measurement], seed: int) -> None:
    random = np.random.default_rng(seed)
    flat = random.normal(size=everything(listed).size) * 3
    direction = random.normal(size=flat.size)
    h = 1e-5
    for loss, _ in smooth_losses(listed):
        _, gradient = evaluated(loss, flat)
        slope = (loss.value(flat + h * direction) - loss.value(flat - h * direction)) / (2 * h)
        assert gradient @ direction == pytest.approx(slope, rel=1e-5, abs=1e-4)


@given(MEASUREMENTS, SEEDS)
def test_every_loss_lies_above_its_tangents(listed: list[Measurement], seed: int) -> None:
    here, there = np.random.default_rng(seed).normal(size=(2, everything(listed).size)) * 3
    for loss, _ in losses(listed):
        value, gradient = evaluated(loss, here)
        assert loss.value(there) >= value + gradient @ (there - here) - 1e-9 * abs(value)


@given(MEASUREMENTS, SEEDS)
def test_curvatures_are_differences_of_gradients(listed: list[Measurement], seed: int) -> None:
    random = np.random.default_rng(seed)
    flat = random.normal(size=everything(listed).size) * 3
    direction = random.normal(size=flat.size)
    h = 1e-7
    for loss, _ in smooth_losses(listed):
        found = loss.curvature(flat, direction)
        after, before = evaluated(loss, flat + h * direction)[1], evaluated(loss, flat - h * direction)[1]
        np.testing.assert_allclose(found, (after - before) / (2 * h), rtol=1e-4, atol=1e-4 * loss.lipschitz)
        out = np.full(flat.size, np.nan)
        assert loss.curvature(flat, direction, out) is out
        np.testing.assert_array_equal(out, found)


@settings(max_examples=50)
@given(MEASUREMENTS, SEEDS)
def test_bounds_of_the_hessian(listed: list[Measurement], seed: int) -> None:
    flat = np.random.default_rng(seed).normal(size=everything(listed).size) * 3
    assume(flat.size <= 60)
    for loss, _ in smooth_losses(listed):
        hessian = np.array([loss.curvature(flat, unit) for unit in np.eye(flat.size)])
        np.testing.assert_allclose(hessian, hessian.T, atol=1e-10 * loss.lipschitz)
        assert np.linalg.eigvalsh(hessian)[-1] <= loss.lipschitz * (1 + 1e-12)
        assert (np.diag(hessian) <= loss.diagonal(flat) * (1 + 1e-12)).all()


@given(MEASUREMENTS, SEEDS)
def test_diagonals_of_squares_are_exact(listed: list[Measurement], seed: int) -> None:
    loss = SquaredLoss(DOMAIN, listed)
    flat = np.random.default_rng(seed).normal(size=loss.factors.size)
    cell = seed % flat.size
    unit = np.eye(flat.size)[cell]
    assert loss.diagonal(flat)[cell] == pytest.approx(unit @ loss.curvature(flat, unit), rel=1e-10)


def test_the_bound_is_exact_for_tables_and_single_queries() -> None:
    tables = [
        Measurement(("a",), [1.0, 2.0], 0.5),
        Measurement(("a",), [1.0, 2.0], 1.0),
        measured(("b",), "table", 1, 2.0),
    ]
    assert SquaredLoss(DOMAIN, tables).lipschitz == pytest.approx(5)
    assert SquaredLoss(DOMAIN, tables, "paper").lipschitz == pytest.approx(6)
    query = measured(("c",), "prefix", 1, 0.5)
    largest = np.linalg.eigvalsh(np.tri(4).T @ np.tri(4))[-1]
    assert SquaredLoss(DOMAIN, [query]).lipschitz == pytest.approx(4 * largest)
    both = [query, measured(("c",), "table", 1, 1.0)]
    assert SquaredLoss(DOMAIN, both).lipschitz == pytest.approx(4 * largest + 1)


def test_columns_too_many_to_go_through_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Dense(np.tri(4)) @ Dense(np.tri(4))
    listed = [Measurement(("c",), np.ones(4), 0.5, query)]
    exact = SquaredLoss(DOMAIN, listed).diagonal(np.ones(4))
    np.testing.assert_allclose(exact, 4 * (query.dense() ** 2).sum(axis=0))
    monkeypatch.setattr(likelihood, "MOST_NORMED_COLUMNS", 0)
    loss = SquaredLoss(DOMAIN, listed)
    assert loss.diagonal(np.ones(4)).tolist() == pytest.approx([loss.lipschitz] * 4)
    assert (loss.diagonal(np.ones(4)) > exact).all()


def test_tables_of_a_clique_are_merged_without_a_difference() -> None:
    random = np.random.default_rng(3)
    listed = [Measurement(("a", "c"), random.normal(size=(2, 4)), s) for s in (0.1, 1.0, 7.0)]
    listed += [Measurement(("c", "a"), random.normal(size=(4, 2)), 2.0)]
    merged = SquaredLoss(DOMAIN, listed)
    assert len(merged._blocks) == 1
    apart = SumLoss([SquaredLoss(DOMAIN, [one]) for one in listed])
    for _ in range(5):
        flat = random.normal(size=8)
        value, gradient = evaluated(merged, flat)
        other, slope = evaluated(apart, flat)
        assert value == pytest.approx(other, rel=1e-13)
        np.testing.assert_allclose(gradient, slope, rtol=1e-12)
        assert sum(merged.parts(flat)) == pytest.approx(value, rel=1e-13)


def test_neighbouring_tables_go_together_and_large_ones_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likelihood, "BLOCK_CELLS", 5)
    listed = [measured(clique, "table", 7, stddev) for clique, stddev in [(("a",), 1.0), (("b",), 1.0), (("c",), 2.0)]]
    listed += [measured(("a", "b", "c"), "table", 1, 1.0), measured(("one",), "prefix", 1, 1.0)]
    for loss, cost in losses(listed):
        flat = np.random.default_rng(0).normal(size=loss.factors.size)
        assert evaluated(loss, flat)[0] == pytest.approx(plain_loss(listed, loss.factors, flat, cost))
    spans = [(block.cells.start, block.cells.stop) for block in SquaredLoss(DOMAIN, listed)._blocks]
    assert spans == [(0, 5), (5, 9), (9, 14), (14, 19), (19, 24), (24, 29), (29, 33)]


@given(MEASUREMENTS, SEEDS, st.sampled_from([1e-3, 0.1, 2.0]))
def test_the_smoothed_loss_is_within_its_gap(listed: list[Measurement], seed: int, width: float) -> None:
    loss = AbsoluteLoss(DOMAIN, listed)
    close = loss.smoothed(width)
    assert close.gap == pytest.approx(loss.numbers * width / math.sqrt(2))
    flat = np.random.default_rng(seed).normal(size=loss.factors.size)
    exact, found = loss.value(flat), close.value(flat)
    assert found - 1e-9 <= exact <= found + close.gap + 1e-9


def test_the_gap_is_attained() -> None:
    loss = AbsoluteLoss(DOMAIN, [Measurement(("a",), [0.0, 0.0], 2.0)])
    close = loss.smoothed(0.5)
    far = np.array([9.0, -9.0])
    assert loss.value(far) - close.value(far) == pytest.approx(close.gap)


def test_loss_by_noise() -> None:
    normal, heavy = measured(("a",), "table", 1, 1.0), measured(("b",), "table", 2, 1.0, "laplace")
    assert type(loss_of(DOMAIN, [normal])) is SquaredLoss
    assert type(loss_of(DOMAIN, [heavy])) is AbsoluteLoss
    mixed = loss_of(DOMAIN, [heavy, normal])
    assert type(mixed) is SumLoss
    assert mixed.factors.cliques == (("b",), ("a",))
    flat = np.arange(5.0)
    value, gradient = evaluated(mixed, flat)
    assert value == pytest.approx(squared(flat[3:] - normal.values, 1.0) + absolute(flat[:3] - heavy.values, 1.0))
    np.testing.assert_allclose(gradient[3:], flat[3:] - normal.values)
    np.testing.assert_allclose(gradient[:3], math.sqrt(2) * np.sign(flat[:3] - heavy.values))
    assert (mixed.smooth, mixed.lipschitz, mixed.numbers) == (False, math.inf, 5)
    assert sum(mixed.parts(flat)) == pytest.approx(value)
    assert type(loss_of(DOMAIN, [heavy, normal], "gaussian")) is SquaredLoss
    assert type(loss_of(DOMAIN, [heavy, normal], "laplace")) is AbsoluteLoss
    assert loss_of(DOMAIN, [normal], "paper").value(flat[:2]) == paper(flat[:2] - normal.values, 1.0)
    assert loss_of(DOMAIN, [normal], mixed) is mixed


def test_sums_of_smooth_losses() -> None:
    listed = [measured(("a", "b"), "table", 1, 1.0), measured(("b",), "prefix", 2, 0.5)]
    factors = Factors(DOMAIN, [("a", "b"), ("b",)])
    together = SquaredLoss(DOMAIN, listed)
    apart = SumLoss([SquaredLoss(DOMAIN, [one], factors=factors) for one in listed])
    flat, vector = np.arange(9.0), np.ones(9)
    np.testing.assert_allclose(apart.curvature(flat, vector), together.curvature(flat, vector))
    np.testing.assert_allclose(apart.diagonal(flat), together.diagonal(flat))
    assert apart.smooth
    assert apart.lipschitz >= together.lipschitz


def test_any_function_of_the_measured_tables() -> None:
    listed = [measured(("b", "a"), "table", 1, 1.0), measured(("a", "b"), "table", 2, 2.0)]

    def likelihood(tables: list[Floats]) -> tuple[float, list[Floats]]:
        gaps = [table - one.values for table, one in zip(tables, listed, strict=True)]
        weights = [one.stddev**-2 for one in listed]
        value = sum(w * float((gap**2).sum()) / 2 for w, gap in zip(weights, gaps, strict=True))
        return value, [w * gap for w, gap in zip(weights, gaps, strict=True)]

    flat = np.random.default_rng(1).normal(size=6)
    value, gradient = evaluated(loss_of(DOMAIN, listed, likelihood), flat)
    wanted, slope = evaluated(SquaredLoss(DOMAIN, listed), flat)
    assert value == pytest.approx(wanted)
    np.testing.assert_allclose(gradient, slope)


ONE = measured(("a",), "table", 1, 1.0)
REFUSED: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: SquaredLoss(DOMAIN, []), DataError, r"no measurements: expected at least one hush.Measurement\("),
    (lambda: SquaredLoss(DOMAIN, ONE), DataError, "a single measurement: expected a list"),  # type: ignore[arg-type]
    (lambda: AbsoluteLoss(DOMAIN, [np.ones(2)]), DataError, r"is not a measurement: expected hush.Measurement\("),  # type: ignore[list-item]
    (lambda: SquaredLoss(DOMAIN, [ONE], "mle"), WorkloadError, "weighting='mle': expected 'likelihood' or 'paper'"),  # type: ignore[arg-type]
    (lambda: SquaredLoss(DOMAIN, [Measurement(("x",), [1.0], 1.0)]), DomainError, "'x' is not in the domain"),
    (lambda: SquaredLoss(DOMAIN, [ONE], factors=Factors(DOMAIN, [("b",)])), WorkloadError, "not among the 1 cliques"),
    (
        lambda: SquaredLoss(DOMAIN, [ONE], factors=Factors(Domain({"a": 2}), [("a",)])),
        WorkloadError,
        "factors of the same domain",
    ),
    (lambda: AbsoluteLoss(DOMAIN, [ONE]).smoothed(0.0), WorkloadError, r"width=0\.0: expected a number above 0 of"),
    (
        lambda: AbsoluteLoss(DOMAIN, [ONE]).curvature(np.ones(2), np.ones(2)),
        NotImplementedError,
        "no second derivative",
    ),
    (lambda: AbsoluteLoss(DOMAIN, [ONE]).diagonal(np.ones(2)), NotImplementedError, "check `smooth` before asking"),
    (lambda: loss_of(DOMAIN, [ONE], "l2"), WorkloadError, "loss='l2': expected 'auto', 'gaussian', 'laplace', 'paper'"),  # type: ignore[arg-type]
    (lambda: loss_of(DOMAIN, []), DataError, "no measurements"),
    (lambda: loss_of(Domain({"a": 2}), [ONE], SquaredLoss(DOMAIN, [ONE])), DomainError, "over the domain of the"),
    (lambda: SumLoss([]), WorkloadError, "a sum of losses needs at least one"),
    (
        lambda: SumLoss([SquaredLoss(DOMAIN, [ONE]), SquaredLoss(DOMAIN, [measured(("b",), "table", 1, 1.0)])]),
        WorkloadError,
        "have different factors; construct them all with the same factors=",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(call: Callable[[], object], error: type[HushError], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_more_than_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "available_memory", lambda: 10)
    monkeypatch.setattr(measurement, "_UNCHECKED_BYTES", 1)
    with pytest.raises(SizeError, match="more than is free; use smaller cliques"):
        SquaredLoss(DOMAIN, [ONE])


def test_kinds_of_losses() -> None:
    rough = AbsoluteLoss(DOMAIN, [ONE])
    assert (rough.smooth, rough.lipschitz) == (False, math.inf)
    assert isinstance(rough.smoothed(1.0), HuberLoss)
    assert issubclass(CustomLoss, MarginalLoss)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: type(operator).__name__)
def test_equals_the_dense_eigenvalue(operator: LinearOperator) -> None:
    dense = operator.dense()
    assert largest_eigenvalue(operator) == pytest.approx(np.linalg.eigvalsh(dense.T @ dense)[-1])


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: type(operator).__name__)
def test_iterations_are_never_below_and_little_above(operator: LinearOperator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likelihood, "MOST_DENSE_COLUMNS", 0)
    wanted = np.linalg.eigvalsh(operator.dense().T @ operator.dense())[-1]
    assert wanted * (1 - 1e-12) <= largest_eigenvalue(operator) <= EIGENVALUE_MARGIN**3 * 1.01 * wanted


def test_a_query_of_zeros() -> None:
    assert largest_eigenvalue(Dense(np.zeros((2, 3)))) == 0
