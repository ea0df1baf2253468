"""Columns of a single level: workloads leave them out, releases answer tables with them, rows have them."""

import numpy as np
import pyarrow as pa
import pytest

import hush
from hush.core.errors import WorkloadError
from hush.inference.estimates import ConstantColumnEstimates, without_constant_columns
from hush.inference.residual_estimates import ResidualEstimates
from hush.linops import Dense
from hush.schema.column_kinds import Categorical, Integer

SCHEMA = hush.Schema(
    [
        Categorical(name="country", values=("NL",)),
        Integer(name="age", low=0, high=9),
        Categorical(name="sex", values=("f", "m")),
        Integer(name="year", low=2024, high=2024),
    ]
)
RANDOM = np.random.default_rng(5)
ROWS = pa.table(
    {
        "country": ["NL"] * 300,
        "age": RANDOM.integers(0, 10, 300),
        "sex": RANDOM.choice(["f", "m"], 300),
        "year": [2024] * 300,
    }
)
TABLE = hush.read(ROWS, SCHEMA)
DOMAIN = SCHEMA.domain
PLANNED = ("residual", "hdmm", "matrix", "direct", "gaussian", "independent", "aim", "mst", "mwem", "rap", "privbayes")


@pytest.mark.parametrize("mechanism", PLANNED)
def test_a_release_answers_tables_with_a_constant_column_and_rows_have_it(mechanism: str) -> None:
    workload = hush.Workload.upto(DOMAIN, 2)
    release = hush.plan(workload, hush.Budget(rho=1.0), mechanism=mechanism).release(TABLE)
    alone, both = release.marginal("sex"), release.marginal("year", "sex", "country")
    for name in ("estimate", "std_error", "lower", "upper"):
        np.testing.assert_allclose(both.to_arrow()[name], alone.to_arrow()[name], rtol=1e-14)
    np.testing.assert_allclose(release.counts("country", "sex"), release.counts("sex")[None], rtol=1e-14)
    total = release.sql("SELECT COUNT(*) FROM t").to_arrow()["estimate"]
    grouped = release.sql(
        "SELECT country, year, COUNT(*) FROM t WHERE country = 'NL' GROUP BY country, year"
    ).to_arrow()
    assert (grouped["country"].to_pylist(), grouped["year"].to_pylist()) == (["NL"], [2024])
    np.testing.assert_array_equal(grouped["estimate"], total)
    rows = release.synthesize(rows=20)
    assert set(rows["country"].to_pylist()) == {"NL"}
    assert set(rows["year"].to_pylist()) == {2024}


def test_sums_by_a_constant_column_are_those_of_all_rows() -> None:
    workload = hush.Workload.sums(SCHEMA, "age", by=["country"])
    release = hush.plan(workload, hush.Budget(rho=1e3)).release(TABLE)
    (mean,) = release.mean("age", by=["country"]).to_arrow()["estimate"].to_pylist()
    assert mean == pytest.approx(np.mean(ROWS["age"].to_numpy()), abs=0.1)


def test_every_statement_about_the_others_holds_with_a_constant_column() -> None:
    release = hush.plan(hush.Workload.kway(DOMAIN, 2), hush.Budget(rho=1.0), mechanism="residual").release(TABLE)
    estimates = release.estimates
    assert isinstance(estimates, ConstantColumnEstimates)
    inner = without_constant_columns(estimates)
    assert isinstance(inner, ResidualEstimates)
    first = RANDOM.random((2, 1, 10))
    expected = inner.covariance(("sex", "age"), first[:, 0], first[:, 0], 1)
    np.testing.assert_allclose(estimates.covariance(("sex", "country", "age"), first, first, 2), expected[:, None])
    block = Dense(np.array([[1.0], [3.0]]))
    values, variances = estimates.product(("country", "sex"), (block, Dense(np.ones((1, 2)))))
    one, variance = inner.product(("sex",), (Dense(np.ones((1, 2))),))
    np.testing.assert_allclose(values, [one, 3 * one])
    np.testing.assert_allclose(variances, [variance, 9 * variance])
    law, same = estimates.error_law(("country", "sex"), np.ones((1, 2))), inner.error_law(("sex",), np.ones(2))
    assert law is not None
    assert same is not None
    assert law.stddev == same.stddev
    assert estimates.alike("country")
    assert estimates.covers(("year", "sex", "country"))
    tables = release.tables([("country", "sex")], kind="whole")
    assert tables["country", "sex"].shape == (1, 2)
    twice = release.combination([(("country", "sex"), np.ones((1, 2))), (("sex",), np.ones(2))]).to_arrow()
    np.testing.assert_allclose(twice["estimate"], 2 * one)


def test_a_plan_knows_the_variance_of_a_table_with_a_constant_column() -> None:
    plan = hush.plan(hush.Workload.kway(DOMAIN, 2), hush.Budget(rho=1.0), mechanism="residual")
    assert plan.variance(("country", "sex")) == plan.variance(("sex",))


def test_the_release_of_a_file_answers_them_too(tmp_path: object) -> None:
    release = hush.plan(hush.Workload.kway(DOMAIN, 2), hush.Budget(rho=1.0), mechanism="hdmm").release(TABLE)
    path = f"{tmp_path}/a.hush"
    release.save(path)
    np.testing.assert_array_equal(hush.load(path).counts("year", "age"), release.counts("year", "age"))


def test_thresholds_over_a_constant_column_name_what_to_ask_instead() -> None:
    release = hush.plan(hush.Workload.kway(DOMAIN, 2), hush.Budget(rho=1.0), mechanism="residual").release(TABLE)
    with pytest.raises(WorkloadError, match="'country' has a single level.*leave it out, and ask for one less"):
        release.threshold("country", "age", "sex", r=2)
    assert release.threshold("age", "sex", r=1).to_arrow().num_rows == 20
