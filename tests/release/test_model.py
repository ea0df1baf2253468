"""Model: tables, SQL and rows in real values, of exact models."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hush
from hush import Constraint, Domain, Measurement, Model
from hush.core.errors import DomainError, HushError, SchemaError, WorkloadError
from hush.inference.error_law import two_sided_quantile
from hush.schema import Boolean, Categorical, Integer, Numeric, Schema

SCHEMA = Schema(
    [
        Categorical(name="sex", values=("female", "male")),
        Integer(name="age", low=20, high=23),
        Numeric(name="income", edges=(0.0, 10.0, 50.0), missing=True),
        Boolean(name="employed"),
    ]
)
DOMAIN = SCHEMA.domain
CELLS = np.random.Generator(np.random.PCG64(7)).integers(1, 40, size=DOMAIN.shape).astype(float)


def table(*clique: str) -> np.ndarray:
    """The counts over a clique of the table that everything here is fitted to."""
    ordered = DOMAIN.clique(clique)
    summed = CELLS.sum(axis=tuple(axis for axis, name in enumerate(DOMAIN) if name not in clique))
    return np.transpose(summed, [ordered.index(name) for name in clique])


@pytest.fixture(scope="module")
def model() -> Model:
    """Every cell is known up to a thousandth of a record."""
    return hush.fit(SCHEMA, [Measurement(DOMAIN.attributes, CELLS, 0.001)])


@pytest.fixture(scope="module")
def chain() -> Model:
    pairs = [("sex", "age"), ("age", "income"), ("income", "employed")]
    chance = np.random.Generator(np.random.PCG64(1))
    return hush.fit(
        SCHEMA, [Measurement(pair, table(*pair) + chance.normal(size=table(*pair).shape), 1.0) for pair in pairs]
    )


# tables


def test_counts_have_the_axes_in_the_order_given(model: Model) -> None:
    for clique in [("age", "sex"), ("employed",), ("income", "sex", "employed"), ()]:
        np.testing.assert_allclose(model.counts(clique), table(*clique), rtol=1e-3)
    assert model.total == pytest.approx(CELLS.sum(), rel=1e-4)
    assert model.domain == DOMAIN


def test_tables_of_a_chain_are_consistent_and_not_negative(chain: Model) -> None:
    cliques = [("sex", "employed"), ("age",), ("age", "sex"), ("employed", "age", "sex"), ()]
    found = chain.tables(cliques)
    assert list(found) == cliques
    for clique, counts in found.items():
        np.testing.assert_allclose(counts, chain.counts(clique))
        assert counts.min() >= 0
        assert counts.sum() == pytest.approx(chain.total)
    np.testing.assert_allclose(found[("age", "sex")].sum(axis=1), found[("age",)])
    np.testing.assert_allclose(found[("employed", "age", "sex")].sum(axis=0), found[("age", "sex")])


def test_columns_that_were_not_measured_together_are_independent_given_the_others(chain: Model) -> None:
    three = chain.counts(("sex", "age", "income"))
    first, second, middle = three.sum(axis=2), three.sum(axis=0), three.sum(axis=(0, 2))
    np.testing.assert_allclose(three, first[:, :, None] * second[None] / middle[None, :, None], rtol=1e-8)


def test_marginals_come_in_real_values_without_errors(model: Model) -> None:
    for answers in (model.marginal("income", "sex"), model.marginal(("income", "sex"))):
        found = answers.to_arrow()
        assert found["sex"].to_pylist()[:2] == ["female", "male"]
        np.testing.assert_allclose(found["estimate"].to_numpy(), table("income", "sex").ravel(), rtol=1e-3)
        assert np.isnan(answers.std_error).all()
        assert set(answers.basis) == {"none"}
        assert any("unbiased" in note for note in answers.notes)
        assert repr(answers).count("not known") == 1


def test_unbiased_estimates_have_exact_errors() -> None:
    both = [Measurement(("sex",), [10.0, -20.0], 1.0), Measurement(("employed",), [12.0, -16.0], 1.0)]
    model = hush.fit(SCHEMA, [*both, Measurement(("age",), [3.0], 1.0, query=hush.linops.Total(4))], total=5.0)
    answers = model.unbiased("sex")
    # the average of both totals is worth 3/4 of a cell's variance
    np.testing.assert_allclose(answers.estimate, [11.5, -18.5])
    np.testing.assert_allclose(answers.std_error, math.sqrt(0.75))
    with pytest.raises(WorkloadError, match="no table that holds .* was measured cell by cell"):
        model.unbiased("sex", "employed")
    assert any("`unbiased`" in note for note in model.marginal("sex").notes)
    assert not any("`unbiased`" in note for note in model.marginal("sex", "employed").notes)


@pytest.mark.parametrize("method", ["exact", "approximate"])
def test_unbiased_estimates_have_the_tails_of_their_noise(method: Any, tmp_path: Any) -> None:
    plain = Measurement(("sex",), [10.0, 20.0], 1.0)
    heavy = Measurement(("sex",), [11.0, 19.0], 1.0, noise="laplace")
    alone = hush.fit(SCHEMA, [plain], method=method).unbiased("sex", level=0.99)
    np.testing.assert_allclose(alone.upper - alone.estimate, two_sided_quantile(0.99) * alone.std_error)
    chance = np.random.Generator(np.random.PCG64(8))
    errors = np.abs(chance.normal(size=10**6) + chance.laplace(scale=0.5**0.5, size=10**6)) / 2
    half = float(np.quantile(errors, 0.99))  # the mean of both tables, to 1 %
    model = hush.fit(SCHEMA, [plain, heavy], method=method)
    model.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    assert isinstance(loaded, Model)
    for one in (model, loaded):
        answers = one.unbiased("sex", level=0.99)
        np.testing.assert_allclose(answers.upper - answers.estimate, half, rtol=0.02)


def test_unbiased_estimates_need_tables() -> None:
    query = Measurement(("age",), [3.0, 4.0, 5.0, 6.0], 1.0, query={"age": hush.queries.prefix})
    with pytest.raises(WorkloadError, match="no table that holds .* was measured cell by cell"):
        hush.fit(SCHEMA, [query]).unbiased("age")


@pytest.mark.parametrize("clique", ["x", ("sex", "x"), ("sex", "sex"), (3,), 5])
def test_unknown_attributes_are_refused(model: Model, clique: Any) -> None:
    with pytest.raises(DomainError):
        model.counts(clique)


@pytest.mark.parametrize("cliques", [3, [3], "sex", ["sex"], None, {"sex": 2}])
def test_cliques_that_are_none_are_refused_in_words(model: Model, cliques: Any) -> None:
    with pytest.raises(DomainError, match="expected a list of cliques"):
        model.tables(cliques)


def test_names_may_be_given_one_by_one(model: Model) -> None:
    np.testing.assert_array_equal(model.counts("age", "sex"), model.counts(("age", "sex")))
    np.testing.assert_array_equal(model.counts("age"), model.counts(["age"]))


# conditions, information


def test_conditional_tables_are_those_of_the_counts(model: Model) -> None:
    found = model.conditional(("age",), {"sex": "male", "income": [{"from": 0, "to": 10}, "(missing)"]})
    counts = table("age", "sex", "income")[:, 1, [0, 2]].sum(axis=1)
    np.testing.assert_allclose(found.estimate, counts / counts.sum(), rtol=2e-3)
    assert found.to_arrow()["age"].to_pylist() == [20, 21, 22, 23]
    assert found.names == ("probability",)


def test_conditions_that_make_no_sense_are_refused(model: Model) -> None:
    with pytest.raises(DomainError, match="both asked for and given"):
        model.conditional(("age",), {"age": 20})
    with pytest.raises(SchemaError, match="none of its levels"):
        model.conditional(("age",), {"sex": "mal"})
    with pytest.raises(DomainError, match="not in the domain"):
        model.conditional(("age",), {"set": "male"})
    with pytest.raises(DomainError, match="expected columns and their values"):
        model.conditional(("age",), "male")  # type: ignore[arg-type]


def test_entropy_and_likelihood_are_those_of_the_cells(model: Model) -> None:
    p = CELLS / CELLS.sum()
    assert model.entropy() == pytest.approx(-(p * np.log(p)).sum(), rel=1e-4)
    codes = {"sex": np.array([0, 1]), "age": np.array([3, 0]), "income": np.array([2, 1]), "employed": np.array([1, 1])}
    expected = math.log(p[0, 3, 2, 1]) + math.log(p[1, 0, 1, 1])
    assert model.log_likelihood(codes) == pytest.approx(expected, rel=1e-3)
    wrong: list[Any] = [3, None, "sex", [1, 2], np.zeros(3)]
    for given in wrong:
        with pytest.raises(HushError, match="expected an array of codes for every attribute"):
            model.log_likelihood(given)
    with pytest.raises(HushError, match="'employed'"):
        model.log_likelihood({name: codes[name] for name in ("sex", "age", "income")})


# SQL


def test_sql_is_answered_from_any_columns(chain: Model) -> None:
    answers = chain.sql("SELECT employed, COUNT(*) FROM t WHERE age >= 22 AND sex = 'male' GROUP BY employed")
    expected = chain.counts(("employed", "age", "sex"))[:, 2:, 1].sum(axis=1)
    np.testing.assert_allclose(answers.estimate, expected)
    assert np.isnan(answers.std_error).all()
    assert repr(answers).count("not known") == 1


def test_averages_are_answered_too(model: Model) -> None:
    found = model.sql("SELECT AVG(age) FROM t WHERE sex = 'female'")
    counts = table("sex", "age")[0]
    assert found.estimate[0] == pytest.approx(counts @ [20, 21, 22, 23] / counts.sum(), rel=1e-3)


def test_averages_over_nothing_have_no_answer_and_say_why() -> None:
    schema = SCHEMA.forbid(["sex", "employed"], [["male", True]])
    fitted = hush.fit(schema, [Measurement(("sex", "employed"), [[5.0, 5.0], [5.0, 0.0]], 0.1)])
    answers = fitted.sql("SELECT AVG(age) AS mean FROM t WHERE sex = 'male' AND employed")
    assert np.isnan(answers.estimate[0])
    assert "mean: The answer cannot be given, because the denominator is zero: the model has no such rows." in (
        answers.notes
    )


# rows


def test_rows_are_in_the_schemas_values_and_meet_its_tables(model: Model) -> None:
    rows = model.synthesize(seed=1)
    assert rows.num_rows == round(CELLS.sum())
    assert rows.column_names == list(DOMAIN)
    assert set(rows["sex"].to_pylist()) == {"female", "male"}
    assert all(value is None or 0 <= value < 50 for value in rows["income"].to_pylist())
    counts = hush.read(rows, SCHEMA).counts([("sex", "age"), ("income", "employed")])
    for clique, found in counts.items():
        assert np.abs(found - table(*clique)).max() <= table(*clique).size


@pytest.mark.parametrize("method", ["rounding", "sampling"])
def test_seeds_repeat_rows(model: Model, method: Any) -> None:
    first, second = (model.synthesize(50, seed=3, method=method) for _ in range(2))
    assert first == second
    assert first != model.synthesize(50, seed=4, method=method)
    assert model.synthesize(50, method=method) != model.synthesize(50, method=method)


def test_seeds_may_be_numbers_of_numpy(tmp_path: Any) -> None:
    seed: Any = np.int64(3)
    fitted = hush.fit(SCHEMA, [Measurement(("sex",), [10.0, 20.0], 1.0)], method="approximate", seed=seed)
    fitted.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    assert isinstance(loaded, Model)
    assert loaded.synthesize(20, seed=seed) == fitted.synthesize(20, seed=3)


def test_given_columns_keep_their_values(model: Model) -> None:
    rows = model.synthesize(400, given={"sex": "female", "age": [{"to": 20}, 22]}, seed=1)
    assert set(rows["sex"].to_pylist()) == {"female"}
    assert set(rows["age"].to_pylist()) == {20, 22}
    share = rows["age"].to_pylist().count(20) / 400
    assert share == pytest.approx(table("sex", "age")[0, 0] / table("sex", "age")[0, [0, 2]].sum(), abs=0.01)


def test_batches_are_pieces_of_the_wanted_rows(model: Model) -> None:
    sizes = [piece.num_rows for piece in model.batches(25, chunk_rows=10, seed=1)]
    assert sizes == [10, 10, 5]
    assert [piece.num_rows for piece in model.batches(0)] == [0]
    assert model.synthesize(0).schema == model.synthesize(1).schema
    assert isinstance(model.synthesize(1), pa.Table)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rows": -1}, "rows=-1"),
        ({"rows": 1.5}, "rows=1.5"),
        ({"rows": True}, "rows=True"),
        ({"rows": 5, "method": "guessing"}, "expected one of 'rounding', 'sampling'"),
        ({"rows": 5, "seed": -1}, "seed=-1"),
        ({"rows": 5, "seed": "x"}, "seed='x'"),
        ({"rows": 5, "chunk_rows": 0}, "chunk_rows=0"),
        ({"rows": 5, "given": {"age": 99}}, "outside 20"),
        ({"rows": 5, "given": {"size": 99}}, "not in the domain"),
        ({"rows": 5, "given": {"sex": []}}, "is empty"),
    ],
)
def test_bad_wishes_are_refused_at_once(model: Model, options: dict[str, Any], text: str) -> None:
    with pytest.raises(HushError, match=text):
        model.batches(**options)  # not one piece is asked for


def test_rows_that_cannot_be_are_refused() -> None:
    schema = SCHEMA.forbid(["sex", "employed"], [["male", True]])
    model = hush.fit(schema, [Measurement(("sex",), [5.0, 5.0], 0.1), Measurement(("employed",), [5.0, 5.0], 0.1)])
    assert model.counts(("sex", "employed"))[1, 1] == 0
    near = hush.fit(schema, model.measurements, method="approximate")
    for one in (model, near):
        for ask in (one.synthesize, lambda given, one=one: one.conditional(("age",), given)):
            with pytest.raises(DomainError, match=r"'sex': 'male'\} has probability zero.*the constraints exclude it"):
                ask(given={"employed": True, "sex": "male"})


# approximate models


@pytest.fixture(scope="module")
def approximate() -> Model:
    pairs = [("sex", "age"), ("age", "income"), ("income", "sex")]
    return hush.fit(SCHEMA, [Measurement(pair, table(*pair), 1.0) for pair in pairs], method="approximate")


def test_approximate_models_answer_and_say_what_they_are(approximate: Model) -> None:
    assert not approximate.exact
    np.testing.assert_allclose(approximate.counts(("age", "sex")), table("age", "sex"), rtol=0.01)
    for answers in (approximate.marginal("age"), approximate.sql("SELECT COUNT(*) FROM t WHERE age = 20")):
        assert any("approximate" in note for note in answers.notes)
    counted = approximate.sql("SELECT COUNT(*) FROM t WHERE age = 20 AND sex = 'male' AND employed")
    assert counted.estimate[0] == pytest.approx(table("age", "sex")[0, 1] / 2, rel=0.02)
    found = approximate.conditional(("age",), {"sex": "male"})
    np.testing.assert_allclose(found.estimate, table("sex", "age")[1] / table("sex")[1], rtol=0.01)
    assert set(approximate.tables([("sex",), ("age", "employed")])) == {("sex",), ("age", "employed")}


def test_approximate_models_have_no_distribution(approximate: Model) -> None:
    for ask in (approximate.entropy, lambda: approximate.log_likelihood({})):
        with pytest.raises(WorkloadError, match="approximate"):
            ask()


def test_approximate_models_give_rows(approximate: Model) -> None:
    rows = approximate.synthesize(seed=1)
    found = hush.read(rows, SCHEMA).counts([("sex", "age")])[("sex", "age")]
    assert np.abs(found - table("sex", "age")).sum() < 0.05 * CELLS.sum()
    assert approximate.synthesize(50, seed=1) == approximate.synthesize(50, seed=1)
    given = approximate.synthesize(50, given={"sex": "male"}, seed=1)
    assert set(given["sex"].to_pylist()) == {"male"}


def test_repr_says_what_it_is(model: Model) -> None:
    assert repr(model).startswith("Model(1 cliques over 4 attributes, exact, 0.000384 MB, total ")
    assert model.size_mb == pytest.approx(8e-6 * CELLS.size)
    assert model.cliques == (DOMAIN.attributes,)


def test_constraints_over_codes_go_with_a_bare_domain() -> None:
    domain = Domain({"a": 2, "b": 2})
    rule = Constraint.depends(domain, "b", "a", {0: 1})
    model = hush.fit(domain, [Measurement(("a", "b"), [[5.0, 5.0], [5.0, 5.0]], 1.0)], constraints=[rule])
    assert model.counts(("a", "b"))[0, 0] == 0
    assert model.sql("SELECT COUNT(*) FROM t WHERE a = 0 AND b = 0").estimate[0] == 0
