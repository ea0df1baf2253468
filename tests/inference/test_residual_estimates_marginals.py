import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dense_twins import DenseResidual, powerset
from hush import queries
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, SizeError, WorkloadError
from hush.inference import residual_estimates as residual_module
from hush.inference.residual_estimates import ResidualEstimates, collapse, expand
from hush.linops import Identity, Prefix
from hush.privacy import measurement
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gate import Gate
from hush.privacy.measurement import Measurements
from hush.strategies.residual_strategy import ResidualStrategy, residual_query
from hush.strategies.select_residual import select_residual
from hush.testing import TinyTable
from hush.workloads import Workload

DOMAIN = Domain({"age": 5, "sex": 2, "race": 3, "work": 5})
MIXED = (
    Workload.product(DOMAIN, {"age": queries.prefix, "sex": queries.identity, "race": queries.identity})
    + Workload.product(DOMAIN, {"work": queries.ranges, "sex": queries.identity})
    + Workload.marginals(DOMAIN, [("race", "work")])
)
PLAIN = Workload.marginals(DOMAIN, [("age", "sex", "work"), ("sex", "race"), ("age", "race")])


def counts_of(clique: Clique, histogram: np.ndarray) -> np.ndarray:
    axes = tuple(axis for axis, name in enumerate(DOMAIN) if name not in clique)
    return histogram.sum(axis=axes)


def histogram(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).poisson(3.0, size=DOMAIN.shape).astype(np.int64)


def exact_answers(plan: ResidualStrategy, table: np.ndarray) -> dict[Clique, np.ndarray]:
    return {clique: residual_query(plan, clique).answer({clique: counts_of(clique, table)}) for clique in plan.closure}


def measured(plan: ResidualStrategy, answers: dict[Clique, np.ndarray]) -> Measurements[ResidualStrategy]:
    found = Measurements(plan)
    for clique, values in answers.items():
        found[plan.closure.index(clique)] = values
    return found


def reconstruction(plan: ResidualStrategy, answers: dict[Clique, np.ndarray]) -> ResidualEstimates:
    return ResidualEstimates(measured(plan, answers))


def noisy_answers(plan: ResidualStrategy, seed: int) -> dict[Clique, np.ndarray]:
    random = np.random.default_rng(seed)
    exact = exact_answers(plan, histogram(seed))
    return {clique: values + random.integers(-500, 501, size=values.shape) for clique, values in exact.items()}


@pytest.mark.parametrize("workload", [MIXED, PLAIN], ids=["mixed", "plain"])
def test_without_noise_every_marginal_is_exact(workload: Workload) -> None:
    plan = select_residual(workload, rho=0.5).value
    found = reconstruction(plan, exact_answers(plan, histogram()))
    for clique in plan.closure:
        np.testing.assert_allclose(found.counts(clique), counts_of(clique, histogram()), atol=1e-9)


@pytest.mark.parametrize("workload", [MIXED, PLAIN], ids=["mixed", "plain"])
def test_with_noise_it_is_the_best_linear_unbiased_estimate(workload: Workload) -> None:
    plan = select_residual(workload, rho=0.5).value
    noisy = noisy_answers(plan, 3)
    scaled = [noisy[c] / residual_query(plan, c).scale for c in plan.closure]
    dense = DenseResidual(plan)
    stacked = np.concatenate([values.ravel() for values in scaled])
    found = reconstruction(plan, noisy)
    for clique in plan.closure:
        wanted = dense.estimate(dense.marginal(clique), stacked)
        np.testing.assert_allclose(found.counts(clique).ravel(), wanted, atol=1e-7)
    for term in workload:
        wanted = dense.estimate(dense.marginal(term.clique, term.blocks), stacked)
        np.testing.assert_allclose(found.product(term.clique, term.blocks)[0].ravel(), wanted, atol=1e-7)


@pytest.mark.parametrize("workload", [MIXED, PLAIN], ids=["mixed", "plain"])
def test_marginals_agree_on_what_they_share(workload: Workload) -> None:
    plan = select_residual(workload, rho=0.5).value
    tables = dict(reconstruction(plan, noisy_answers(plan, 4)).marginals())
    assert list(tables) == list(plan.closure)
    for one, two in itertools.combinations(plan.closure, 2):
        shared = tuple(name for name in one if name in two)
        sums = [
            tables[clique].sum(axis=tuple(axis for axis, name in enumerate(clique) if name not in shared))
            for clique in (one, two)
        ]
        np.testing.assert_allclose(sums[0], sums[1], atol=1e-9)


def test_the_worked_example_of_appendix_b() -> None:
    domain = Domain({"1": 2, "2": 2, "3": 3})
    plan = select_residual(Workload.marginals(domain, [("1",), ("1", "2"), ("2", "3")]), rho=0.5).value
    rows = [(0, 1, 1), (1, 1, 2), (1, 0, 2), (0, 1, 1), (1, 0, 2)]
    source = TinyTable(domain, rows)
    exact = {c: residual_query(plan, c).answer(source.counts([c])) for c in plan.closure}
    found = reconstruction(plan, exact)
    np.testing.assert_allclose(found.counts(("1",)), [2, 3], atol=1e-12)
    np.testing.assert_allclose(found.counts(("1", "2")), [[0, 2], [2, 1]], atol=1e-12)
    np.testing.assert_allclose(found.counts(("2", "3")), [[0, 0, 2], [0, 2, 1]], atol=1e-12)
    assert sum(np.prod([size - 1 for size in domain.sizes(c)]) for c in plan.closure) == 8  # noisy numbers needed


@settings(max_examples=30)
@given(st.lists(st.integers(2, 6), min_size=0, max_size=4), st.integers(0, 2**32 - 1))
def test_the_compiled_kernel_agrees_with_the_plain_transform(sizes: list[int], seed: int) -> None:
    domain = Domain({f"a{i}": size for i, size in enumerate(sizes)})
    plan = select_residual(Workload.marginals(domain, powerset(domain)), rho=0.5).value
    answers = Measurements(plan)
    answers.flat[:] = np.random.default_rng(seed).integers(-(10**6), 10**6, size=len(answers.flat))
    answers.filled[:] = True
    found = ResidualEstimates(answers)
    for clique in plan.closure:
        twin = found._general(clique, plan.closure.subsets(clique))
        np.testing.assert_allclose(found.counts(clique), twin, rtol=1e-12, atol=1e-6)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_collapse_is_the_transpose_of_expand(seed: int) -> None:
    random = np.random.default_rng(seed)
    bases = select_residual(MIXED, rho=0.5).value.clique_bases(("age", "sex", "work"))
    extended = random.normal(size=[basis.rows + 1 for basis in bases])
    coefficients = random.normal(size=[basis.size for basis in bases])
    there = np.sum(expand(extended, bases) * coefficients)
    back = np.sum(extended * collapse(coefficients, bases))
    assert there == pytest.approx(back)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_stream_gives_every_marginal_once_in_the_order_asked(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residual_module, "BATCH_CELLS", 20)
    plan = select_residual(PLAIN, rho=0.5).value
    found = reconstruction(plan, noisy_answers(plan, 5))
    streamed = list(found.marginals(threads=threads))
    assert [clique for clique, _ in streamed] == list(plan.closure)
    for clique, values in streamed:
        np.testing.assert_array_equal(values, found.counts(clique))
    some = [("work", "age"), ("sex",), ("race", "sex")]
    assert [clique for clique, _ in found.marginals(some, threads=threads)] == [
        ("age", "work"),
        ("sex",),
        ("sex", "race"),
    ]
    assert list(found.marginals([], threads=threads)) == []


def test_names_may_come_in_any_order() -> None:
    plan = select_residual(MIXED, rho=0.5).value
    noisy = noisy_answers(plan, 6)
    found = reconstruction(plan, noisy)
    np.testing.assert_array_equal(
        found.counts(("race", "age", "sex")), found.counts(("age", "sex", "race")).transpose(2, 0, 1)
    )
    np.testing.assert_array_equal(found.answers[plan.closure.index(("race", "age"))], noisy[("age", "race")])
    prefix, _ = found.product(("sex", "age"), [Identity(2), Prefix(5)])
    np.testing.assert_allclose(prefix, np.cumsum(found.counts(("sex", "age")), axis=1))
    total = found.estimate_of([(("sex", "age"), np.ones((2, 5))), ((), -2.0)])
    assert total == pytest.approx(-float(found.counts(())))


def test_relabelling_values_relabels_the_estimates() -> None:
    plan = select_residual(PLAIN, rho=0.5).value
    noisy = noisy_answers(plan, 8)
    order = [3, 0, 4, 2, 1]
    turned = {
        clique: np.take(values, order, axis=clique.index("age")) if "age" in clique else values
        for clique, values in noisy.items()
    }
    one, two = reconstruction(plan, noisy), reconstruction(plan, turned)
    np.testing.assert_allclose(two.counts(("age", "sex", "work")), one.counts(("age", "sex", "work"))[order])
    np.testing.assert_allclose(two.counts(("sex", "race")), one.counts(("sex", "race")))


def test_what_was_measured_before_an_interruption_can_be_used() -> None:
    plan = select_residual(PLAIN, rho=0.5).value
    noisy = noisy_answers(plan, 7)
    some = {clique: noisy[clique] for clique in powerset(("sex", "race"))}
    found = reconstruction(plan, some)
    whole = reconstruction(plan, noisy)
    np.testing.assert_array_equal(found.counts(("sex", "race")), whole.counts(("sex", "race")))
    assert not found.answers.filled[plan.closure.index(("age",))]
    assert len(found.answers) == 4
    assert {one.clique for one in found.answers} == set(some)
    with pytest.raises(DataError, match=r"answers over \('age',\) are missing"):
        found.counts(("age", "race"))
    with pytest.raises(DataError, match="are missing"):
        found.answers[plan.closure.index(("age",))]


def test_what_was_not_planned_is_refused() -> None:
    plan = select_residual(PLAIN, rho=0.5).value
    found = reconstruction(plan, noisy_answers(plan, 7))
    with pytest.raises(WorkloadError, match="add it to the workload"):
        found.counts(("race", "work"))
    with pytest.raises(WorkloadError, match="add it to the workload"):
        list(found.marginals([("sex",), ("race", "work")]))
    with pytest.raises(WorkloadError, match="1 query blocks for 2 attributes"):
        found.product(("sex", "race"), [Identity(2)])


@pytest.mark.parametrize("values", [np.zeros((2, 3)), np.zeros((3, 2), dtype=np.int64), np.zeros(6, dtype=np.int64)])
def test_answers_of_another_shape_or_type_are_refused(values: np.ndarray) -> None:
    plan = select_residual(PLAIN, rho=0.5).value
    with pytest.raises(DataError, match=r"answers over \('sex', 'race'\): expected integers of shape \(2, 3\)"):
        measured(plan, {("sex", "race"): values})


def test_small_tables_are_those_of_the_compiled_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = select_residual(PLAIN, rho=0.5).value
    found = reconstruction(plan, noisy_answers(plan, 7))
    small = {clique: found.counts(clique) for clique in plan.closure}
    monkeypatch.setattr(residual_module, "SMALL_CELLS", 0)
    assert len(small) > 3
    for clique, table in small.items():
        assert table.tobytes() == found.counts(clique).tobytes()


def test_memory_is_predicted_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = select_residual(PLAIN, rho=0.5).value
    found = reconstruction(plan, noisy_answers(plan, 7))
    monkeypatch.setattr(measurement, "available_memory", lambda: 100)
    monkeypatch.setattr("hush.core.memory.UNCHECKED_BYTES", 0)
    monkeypatch.setattr("hush.core.memory.available_memory", lambda: 100)
    with pytest.raises(SizeError, match="drop an attribute"):
        Measurements(plan)
    monkeypatch.setattr(residual_module, "LARGE_CELLS", 10)
    with pytest.raises(SizeError, match="the table over age, race: .* needed, 80 B free; ask for fewer attributes"):
        found.counts(("age", "race"))


@pytest.mark.slow
@pytest.mark.parametrize("workload", [MIXED, PLAIN], ids=["mixed", "plain"])
def test_repeated_releases_have_the_mean_and_variance_that_were_promised(workload: Workload) -> None:
    """600 releases: means within 4.5 standard errors, variances within 4.5 of theirs, a fixed seed throughout."""
    plan = select_residual(workload, rho=0.05).value
    asked = plan.requests()
    rows = [tuple(cell) for cell, count in np.ndenumerate(histogram(1)) for _ in range(count)]
    source = TinyTable(DOMAIN, rows)
    fixed = source.counts(list(plan.closure))
    source.counts = lambda cliques: fixed  # type: ignore[method-assign]
    clique = plan.closure.cliques[-1]
    runs = 600
    entropy = NotPrivateEntropy(11)
    seen = []
    for _ in range(runs):
        gate = Gate(source, Allowance(Budget(rho=0.06)), entropy=entropy)
        noisy = dict(zip(plan.closure, (answer.raw for answer in gate.measure(asked)), strict=True))
        seen.append(reconstruction(plan, noisy).counts(clique))
    variances = plan.query_variances(clique)
    bias = (np.mean(seen, axis=0) - fixed[clique]) / np.sqrt(variances / runs)
    spread = (np.var(seen, axis=0, ddof=1) / variances - 1) / np.sqrt(2 / (runs - 1))
    assert np.abs(bias).max() < 4.5
    assert np.abs(spread).max() < 4.5
