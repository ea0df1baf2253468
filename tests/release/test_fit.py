"""hush.fit: noisy tables from anywhere become one model; what cannot is refused before any work."""

import math
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hush
from hush import Constraint, Domain, Measurement, Model, Schema, fit, queries
from hush.core.errors import DataError, DomainError, HushError, SizeError, WorkloadError
from hush.core.solution import TOLERANCE
from hush.linops import Dense
from hush.models.local.local_model import LocalModel
from hush.models.relaxed.relaxed_rows import RelaxedRows
from hush.release.fit import (
    FIT_SECONDS,
    LONGEST_FIT_FACTOR,
    NOISE_TOLERANCE,
    SECONDS_PER_CELL,
    SECONDS_PER_PRODUCT,
    FitChoice,
    fit_chosen,
)
from hush.tables.table import Table

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})
PAIRS = [("a", "b"), ("b", "c")]


def measured(*cliques: tuple[str, ...], seed: int = 1, stddev: float = 2.0) -> list[Measurement]:
    """Noisy tables of 200 records that spread evenly."""
    chance = np.random.Generator(np.random.PCG64(seed))
    return [
        Measurement(clique, 200 / DOMAIN.size(clique) + stddev * chance.normal(size=DOMAIN.sizes(clique)), stddev)
        for clique in cliques
    ]


def table(clique: tuple[str, ...] = ("a", "b"), values: Any = None, stddev: Any = 1.0, **options: Any) -> Measurement:
    return Measurement(clique, np.ones(DOMAIN.sizes(clique)) if values is None else values, stddev, **options)


def loop(size: int) -> tuple[Domain, list[Measurement]]:
    """Every pair of attributes, so that the only node of the tree is the whole domain."""
    domain = Domain({f"x{i}": 40 for i in range(size)})
    pairs = [(f"x{i}", f"x{j}") for i in range(size) for j in range(i)]
    return domain, [Measurement(pair, np.ones((40, 40)), 1.0) for pair in pairs]


# bad input


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: [table(values=np.ones((4, 3)))], DataError, r"shape \(4, 3\): expected \(3, 4\)"),
        (lambda: [table(values=np.ones(11))], DataError, r"shape \(11,\): expected \(3, 4\)"),
        (lambda: [table(values=np.full((3, 4), np.nan))], DataError, "NaN or infinite"),
        (lambda: [table(values=np.full((3, 4), np.inf))], DataError, "NaN or infinite"),
        (lambda: [table(values=[])], DataError, "empty"),
        (lambda: [table(values=[["x"] * 4] * 3)], DataError, "real numbers"),
        (lambda: [table(values=[[1.0], [1.0, 2.0]])], DataError, "every row of one length"),
        (lambda: [table(stddev=0.0)], DataError, r"stddev=0\.0: expected a number from"),
        (lambda: [table(stddev=-1.0)], DataError, "expected a number from 1e-60"),
        (lambda: [table(stddev=np.nan)], DataError, "expected a finite number from 1e-60"),
        (lambda: [table(stddev="1")], DataError, "expected a number from 1e-60"),
        (lambda: [Measurement(("a", "x"), np.ones((3, 4)), 1.0)], DomainError, "'x' is not in the domain"),
        (lambda: [Measurement(("a", "a"), np.ones((3, 3)), 1.0)], DomainError, "twice"),
        (lambda: [table(noise="uniform")], DataError, "expected one of 'gaussian', 'laplace'"),
        (lambda: [table(query={"a": queries.prefix})], WorkloadError, "one for each attribute"),
        (lambda: [table(query=Dense(np.ones((12, 5))))], WorkloadError, "5 columns: expected 12"),
        (list, DataError, "no measurements"),
        (lambda: [np.ones((3, 4))], DataError, "is not a measurement"),
        (lambda: ["ab"], DataError, "is not a measurement"),
    ],
)
def test_bad_measurements_are_refused(make: Any, error: type[HushError], text: str) -> None:
    with pytest.raises(error, match=text):
        hush.fit(DOMAIN, make())


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"total": 0}, DataError, "expected a number from 1e-60"),
        ({"total": -5.0}, DataError, "expected a number from 1e-60"),
        ({"total": np.inf}, DataError, "finite"),
        ({"total": "many"}, DataError, "expected a number from 1e-60 to 1e.?60, the number of rows"),
        ({"total": True}, DataError, "expected a number from 1e-60 to 1e.?60, the number of rows"),
        ({"method": "best"}, WorkloadError, "expected one of 'auto', 'exact', 'approximate'"),
        (
            {"estimator": "newton"},
            WorkloadError,
            "estimator='newton': expected one of 'natural', 'mirror', 'dual averaging', 'relaxed'",
        ),
        ({"tolerance": 0.0}, WorkloadError, "tolerance"),
        ({"tolerance": np.nan}, WorkloadError, "tolerance"),
        ({"iterations": 0}, WorkloadError, "iterations=0"),
        ({"iterations": 1.5}, WorkloadError, "iterations=1.5"),
        ({"max_size_mb": 0}, SizeError, "expected a .*number above 0, in megabytes"),
        ({"max_size_mb": np.nan}, SizeError, "expected a .*number above 0, in megabytes"),
        ({"max_size_mb": 1e-5}, SizeError, r"drop it|drop these|max_size_mb = 1e-05"),
        ({"loss": "hinge"}, WorkloadError, "loss"),
        ({"start": 3}, WorkloadError, "start=3"),
        ({"constraints": ["a"]}, DomainError, "expected a Constraint"),
        (
            {"method": "approximate", "estimator": "mirror"},
            WorkloadError,
            "estimator='mirror': an approximate fit cannot use it",
        ),
        ({"method": "approximate", "callback": print}, WorkloadError, "callback=.*: an approximate fit cannot use it"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], error: type[HushError], text: str) -> None:
    with pytest.raises(error, match=text):
        hush.fit(DOMAIN, measured(*PAIRS), **options)


@pytest.mark.parametrize("measurements", [None, 3, {"a": 1}, "ab"])
def test_what_is_no_list_of_measurements_is_refused(measurements: Any) -> None:
    with pytest.raises(DataError, match="hush.Measurement"):
        hush.fit(DOMAIN, measurements)


@pytest.mark.parametrize("domain", [None, 3, "ab", ["a"], {"a": 3, "b": 4}])
def test_what_is_neither_domain_nor_schema_is_refused(domain: Any) -> None:
    with pytest.raises(HushError, match="expected a Schema or a Domain"):
        hush.fit(domain, measured(("a", "b")))


@pytest.mark.parametrize("method", ["exact", "auto"])
def test_contradictory_zeros_are_refused(method: Any) -> None:
    """Pairwise checks find the first; only exact inference finds three attributes that must all differ."""
    rules = [Constraint.allow(DOMAIN, ("a", "b"), [(0, 0)]), Constraint.forbid(DOMAIN, ("b",), [(0,)])]
    with pytest.raises(DomainError, match="no possible value"):
        hush.fit(DOMAIN, measured(*PAIRS), constraints=rules, method=method)
    three = Domain({"x": 2, "y": 2, "z": 2})
    differ = [Constraint.forbid(three, pair, [(0, 0), (1, 1)]) for pair in [("x", "y"), ("y", "z"), ("x", "z")]]
    with pytest.raises(DomainError, match="no combination of levels is possible"):
        hush.fit(three, [Measurement(("x",), [5.0, 5.0], 1.0)], constraints=differ, method=method)


def test_a_model_beyond_memory_names_the_cliques_at_fault_at_once() -> None:
    domain, measurements = loop(12)
    start = time.process_time()
    with pytest.raises(SizeError, match=r"largest table is over x\d.*max_size_mb") as refused:
        hush.fit(domain, measurements, max_size_mb=80)
    assert "approximate" in str(refused.value)
    with pytest.raises(SizeError, match="takes"):  # the memory that is free, where no limit is given
        hush.fit(domain, measurements)
    assert time.process_time() - start < 60


def test_errors_hold_no_noisy_tables_in_full() -> None:
    with pytest.raises(HushError) as refused:
        hush.fit(DOMAIN, [np.arange(10_000.0)])  # type: ignore[list-item]
    assert len(str(refused.value)) < 300


# where the exact model is too large


def test_auto_takes_the_approximate_route_only_where_it_must() -> None:
    given = measured(("a", "b"), ("b", "c"), ("a", "c"))
    assert hush.fit(DOMAIN, given, method="auto").exact
    small = hush.fit(DOMAIN, given, method="auto", max_size_mb=1.5e-4)
    assert not small.exact
    assert "approximate" in repr(small)
    for clique in [("a", "b"), ("b", "c"), ("a", "c"), ("a", "b", "c")]:
        assert small.counts(clique).min() >= 0
        assert small.counts(clique).sum() == pytest.approx(small.total)
    np.testing.assert_allclose(small.counts(("a", "b")).sum(axis=1), small.counts(("a", "c")).sum(axis=1), atol=1e-4)


def test_a_model_beyond_memory_has_an_approximate_one() -> None:
    domain, measurements = loop(8)
    model = hush.fit(domain, measurements, method="auto", max_size_mb=80)
    assert not model.exact
    assert model.size_mb < 1
    np.testing.assert_allclose(model.counts(("x0", "x5")), 1.0, atol=1e-3)


def test_both_routes_agree_on_trees() -> None:
    given = measured(*PAIRS)
    exact, near = (hush.fit(DOMAIN, given, method=method, tolerance=1e-3) for method in ("exact", "approximate"))
    for pair in PAIRS:
        np.testing.assert_allclose(near.counts(pair), exact.counts(pair), atol=0.05)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"measurements": []}, HushError, "no measurements"),
        ({"total": -1.0}, DataError, "expected a number from 1e-60"),
        ({"tolerance": -1.0}, WorkloadError, "tolerance"),
        ({"iterations": 0}, WorkloadError, "iterations=0"),
        ({"max_size_mb": -1}, SizeError, "expected a .*number above 0, in megabytes"),
        ({"max_size_mb": np.nan, "method": "auto"}, SizeError, "expected a .*number above 0, in megabytes"),
        ({"max_size_mb": True, "method": "auto"}, SizeError, "expected a .*number above 0, in megabytes"),
        ({"start": 3}, WorkloadError, "start=3"),
        ({"constraints": [Constraint.forbid(DOMAIN, ("b",), [(0,), (1,), (2,)]),
                          Constraint.forbid(DOMAIN, ("a", "b"), [(i, 3) for i in range(3)])]}, DomainError, "possible"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_on_the_approximate_route_too(
    options: dict[str, Any], error: type[HushError], text: str
) -> None:
    with pytest.raises(error, match=text):
        hush.fit(DOMAIN, **{"measurements": measured(*PAIRS), "method": "approximate"} | options)


# what is fitted


def test_without_noise_the_tables_are_recovered() -> None:
    chance = np.random.Generator(np.random.PCG64(3))
    cells = chance.integers(0, 30, size=DOMAIN.shape).astype(float)
    given = [
        Measurement(("b", "a"), cells.sum(axis=2).T, 0.01),
        Measurement(("b", "c"), cells.sum(axis=0).ravel(), 0.01),
    ]
    model = hush.fit(DOMAIN, given)
    assert model.exact
    assert model.status == "solved"
    assert model.total == pytest.approx(cells.sum(), abs=0.1)
    np.testing.assert_allclose(model.counts(("a", "b")), cells.sum(axis=2), atol=0.1)
    np.testing.assert_allclose(model.counts(("c", "b")), cells.sum(axis=0).T, atol=0.1)


def test_one_measurement_may_come_alone_and_any_iterable_will_do() -> None:
    (one,) = measured(("a", "b"))
    alone, listed = hush.fit(DOMAIN, one), hush.fit(DOMAIN, iter([one]))  # type: ignore[arg-type]
    np.testing.assert_array_equal(alone.counts(("a", "b")), listed.counts(("a", "b")))


def test_the_total_is_estimated_or_given() -> None:
    given = [Measurement(("a",), [10.0, 20.0, 30.0], 1.0), Measurement(("c",), [33.0, 33.0], 1.0)]
    # variances of the totals are 3 and 2
    assert hush.fit(DOMAIN, given).total == pytest.approx((60 / 3 + 66 / 2) / (1 / 3 + 1 / 2))
    fixed = hush.fit(DOMAIN, given, total=50)
    assert fixed.total == 50.0
    assert fixed.counts(()) == pytest.approx(50.0)


def test_queries_and_laplace_noise_are_fitted_too() -> None:
    ages = np.array([1.0, 3.0, 6.0, 10.0])
    prefix = Measurement(("b",), ages, 0.01, query={"b": queries.prefix})
    np.testing.assert_allclose(hush.fit(DOMAIN, [prefix]).counts(("b",)), [1, 2, 3, 4], atol=0.05)
    heavy = [Measurement(("c",), values, 1.0, noise="laplace") for values in ([10.0, 5.0], [10.0, 5.0], [99.0, 5.0])]
    # the median of three, where the mean would be near 40
    np.testing.assert_allclose(hush.fit(DOMAIN, heavy, total=15.0).counts(("c",)), [10, 5], atol=1.0)


def test_constraints_of_the_schema_and_of_the_call_are_kept_exactly() -> None:
    schema = hush.Schema.from_domain(DOMAIN).with_constraints(Constraint.forbid(DOMAIN, ("a", "c"), [(0, 1)]))
    extra: Any = Constraint.forbid(DOMAIN, ("b", "c"), [(3, 0), (2, 0)])
    model = hush.fit(schema, measured(*PAIRS), constraints=extra)  # one may come alone
    assert model.counts(("a", "c"))[0, 1] == 0.0
    assert model.counts(("c", "b"))[0, 2:].tolist() == [0.0, 0.0]
    rows = model.synthesize(500, seed=1, method="sampling").to_pandas()
    assert not ((rows["a"] == 0) & (rows["c"] == 1)).any()
    assert not ((rows["b"] >= 2) & (rows["c"] == 0)).any()


def test_going_on_from_a_model_takes_fewer_iterations() -> None:
    given = measured(("a", "b"), ("b", "c"), ("a", "c"))
    before = hush.fit(DOMAIN, given)
    again = hush.fit(DOMAIN, given, start=before)
    assert again.stats["iterations"] < before.stats["iterations"]
    np.testing.assert_allclose(again.counts(("a", "c")), before.counts(("a", "c")), atol=0.2)
    more = hush.fit(DOMAIN, [*given, *measured(("a", "b", "c"))], start=before)
    assert more.status == "solved"


@pytest.mark.parametrize("estimator", ["natural", "mirror", "dual averaging"])
def test_every_estimator_finds_the_same_tables(estimator: Any) -> None:
    given = measured(("a", "b"), ("b", "c"), ("a", "c"))
    best = hush.fit(DOMAIN, given, tolerance=1e-4)
    found = hush.fit(DOMAIN, given, estimator=estimator, tolerance=1e-2, iterations=20_000)
    for clique in [("a", "b"), ("b", "c"), ("a", "c")]:
        np.testing.assert_allclose(found.counts(clique), best.counts(clique), atol=0.3)


def test_a_fit_that_is_stopped_says_so() -> None:
    model = hush.fit(DOMAIN, measured(("a", "b"), ("b", "c"), ("a", "c")), tolerance=1e-9, iterations=1)
    assert model.status != "solved"
    assert model.status in repr(model)


def test_the_same_input_gives_the_same_model() -> None:
    first, second = (hush.fit(DOMAIN, measured(*PAIRS)) for _ in range(2))
    np.testing.assert_array_equal(first.counts(("a", "c")), second.counts(("a", "c")))


def test_attributes_that_were_not_measured_are_uniform() -> None:
    model = hush.fit(DOMAIN, [Measurement(("a",), [10.0, 20.0, 30.0], 0.1)])
    np.testing.assert_allclose(model.counts(("c",)), [30.0, 30.0], rtol=1e-3)
    np.testing.assert_allclose(model.counts(("a", "c"))[:, 0], model.counts(("a",)) / 2)


@pytest.mark.parametrize("method", ["exact", "approximate"])
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"constraints": None}, "constraints=None: expected a list"),
        *(
            ({"total": total}, "total=.*: expected a (finite )?number from 1e-60")
            for total in (10**400, 1e300, 5e-324, np.nan)
        ),
        ({"estimator": []}, r"estimator=\[\]: "),
        ({"callback": 3}, "callback=3: expected a function"),
        *(({"seed": seed}, "seed=.*: expected a whole number") for seed in (-1, "x", 1.5, None, True, 2**63)),
    ],
)
def test_options_that_cannot_be_are_refused_with_words(method: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(HushError, match=text):
        hush.fit(Domain({"a": 2}), [Measurement(("a",), [4.0, 6.0], 1.0)], method=method, **options)


def test_seeds_of_arrays_are_saved_too(tmp_path: Path) -> None:
    listed = [Measurement(("a",), [4.0, 6.0], 1.0)]
    model = hush.fit(Domain({"a": 2}), listed, method="approximate", seed=np.int64(3))
    model.save(tmp_path / "x.hush")
    assert hush.load(tmp_path / "x.hush").counts(("a",)).tolist() == model.counts(("a",)).tolist()


def all_pairs(sizes: list[int], stddev: float = 5.0) -> tuple[Domain, list[Measurement]]:
    domain = Domain({f"c{number}": size for number, size in enumerate(sizes)})
    cliques = list(combinations(domain.attributes, 2))
    return domain, [Measurement(clique, np.full(domain.sizes(clique), 3.0), stddev) for clique in cliques]


@pytest.mark.parametrize(
    ("sizes", "rules", "kind"),
    [
        ([4, 5, 6], [], "exact"),
        ([10] * 6, [], "exact"),
        ([10, 20, 25, 30, 40, 12], [], "relaxed"),
        ([10, 20, 25, 30, 40, 12], [("c0", "c1")], "approximate"),
        ([2000, 2000, 2000], [], "approximate"),
    ],
)
def test_the_estimator_is_chosen_by_predicted_cost(sizes, rules, kind) -> None:
    domain, noisy = all_pairs(sizes)
    choice = FitChoice.of(domain, noisy, rules, None, 1000.0)
    assert choice.kind == kind
    cells = math.prod(sizes)
    if kind == "exact":
        assert choice.iterations is not None
        assert cells * choice.iterations * SECONDS_PER_CELL <= LONGEST_FIT_FACTOR * FIT_SECONDS
        assert choice.megabytes == pytest.approx(8e-6 * cells)
    if kind == "relaxed":
        numbers = sum(measurement.numbers for measurement in noisy)
        work = choice.rows * choice.iterations * numbers * SECONDS_PER_PRODUCT
        assert work <= LONGEST_FIT_FACTOR * FIT_SECONDS
        assert choice.megabytes == pytest.approx(8e-6 * choice.rows * sum(sizes))


def test_a_costly_exact_model_is_fitted_no_closer_than_its_noise() -> None:
    quick, slow = (FitChoice.of(*all_pairs(sizes), [], None, 1000.0) for sizes in ([4, 5, 6], [10] * 6))
    assert quick.tolerance == TOLERANCE < slow.tolerance
    assert slow.iterations >= 30
    assert FitChoice.of(*all_pairs([10] * 6), [], None, 1e7).iterations > slow.iterations
    assert FitChoice.of(*all_pairs([10] * 6), [], 1.0, 1000.0).kind == "relaxed"
    assert FitChoice.of(*all_pairs([10] * 6), [], 0.01, 1000.0).kind == "approximate"


def test_the_quick_estimators_are_as_near_to_the_truth_as_the_slow_one() -> None:
    """Twelve classes of rows in six columns: mean total variation over pairs, of each estimator at full length."""
    generator = np.random.default_rng(3)
    domain = Domain({f"c{number}": 5 for number in range(6)})
    classes = generator.dirichlet(np.full(5, 0.5), (12, 6))
    drawn = generator.integers(12, size=4000)
    codes = {
        name: (classes[drawn, axis].cumsum(axis=1) < generator.random((4000, 1))).sum(axis=1).clip(max=4)
        for axis, name in enumerate(domain)
    }
    pairs = list(combinations(domain.attributes, 2))
    truth = {pair: np.histogram2d(*(codes[name] for name in pair), bins=[np.arange(6)] * 2)[0] for pair in pairs}
    noisy = [Measurement(pair, truth[pair] + generator.normal(0, 25, (5, 5)), 25.0) for pair in pairs]

    def error(model: Model) -> float:
        tables = model.tables(pairs)
        return float(np.mean([np.abs(tables[pair] - truth[pair]).sum() / 8000 for pair in pairs]))

    schema = Schema.from_domain(domain)
    exact = error(fit(domain, noisy, total=4000))
    loose = FitChoice("exact", 1.0, NOISE_TOLERANCE, 30)
    rows = FitChoice("relaxed", 1.0, NOISE_TOLERANCE, 200, 300)
    for choice in (loose, rows):
        model = fit_chosen(schema, noisy, choice, total=4000, seed=0)
        assert error(model) <= 1.1 * exact
    assert any("mixture of 300 products" in caveat for caveat in model.caveats)
    assert error(fit_chosen(schema, noisy, FitChoice("exact", 1.0, NOISE_TOLERANCE, 1), total=4000, seed=0)) > exact


def skewed_release(epsilon: float) -> tuple[Table, hush.Release]:
    """Six columns of 12 to 30 levels, of which few hold most rows: too large for an exact model within seconds."""
    generator = np.random.default_rng(5)
    sizes, rows = [12, 20, 25, 30, 28, 24], 20_000
    ranks = generator.zipf(1.4, (rows, 6))
    ranks[:, 1:][generator.random((rows, 5)) < 0.5] = 1
    ranks[:, 3] = np.where(generator.random(rows) < 0.7, ranks[:, 2], ranks[:, 3])
    codes = {f"c{axis}": np.minimum(ranks[:, axis], size) - 1 for axis, size in enumerate(sizes)}
    domain = Domain(dict(zip(codes, sizes, strict=True)))
    table = hush.read(pa.table(codes), Schema.from_domain(domain))
    budget = hush.Budget(epsilon=epsilon, delta=1e-9)
    return table, hush.plan(hush.Workload.kway(domain, 2), budget, mechanism="residual").release(table)


def distance(table: Table, model: Model) -> float:
    """Mean total variation distance over pairs."""
    pairs = list(combinations(table.domain.attributes, 2))
    exact, found = table.counts(pairs), model.tables(pairs)
    return float(np.mean([np.abs(exact[p] / exact[p].sum() - found[p] / model.total).sum() / 2 for p in pairs]))


def test_tables_that_agree_replace_relaxed_rows_that_cannot_follow_what_was_measured() -> None:
    table, release = skewed_release(10.0)
    chosen = release.model()
    relaxed = hush.fit(release.schema, release.measurements(), estimator="relaxed", rows=300, iterations=60)
    assert isinstance(chosen.distribution, LocalModel)
    assert distance(table, chosen) < 0.7 * distance(table, relaxed)


def test_relaxed_rows_stay_where_agreeing_tables_would_follow_the_noise() -> None:
    """Four classes of rows, within which columns are independent, and much noise."""
    generator = np.random.default_rng(6)
    sizes, rows = [12, 20, 25, 30, 28, 24], 5_000
    drawn = generator.integers(4, size=rows)
    codes = {}
    for axis, size in enumerate(sizes):
        chances = generator.dirichlet(np.full(size, 0.5), 4)
        codes[f"c{axis}"] = (chances[drawn].cumsum(axis=1) < generator.random((rows, 1))).sum(axis=1).clip(max=size - 1)
    domain = Domain(dict(zip(codes, sizes, strict=True)))
    table = hush.read(pa.table(codes), Schema.from_domain(domain))
    budget = hush.Budget(epsilon=1.0, delta=1e-9)
    release = hush.plan(hush.Workload.kway(domain, 2), budget, mechanism="residual").release(table)
    chosen = release.model()
    assert isinstance(chosen.distribution, RelaxedRows)
    assert distance(table, chosen) < distance(table, release.model(method="approximate"))


def test_a_limit_on_the_size_keeps_relaxed_rows() -> None:
    table, _ = skewed_release(10.0)
    budget = hush.Budget(epsilon=30.0, delta=1e-9)
    release = hush.plan(hush.Workload.kway(table.domain, 3), budget, mechanism="residual").release(table)
    assert isinstance(release.model().distribution, LocalModel)
    assert isinstance(release.model(max_size_mb=0.5).distribution, RelaxedRows)
