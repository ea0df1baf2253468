"""Thresholds and formulas asked of releases of every kind, of models, of files and in SQL."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import hush
from hush import Budget, Workload, queries
from hush.core.errors import DomainError, WorkloadError
from hush.workloads import ThresholdTerm

SCHEMA = hush.datasets.people_schema()
DOMAIN = SCHEMA.domain
CLIQUE = ("sex", "region", "employed")
TERM = ThresholdTerm(CLIQUE, DOMAIN.sizes(CLIQUE), 2)
CONDITION = "employed AND (region = 'North' OR sex = 'female')"


@functools.cache
def table():
    return hush.read(hush.datasets.people(800, seed=3), SCHEMA)


@functools.cache
def released(mechanism: str, asked: str = "marginals") -> hush.Release:
    workload = Workload.marginals(DOMAIN, [CLIQUE])
    if asked == "thresholds":
        workload = Workload.thresholds(DOMAIN, 3, 2, [CLIQUE]) + Workload.formulas(SCHEMA, CONDITION)
    return hush.plan(workload, Budget(rho=2.0), mechanism=mechanism).release(table())


@functools.cache
def exact(at_least: int) -> np.ndarray:
    term = ThresholdTerm(CLIQUE, DOMAIN.sizes(CLIQUE), at_least)
    return term.exact_answers(table().counts([CLIQUE])[CLIQUE]).ravel()


@pytest.mark.parametrize("mechanism", ["residual", "gaussian", "mst", "aim", "mwem", "independent"])
def test_every_kind_of_release_answers_thresholds_with_a_stated_error(mechanism) -> None:
    """Exact errors are within 6 of them of the truth: 20 targets fail by chance below 1e-7."""
    release = released(mechanism)
    answers = release.threshold(CLIQUE, r=2)
    assert len(answers) == 20
    assert answers.notes[0] == "each count is of the rows that agree with the line in at least 2 of 3 columns."
    (kind,) = set(answers.basis)
    measured = not np.isnan(answers.std_error).any()
    assert kind in (("exact", "model") if measured else ("bound", "none"))
    if measured:
        assert (np.abs(answers.estimate - exact(2)) < 6 * answers.std_error).all()
    np.testing.assert_allclose(answers.estimate, TERM.exact_answers(release.counts(CLIQUE)).ravel())


def test_r_of_all_columns_is_the_marginal() -> None:
    release = released("residual")
    assert release.threshold(CLIQUE, r=3).estimate.tolist() == release.marginal(CLIQUE).estimate.tolist()
    assert released("mst").model().threshold(*CLIQUE, r=3).estimate.shape == (20,)


def test_sql_asks_for_one_target() -> None:
    release = released("residual")
    answers = release.threshold(CLIQUE, r=2)
    query = "SELECT COUNT(*) FROM t WHERE (sex = 'male') + (region = 'East') + (employed) >= 2"
    one = release.sql(query)
    row = int(np.ravel_multi_index((1, 1, 1), DOMAIN.sizes(CLIQUE)))
    assert (answers.labels["sex"][row], answers.labels["region"][row]) == ("male", "East")
    for values in ("estimate", "std_error", "lower", "upper"):
        assert getattr(one, values)[0] == pytest.approx(getattr(answers, values)[row], rel=1e-9)


def test_a_model_answers_without_errors() -> None:
    model = released("residual").model()
    answers = model.threshold(CLIQUE, r=1)
    assert set(answers.basis) == {"none"}
    term = ThresholdTerm(CLIQUE, DOMAIN.sizes(CLIQUE), 1)
    np.testing.assert_allclose(answers.estimate, term.exact_answers(model.counts(CLIQUE)).ravel())
    assert np.isnan(answers.std_error).all()


def test_terms_of_the_workload_are_answered_from_files_too(tmp_path) -> None:
    release = released("residual", "thresholds")
    release.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    assert loaded.workload == release.workload
    for index in (0, 1):
        assert loaded.term(index).to_dict() == release.term(index).to_dict()
    np.testing.assert_allclose(release.term(0).estimate, release.threshold(CLIQUE, r=2).estimate)
    formula = release.term(1)
    assert formula.notes[0] == f"of the rows for which {CONDITION}."
    same = release.sql(f"SELECT COUNT(*) FROM t WHERE {CONDITION}")
    for values in ("estimate", "std_error", "lower", "upper"):
        assert getattr(formula, values)[0] == pytest.approx(getattr(same, values)[0], rel=1e-9)


def test_the_plan_says_what_the_release_has() -> None:
    release = released("residual", "thresholds")
    plan = hush.plan(release.workload, Budget(rho=2.0), mechanism="residual")
    for index in (0, 1):
        np.testing.assert_allclose(release.term(index).std_error ** 2, plan.query_variances(index).ravel(), rtol=1e-6)
    assert "2 of sex, region, employed" in plan.details()


def test_planned_thresholds_are_closer_than_those_of_planned_marginals() -> None:
    asked, cells = released("residual", "thresholds"), released("residual")
    assert asked.threshold(CLIQUE, r=2).std_error[0] < 0.75 * cells.threshold(CLIQUE, r=2).std_error[0]


def test_formulas_from_a_model_have_the_bound_of_their_table() -> None:
    release = released("aim", "thresholds")
    formula = release.term(1)
    assert set(formula.basis) <= {"exact", "model", "bound", "none"}
    inside = release.workload.terms[1].diagram.inside()
    assert formula.estimate[0] == pytest.approx(release.counts(release.workload.terms[1].clique)[inside].sum())


@pytest.mark.parametrize(
    ("attributes", "r", "error", "message"),
    [
        (CLIQUE, 4, WorkloadError, "at least 4 of 3 attributes: expected a whole number from 1 to 3"),
        (CLIQUE, 0, WorkloadError, "at least 0 of 3 attributes"),
        (CLIQUE, True, WorkloadError, "at least True of 3 attributes"),
        (("sex", "sex"), 1, DomainError, "names an attribute twice"),
        (("sex", "nose"), 1, DomainError, "'nose' is not in the domain"),
        (("sex", "income"), 1, WorkloadError, "has no table over"),
    ],
)
def test_what_cannot_be_asked_is_refused(attributes, r, error, message) -> None:
    with pytest.raises(error, match=message):
        released("residual").threshold(attributes, r=r)
    if "table" not in message:
        with pytest.raises(error, match=message):
            released("mst").model().threshold(attributes, r=r)


def test_other_kinds_are_refused() -> None:
    release = released("residual", "thresholds")
    with pytest.raises(WorkloadError, match="is not a product of query blocks"):
        release.nonnegative_term(0)
    with pytest.raises(WorkloadError, match="expected a Term, or an index"):
        release.term(7)
    with pytest.raises(WorkloadError, match="is over other levels than the domain's"):
        release.term(Workload.formulas(hush.Domain({"sex": 3}), queries.test("sex", 1)).terms[0])


def test_a_report_of_thresholds_alone_is_written() -> None:
    from hush.report.page import report_html

    assert "2 of sex, region, employed" in report_html(released("residual", "thresholds"))
