import itertools
from typing import Any

import numpy as np
import pytest

from dense_twins import disagreement
from hush import queries
from hush.core.arrays import Floats
from hush.core.constraints import Constraint
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, DomainError, SizeError, WorkloadError
from hush.models.graphical.graphical_fit import fit_model
from hush.models.graphical.likelihood import CustomLoss, SquaredLoss, loss_of
from hush.models.local.local_fit import fit_locally
from hush.privacy.measurement import Measurement

DOMAIN = Domain({"a": 3, "b": 4, "c": 2, "d": 5})
TREES: dict[str, list[Clique]] = {
    "chain": [("a", "b"), ("b", "c"), ("c", "d")],
    "star with nested": [("a", "b"), ("b", "c"), ("b",), ("b", "d")],
    "disconnected": [("a", "b"), ("c",), ("d",)],
}
LOOP: list[Clique] = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("a", "d")]


def data(rows: int = 300, seed: int = 0) -> Floats:
    """Counts of every combination of correlated attributes."""
    rng = np.random.Generator(np.random.PCG64(seed))
    codes = np.column_stack([rng.integers(0, size, rows) for size in DOMAIN.shape])
    codes[:, 1] = (codes[:, 0] + codes[:, 1] // 2) % 4
    codes[:, 3] = (codes[:, 2] + codes[:, 3] // 2) % 5
    counts = np.zeros(DOMAIN.shape)
    np.add.at(counts, tuple(codes.T), 1.0)
    return counts


def margin(counts: Floats, clique: Clique) -> Floats:
    return np.asarray(counts.sum(axis=tuple(i for i, name in enumerate(DOMAIN) if name not in clique)))


def measured(cliques: list[Clique], stddev: float = 5.0, noise: Any = "gaussian") -> list[Measurement]:
    rng = np.random.Generator(np.random.PCG64(1))
    made = []
    for clique in cliques:
        table = margin(data(), clique)
        made.append(Measurement(clique, table + rng.normal(0.0, stddev, table.shape), stddev, noise=noise))
    return made


@pytest.mark.parametrize("loss", ["gaussian", "laplace", "paper"])
@pytest.mark.parametrize("cliques", TREES.values(), ids=TREES)
def test_without_loops_it_is_the_optimum_over_distributions(cliques: list[Clique], loss: Any) -> None:
    found = fit_locally(DOMAIN, measured(cliques), loss=loss, tolerance=1e-3)
    exact = fit_model(DOMAIN, measured(cliques), loss=loss, tolerance=1e-3)
    assert found.solved
    assert found.stats["value"] == pytest.approx(exact.stats["value"], rel=1e-4, abs=1e-3)


def test_with_loops_the_loss_is_no_more_than_that_of_a_distribution() -> None:
    found = fit_locally(DOMAIN, measured(LOOP, 20.0), tolerance=1e-3)
    exact = fit_model(DOMAIN, measured(LOOP, 20.0), tolerance=1e-3)
    assert found.stats["value"] <= exact.stats["value"] + 1e-3


def test_queries_other_than_cells() -> None:
    rng = np.random.Generator(np.random.PCG64(2))
    listed = []
    for first, second in LOOP[:3]:
        table = queries.prefix(DOMAIN[first]) @ margin(data(), (first, second))
        noisy = table + rng.normal(0.0, 4.0, table.shape)
        listed.append(Measurement((first, second), noisy, 4.0, {first: queries.prefix, second: queries.identity}))
    found = fit_locally(DOMAIN, listed, tolerance=1e-3)
    exact = fit_model(DOMAIN, listed, tolerance=1e-4)
    assert found.solved
    assert found.stats["value"] == pytest.approx(exact.stats["value"], abs=1e-3)  # three pairs, and nothing to conflict


@pytest.mark.parametrize("loss", ["auto", "laplace"])
def test_tables_agree_and_are_counts(loss: Any) -> None:
    model = fit_locally(DOMAIN, measured([*LOOP, ("b",)], 15.0), loss=loss).value
    tables = {clique: model.counts(clique) for clique in LOOP}
    assert model.cliques == tuple(DOMAIN.clique(clique) for clique in LOOP)
    assert disagreement(DOMAIN, tables) < 1e-8
    for table in tables.values():
        assert table.min() >= 0.0
        assert table.sum() == pytest.approx(model.total)


@pytest.mark.parametrize("clique", [("a", "b"), ("b", "d")], ids=["inside a clique", "across cliques"])
def test_forbidden_cells_are_zero(clique: Clique) -> None:
    rules = [Constraint.forbid(DOMAIN, clique, [(0, 0), (1, 1)])]
    found = fit_locally(DOMAIN, measured(TREES["chain"]), constraints=rules, tolerance=1e-3)
    exact = fit_model(DOMAIN, measured(TREES["chain"]), constraints=rules, tolerance=1e-3)
    table = found.value.counts(clique)
    assert table[0, 0] == table[1, 1] == 0.0
    assert found.solved
    assert found.stats["value"] <= exact.stats["value"] + 2e-3
    tables = {own: found.value.counts(own) for own in found.value.cliques}
    assert disagreement(DOMAIN, tables) < 1e-4
    assert all(own.sum() == pytest.approx(found.value.total) for own in tables.values())


def hard_to_enter() -> tuple[Domain, list[Measurement], list[Constraint]]:
    """Little noise beside much, and two of five combinations forbidden: a polytope with narrow corners."""
    domain = Domain({"w": 3, "x": 4, "y": 2, "z": 5})
    pair = [[0.5, 0.5, 0.7, 0.7, 0.7], [0.9, 0.0, 0.3, 2.7, 0.4], [1.3, -0.1, 0.6, 1.8, 0.7]]
    listed = [
        Measurement(("w", "z"), pair, 0.2, noise="laplace"),
        Measurement(("x",), [-10.7, -33.3, 32.5, 103.7], 57.0),
        Measurement(("y",), [5.3, 4.7], 6.5),
    ]
    left = ["10101", "10110", "11110", "01101", "11011", "01010", "01010", "11100"]  # z for every x and y
    allowed = np.array([[digit == "1" for digit in row] for row in left]).reshape(4, 2, 5)
    return domain, listed, [Constraint(("x", "y", "z"), allowed)]


def test_what_is_solved_agrees_though_cells_are_forbidden() -> None:
    domain, listed, rules = hard_to_enter()
    found = fit_locally(domain, listed, total=10.0, tolerance=0.1, constraints=rules)
    tables = {clique: found.value.counts(clique) for clique in found.value.cliques}
    assert found.solved
    assert disagreement(domain, tables) < 1e-6 * 10.0
    assert found.stats["gap"] <= 0.5 * 0.1**2 * sum(one.numbers for one in listed)


def test_tables_that_disagree_are_not_solved() -> None:
    domain, listed, rules = hard_to_enter()
    found = fit_locally(domain, listed, total=10.0, tolerance=0.1, constraints=rules, iterations=20)
    tables = {clique: found.value.counts(clique) for clique in found.value.cliques}
    assert disagreement(domain, tables) > 1e-6 * 10.0
    assert not found.solved
    assert "disagree by up to" in found.status
    assert "raise iterations" in found.status


def test_a_level_that_is_excluded_is_excluded_everywhere() -> None:
    rules = [Constraint.forbid(DOMAIN, ("a", "b"), [(0, level) for level in range(4)])]
    model = fit_locally(DOMAIN, measured(LOOP), constraints=rules).value
    assert model.counts(("a", "c"))[0].tolist() == [0.0, 0.0]
    assert model.counts(("a", "d"))[0].max() == 0.0


def test_tables_without_noise_come_back() -> None:
    listed = [Measurement(clique, margin(data(), clique), 0.01) for clique in LOOP]
    model = fit_locally(DOMAIN, listed).value
    for clique in LOOP:
        np.testing.assert_allclose(model.counts(clique), margin(data(), clique), atol=0.01)
    assert model.total == pytest.approx(300.0)


def test_total_is_met_and_tolerance_is_certain() -> None:
    listed = measured(LOOP, 20.0)
    sharp = fit_locally(DOMAIN, listed, total=250.0, tolerance=1e-5)
    rough = fit_locally(DOMAIN, listed, total=250.0, tolerance=0.1)
    assert rough.value.counts(()) == pytest.approx(250.0)
    numbers = sum(one.numbers for one in listed)
    squares = sum(float(np.sum((rough.value.counts(c) - sharp.value.counts(c)) ** 2)) for c in LOOP)
    assert np.sqrt(squares / numbers) <= 0.1 * 20.0
    assert rough.stats["value"] - sharp.stats["value"] <= rough.stats["gap"] <= 0.5 * 0.1**2 * numbers


def test_losses_of_ones_own() -> None:
    listed = measured(LOOP[:3])
    expected = fit_locally(DOMAIN, listed, tolerance=1e-3)

    def squares(tables: list[Floats]) -> tuple[float, list[Floats]]:
        off = [table - one.values for table, one in zip(tables, listed, strict=True)]
        return sum(float(np.sum(own**2)) for own in off) / 50, [own / 25 for own in off]

    own = CustomLoss(DOMAIN, LOOP[:3], squares, lipschitz=1 / 25, numbers=26)
    for loss in (own, SquaredLoss(DOMAIN, listed)):
        found = fit_locally(DOMAIN, listed, loss=loss, tolerance=1e-3)
        assert found.stats["value"] == pytest.approx(expected.stats["value"], abs=1e-3)
    with pytest.raises(WorkloadError, match="lipschitz"):
        fit_locally(DOMAIN, listed, loss=squares)


def test_gaussian_and_laplace_together() -> None:
    listed = [*measured(LOOP[:2]), *measured(LOOP[2:4], noise="laplace")]
    found = fit_locally(DOMAIN, listed, tolerance=1e-2)
    exact = fit_model(DOMAIN, listed, tolerance=1e-3)
    assert found.stats["value"] <= exact.stats["value"] + 0.05
    sharp = loss_of(DOMAIN, listed)
    flat = np.concatenate([found.value.counts(clique).ravel() for clique in sharp.factors.cliques])
    assert sharp.value(flat) == pytest.approx(found.stats["value"])


def test_many_cliques_of_many_attributes() -> None:
    domain = Domain({f"a{i}": 3 for i in range(30)})
    rng = np.random.Generator(np.random.PCG64(4))
    cliques = list(itertools.combinations(domain, 2))
    listed = [Measurement(clique, rng.normal(20.0, 15.0, (3, 3)), 15.0) for clique in cliques]
    found = fit_locally(domain, listed)
    assert found.solved
    assert disagreement(domain, {clique: found.value.counts(clique) for clique in cliques}) < 1e-8


def test_bad_input_is_refused() -> None:
    listed = measured(LOOP)
    with pytest.raises(DataError, match="no measurements"):
        fit_locally(DOMAIN, [])
    with pytest.raises(DataError, match="a single measurement: expected a list"):
        fit_locally(DOMAIN, listed[0])  # type: ignore[arg-type]
    with pytest.raises(DomainError, match="not in the domain"):
        fit_locally(DOMAIN, [Measurement(("age",), [1.0, 2.0], 1.0)])
    with pytest.raises(DataError, match="total=-1"):
        fit_locally(DOMAIN, listed, total=-1)
    with pytest.raises(WorkloadError, match="tolerance=0"):
        fit_locally(DOMAIN, listed, tolerance=0)
    with pytest.raises(WorkloadError, match="iterations=0"):
        fit_locally(DOMAIN, listed, iterations=0)
    with pytest.raises(WorkloadError, match="loss='squared'"):
        fit_locally(DOMAIN, listed, loss="squared")  # type: ignore[arg-type]
    rules = [Constraint.forbid(DOMAIN, ("c",), [(0,)]), Constraint.allow(DOMAIN, ("c", "d"), [(0, 1)])]
    with pytest.raises(DomainError, match="leave no possible"):
        fit_locally(DOMAIN, listed, constraints=rules)


def test_too_few_iterations_are_said() -> None:
    found = fit_locally(DOMAIN, measured(LOOP, 30.0), tolerance=1e-6, iterations=1)
    assert "raise iterations or tolerance" in found.status


def test_too_many_attributes_of_several_levels_are_refused() -> None:
    domain = Domain({**{f"a{i}": 2 for i in range(15)}, "one": 1})
    every = Measurement(tuple(domain), np.ones(domain.size()), 1.0)
    with pytest.raises(SizeError, match=r"15 attributes with more than one level: .* at most 14"):
        fit_locally(domain, [every])
    fewer = Measurement(tuple(domain)[1:], np.ones(domain.size() // 2), 1.0)
    assert fit_locally(domain, [fewer]).solved
