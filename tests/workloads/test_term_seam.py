"""A kind of query in a package of its own goes through plans, releases, files, SQL, reports and rap, as it is."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import hush
from hush.core.errors import ArchiveError, SizeError, WorkloadError
from hush.files.codec import pack
from hush.linops import Dense
from hush.report import report_html
from hush.workloads import OwnQuery, ProductTerm, Term, Workload, term
from hush.workloads.workload_files import WorkloadFile

PAGE = (Path(__file__).parent.parent.parent / "docs" / "extending.md").read_text()
SOURCE = next(
    code for code in re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE) if "HalfSpaces" in code
)
MODULE: Any = types.ModuleType("hush_half_spaces")
sys.modules[MODULE.__name__] = MODULE  # where dataclasses look
exec(SOURCE, MODULE.__dict__)

SCHEMA = hush.datasets.people_schema()
DOMAIN = SCHEMA.domain
CLIQUE = ("education", "region")
HALVES = MODULE.HalfSpaces(CLIQUE, (2, 4))
WORKLOAD = Workload(DOMAIN, [HALVES]) + Workload.marginals(DOMAIN, [("sex",), ("sex", "region")])
BUDGET = hush.Budget(epsilon=1.0, delta=1e-9)


@dataclass(frozen=True, slots=True)
class Differences(Term):
    """How many more rows each level of a column has than the level before: a product of one block."""

    clique: tuple[str, ...]
    size: int
    weight: float = 1.0
    kind: ClassVar[str] = "difference"

    @property
    def queries(self) -> int:
        return self.size - 1

    def exact_answers(self, counts):
        return np.diff(counts)

    def sensitivity(self, p: int) -> float:
        return 2 ** (1 / p)

    @property
    def text(self) -> str:
        return f"steps of {self.clique[0]}"

    @property
    def product(self) -> ProductTerm:
        return ProductTerm(self.clique, (Dense(np.diff(np.eye(self.size), axis=0)),), self.weight)

    def labels(self, levels):
        return [f"{after} less {before}" for before, after in zip(levels[0], levels[0][1:], strict=False)]


STEPS = Differences(("education",), DOMAIN["education"])


@functools.cache
def table() -> hush.Table:
    return hush.read(hush.datasets.people(600, seed=4), SCHEMA)


@functools.cache
def released(mechanism: str = "residual") -> hush.Release:
    return hush.plan(WORKLOAD, BUDGET, mechanism=mechanism).release(table())


def conditions() -> Workload:
    """The same queries as formulas, which have errors of their own."""
    codes = [OwnQuery(CLIQUE, lambda a, b, limit=limit: a + b >= limit) for limit in HALVES.limits]
    return Workload.formulas(DOMAIN, codes)


def test_a_plan_predicts_its_errors() -> None:
    strategy = hush.plan(WORKLOAD, BUDGET, mechanism="residual").strategy
    expected = [strategy.term_variances(formula).item() for formula in conditions()]
    np.testing.assert_allclose(strategy.term_variances(HALVES), expected)
    assert strategy.errors(WORKLOAD).means[0] == pytest.approx(np.mean(expected))
    assert strategy.errors(Workload(DOMAIN, [HALVES])).largest == pytest.approx(max(expected))


@pytest.mark.parametrize("loss", ["rmse", "maxvar"])
def test_a_plan_is_as_good_as_that_of_the_same_formulas(loss) -> None:
    own, formulas = (
        hush.plan(each, BUDGET, mechanism="residual", loss=loss) for each in (Workload(DOMAIN, [HALVES]), conditions())
    )
    assert own.rmse == pytest.approx(formulas.rmse, rel=1e-4)
    assert own.max_variance == pytest.approx(formulas.max_variance, rel=1e-4)


def test_columns_that_are_asked_for_prefixes_too_change_its_errors_as_those_of_formulas() -> None:
    prefixes = Workload.product(DOMAIN, {"education": hush.queries.prefix, "region": hush.queries.identity})
    strategy = hush.plan(WORKLOAD + prefixes, BUDGET, mechanism="residual").strategy
    expected = [strategy.term_variances(formula).item() for formula in conditions()]
    np.testing.assert_allclose(strategy.term_variances(HALVES), expected)
    assert strategy.errors(WORKLOAD + prefixes).largest >= max(expected) * (1 - 1e-9)


def test_a_release_answers_it_with_its_errors() -> None:
    answers = released().term(0)
    np.testing.assert_allclose(answers.estimate, HALVES.exact_answers(released().counts(CLIQUE)))
    np.testing.assert_allclose(answers.std_error**2, released().estimates.strategy.term_variances(HALVES))
    asked = [released().term(formula) for formula in conditions()]
    np.testing.assert_allclose(answers.lower, [each.lower.item() for each in asked])
    assert answers.to_dict()["rows"][1]["query"] == "at least 4"
    assert "education + region at least 2, 4." in answers.notes


def test_a_release_answers_sql_about_its_columns() -> None:
    answer = released().sql("SELECT education, COUNT(*) FROM t GROUP BY education")
    assert np.isfinite(answer.std_error).all()


def test_files_keep_it(tmp_path) -> None:
    plan, release = hush.plan(WORKLOAD, BUDGET, mechanism="residual"), released()
    plan.save(tmp_path / "plan.hush")
    release.save(tmp_path / "release.hush")
    assert hush.load(tmp_path / "plan.hush").workload == WORKLOAD
    loaded = hush.load(tmp_path / "release.hush")
    assert loaded.workload == WORKLOAD
    np.testing.assert_array_equal(loaded.term(0).estimate, release.term(0).estimate)


def test_files_without_such_terms_are_as_before() -> None:
    assert "terms" not in pack(WorkloadFile.of(Workload.kway(DOMAIN, 1)))[0]


def test_the_report_names_it() -> None:
    assert "education + region at least 2, 4" in report_html(released())


@pytest.mark.parametrize("mechanism", ["rap", "aim", "auto"])
def test_adaptive_mechanisms_answer_it(mechanism, tmp_path) -> None:
    release = released(mechanism)
    answers = release.term(0)
    assert np.isfinite(answers.estimate).all()
    assert np.abs(answers.estimate - HALVES.exact_answers(table().counts([CLIQUE])[CLIQUE])).max() < 200
    release.save(tmp_path / "release.hush")
    assert hush.load(tmp_path / "release.hush").term(0).estimate == pytest.approx(answers.estimate)


def test_a_model_answers_it_within_bounds() -> None:
    domain_wide = MODULE.HalfSpaces(("sex", "education"), (1, 3))
    answers = released("rap").term(domain_wide)
    assert (answers.lower <= answers.upper)[np.isfinite(answers.lower)].all()


@pytest.mark.parametrize("mechanism", ["hdmm", "direct", "matrix", "gaussian"])
def test_mechanisms_that_cannot_answer_it_refuse_it_before_any_charge(mechanism) -> None:
    with pytest.raises(WorkloadError, match=r"half-space .* is not a product of query blocks|workloads of marginals"):
        hush.plan(WORKLOAD, BUDGET, mechanism=mechanism)


@pytest.mark.parametrize("mechanism", ["residual", "hdmm", "direct", "rap"])
def test_a_term_that_is_a_product_is_answered_as_one_everywhere(mechanism) -> None:
    sexes = Workload.marginals(DOMAIN, [("sex",)])
    own = hush.plan(Workload(DOMAIN, [STEPS]) + sexes, BUDGET, mechanism=mechanism)
    product = hush.plan(Workload(DOMAIN, [STEPS.product]) + sexes, BUDGET, mechanism=mechanism)
    np.testing.assert_allclose(own.query_variances(0), product.query_variances(0))
    answers = own.release(table()).term(0)
    counts = table().counts([("education",)])[("education",)]
    assert len(answers) == len(counts) - 1
    assert " less " in answers.to_dict()["rows"][0]["query"]
    assert np.abs(answers.estimate - np.diff(counts)).max() < 300


def test_a_product_of_its_own_kind_stays_of_that_kind_in_files(tmp_path) -> None:
    plan = hush.plan(Workload(DOMAIN, [STEPS]), BUDGET, mechanism="hdmm")
    plan.save(tmp_path / "plan.hush")
    assert hush.load(tmp_path / "plan.hush").workload.terms == (STEPS,)


SITE_CODE = """
import sys; sys.path.insert(0, {site!r})
import hush
from hush.cli.main import main
release = hush.load({path!r})
assert release.workload.terms[0].limits == (2, 4)
main(["query", {path!r}, "--term", "0"], standalone_mode=False)
main(["report", {path!r}, "-o", {page!r}], standalone_mode=False)
"""


def test_another_process_finds_it_by_its_entry_point(tmp_path) -> None:
    site, path, page = tmp_path / "site", tmp_path / "release.hush", tmp_path / "report.html"
    metadata = site / "hush_half_spaces-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "hush_half_spaces.py").write_text(SOURCE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: hush-half-spaces\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[hush.terms]\nhalf-space = hush_half_spaces:HalfSpaces\n")
    released().save(path)
    code = SITE_CODE.format(site=str(site), path=str(path), page=str(page))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "at least 4" in run.stdout
    assert "education + region at least 2, 4" in page.read_text()


def test_a_file_of_a_kind_that_is_not_installed_says_so(tmp_path, monkeypatch) -> None:
    released().save(tmp_path / "release.hush")
    monkeypatch.delitem(term.TERM_KINDS, "half-space")
    with pytest.raises(ArchiveError, match="no installed package offers terms of the kind 'half-space'"):
        hush.load(tmp_path / "release.hush")


def test_a_kind_belongs_to_one_class() -> None:
    with pytest.raises(WorkloadError, match="kind='formula' is that of hush.workloads.formula_term.FormulaTerm"):
        types.new_class("Formula", (Term,), exec_body=lambda body: body.update(kind="formula"))


def test_what_files_cannot_hold_or_is_too_large_is_refused(monkeypatch) -> None:
    with pytest.raises(WorkloadError, match=r"limits=.*: expected numbers, texts or tuples of them"):
        Workload(DOMAIN, [MODULE.HalfSpaces(CLIQUE, ({},))])
    with pytest.raises(WorkloadError, match="has weight 0.0"):
        Workload(DOMAIN, [MODULE.HalfSpaces(CLIQUE, (1,), 0.0)])
    constant = hush.Domain({"a": 3, "b": 1})
    with pytest.raises(WorkloadError, match="attribute 'b' has a single level, so it says nothing; leave it out"):
        Workload(constant, [MODULE.HalfSpaces(("a", "b"), (1,))])
    term._coefficients.cache_clear()
    monkeypatch.setattr(term, "MOST_COEFFICIENTS", 10)
    with pytest.raises(SizeError, match="2 queries over .* cells: their errors need at most 10 coefficients"):
        hush.plan(Workload(DOMAIN, [HALVES]), BUDGET, mechanism="residual")
