"""Release.model and Release.synthesize: the releases of every mechanism passed through a model."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Constraint, Domain, Measurement, Workload, queries
from hush.core.errors import InterruptedRelease, SizeError, WorkloadError
from hush.mechanisms import HDMM, Direct, Matrix
from hush.mechanisms.plan import Plan
from hush.models.fit_arguments import estimate_total
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.schema import Schema
from hush.testing import StoppingTable, TinyTable

DOMAIN = Domain({"a": 2, "b": 4, "c": 3})
CHANCE = np.random.Generator(np.random.PCG64(3))
ROWS = [(int(a), int((a + b) % 4), int(b % 3)) for a, b in CHANCE.integers(0, (2, 4), size=(300, 2))]
PAIRS = [("a", "b"), ("b", "c")]
ASKED = Workload.marginals(DOMAIN, PAIRS) + Workload.product(DOMAIN, {"b": queries.prefix, "c": queries.identity})
CASES: dict[str, tuple[Any, Budget]] = {
    "residual": ("residual", Budget(rho=1.0)),
    "hdmm": (HDMM(noise="gaussian"), Budget(rho=1.0)),
    "matrix": (Matrix(noise="gaussian"), Budget(rho=1.0)),
    "direct": (Direct(noise="gaussian"), Budget(rho=1.0)),
    "direct, laplace": (Direct(noise="laplace"), Budget(epsilon=2.0)),
    "matrix, laplace": (Matrix(noise="laplace"), Budget(epsilon=2.0)),
}


class Constrained(TinyTable):
    """A table of codes whose owner says that (0, 0) is impossible for (a, b); the noisy counts do not know."""

    @property
    def schema(self) -> Schema:
        return super().schema.with_constraints(Constraint.forbid(DOMAIN, ("a", "b"), [(0, 0)]))


@cache
def planned(name: str) -> Plan:
    mechanism, budget = CASES[name]
    return hush.plan(ASKED, budget, mechanism=mechanism)


@cache
def released(name: str, kind: type[TinyTable] = TinyTable) -> hush.Release:
    return planned(name).release(kind(DOMAIN, ROWS), entropy=NotPrivateEntropy(seed=11))


@pytest.mark.parametrize("name", CASES)
def test_tables_are_near_the_unbiased_ones_not_negative_and_consistent(name: str) -> None:
    release = released(name)
    model = release.model()
    assert model.exact
    assert model.status == "solved"
    known = (
        float(release.counts(())) if release.record.consistent else estimate_total(DOMAIN, release.measurements())[0]
    )
    assert model.total == pytest.approx(max(known, 1.0))
    for pair in PAIRS:
        own = model.counts(pair)
        assert own.min() >= 0
        assert own.sum() == pytest.approx(model.total)
        deviation = release.marginal(*pair).std_error.reshape(own.shape)
        assert (np.abs(own - release.counts(pair)) <= 6 * deviation).all()
    np.testing.assert_allclose(model.counts(("a", "b")).sum(axis=0), model.counts(("b", "c")).sum(axis=1))
    assert model.counts(("a", "c")).shape == (2, 3)  # which no mechanism measured


@pytest.mark.parametrize("name", CASES)
def test_the_model_is_nearer_to_the_table_than_its_noise(name: str) -> None:
    """Non-negativity and consistency can only help: every row has c = (b - a) mod 4 mod 3, so many cells are empty."""
    release, exact = released(name), TinyTable(DOMAIN, ROWS).counts(PAIRS)
    model = release.model(tolerance=0.01)
    for pair in PAIRS:
        error = np.abs(model.counts(pair) - exact[pair])
        assert error.mean() <= 4 * release.marginal(*pair).std_error.mean()


@pytest.mark.parametrize("name", CASES)
def test_constraints_of_the_schema_are_kept_exactly(name: str) -> None:
    release = released(name, Constrained)
    assert release.counts(("a", "b"))[0, 0] > 10  # the claim is wrong, and kept all the same
    model = release.model()
    assert model.counts(("a", "b"))[0, 0] == 0.0
    rows = release.synthesize(400, seed=1, method="sampling").to_pandas()
    assert not ((rows["a"] == 0) & (rows["b"] == 0)).any()


@pytest.mark.parametrize("name", CASES)
def test_rows_meet_the_tables_of_the_model(name: str) -> None:
    release = released(name)
    rows = release.synthesize(seed=2)
    assert rows.num_rows == round(release.model().total)
    found = hush.read(rows, release.schema).counts([("a", "b")])[("a", "b")]
    assert np.abs(found - release.model().counts(("a", "b"))).max() <= 3
    assert release.synthesize(10, given={"b": [1, 2]}, seed=1)["b"].to_pandas().isin([1, 2]).all()


def test_the_likelihood_of_the_residuals_is_used_not_that_of_tables() -> None:
    """Where nothing is negative the model's tables are the unbiased estimates themselves."""
    rows = [(a, b, c) for a in range(2) for b in range(4) for c in range(3)] * 40
    plan = hush.plan(Workload.marginals(DOMAIN, PAIRS), Budget(rho=5.0), mechanism="residual")
    release = plan.release(TinyTable(DOMAIN, rows), entropy=NotPrivateEntropy(seed=1))
    model = release.model(tolerance=1e-5)
    for pair in PAIRS:
        np.testing.assert_allclose(model.counts(pair), release.counts(pair), atol=0.01)


def test_tables_that_disagree_on_the_total_are_averaged() -> None:
    """The estimate of the empty table is that of one table; what is fitted knows all of them."""
    release = released("direct")
    total, deviation = estimate_total(DOMAIN, release.measurements())
    model = release.model()
    assert model.total == pytest.approx(total)
    assert model.total != pytest.approx(float(release.counts(())))
    assert deviation < float(release.marginal().std_error[0])
    assert release.model(method="approximate").total == pytest.approx(total)


def test_a_total_that_no_measurement_knows_alone_is_that_of_the_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    release = planned("direct").release(TinyTable(DOMAIN, ROWS), entropy=NotPrivateEntropy(seed=11))
    odd = Measurement(("a",), [3.0], 1.0, query=hush.linops.Dense(np.array([[1.0, 0.0]])))
    monkeypatch.setattr(type(release.record), "measurements", lambda self: [odd])
    assert release.model().total == pytest.approx(float(release.counts(())))


def test_cliques_restrict_the_model() -> None:
    release = released("residual")
    model = release.model([("a", "b")])
    assert all(set(clique) <= {"a", "b"} for clique in model.cliques)
    np.testing.assert_allclose(model.counts(("c",)), model.total / 3)
    with pytest.raises(WorkloadError, match="nothing was measured inside"):
        released("matrix").model([("a",)])
    total_and_more = Workload.marginals(DOMAIN, [(), ("a",), ("b", "c")])
    measured = hush.plan(total_and_more, Budget(rho=1.0), mechanism="direct").release(TinyTable(DOMAIN, ROWS))
    assert () in [one.clique for one in measured.measurements()]
    with pytest.raises(WorkloadError, match=r"nothing was measured inside \('b',\); give cliques of the workload"):
        measured.model([("a",), ("b",)])
    with pytest.raises(WorkloadError, match="nothing was measured inside"):
        measured.model([])
    with pytest.raises(hush.HushError, match="not in the domain"):
        release.model([("x",)])


def test_cliques_inside_the_tables_restrict_approximate_models_too() -> None:
    release = released("residual")
    for cliques in ([("a",)], [("a",), ("b", "c")]):
        near = release.model(cliques, method="approximate")
        assert set(near.cliques) == set(cliques)
        np.testing.assert_allclose(near.counts(("a",)), release.model(cliques).counts(("a",)), rtol=0.02)


def test_a_model_too_large_is_refused_or_approximate() -> None:
    release = released("residual")
    with pytest.raises(SizeError, match=r"max_size_mb.*release\.model\(cliques=\[\.\.\.\]\)"):
        release.model(method="exact", max_size_mb=1e-4)
    near = release.model(max_size_mb=1e-4)
    assert not near.exact
    for pair in PAIRS:
        assert near.counts(pair).min() >= 0
        deviation = release.marginal(*pair).std_error.reshape(near.counts(pair).shape)
        assert (np.abs(near.counts(pair) - release.counts(pair)) <= 6 * deviation).all()
    assert near.synthesize(50, seed=1).num_rows == 50
    assert not release.model(method="approximate").exact


@pytest.mark.parametrize("name", ["residual", "direct, laplace"])
def test_an_interrupted_release_gives_the_model_of_what_it_has(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hush.privacy.gate.BATCH_CELLS", 10)
    with pytest.raises(InterruptedRelease) as stopped:
        planned(name).release(StoppingTable(DOMAIN, ROWS))
    partial = stopped.value.release
    assert isinstance(partial, hush.Release)
    assert not partial.complete
    model = partial.model()
    assert any("interrupted" in note for note in model.marginal("a").notes)
    assert len(model.cliques) < len(released(name).model().cliques)
    assert model.counts(DOMAIN.attributes).min() >= 0
    assert partial.synthesize(20, seed=1).num_rows == 20


def test_a_loaded_release_gives_the_same_model(tmp_path: Any) -> None:
    release = released("hdmm")
    release.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    assert isinstance(loaded, hush.Release)
    for pair in PAIRS:
        np.testing.assert_array_equal(loaded.model().counts(pair), release.model().counts(pair))
    assert loaded.synthesize(100, seed=4) == release.synthesize(100, seed=4)


def test_what_a_release_must_be_read_with_goes_with_its_model(tmp_path: Any) -> None:
    model = released("residual").model()
    assert model.caveats[0].startswith("NOT PRIVATE")
    assert sum("NOT PRIVATE" in caveat for caveat in model.caveats) == 1
    assert repr(model).endswith(", NOT PRIVATE)")
    model.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    assert isinstance(loaded, hush.Model)
    assert loaded.caveats == model.caveats
    assert repr(loaded) == repr(model)
    assert loaded.sql("SELECT COUNT(*) FROM t").notes[0].startswith("NOT PRIVATE")
    private = planned("residual").release(TinyTable(DOMAIN, ROWS))
    assert private.model().caveats == private.marginal("a").notes == ()
    assert "NOT PRIVATE" not in repr(private.model())


@pytest.mark.parametrize("name", CASES)
def test_answers_of_a_release_that_is_not_private_say_so(name: str) -> None:
    release = released(name)
    for answers in (release.marginal("a"), release.term(0), release.sql("SELECT COUNT(*) FROM t")):
        assert sum(note.startswith("NOT PRIVATE") for note in answers.notes) == 1
        assert "NOT PRIVATE" in str(answers)


def test_an_empty_table_has_a_model_too() -> None:
    release = planned("residual").release(TinyTable(DOMAIN, []))
    model = release.model()
    assert model.total >= 1.0
    assert model.counts(("a", "b")).min() >= 0


@pytest.mark.parametrize("name", CASES)
def test_unbiased_tables_are_those_of_the_release(name: str, tmp_path: Any) -> None:
    release = released(name)
    for model in (release.model(), release.model(method="approximate")):
        for pair in PAIRS:
            mine, own = model.unbiased(*pair), release.marginal(*pair)
            np.testing.assert_array_equal(mine.estimate, own.estimate)
            np.testing.assert_array_equal((mine.lower, mine.std_error), (own.lower, own.std_error))
            assert any("`unbiased`" in note for note in model.marginal(*pair).notes)
    if not release.estimates.covers(DOMAIN.attributes):
        assert not any("`unbiased`" in note for note in model.marginal(*DOMAIN.attributes).notes)
    model.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    assert isinstance(loaded, hush.Model)
    assert not any("`unbiased`" in note for note in loaded.marginal("a").notes)
    with pytest.raises(WorkloadError, match=r"release\.marginal"):
        loaded.unbiased("a")


@pytest.mark.parametrize("name", CASES)
def test_noise_is_no_misfit_and_wrong_constraints_are(name: str) -> None:
    model = released(name).model()
    assert 0 < model.stats["misfit"] < 1.5
    assert not any("differ" in caveat for caveat in model.caveats)
    wrong = released(name, Constrained).model()
    assert any("differ from the model" in caveat and "constraints" in caveat for caveat in wrong.caveats)


def test_a_release_of_less_than_a_record_is_said_to_be_one() -> None:
    release = planned("residual").release(TinyTable(DOMAIN, []), entropy=NotPrivateEntropy(seed=1))
    assert (float(release.counts(())) < 1) == any("less than 1 record" in c for c in release.model().caveats)
    full = released("residual").model()
    assert not any("less than 1 record" in caveat for caveat in full.caveats)


def test_bad_wishes_are_refused_before_a_model_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    release = planned("residual").release(TinyTable(DOMAIN, ROWS), entropy=NotPrivateEntropy(seed=1))
    monkeypatch.setattr(type(release), "model", None)
    wishes: list[dict[str, Any]] = [{"rows": "10"}, {"rows": -1}, {"method": "best"}, {"seed": "x"}]
    for wish in wishes:
        with pytest.raises(WorkloadError, match="expected"):
            release.synthesize(**wish)


def test_unknown_methods_are_refused() -> None:
    unknown: Any = "excat"
    with pytest.raises(WorkloadError, match="method='excat': expected one of .*; did you mean 'exact'"):
        released("residual").model(method=unknown)


def test_cliques_that_are_none_are_refused_in_words() -> None:
    wrong: list[Any] = ["a", ["a", "b"], {"a": 1}, 5]
    for cliques in wrong:
        with pytest.raises(hush.HushError, match="expected a list of cliques"):
            released("residual").model(cliques)
