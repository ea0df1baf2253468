"""A schema drafted from private data: refused before rows are read or anything is charged, and stamped if released."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hush
from hush.core.constraints import Constraint
from hush.core.errors import ArchiveError, InterruptedRelease, SchemaError
from hush.mechanisms.plan import Plan
from hush.mechanisms.registry import BUILT_IN
from hush.mechanisms.release_job import ReleaseJob
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.release.statement import STAMP, Statement
from hush.report import report_html
from hush.schema import Integer, Schema
from hush.testing.tiny import TinyTable

CLEAN = Schema([Integer(name="a", low=0, high=1), Integer(name="b", low=0, high=2)])
DRAFT = Schema([CLEAN["a"], replace(CLEAN["b"], from_private_data=True)])
RULE = Constraint.forbid(CLEAN.domain, ("a", "b"), [(1, 2)])
LEARNED = CLEAN.with_constraints(replace(RULE, from_private_data=True))
ROWS = [(0, 0), (0, 1), (1, 1)] * 20
BUDGET = hush.Budget(rho=0.5)


class Table(TinyTable):
    """Rows with a schema of their own, which count how often they were read."""

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema.domain, ROWS)
        self._schema, self.read = schema, 0

    @property
    def schema(self) -> Schema:
        return self._schema

    def check(self, most_rows: int = 0) -> None:
        self.read += 1

    def counts(self, cliques: Any) -> Any:
        self.read += 1
        return super().counts(cliques)


def plan_of(schema: Schema, mechanism: str = "residual") -> Plan:
    return hush.plan(hush.Workload.kway(schema.domain, 1), BUDGET, mechanism)


@pytest.mark.parametrize("mechanism", ["residual", "hdmm", "aim", "mst"])
@pytest.mark.parametrize(("schema", "name"), [(DRAFT, "b"), (LEARNED, "a × b")])
def test_a_release_is_refused_before_anything_is_read_or_charged(
    schema: Schema, name: str, mechanism: str, tmp_path: Path
) -> None:
    table, ledger, output = Table(schema), tmp_path / "budget.db", tmp_path / "r.hush"
    job = ReleaseJob(plan_of(schema, mechanism), ledger=ledger, output=output)
    for release in (lambda: plan_of(schema, mechanism).release(table, ledger=ledger), lambda: job.run(table)):
        with pytest.raises(SchemaError, match=f"^the schema was drafted from private data: {name};"):
            release()
    assert table.read == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mechanism", [*BUILT_IN, "auto"])
def test_the_mark_of_a_plan_is_in_its_file_and_refuses_too(mechanism: str, tmp_path: Path) -> None:
    plan_of(DRAFT, mechanism).save(tmp_path / "plan.hush")
    plan = hush.load(tmp_path / "plan.hush")
    assert isinstance(plan, Plan)
    assert plan.domain.from_private_data == {"b"}
    assert "drafted from private data: b; `release` refuses" in " ".join(str(plan).split())
    assert plan.to_dict()["from_private_data"] == ["b"]
    table = Table(CLEAN)  # of the same domain, but the plan was made for another schema
    with pytest.raises(SchemaError, match=r"^the plan's schema was drafted from private data: b;"):
        plan.release(table)
    assert table.read == 0
    assert plan.release(table, schema_is_public=True).statement.drafted == ("b",)


@pytest.mark.parametrize(("schema", "name"), [(DRAFT, "b"), (LEARNED, "a × b")])
@pytest.mark.parametrize("mechanism", ["residual", "mst"])
def test_what_is_released_on_the_owners_word_is_stamped_everywhere(
    schema: Schema, name: str, mechanism: str, tmp_path: Path
) -> None:
    made = plan_of(schema, mechanism).release(Table(schema), schema_is_public=True)
    made.save(tmp_path / "r.hush")
    warning = f"{STAMP}: parts of the schema were drafted from private data: {name}."
    for release in (made, hush.load(tmp_path / "r.hush")):
        assert isinstance(release, hush.Release)
        statement = release.statement
        assert not statement.private
        assert not statement.seeded
        assert statement.drafted == (name,)
        assert statement.warnings == (warning,)
        assert dict(statement.lines())["Schema"].startswith(f"{STAMP}: drafted from private data: {name};")
        assert "bits from the operating system" in dict(statement.lines())["Noise"]
        assert release.to_dict()["statement"]["drafted"] == [name]
        assert STAMP in repr(release)
        assert warning in release.marginal("a").notes
        assert warning in release.sql("SELECT COUNT(*) FROM t WHERE a = 1").notes
        model = release.model()
        assert model.caveats.count(warning) == 1
        model.save(tmp_path / "m.hush", overwrite=True)
        again = hush.load(tmp_path / "m.hush")
        assert warning in again.caveats
        assert STAMP in repr(again)
        page = report_html(release)
        assert "No privacy promise" in page
        assert "came from a seed" not in page
        assert f"Parts of the schema were drafted from private data: {name}." in page
        assert release.schema.from_private_data == (name,)  # so that its schema is refused again
        (tmp_path / "m.hush").unlink()


def test_both_reasons_are_given_where_both_hold() -> None:
    made = plan_of(DRAFT).release(Table(DRAFT), schema_is_public=True, entropy=NotPrivateEntropy(seed=1))
    assert [text.split(":")[0] for text in made.statement.warnings] == [STAMP, STAMP]
    assert "came from a seed" in report_html(made)
    assert "Parts of the schema were drafted" in report_html(made)


@pytest.mark.parametrize("schema_is_public", [False, True])
def test_a_public_schema_is_released_as_ever(schema_is_public: bool) -> None:
    made = plan_of(CLEAN).release(Table(CLEAN), schema_is_public=schema_is_public)
    assert made.statement.private
    assert made.statement.warnings == ()
    assert STAMP not in report_html(made)


def stopped(output: Path) -> None:
    job = ReleaseJob(plan_of(DRAFT, "mst"), output=output, schema_is_public=True)
    with pytest.raises(InterruptedRelease):
        job.run(Table(DRAFT), progress=lambda share: job.stop())


def test_a_resumed_release_needs_the_word_again_and_keeps_the_stamp(tmp_path: Path) -> None:
    stopped(tmp_path / "r.hush")
    partial = hush.load(tmp_path / "r.hush")
    assert isinstance(partial, hush.Release)
    assert not partial.complete
    assert partial.statement.drafted == ("b",)
    with pytest.raises(SchemaError, match="drafted from private data: b"):
        ReleaseJob.resumed(partial).run(Table(DRAFT))
    whole = ReleaseJob.resumed(partial, schema_is_public=True).run(Table(DRAFT))
    assert whole.complete
    assert whole.statement.drafted == ("b",)


def test_clearing_the_mark_midway_does_not_clear_the_stamp(tmp_path: Path) -> None:
    stopped(tmp_path / "r.hush")
    partial: Any = hush.load(tmp_path / "r.hush")
    job = ReleaseJob(plan_of(CLEAN, "mst"), resume=partial)
    whole = job.run(Table(CLEAN))
    assert whole.statement.drafted == ("b",)
    whole.save(tmp_path / "whole.hush")
    assert STAMP in repr(hush.load(tmp_path / "whole.hush"))


# constraints are the schema's, and the statement says which


@pytest.mark.parametrize("mechanism", ["mst", "aim", "independent", "mwem"])
def test_structural_zeros_are_the_schemas_and_not_those_of_the_rows(mechanism: str) -> None:
    for schema in (CLEAN, CLEAN.with_constraints(RULE)):
        made = plan_of(schema, mechanism).release(Table(schema))  # whose rows leave half of all combinations empty
        assert made.model().distribution.constraints == schema.constraints


def test_the_statement_has_the_fingerprint_of_the_rules(tmp_path: Path) -> None:
    ruled = CLEAN.with_constraints(RULE)
    made = plan_of(ruled).release(Table(ruled))
    assert made.statement.constraints is not None
    assert made.statement.constraints in dict(made.statement.lines())["Rules"]
    assert made.statement.private
    made.save(tmp_path / "r.hush")
    assert hush.load(tmp_path / "r.hush").statement == made.statement
    assert plan_of(CLEAN).release(Table(CLEAN)).statement.constraints is None


@pytest.mark.parametrize("schema", [CLEAN, CLEAN.forbid(["a", "b"], [[0, 2]])])
def test_a_file_whose_rules_were_changed_is_refused(schema: Schema, tmp_path: Path) -> None:
    ruled = CLEAN.with_constraints(RULE)
    made = plan_of(ruled).release(Table(ruled))
    made.schema = schema
    made.save(tmp_path / "r.hush")
    with pytest.raises(ArchiveError, match="rules of its schema are not those that its privacy statement has"):
        hush.load(tmp_path / "r.hush")


def test_a_file_that_hides_where_its_schema_came_from_is_refused(tmp_path: Path) -> None:
    made = plan_of(DRAFT).release(Table(DRAFT), schema_is_public=True)
    made.statement = replace(made.statement, drafted=())
    made.save(tmp_path / "r.hush")
    with pytest.raises(ArchiveError, match="its schema was drafted from private data, and its privacy statement does"):
        hush.load(tmp_path / "r.hush")
    said = replace(made.statement, drafted=("b",)).to_dict() | {"private": True}
    with pytest.raises(ArchiveError, match="the file's privacy statement contradicts itself"):
        Statement.from_dict(said)


def test_a_model_of_a_rule_that_was_learned_says_so() -> None:
    noisy = [hush.Measurement(("a", "b"), [[4.0, 5.0, 6.0], [7.0, 8.0, 0.5]], stddev=1.0)]
    warning = f"{STAMP}: parts of the schema were drafted from private data: a × b."
    learned = replace(RULE, from_private_data=True)
    assert warning in hush.fit(CLEAN.domain, noisy, constraints=[learned]).caveats
    assert warning in hush.fit(LEARNED, noisy).caveats
    assert warning in hush.fit(LEARNED, noisy, method="approximate").caveats
    assert warning not in hush.fit(CLEAN, noisy, constraints=[RULE]).caveats
