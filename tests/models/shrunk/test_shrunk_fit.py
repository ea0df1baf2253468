"""Residuals are averaged by their precision, and shrunk tables are counts that agree and are near the data."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dense_twins import disagreement
from hush import queries
from hush.core.arrays import Floats, Integers
from hush.core.constraints import Constraint
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, DomainError, HushError, WorkloadError
from hush.core.solution import Solution
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.models.local.local_model import LocalModel
from hush.models.shrunk.shrunk_fit import centred, fit_shrunk, residual_averages
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian
from hush.strategies.product_strategy import ProductQuery
from hush.strategies.rare_levels import MergedQuery, Merging
from hush.strategies.residual_basis import ResidualBasis
from hush.strategies.residual_strategy import is_residual, plain_residual

DOMAIN = Domain({"a": 3, "b": 4, "one": 1, "c": 2, "d": 5})
PAIRS: list[Clique] = list(itertools.combinations(("a", "b", "c", "d"), 2))
LAYOUTS: dict[str, list[Clique]] = {
    "pairs": PAIRS,
    "chain": [("a", "b"), ("b", "c"), ("c", "d")],
    "triples": [("a", "b", "c"), ("b", "d"), ("a", "c", "d")],
    "columns": [("a",), ("b",), ("d",)],
    "one of one level": [("a", "one"), ("one", "c", "d")],
}


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def data(rows: int = 2000) -> Floats:
    """Counts of every combination of dependent columns, none of them zero."""
    joint = np.exp(generator(1).normal(0.0, 0.3, DOMAIN.shape))
    for i, j in itertools.combinations(range(5), 2):
        shape = [size if axis in (i, j) else 1 for axis, size in enumerate(DOMAIN.shape)]
        joint = joint * np.exp(generator(10 * i + j).normal(0.0, 0.7, shape))
    return np.asarray(np.ceil(rows * joint / joint.sum()))


def margin(clique: Clique) -> Floats:
    return np.asarray(data().sum(axis=tuple(i for i, name in enumerate(DOMAIN) if name not in clique)))


def measured(cliques: list[Clique], stddev: float, seed: int = 1) -> list[Measurement]:
    source = generator(seed)
    return [
        Measurement(clique, margin(clique) + source.normal(0.0, stddev, DOMAIN.sizes(clique)), stddev)
        for clique in cliques
    ]


def fitted(tables: list[Clique], stddev: float, **options: Any) -> LocalModel:
    found = fit_shrunk(DOMAIN, measured(tables, stddev), **options)
    assert found.solved
    return found.value


def residual_measurement(clique: Clique, counts: Floats, variance: int) -> Measurement:
    """The residual of a table with noise of this variance on the integers of its query."""
    query = plain_residual(DOMAIN, clique)
    exact: Integers = query.answer({clique: counts.astype(np.int64)})
    noise = generator(5).normal(0.0, variance**0.5, exact.shape).round().astype(np.int64)
    return Measurement.of(query, exact + noise, DiscreteGaussian(Fraction(variance)))


def assert_tables_are_counts(model: LocalModel) -> None:
    tables = {clique: model.counts(clique) for clique in model.cliques}
    assert disagreement(model.domain, tables) < 1e-6 * model.total
    for table in tables.values():
        assert table.min() >= 0.0
        assert table.sum() == pytest.approx(model.total, rel=1e-6)


def test_centred_tables_have_no_margins() -> None:
    table = centred(margin(("a", "b", "d")))
    for axis in range(3):
        np.testing.assert_allclose(table.sum(axis=axis), 0.0, atol=1e-9)
    np.testing.assert_allclose(centred(table), table, atol=1e-9)
    assert centred(np.array(7.0)) == 7.0


@pytest.mark.parametrize("cliques", LAYOUTS.values(), ids=LAYOUTS)
def test_residuals_of_tables_add_up_to_the_best_unbiased_estimates(cliques: list[Clique]) -> None:
    listed = [one for i, clique in enumerate(cliques) for one in measured([clique], 3.0 + i, seed=i)]
    averages, best = residual_averages(DOMAIN, listed), UnbiasedEstimates(DOMAIN, listed)
    assert all("one" not in clique for clique in averages)
    for clique in {DOMAIN.varying(clique) for clique in cliques}:
        table, variance = np.zeros(DOMAIN.sizes(clique)), 0.0
        for order in range(len(clique) + 1):
            for inner in itertools.combinations(clique, order):
                outside = tuple(axis for axis, name in enumerate(clique) if name not in inner)
                cells = np.prod([table.shape[axis] for axis in outside])
                table += np.expand_dims(averages[inner].values, outside) / cells
                levels = np.array(DOMAIN.sizes(inner))
                variance += averages[inner].variance * np.prod(1 - 1 / levels) / cells**2
        np.testing.assert_allclose(table, best.counts(clique), rtol=1e-9, atol=1e-8)
        assert variance == pytest.approx(best.variance(clique))


def test_residuals_are_found_in_the_order_of_the_domain() -> None:
    forward = residual_averages(DOMAIN, [Measurement(("a", "d"), margin(("a", "d")), 2.0)])
    backward = residual_averages(DOMAIN, [Measurement(("d", "a"), margin(("a", "d")).T, 2.0)])
    assert set(forward) == set(backward) == {("a", "d"), ("a",), ("d",), ()}
    for clique, residual in forward.items():
        np.testing.assert_allclose(backward[clique].values, residual.values, atol=1e-9)
        assert backward[clique].variance == residual.variance


def test_a_table_and_a_residual_are_averaged_by_their_variances() -> None:
    (table,) = measured([("a", "b")], 2.0)
    residual = residual_measurement(("a", "b"), margin(("a", "b")), 400)
    assert is_residual(residual.asked)
    assert residual.variance == pytest.approx(400 / 12**2)
    averages = residual_averages(DOMAIN, [table, residual])
    weights = np.array([1 / 4.0, 144 / 400])
    expected = (weights[0] * centred(table.values) + weights[1] * centred(residual.values)) / weights.sum()
    np.testing.assert_allclose(averages["a", "b"].values, expected, atol=1e-9)
    assert averages["a", "b"].variance == pytest.approx(1 / weights.sum())
    assert averages["a",].variance == pytest.approx(4.0 * 4)  # of the table alone, summed over b
    np.testing.assert_allclose(averages["a",].values, centred(table.values.sum(axis=1)), atol=1e-9)


def test_a_residual_alone_says_nothing_of_smaller_tables() -> None:
    averages = residual_averages(DOMAIN, [residual_measurement(("b", "d"), margin(("b", "d")), 1)])
    assert set(averages) == {("b", "d")}
    assert averages["b", "d"].variance == pytest.approx(1 / 20**2)
    np.testing.assert_allclose(averages["b", "d"].values, centred(margin(("b", "d"))), atol=0.5)


def test_the_total_measured_as_a_residual_is_the_total() -> None:
    query = plain_residual(DOMAIN, ())
    averages = residual_averages(DOMAIN, [Measurement.of(query, np.array(300), DiscreteGaussian(Fraction(9)))])
    assert set(averages) == {()}
    assert float(averages[()].values) == 300.0
    assert averages[()].variance == pytest.approx(9.0)


def test_queries_other_than_tables_and_residuals_are_refused() -> None:
    own = ResidualBasis.of([[1, -1, 0], [1, 1, -2]], scale=2)
    query = ProductQuery((("a",),), (own,))
    integers: Integers = query.answer({("a",): margin(("a",)).astype(np.int64)})
    tilted = Measurement.of(query, integers, DiscreteGaussian(Fraction(4)))
    assert not is_residual(query)
    prefix = Measurement(("a",), np.cumsum(margin(("a",))), 1.0, {"a": queries.prefix})
    for refused in (tilted, prefix):
        with pytest.raises(WorkloadError, match="expected a table measured cell by cell, or a residual"):
            residual_averages(DOMAIN, [*measured([("b",)], 1.0), refused])
        with pytest.raises(WorkloadError, match="leave the measurement out"):
            fit_shrunk(DOMAIN, [refused])


@pytest.mark.parametrize("stddev", [1.0, 20.0, 300.0])
@pytest.mark.parametrize("cliques", LAYOUTS.values(), ids=LAYOUTS)
def test_tables_agree_and_are_counts(cliques: list[Clique], stddev: float) -> None:
    model = fitted(cliques, stddev)
    assert_tables_are_counts(model)
    assert all(model.covers(DOMAIN.varying(clique)) for clique in cliques)
    assert all(model.counts(clique).shape == DOMAIN.sizes(clique) for clique in cliques)
    assert all(model.covers((name,)) for name in DOMAIN.varying())
    assert model.total == pytest.approx(
        max(float(residual_averages(DOMAIN, measured(cliques, stddev))[()].values), 1.0)
    )


def test_tables_that_were_not_measured_are_covered() -> None:
    asked: list[Clique] = [("d", "a"), ("b", "c", "d"), ("one", "a", "b")]
    model = fitted([("a", "b"), ("b", "c")], 10.0, cliques=asked)
    assert_tables_are_counts(model)
    assert set(model.cliques) == {("a", "b"), ("a", "d"), ("b", "c", "d")}
    assert model.covers(("a", "d"))
    assert model.covers(("c", "d"))
    product = np.outer(model.counts(("b",)), model.counts(("d",))) / model.total  # d was never measured
    np.testing.assert_allclose(model.counts(("b", "d")), product, rtol=1e-3)


def test_a_column_that_was_not_measured_is_uniform() -> None:
    model = fitted([("a", "b"), ("b", "c")], 10.0)
    np.testing.assert_allclose(model.counts(("d",)), model.total / 5, rtol=1e-9)


def test_a_total_that_is_given_is_met() -> None:
    model = fitted(PAIRS, 10.0, total=1234.0)
    assert model.total == 1234.0
    assert_tables_are_counts(model)


@pytest.mark.parametrize("stddev", [1e-3, 0.1])
@pytest.mark.parametrize("cliques", LAYOUTS.values(), ids=LAYOUTS)
def test_tables_almost_without_noise_come_back(cliques: list[Clique], stddev: float) -> None:
    model = fitted(cliques, stddev)
    for clique in cliques:
        np.testing.assert_allclose(model.counts(clique), margin(clique), atol=10 * stddev + 0.05)


@pytest.mark.parametrize("stddev", [10.0, 40.0])
def test_tables_are_nearer_to_the_data_than_the_best_unbiased_ones(stddev: float) -> None:
    shrunk = unbiased = 0.0
    for seed in range(5):
        listed = measured(PAIRS, stddev, seed)
        model, best = fit_shrunk(DOMAIN, listed).value, UnbiasedEstimates(DOMAIN, listed)
        for clique in PAIRS:
            shrunk += float(np.abs(model.counts(clique) - margin(clique)).sum())
            unbiased += float(np.abs(np.maximum(best.counts(clique), 0.0) - margin(clique)).sum())
    assert shrunk < 0.995 * unbiased


def test_a_chain_predicts_the_pair_of_its_ends() -> None:
    first = np.array([[400.0, 30.0, 10.0], [20.0, 300.0, 40.0], [10.0, 30.0, 360.0]])
    onward = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.05, 0.05, 0.9]])
    domain = Domain({"a": 3, "b": 3, "c": 3})
    second, ends = first.sum(axis=0)[:, None] * onward, first @ onward
    listed = [Measurement(("a", "b"), first, 0.1), Measurement(("b", "c"), second, 0.1)]
    model = fit_shrunk(domain, listed, cliques=[("a", "c")]).value
    independent = np.outer(ends.sum(axis=1), ends.sum(axis=0)) / ends.sum()
    np.testing.assert_allclose(model.counts(("a", "c")), ends, atol=0.5)
    assert np.abs(model.counts(("a", "c")) - ends).sum() < 0.01 * np.abs(independent - ends).sum()


def test_residuals_can_be_fitted() -> None:
    listed = [*measured([("a",), ("b",)], 0.1), residual_measurement(("a", "b"), margin(("a", "b")), 1)]
    found = fit_shrunk(DOMAIN, listed)
    assert found.solved
    np.testing.assert_allclose(found.value.counts(("a", "b")), margin(("a", "b")), atol=1.0)


@pytest.mark.parametrize(
    "clique", [("a", "b"), ("b", "d")], ids=["in a table that was measured", "in one that was not"]
)
def test_forbidden_cells_are_zero(clique: Clique) -> None:
    rules = [Constraint.forbid(DOMAIN, clique, [(0, 0), (1, 1)])]
    model = fitted([("a", "b"), ("b", "c")], 10.0, cliques=[("b", "d"), ("a", "d")], constraints=rules)
    table = model.counts(clique)
    assert table[0, 0] == table[1, 1] == 0.0
    assert_tables_are_counts(model)


def test_forbidden_cells_of_triples_are_zero() -> None:
    rules = [Constraint.forbid(DOMAIN, ("a", "b", "c"), [(0, 0, 0), (2, 3, 1)])]
    model = fitted([("a", "b"), ("b", "c"), ("a", "c")], 10.0, cliques=[("a", "b", "c")], constraints=rules)
    table = model.counts(("a", "b", "c"))
    assert table[0, 0, 0] == table[2, 3, 1] == 0.0
    assert_tables_are_counts(model)


def test_a_level_that_is_excluded_is_excluded_everywhere() -> None:
    rules = [Constraint.forbid(DOMAIN, ("a", "b"), [(0, level) for level in range(4)])]
    model = fitted([("a", "b"), ("b", "c")], 10.0, cliques=[("a", "c")], constraints=rules)
    assert model.counts(("a",))[0] == 0.0
    assert model.counts(("a", "c"))[0].max() == 0.0
    assert_tables_are_counts(model)


def test_rules_that_contradict_each_other_are_refused() -> None:
    rules = [Constraint.forbid(DOMAIN, ("c",), [(0,)]), Constraint.allow(DOMAIN, ("c", "d"), [(0, 1)])]
    with pytest.raises(DomainError, match="leave no possible"):
        fit_shrunk(DOMAIN, measured(PAIRS, 10.0), constraints=rules)


def test_fits_are_the_same_for_a_seed() -> None:
    first, again = fitted(PAIRS, 20.0, seed=7), fitted(PAIRS, 20.0, seed=7)
    for clique in PAIRS:
        assert first.counts(clique).tolist() == again.counts(clique).tolist()
    assert first.seed == 7


def test_without_relaxed_rows_the_seed_does_not_matter() -> None:
    first, other = fitted(PAIRS, 20.0, seed=7, relaxed=False), fitted(PAIRS, 20.0, seed=8, relaxed=False)
    for clique in PAIRS:
        np.testing.assert_allclose(first.counts(clique), other.counts(clique), rtol=1e-9)


def test_a_single_column() -> None:
    counts = np.array([100.0, 50.0, 20.0, 5.0, 1.0, 0.0])
    model = fit_shrunk(Domain({"x": 6}), [Measurement(("x",), counts, 0.1)]).value
    assert model.cliques == (("x",),)
    np.testing.assert_allclose(model.counts(("x",)), counts, atol=0.5)


def test_columns_of_one_level_are_left_out() -> None:
    domain = Domain({"one": 1, "a": 2, "two": 1})
    model = fit_shrunk(domain, [Measurement(("two", "a"), [[30.0, 70.0]], 0.1)], cliques=[("one", "two")]).value
    np.testing.assert_allclose(model.counts(("a", "two")), [[30.0], [70.0]], atol=0.5)
    assert model.counts(("one",)) == pytest.approx(model.total)


def test_nothing_but_columns_of_one_level() -> None:
    model = fit_shrunk(Domain({"one": 1, "two": 1}), [Measurement(("one",), [100.0], 1.0)]).value
    assert model.counts(("two",)) == pytest.approx(100.0)


def test_the_total_alone_makes_uniform_columns() -> None:
    found = fit_shrunk(DOMAIN, [Measurement((), 600.0, 1.0)], cliques=[("a", "b")])
    assert found.solved
    np.testing.assert_allclose(found.value.counts(("a", "b")), 50.0, rtol=1e-6)
    np.testing.assert_allclose(found.value.counts(("d",)), 120.0, rtol=1e-6)


def test_a_total_below_zero_becomes_one_row() -> None:
    found = fit_shrunk(DOMAIN, [Measurement(("a", "b"), np.full((3, 4), -5.0), 1.0)])
    assert found.value.total == 1.0
    assert_tables_are_counts(found.value)


def test_a_total_that_is_no_number_of_rows_is_refused() -> None:
    with pytest.raises(DataError, match="total=-1"):
        fit_shrunk(DOMAIN, measured(PAIRS, 10.0), total=-1)


@pytest.mark.parametrize("listed", [[], [("a", "b")]], ids=["nothing", "a residual"])
def test_measurements_without_a_total_are_refused(listed: list[Clique]) -> None:
    measurements = [residual_measurement(clique, margin(clique), 1) for clique in listed]
    with pytest.raises(HushError):
        fit_shrunk(DOMAIN, measurements)


def latent_classes(columns: int, rows: int) -> Integers:
    """Codes of columns with four levels that are independent within each of four classes."""
    source = generator(3)
    classes = source.integers(0, 4, rows)
    laws = source.dirichlet(np.full(4, 0.5), (columns, 4)).cumsum(axis=-1)
    draws = source.random((rows, columns))
    return np.asarray((draws[:, :, None] > laws[:, classes].transpose(1, 0, 2)[:, :, :3]).sum(axis=-1))


def latent_tables() -> dict[Clique, Floats]:
    """All columns and pairs of twelve columns that depend on one hidden class."""
    codes = latent_classes(12, 5000)
    tables: dict[Clique, Floats] = {(f"x{i}",): np.bincount(codes[:, i], minlength=4).astype(float) for i in range(12)}
    for i, j in itertools.combinations(range(12), 2):
        counts = np.bincount(4 * codes[:, i] + codes[:, j], minlength=16)
        tables[f"x{i}", f"x{j}"] = counts.reshape(4, 4).astype(float)
    return tables


LATENT_DOMAIN = Domain({f"x{i}": 4 for i in range(12)})


def mean_error(found: Solution[LocalModel], exact: dict[Clique, Floats]) -> float:
    return float(np.mean([np.abs(found.value.counts(clique) - table).mean() for clique, table in exact.items()]))


def test_relaxed_rows_help_where_no_tree_holds() -> None:
    source = generator(4)
    exact: dict[Clique, Floats] = {clique: table for clique, table in latent_tables().items() if len(clique) > 1}
    listed = [Measurement(clique, table + source.normal(0.0, 60.0, (4, 4)), 60.0) for clique, table in exact.items()]
    both, tree = (fit_shrunk(LATENT_DOMAIN, listed, relaxed=relaxed) for relaxed in (True, False))
    assert 0.3 < both.stats["relaxed_share"] <= 1.0
    assert tree.stats["relaxed_share"] == 0.0
    assert mean_error(both, exact) < 0.95 * mean_error(tree, exact)


def test_pairs_that_were_not_measured_keep_to_the_tree() -> None:
    # Columns without noise, and three pairs of disjoint columns: the tree knows the others to be independent.
    tables, source = latent_tables(), generator(4)
    chosen: list[Clique] = [("x0", "x1"), ("x2", "x3"), ("x4", "x5")]
    listed = [Measurement(clique, table, 0.01) for clique, table in tables.items() if len(clique) == 1]
    listed += [Measurement(clique, tables[clique] + source.normal(0.0, 20.0, (4, 4)), 20.0) for clique in chosen]
    other: Clique = ("x1", "x2")
    model = fit_shrunk(LATENT_DOMAIN, listed, cliques=[other]).value
    independent = np.outer(model.counts(other[:1]), model.counts(other[1:])) / model.total
    np.testing.assert_allclose(model.counts(other), independent, atol=1.0)


def test_relaxed_rows_are_not_used_for_a_single_pair_or_with_rules() -> None:
    rules = [Constraint.forbid(DOMAIN, ("a", "b"), [(0, 0)])]
    assert fit_shrunk(DOMAIN, measured([("a", "b")], 10.0)).stats["relaxed_share"] == 0.0
    assert fit_shrunk(DOMAIN, measured(PAIRS, 10.0), constraints=rules).stats["relaxed_share"] == 0.0


@pytest.mark.parametrize("asked", [2, 3])
def test_clear_pairs_are_kept_where_most_cells_are_empty(asked: int) -> None:
    # Each column follows the one before, so that a tree predicts next to nothing in most cells.
    random, rows = generator(3), 20_000
    domain = Domain(dict.fromkeys("abcde", 8))
    codes = [random.integers(0, 8, rows)]
    for _ in range(4):
        codes.append((codes[-1] + random.integers(0, 2, rows)) * 8 // 9)
    pairs: list[Clique] = list(itertools.combinations(domain, 2))
    exact = {}
    for one, other in itertools.combinations(range(5), 2):
        cells = np.bincount(8 * codes[one] + codes[other], minlength=64).astype(np.float64)
        exact[domain.attributes[one], domain.attributes[other]] = cells.reshape(8, 8)
    noisy = [Measurement(pair, exact[pair] + random.normal(0.0, 0.01, (8, 8)), 0.01) for pair in pairs]
    model = fit_shrunk(domain, noisy, cliques=itertools.combinations(domain, asked)).value
    gaps = [float(np.abs(model.counts(pair) - exact[pair]).sum()) for pair in pairs]
    assert max(gaps) < 0.001 * rows


def test_a_pair_follows_its_table_with_merged_levels() -> None:
    """Only columns and one merged table are known, whose cells are many times their noise."""
    domain = Domain({"x": 12, "y": 10})
    joint = np.exp(-0.5 * (np.arange(12)[:, None] / 12 - np.arange(10) / 10) ** 2 / 0.05)
    joint *= 20_000 / joint.sum()
    merging = Merging({"x": np.arange(12) // 3, "y": np.arange(10) // 5})
    query = MergedQuery(("x", "y"), (12, 10), merging)
    law = DiscreteGaussian(Fraction(100))
    columns = [Measurement((name,), joint.sum(axis=1 - axis), 1.0) for axis, name in enumerate(domain)]
    raw = np.rint(merging.table(("x", "y"), joint) + generator().normal(0.0, 10.0, (4, 2))).astype(np.int64)
    noisy = Measurement.of(query, raw, law)
    without = fit_shrunk(domain, columns, cliques=[("x", "y")]).value.counts(("x", "y"))
    found = fit_shrunk(domain, [*columns, noisy], cliques=[("x", "y")]).value.counts(("x", "y"))
    np.testing.assert_allclose(merging.table(("x", "y"), found), raw, atol=60)
    assert np.abs(found - joint).sum() < 0.6 * np.abs(without - joint).sum()
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=1), columns[0].values, rtol=0.01)
    # a second, noisier measurement of the pair changes nothing
    worse = Measurement.of(query, raw[::-1], DiscreteGaussian(Fraction(10_000)))
    again = fit_shrunk(domain, [*columns, worse, noisy], cliques=[("x", "y")]).value.counts(("x", "y"))
    np.testing.assert_array_equal(again, found)
    # the pair is fitted even if no table over it is asked for
    unasked = fit_shrunk(domain, [*columns, noisy]).value
    assert unasked.cliques == (("x", "y"),)
    np.testing.assert_array_equal(unasked.counts(("x", "y")), found)


def test_a_merged_table_of_noise_alone_leaves_the_prediction() -> None:
    domain = Domain({"x": 12, "y": 10})
    columns = [
        Measurement((name,), np.full(size, 12_000 / size), 1.0) for name, size in zip(domain, domain.shape, strict=True)
    ]
    query = MergedQuery(("x", "y"), (12, 10), Merging({"x": np.arange(12) // 3}))
    raw = np.rint(300 + generator().normal(0.0, 400.0, (4, 10))).astype(np.int64)
    noisy = Measurement.of(query, raw, DiscreteGaussian(Fraction(160_000)))
    found = fit_shrunk(domain, [*columns, noisy], cliques=[("x", "y")]).value.counts(("x", "y"))
    assert np.abs(found - 100).sum() < 0.25 * np.abs(raw - 300).sum()


def test_a_column_of_very_many_levels_is_fitted_in_memory_that_its_tables_need() -> None:
    """The tree goes from the wide column over `y` to `z`; a square table over its levels would need 115 GB."""
    levels = 120_000
    domain = Domain({"x": levels, "y": 3, "z": 2})
    pairs = list(itertools.combinations(domain, 2))
    exact = {
        ("x", "y"): np.full((levels, 3), 1.0),
        ("y", "z"): np.array([[9.0, 1.0], [5.0, 5.0], [1.0, 9.0]]) * levels / 10,
    }
    exact["x", "y"][: levels // 2, 2] = 0.0
    noisy = [Measurement(pair, counts, 0.01) for pair, counts in exact.items()]
    model = fit_shrunk(domain, noisy, cliques=pairs, relaxed=False).value
    share = model.counts(("x", "z"))[:, 0] / model.counts(("x",))
    assert share[: levels // 2].mean() > share[levels // 2 :].mean() + 0.1


def test_a_path_over_two_very_wide_columns_ends_before_it() -> None:
    """The tree joins both wide columns over `y`; a table over both would need 115 GB."""
    domain = Domain({"x": 120_000, "y": 2, "w": 120_000})
    table = np.tile([2.0, 1.0], (120_000, 1))
    noisy = [Measurement(("x", "y"), table, 0.01), Measurement(("y", "w"), table.T, 0.01)]
    model = fit_shrunk(domain, noisy, relaxed=False).value
    np.testing.assert_allclose(model.counts(("x", "y")).sum(), 3.6e5, rtol=0.01)


def test_merged_tables_that_are_no_pairs_are_refused() -> None:
    query = MergedQuery(("x",), (12,), Merging({"x": np.arange(12) // 3}))
    column = Measurement.of(query, np.full(4, 300), DiscreteGaussian(Fraction(9)))
    with pytest.raises(WorkloadError, match="leave the measurement out"):
        fit_shrunk(Domain({"x": 12}), [column], total=1200.0)
