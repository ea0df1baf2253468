"""Estimates of noisy tables and a model: exact inside measured tables, bounded elsewhere, or with no error at all."""

import itertools
import math

import numpy as np
import pytest

import hush
from hush.core.domain import Clique
from hush.core.errors import DomainError, QueryError, SizeError
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.inference.estimates import BoundedEstimates, Estimates
from hush.linops import AllRange, Dense, Identity, Prefix, Total
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.measurement import Measurement
from hush.release.answers import Answers
from hush.release.error_bounds import ErrorBounds
from hush.release.model_estimates import MeasuredEstimates
from hush.release.record import Round, Scored
from hush.release.sql_answers import answer_sql
from hush.release.term_answers import bounded_term_answers, table_answers, with_model_estimates
from hush.schema import Categorical, Integer, Schema
from hush.workloads import ProductTerm

SCHEMA = Schema(
    [
        Categorical(name="a", values=("x", "y", "z")),
        Integer(name="b", low=0, high=3),
        Categorical(name="c", values=("u", "v")),
        Categorical(name="d", values=("p", "q")),
    ]
)
DOMAIN = SCHEMA.domain
SCORED = [clique for k in (1, 2) for clique in itertools.combinations(("a", "b", "c"), k)]
CHOSEN = Round(
    clique=("a", "b"),
    epsilon=1.0,
    stddev=2.0,
    candidates=6,
    misfit=90.0,
    penalty=19.0,
    weight=2.0,
    annealed=False,
    size_mb=0.1,
)


def made(unbiased: bool = True) -> MeasuredEstimates:
    """a and b were measured together; (a, c) and (b, c) could have been; nothing is known of d."""
    table = np.array([[40.0, 30, 20, -9], [50, 60, 70, 80], [25, 25, 25, 25]])
    noisy = [Measurement(("a", "b"), table, 2.0), Measurement(("c",), [200.0, 239.0], 2.0)]
    size = len(SCORED)
    last = Scored(
        cliques=tuple(SCORED),
        weights=np.array([float(len(clique)) for clique in SCORED]),
        rounds=np.zeros(size, dtype=np.int64),
        penalties=np.array([1.6 * DOMAIN.size(clique) for clique in SCORED]),
        slacks=np.full(size, 3.0),
        slopes=np.full(size, 2.0),
        distances=np.full(size, 1.0),
    )
    model = hush.fit(SCHEMA, noisy).distribution
    estimates = UnbiasedEstimates(DOMAIN, noisy) if unbiased else None
    bounds = ErrorBounds(DOMAIN, model, estimates, (CHOSEN,), last, model.total)
    return MeasuredEstimates(model, estimates, bounds)


MADE = made()
EXACT, BOUND, NONE = ("b", "a"), ("c", "a"), ("c", "d")


def test_implements_both_protocols() -> None:
    source: Estimates = MADE
    bounded: BoundedEstimates = MADE
    assert isinstance(bounded, BoundedEstimates)
    assert source.domain == DOMAIN
    assert source.cliques == (("c",), ("a", "b"))
    assert made(unbiased=False).cliques == (DOMAIN.attributes,)
    assert not isinstance(UnbiasedEstimates(DOMAIN, [Measurement((), 5.0, 1.0)]), BoundedEstimates)


@pytest.mark.parametrize(
    ("clique", "exact", "known"), [(EXACT, True, True), (BOUND, False, True), (NONE, False, False)]
)
def test_every_table_is_covered_as_well_as_it_can_be(clique: Clique, exact: bool, known: bool) -> None:
    assert MADE.covers(clique)
    assert MADE.has_covariance(clique) is exact
    assert MADE.counts(clique).shape == DOMAIN.sizes(clique)
    ones = np.ones(DOMAIN.sizes(clique))
    assert np.isfinite(MADE.covariance(clique, ones, ones, 1)).all() == exact
    values, variances = MADE.product(clique, [Identity(size) for size in ones.shape])
    np.testing.assert_allclose(values, MADE.counts(clique))
    assert np.isfinite(variances).all() == exact
    assert MADE.for_sums(clique, ones, 0) is None
    assert math.isfinite(MADE.l1_bound(clique, 0.9)) == known


def test_counts_are_unbiased_where_they_can_be() -> None:
    unbiased, model = MADE.bounds.unbiased, made(unbiased=False)
    assert unbiased is not None
    np.testing.assert_array_equal(MADE.counts(EXACT), unbiased.counts(EXACT))
    assert not np.allclose(MADE.counts(EXACT), model.counts(EXACT), atol=0.01)
    np.testing.assert_array_equal(MADE.counts(BOUND), model.counts(BOUND))
    with pytest.raises(DomainError, match="'z' is not in the domain"):
        MADE.covers(("z",))


def bases(answers: Answers) -> set[str]:
    return set(answers.basis.tolist())


def test_marginals_of_all_three_bases() -> None:
    asked = (EXACT, BOUND, NONE)
    exact, bound, none = (table_answers(SCHEMA, clique, MADE, level=0.9, notes=["N."]) for clique in asked)
    assert (bases(exact), bases(bound), bases(none)) == ({"exact"}, {"bound"}, {"none"})
    assert np.isfinite(exact.std_error).all()
    assert np.isnan(bound.std_error).all()
    drift = MADE.bounds._drift(1 - 0.9)
    half = (MADE.l1_bound(BOUND, 0.9) + drift) / 2
    np.testing.assert_allclose(bound.upper - bound.estimate, half)
    np.testing.assert_allclose(bound.estimate - bound.lower, half)
    assert np.isnan(none.lower).all()
    assert [answers.notes[-1] for answers in (exact, bound, none)] == ["N."] * 3
    assert f"at most {math.ceil(MADE.l1_bound(BOUND, 0.9)):,}, by a bound that holds with 90 %" in bound.notes[0]
    assert "c, d: from the fitted model; how far it is off is not known." in none.notes
    with pytest.raises(QueryError, match="level=2"):
        table_answers(SCHEMA, EXACT, MADE, level=2)


def test_without_a_total_a_cell_may_be_off_by_the_whole_bound() -> None:
    plain = made(unbiased=False)
    answers = table_answers(SCHEMA, BOUND, plain)
    np.testing.assert_allclose(answers.upper - answers.estimate, plain.l1_bound(BOUND, 0.95))


@pytest.mark.parametrize(
    ("query", "basis"),
    [
        ("SELECT a, COUNT(*) AS n FROM t GROUP BY a", "exact"),
        ("SELECT COUNT(*) AS n FROM t WHERE a = 'x' AND b > 1", "exact"),
        ("SELECT AVG(b) AS n FROM t", "approximate"),
        ("SELECT a, COUNT(*) AS n FROM t WHERE c = 'u' GROUP BY a", "bound"),
        ("SELECT c, SUM(b) AS n FROM t GROUP BY c", "bound"),
        ("SELECT c, AVG(b) AS n FROM t GROUP BY c", "bound"),
        ("SELECT COUNT(*) AS n FROM t WHERE c = 'u' AND d = 'q'", "none"),
        ("SELECT d, AVG(b) AS n FROM t GROUP BY d", "none"),
    ],
)
def test_sql_answers_of_every_basis(query: str, basis: str) -> None:
    answers = answer_sql(query, SCHEMA, MADE, level=0.9)
    assert bases(answers) == {basis}
    assert np.isfinite(answers.estimate).all()
    assert np.isfinite(answers.lower).all() == (basis != "none")
    assert np.isfinite(answers.std_error).all() == (basis in ("exact", "approximate"))
    assert any("delta method" in note for note in answers.notes) == (basis == "approximate")
    assert any("from the fitted model" in note for note in answers.notes) == (basis in ("bound", "none"))


@pytest.mark.parametrize(
    ("query", "lowest", "highest"),
    [
        ("SELECT a, COUNT(*) AS n FROM t WHERE c = 'u' GROUP BY a", 0, 1),
        ("SELECT COUNT(*) AS n FROM t WHERE b > 0 AND c = 'u'", 0, 1),
        ("SELECT c, SUM(b) AS n FROM t GROUP BY c", 0, 3),
        ("SELECT SUM(b) FILTER (WHERE c = 'u') - 2 * COUNT(*) FILTER (WHERE c = 'v') AS n FROM t", -2, 3),
    ],
)
def test_the_interval_of_a_sum_is_by_its_coefficients(query: str, lowest: float, highest: float) -> None:
    answers = answer_sql(query, SCHEMA, MADE, level=0.8)
    clique = ("a", "c") if "BY a" in query else ("b", "c")
    expected = MADE.margin(clique, np.array(lowest), np.array(highest), 0.8)
    np.testing.assert_allclose(answers.upper - answers.estimate, expected)
    assert (answer_sql(query, SCHEMA, MADE, level=0.99).upper > answers.upper).all()


def test_values_of_one_query_have_bases_of_their_own() -> None:
    query = (
        "SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE a = 'x' AND c = 'u') AS m, COUNT(*) FILTER (WHERE d = 'p') AS k"
    )
    answers = answer_sql(f"{query} FROM t", SCHEMA, MADE)
    assert [answers[name].basis.tolist() for name in ("n", "m", "k")] == [["exact"], ["bound"], ["none"]]
    text = " ".join(str(answers).split())
    assert (
        "± one standard error, exact; intervals of m hold with 95 %, by a bound on the error of the whole table" in text
    )


@pytest.mark.parametrize(("clique", "basis"), [(("a", "b"), "exact"), (("b", "c"), "bound"), (("c", "d"), "none")])
def test_terms_of_all_three_bases(clique: Clique, basis: str) -> None:
    term = ProductTerm(clique, (Prefix(DOMAIN[clique[0]]), Identity(DOMAIN[clique[1]])))
    answers = bounded_term_answers(SCHEMA, term, MADE, level=0.9, notes=["N."])
    assert bases(answers) == {basis}
    assert answers.notes[-1] == "N."
    assert np.isfinite(answers.lower).all() == (basis != "none")
    np.testing.assert_allclose(answers.estimate.reshape(-1, DOMAIN[clique[1]])[-1], MADE.counts(clique).sum(axis=0))


def test_the_interval_of_a_query_is_by_its_coefficients() -> None:
    rows = np.array([[1.0, 2, 3, 0], [0, -5, 0, 0], [1, -1, 4, 0]])
    answers = bounded_term_answers(SCHEMA, ProductTerm(("b", "c"), (Dense(rows), Total(2))), MADE)
    margins = [MADE.margin(("b", "c"), np.array(low), np.array(high), 0.95) for low, high in ((0, 3), (-5, 0), (-4, 4))]
    np.testing.assert_allclose(answers.upper - answers.estimate, margins)
    ranges = bounded_term_answers(SCHEMA, ProductTerm(("b", "c"), (AllRange(4), Identity(2))), MADE)
    np.testing.assert_allclose(ranges.upper - ranges.estimate, MADE.margin(("b", "c"), np.zeros(()), np.ones(()), 0.95))


def test_a_margin_holds_with_its_table() -> None:
    """Sums over tables that are at their bound, with the most that a total can be off."""
    bound, drift = MADE.l1_bound(BOUND, 0.95), MADE.bounds._drift(1 - 0.95)
    gap = np.zeros(DOMAIN.sizes(BOUND))
    gap[0, 0], gap[1, 1] = (bound + drift) / 2, -(bound - drift) / 2
    random = np.random.Generator(np.random.PCG64(0))
    for _ in range(50):
        a = random.normal(size=gap.shape)
        assert abs((a * gap).sum()) <= MADE.margin(BOUND, a.min(), a.max(), 0.95) * (1 + 1e-12)


def test_tables_too_large_for_memory_are_refused() -> None:
    wide = Schema([Integer(name=name, low=0, high=9999) for name in ("e", "f", "g")])
    noisy = [Measurement(("e",), np.ones(10_000), 1.0)]
    model = hush.fit(wide, noisy).distribution
    bounds = ErrorBounds(wide.domain, model, None, (), None, model.total)
    with pytest.raises((SizeError, QueryError), match="cells"):
        answer_sql("SELECT e, f, g, COUNT(*) FROM t GROUP BY e, f, g", wide, MeasuredEstimates(model, None, bounds))


def test_the_model_stands_in_for_noisy_tables_that_it_explains() -> None:
    """Tables from a model with noise of the stated size: the model is kept; with a tenth of that noise it is not."""
    random = np.random.default_rng(4)
    sizes, clique = DOMAIN.sizes(("a", "b", "d")), ("a", "b", "d")
    model = hush.fit(SCHEMA, [Measurement(clique, random.integers(20, 90, sizes), 1.0)]).distribution
    exact = model.counts(clique)
    for stated, closer in ((10.0, True), (1.0, False)):
        noisy = [Measurement(clique, exact + random.normal(0, 10.0, exact.shape), stated)]
        unbiased = UnbiasedEstimates(DOMAIN, noisy)
        bounds = ErrorBounds(DOMAIN, model, unbiased, (), None, model.total)
        estimates = MeasuredEstimates(model, unbiased, bounds, noisy)
        assert (estimates.closer_model(("b",)) is not None) is closer
        assert estimates.closer_model(("b", "c")) is None  # not measured: the model answers anyway, with a bound


def test_intervals_around_a_model_hold_the_noise_and_the_model_without_impossible_values() -> None:
    answers = table_answers(SCHEMA, ("a",), made())
    lower, upper = answers.quantities[0].intervals.at(0.95)
    values = np.array([lower[0] - 3.0, upper[1] + 3.0, (lower[2] + upper[2]) / 2])
    changed = with_model_estimates(answers, values)
    assert changed.basis.tolist() == ["model"] * 3
    np.testing.assert_array_equal(changed.estimate, values)
    np.testing.assert_allclose(changed.lower, [values[0], lower[1], lower[2]])
    np.testing.assert_allclose(changed.upper, [upper[0], values[1], upper[2]])
    np.testing.assert_array_equal(changed.std_error, answers.std_error)
    below = with_model_estimates(answers, np.zeros(3), np.array([-1, 1, 0], dtype=np.int8))
    np.testing.assert_allclose(below.lower, [0, 0, 0])
    np.testing.assert_allclose(below.upper, [0, upper[1], upper[2]])
    assert changed.take(np.array([2, 0])).lower[1] == values[0]


@pytest.mark.parametrize("mechanism", ["aim", "mst", "rap"])
def test_a_release_gives_the_closer_estimate_and_unbiased_cells_when_asked(mechanism: str) -> None:
    """At a small budget the model has less squared error than the noisy cells of the measured tables.

    That is so over eight releases (ratios of .81, .23 and .78); a single release of aim or rap may be worse.
    """
    schema = hush.datasets.people_schema().select("age", "sex", "region", "employed")
    table = hush.read(hush.datasets.people(2000, seed=3), schema)
    plan = hush.plan(hush.Workload.kway(schema, 2), hush.Budget(rho=0.01), mechanism=mechanism)
    errors: dict[str, float] = {"closer": 0.0, "unbiased": 0.0}
    for seed in range(8):
        release = plan.release(table, entropy=NotPrivateEntropy(seed))
        measured = [c for c in release.workload.cliques if release.estimates.closer_model(c) is not None]
        assert measured
        for clique in measured:
            true = table.counts([clique])[clique]
            closer, unbiased = release.counts(clique), release.counts(clique, unbiased=True)
            np.testing.assert_array_equal(closer, release.model().counts(clique))
            np.testing.assert_array_equal(unbiased, release.estimates.counts(clique))
            errors["closer"] += float(np.sum((closer - true) ** 2))
            errors["unbiased"] += float(np.sum((unbiased - true) ** 2))
            answers, noisy = release.marginal(*clique), release.marginal(*clique, unbiased=True)
            np.testing.assert_array_equal(answers.estimate, closer.ravel())
            np.testing.assert_array_equal(noisy.estimate, unbiased.ravel())
            assert set(answers.basis) == {"model"}
            assert set(noisy.basis) == {"exact"}
            assert (answers.lower <= np.minimum(np.maximum(noisy.lower, 0), closer.ravel())).all()
            assert (answers.upper >= np.maximum(noisy.upper, closer.ravel())).all()
    assert errors["closer"] < 0.9 * errors["unbiased"]
    one, first = measured[0], measured[0][:1]
    count = release.threshold(*one, r=1)
    term = hush.Workload.thresholds(schema.domain, 2, 1, [one]).terms[0]
    np.testing.assert_allclose(count.estimate, term.exact_answers(release.counts(one)).ravel())
    below = release.term(hush.Workload.product(schema.domain, {first[0]: hush.queries.prefix}).terms[0])
    np.testing.assert_allclose(below.estimate, np.cumsum(release.counts(first)))
    assert set(count.basis) == set(below.basis) == {"model"}
    other = next(c for c in itertools.combinations(schema.domain, 3) if not release.estimates.has_covariance(c))
    assert set(release.marginal(*other).basis) <= {"bound", "none"}
    with pytest.raises(QueryError, match="no unbiased estimate of it; leave unbiased=True out"):
        release.marginal(*other, unbiased=True)


def test_releases_without_a_model_of_their_own_are_unbiased_either_way() -> None:
    table = hush.read(hush.datasets.people(500, seed=3), hush.datasets.people_schema())
    release = hush.plan(hush.Workload.kway(table.domain, 1), hush.Budget(rho=0.5), mechanism="residual").release(table)
    assert release.marginal("sex", unbiased=True) == release.marginal("sex")
    np.testing.assert_array_equal(release.counts("sex", unbiased=True), release.counts("sex"))
