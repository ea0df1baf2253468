"""Relaxed rows meet noisy answers of every kind as well as an exact model does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import queries
from hush.core.errors import ArchiveError, DomainError, HushError, SizeError, WorkloadError
from hush.linops import Dense
from hush.models.relaxed import relaxed_fit, relaxed_loss
from hush.models.relaxed.relaxed_fit import fit_relaxed
from hush.models.relaxed.relaxed_loss import RelaxedLoss
from hush.models.relaxed.relaxed_rows import CoarseLevels, RelaxedRows
from hush.privacy.measurement import Measurement, placed
from hush.testing import check_operator
from hush.workloads.threshold_term import TargetRow

DOMAIN = hush.Domain({"a": 3, "b": 4, "c": 2, "wide": 40})


@pytest.fixture(scope="module")
def truth() -> np.ndarray:  # type: ignore[type-arg]
    generator = np.random.Generator(np.random.PCG64(2))
    return 5000 * generator.dirichlet(np.full(24, 0.5)).reshape(3, 4, 2)


def noisy(truth: np.ndarray, stddev: float = 5.0) -> list[Measurement]:  # type: ignore[type-arg]
    generator = np.random.Generator(np.random.PCG64(4))
    tables = {("a", "b"): truth.sum(axis=2), ("b", "c"): truth.sum(axis=0), ("a", "c"): truth.sum(axis=1)}
    wide = 5000 * generator.dirichlet(np.full(40, 0.3))
    listed = [*tables.items(), (("wide",), wide)]
    return [Measurement(clique, table + generator.normal(0, stddev, table.shape), stddev) for clique, table in listed]


def test_tables_are_met_as_an_exact_model_meets_them(truth: np.ndarray) -> None:  # type: ignore[type-arg]
    tables = noisy(truth)
    relaxed, exact = hush.fit(DOMAIN, tables, estimator="relaxed", rows=100), hush.fit(DOMAIN, tables)
    assert isinstance(relaxed.distribution, RelaxedRows)
    assert relaxed.exact
    assert relaxed.status == "solved"
    for clique in (("a", "b"), ("b", "c"), ("a", "c")):
        assert np.abs(relaxed.counts(clique) - exact.counts(clique)).max() < 2.0  # of noise of 5
    assert np.abs(relaxed.counts(("wide",)) - exact.counts(("wide",))).max() < 5.0


def test_levels_that_nothing_tells_apart_are_kept_as_one(truth: np.ndarray) -> None:  # type: ignore[type-arg]
    merged = Dense(np.equal.outer(np.arange(3), np.repeat(np.arange(3), [1, 1, 38])).astype(float))
    asked = Measurement(("a", "wide"), np.ones(9), 1.0, query={"a": queries.identity, "wide": lambda _: merged})
    target = Measurement(("b", "wide"), [3.0], 1.0, query=TargetRow((4, 40), (2, 7), 2))
    coarse = CoarseLevels.of(DOMAIN, placed(DOMAIN, [*noisy(truth), asked]))
    assert coarse.sizes == (3, 4, 2, 3)
    assert CoarseLevels.of(DOMAIN, placed(DOMAIN, [*noisy(truth)[1:], asked, target])).sizes == (3, 4, 2, 4)


def test_cells_thresholds_products_and_sums_are_fitted_together(truth: np.ndarray) -> None:  # type: ignore[type-arg]
    """Exact answers of every kind, with little noise stated, are met."""
    cells = truth.reshape(-1)
    rows = [TargetRow((3, 4, 2), (1, 2, 0), r) for r in (1, 2, 3)]
    mixed = Dense(np.random.Generator(np.random.PCG64(1)).integers(0, 2, (4, 24)).astype(float))
    small = hush.Domain({"a": 3, "b": 4, "c": 2})
    measurements = [
        Measurement(("a",), truth.sum(axis=(1, 2)), 1.0),
        *(Measurement(("a", "b", "c"), row @ cells, 1.0, query=row) for row in rows),
        Measurement(("a", "b", "c"), mixed @ cells, 1.0, query=mixed),
        Measurement(("b",), np.cumsum(truth.sum(axis=(0, 2))), 1.0, query={"b": queries.prefix}),
    ]
    model = hush.fit(small, measurements, estimator="relaxed", rows=60)
    assert max(model.misfit.values()) < 1.0
    joint = model.counts(("a", "b", "c")).reshape(-1)
    for row in rows:
        assert float((row @ joint)[0]) == pytest.approx(float((row @ cells)[0]), abs=3.0)


def test_a_fit_goes_on_from_an_earlier_one(truth: np.ndarray) -> None:  # type: ignore[type-arg]
    tables = noisy(truth)
    first = hush.fit(DOMAIN, tables[2:], estimator="relaxed", rows=50)
    again = hush.fit(DOMAIN, tables, estimator="relaxed", start=first)
    fresh = hush.fit(DOMAIN, tables, estimator="relaxed", rows=50)
    assert again.stats["value"] == pytest.approx(fresh.stats["value"], rel=0.2, abs=1.0)
    with pytest.raises(WorkloadError, match="start has 50 rows"):
        hush.fit(DOMAIN, tables, estimator="relaxed", start=first, rows=60)
    with pytest.raises(WorkloadError, match="start is no fit of relaxed rows"):
        hush.fit(DOMAIN, tables, estimator="relaxed", start=hush.fit(DOMAIN, tables))
    with pytest.raises(DomainError, match="another domain"):
        fit_relaxed(hush.Domain({"a": 3}), tables[:0], total=9.0, start=first.distribution)  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_rows(truth: np.ndarray) -> None:  # type: ignore[type-arg]
    tables = noisy(truth)
    one, two, other = (
        hush.fit(DOMAIN, tables, estimator="relaxed", rows=20, iterations=30, seed=seed) for seed in (1, 1, 2)
    )
    assert np.array_equal(one.counts(("a", "b")), two.counts(("a", "b")))
    assert not np.array_equal(one.counts(("a", "b")), other.counts(("a", "b")))


def test_files_keep_rows_bit_for_bit(truth: np.ndarray, tmp_path: Path) -> None:  # type: ignore[type-arg]
    model = hush.fit(DOMAIN, noisy(truth), estimator="relaxed", rows=30, iterations=40)
    model.save(tmp_path / "model.hush")
    loaded = hush.load(tmp_path / "model.hush")
    assert np.array_equal(loaded.counts(("a", "wide")), model.counts(("a", "wide")))
    assert loaded.synthesize(50, seed=3).equals(model.synthesize(50, seed=3))
    answer = "SELECT COUNT(*) FROM t WHERE a = 1 AND c = 0"
    assert loaded.sql(answer).estimate == pytest.approx(model.counts(("a", "c"))[1, 0])


def test_files_with_impossible_rows_are_refused(truth: np.ndarray, tmp_path: Path) -> None:  # type: ignore[type-arg]
    model = hush.fit(DOMAIN, noisy(truth), estimator="relaxed", rows=30, iterations=40)
    rows = model.distribution
    assert isinstance(rows, RelaxedRows)
    for spoiled in (np.abs(rows.rows - 0.5), 2 * rows.rows, -rows.rows):
        model.distribution = RelaxedRows(rows.coarse, spoiled, rows.total)
        model.save(tmp_path / "model.hush", overwrite=True)
        with pytest.raises(ArchiveError, match="no probabilities"):
            hush.load(tmp_path / "model.hush")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 0}, "rows=0: expected a whole number"),
        ({"rows": 2.5}, "rows=2.5"),
        ({"method": "approximate"}, "method='approximate': relaxed rows cannot use it"),
        ({"loss": "laplace"}, "loss='laplace': relaxed rows cannot use it"),
        ({"callback": print}, "callback=.*relaxed rows cannot use it"),
        ({"estimator": "natural", "rows": 5}, "rows=5: an estimator other than 'relaxed' cannot use it"),
        ({"constraints": [hush.Constraint.forbid(DOMAIN, ("a", "b"), [(0, 0)])]}, "the schema forbids some"),
    ],
)
def test_what_it_cannot_use_is_refused(truth: np.ndarray, options: dict[str, object], message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(HushError, match=message):
        hush.fit(DOMAIN, noisy(truth), **{"estimator": "relaxed", **options})  # type: ignore[arg-type]


def test_rows_beyond_a_limit_are_refused(truth: np.ndarray) -> None:  # type: ignore[type-arg]
    with pytest.raises(SizeError, match="more than max_size_mb"):
        hush.fit(DOMAIN, noisy(truth), estimator="relaxed", rows=100_000, max_size_mb=1.0)
    with pytest.raises(WorkloadError, match="relaxed rows have none in closed form"):
        hush.fit(DOMAIN, noisy(truth), estimator="relaxed", rows=10, iterations=5).entropy()


def test_restrained_rows_follow_less_of_the_noise() -> None:
    """The loss ends where it is asked to, and independent columns are nearer to the truth, over ten noises."""
    small = hush.Domain({"a": 3, "b": 4, "c": 2})
    shares = [np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.7, 0.3])]
    truth = 5000 * np.multiply.outer(np.multiply.outer(shares[0], shares[1]), shares[2])
    generator = np.random.Generator(np.random.PCG64(11))
    gained = 0.0
    for _ in range(10):
        columns = [Measurement((name,), 5000 * share, 20.0) for name, share in zip(small, shares, strict=True)]
        table = Measurement(("a", "b", "c"), truth + generator.normal(0, 60, truth.shape), 60.0)
        found = {
            r: fit_relaxed(small, [table, *columns], rows=40, start_shared=0.95, tolerance=0.1, restraint=r)
            for r in (0.0, 0.5)
        }
        stats = found[0.5].stats
        enough = stats["least"] + 0.5 * (0.5 * (24 + 9) - stats["least"])
        assert stats["least"] == pytest.approx(found[0.0].stats["value"])
        assert stats["least"] < stats["value"] <= enough
        gaps = {r: float(((one.value.counts(("a", "b", "c")) - truth) ** 2).sum()) for r, one in found.items()}
        gained += gaps[0.0] - gaps[0.5]
    assert gained > 0


def test_columns_that_nothing_ties_are_nearly_independent(truth: np.ndarray) -> None:  # type: ignore[type-arg]
    """Rows that start far apart have ties between all columns by chance, and those that nothing pulls on stay."""
    small = hush.Domain({"a": 3, "b": 4, "c": 2, "d": 2})
    tables = [
        Measurement(("a", "b"), truth.sum(axis=2), 50.0),
        Measurement(("c", "d"), [[900.0, 1600], [1600, 900]], 50.0),
    ]
    tied = {}
    for alike in (0.0, 0.95):
        rows = fit_relaxed(small, tables, rows=100, start_shared=alike).value
        table = rows.counts(("a", "b", "c", "d"))
        apart = np.multiply.outer(table.sum(axis=(2, 3)), table.sum(axis=(0, 1))) / rows.total
        tied[alike] = float(np.abs(table - apart).sum()) / rows.total
    assert tied[0.95] < tied[0.0] / 2
    with pytest.raises(WorkloadError, match="start_shared=1: expected a number"):
        fit_relaxed(small, tables, start_shared=1)


def test_formulas_over_wide_columns_are_evidence_without_their_table() -> None:
    """Answers to conditions over six columns of 1,000 levels, whose table has 10^18 cells, are met."""
    wide = hush.Domain({f"c{i}": 1000 for i in range(6)})
    half = [queries.test(name, range(500)) for name in wide]
    workload = hush.Workload.formulas(wide, [queries.at_least(4, *half), half[0] & half[1], half[0] | ~half[5]])
    terms: list[Any] = list(workload)
    goals = (600.0, 450.0, 700.0)
    asked = [
        Measurement(term.clique, [goal], 5.0, query=term.operator) for term, goal in zip(terms, goals, strict=True)
    ]
    rows = fit_relaxed(wide, asked, total=1000.0, rows=40, iterations=300).value
    assert rows.coarse.sizes == (2,) * 6
    blocks = {name: rows.coarse.spread(name, rows.block(name)) for name in wide}
    for term, goal in zip(terms, goals, strict=True):
        satisfied, _ = term.value_and_gradient(blocks)
        assert 1000 * float(rows.weights @ satisfied) == pytest.approx(goal, abs=5.0)


def test_single_answers_over_wide_columns_are_fitted_without_their_lines() -> None:
    """A line of the target's matrix has 10^12 numbers, which nobody could hold."""
    wide = hush.Domain({f"c{i}": 1000 for i in range(4)})
    sizes = wide.shape
    column = Measurement(("c0",), np.full(1000, 5.0), 1.0)
    target = Measurement(tuple(wide), [900.0], 5.0, query=TargetRow(sizes, (1, 2, 3, 4), 2))
    rows = fit_relaxed(wide, [column, target], rows=40, iterations=300).value
    assert rows.total == pytest.approx(5000.0)
    x = np.array([rows.coarse.spread(name, rows.block(name))[:, i + 1] for i, name in enumerate(wide)])
    none, first = np.prod(1 - x, axis=0), sum(x[i] * np.prod(np.delete(1 - x, i, axis=0), axis=0) for i in range(4))
    assert 5000 * float(rows.weights @ (1 - none - first)) == pytest.approx(900.0, abs=10.0)


def test_a_formula_is_the_operator_of_its_cells() -> None:
    small = hush.Domain({"a": 3, "b": 4, "c": 2})
    term: Any = hush.Workload.formulas(
        small, [queries.test("a", 1) | (queries.test("b", 2) & queries.test("c", 0))]
    ).terms[0]
    check_operator(term.operator)
    cells = np.arange(24.0)
    assert (term.operator @ cells).tolist() == term.exact_answers(cells.reshape(3, 4, 2)).tolist()


def test_many_wide_columns_take_the_room_of_their_rows() -> None:
    """100 columns of 1,000 levels with every twentieth pair noisy: no junction tree fits, 50 rows do."""
    domain = hush.Domain({f"c{i}": 1000 for i in range(100)})
    generator = np.random.Generator(np.random.PCG64(5))
    halves = Dense(np.equal.outer(np.arange(2), np.arange(1000) // 500).astype(float))
    pairs = [(f"c{i}", f"c{j}") for i in range(100) for j in range(i + 1, 100) if (i + j) % 20 == 0]
    tied = {pair: generator.uniform(0.3, 0.7) for pair in pairs}
    tables = [
        Measurement(pair, 500 * np.array([t, 1 - t, 1 - t, t]), 50.0, query=dict.fromkeys(pair, lambda _: halves))
        for pair, t in tied.items()
    ]
    fitted = fit_relaxed(domain, tables, total=1000.0, rows=50, iterations=30)
    assert fitted.value.rows.shape == (50, 200)
    assert fitted.stats["value"] < 0.5 * 4 * len(tables)
    assert fitted.value.counts(("c0", "c20")).sum() == pytest.approx(1000.0)


def test_parts_of_the_tables_stand_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of the parts have the mean that all tables have, and steps on parts alone come near the tables."""
    monkeypatch.setattr(relaxed_loss, "QUICK_STEP_NUMBERS", 4)
    domain = hush.Domain({"a": 2, "b": 3, "c": 2})
    generator = np.random.Generator(np.random.PCG64(5))
    cells = 100 * generator.dirichlet(np.ones(12)).reshape(2, 3, 2)
    noisy = [
        Measurement(("a", "b"), cells.sum(axis=2), 1.0),
        Measurement(("b", "c"), cells.sum(axis=0), 2.0),
        Measurement(("a", "c"), cells.sum(axis=1), 0.5),
    ]
    coarse = CoarseLevels.of(domain, noisy)
    loss = RelaxedLoss(coarse, noisy, 100.0)
    assert loss.parts == 3
    levels = np.concatenate([generator.dirichlet(np.ones(n), 5).T for n in (2, 3, 2)])
    weights = np.full(5, 0.2)
    value, gradient = loss.value_and_gradient(levels, weights)
    parts = [loss.value_and_gradient(levels, weights, part, 3) for part in range(3)]
    assert np.mean([one for one, _ in parts]) == pytest.approx(value)
    assert np.mean([one for _, one in parts], axis=0) == pytest.approx(gradient)
    assert not np.allclose(parts[0][1], gradient)
    fitted = fit_relaxed(domain, noisy, total=100.0, rows=40)
    monkeypatch.setattr(relaxed_fit, "QUICK_PASSES", 100)
    rough = fit_relaxed(domain, noisy, total=100.0, rows=40, iterations=1)
    assert fitted.stats["value"] < 0.1
    assert rough.stats["value"] < 50  # all rows alike have 500
