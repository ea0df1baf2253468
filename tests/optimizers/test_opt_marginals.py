import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.domain import Domain
from hush.core.errors import SizeError
from hush.linops import AllRange, Dense, Identity, LinearOperator, Prefix, Total
from hush.optimizers.marginal_system import AllSets, MarginalSystem, SomeSets, acts, subsets
from hush.optimizers.opt_marginals import candidates, maximal, opt_marginals
from hush.strategies.product_strategy import FloatStrategy, Recovery
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams
from hush.workloads import Workload
from hush.workloads.workload import ProductTerm

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})
SIZES = (2.0, 3.0, 4.0)


def products(seed: int) -> Workload:
    """A random union of one to three products."""
    random = np.random.default_rng(seed)
    terms = []
    for _ in range(int(random.integers(1, 4))):
        blocks: dict[str, LinearOperator] = {}
        for name in DOMAIN:
            n = DOMAIN[name]
            picked = [Total(n), Identity(n), Prefix(n), AllRange(n), Dense(random.normal(size=(2, n)))]
            block = picked[int(random.integers(5))]
            if not isinstance(block, Total):
                blocks[name] = block
        terms.append(ProductTerm(tuple(blocks), tuple(blocks.values()), float(random.uniform(0.5, 3))))
    return Workload(DOMAIN, terms)


def dense(clique: tuple[str, ...], blocks: tuple[LinearOperator, ...]) -> np.ndarray:
    known = dict(zip(clique, blocks, strict=True))
    made = np.ones((1, 1))
    for name in DOMAIN:
        made = np.kron(made, known[name].dense() if name in known else np.ones((1, DOMAIN[name])))
    return made


def dense_error(workload: Workload, marginals: dict[tuple[str, ...], float], noise: NoiseKind) -> float:
    """Least squares from all marginals, each with the noise of its share; infinite if not supported."""
    rows = [dense(c, tuple(Identity(DOMAIN[n]) for n in c)) * share ** (noise.norm == 1 or 0.5)
            for c, share in marginals.items()]  # fmt: skip
    q = np.concatenate(rows)
    w = np.concatenate([np.sqrt(t.weight) * dense(t.clique, t.blocks) for t in workload])
    inverse = np.linalg.pinv(q, rcond=1e-10)
    if np.abs(w @ inverse @ q - w).max() > 1e-7 * np.abs(w).max():
        return np.inf
    return float(np.sum((w @ inverse) ** 2))


def named(number: int, grams: TermGrams) -> tuple[str, ...]:
    return tuple(DOMAIN.attributes[place] for i, place in enumerate(grams.asked) if number >> i & 1)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(NoiseKind))
def test_the_fast_form_is_the_dense_one_also_where_the_marginals_are_rank_deficient(
    seed: int, noise: NoiseKind
) -> None:
    workload = products(seed)
    grams = TermGrams.of(workload)
    random = np.random.default_rng(seed)
    act = acts(grams)
    sizes = [float(DOMAIN.shape[place]) for place in grams.asked]
    shares = random.random(1 << len(sizes)) * (random.random(1 << len(sizes)) < 0.6)
    shares[0] += 0.1
    shares /= shares.sum()
    full = np.zeros(len(shares))
    full[list(act)] = list(act.values())
    fast = AllSets(noise, sizes, full).error(shares)
    some = SomeSets(noise, sizes, act, range(len(shares))).error(shares)
    expected = dense_error(workload, {named(b, grams): float(s) for b, s in enumerate(shares) if s > 0}, noise)
    assert some == pytest.approx(fast)
    assert fast == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("noise", NoiseKind)
def test_gradient_agrees_with_finite_differences(noise: NoiseKind) -> None:
    act = np.random.default_rng(1).random(8)
    systems: list[MarginalSystem] = [
        AllSets(noise, SIZES, act),
        SomeSets(noise, SIZES, dict(enumerate(act.tolist())), [7, 3, 5, 0]),
    ]
    for system in systems:
        z = np.random.default_rng(2).normal(size=len(system.sets))
        slope = system.log_error(z)[1]
        for k in range(len(z)):
            bump = np.zeros(len(z))
            bump[k] = 1e-6
            near = (system.log_error(z + bump)[0] - system.log_error(z - bump)[0]) / 2e-6
            assert slope[k] == pytest.approx(near, abs=1e-7)


@pytest.mark.parametrize("noise", NoiseKind)
def test_a_step_never_raises_the_error(noise: NoiseKind) -> None:
    system = AllSets(noise, SIZES, np.random.default_rng(3).random(8))
    shares = np.random.default_rng(4).random(8)
    for _ in range(20):
        stepped = system.stepped(shares)
        assert system.error(stepped) <= system.error(shares) * (1 + 1e-12)
        shares = stepped


def test_support_is_by_eigenvalues() -> None:
    system = AllSets(NoiseKind.GAUSSIAN, SIZES, np.array([1.0, 1.0, 0, 0, 0, 0, 0, 0]))  # asks about {} and {a}
    only_b, only_a = np.eye(8)[2], np.eye(8)[1]
    assert system.error(only_b) == np.inf
    assert system.error(only_a) < np.inf


def marginals(strategy: FloatStrategy) -> dict[tuple[str, ...], float]:
    return {product.clique: product.share for product in strategy.products}


@pytest.mark.parametrize("noise", NoiseKind)
@pytest.mark.parametrize("seed", range(4))
def test_a_draft_keeps_its_promise(seed: int, noise: NoiseKind) -> None:
    workload = products(seed)
    strategy = opt_marginals(TermGrams.of(workload), noise, restarts=1).value
    assert strategy.recovery is Recovery.MARGINALS
    assert sum(marginals(strategy).values()) == pytest.approx(1)
    assert strategy.error == pytest.approx(dense_error(workload, marginals(strategy), noise), rel=1e-6)


def test_example_4() -> None:
    grams = TermGrams.of(Workload.kway(Domain({"a": 2, "b": 5, "c": 50, "d": 100}), 2))
    strategy = opt_marginals(grams, NoiseKind.LAPLACE).value
    assert strategy.error == pytest.approx(62_886, rel=1e-4)
    assert marginals(strategy) == pytest.approx(
        {("c", "d"): 0.44, ("a", "b", "c"): 0.25, ("a", "b", "d"): 0.31}, abs=0.006
    )


def test_gaussian_closed_form_attains_the_svd_bound() -> None:
    """All marginals of CPS, of which 7.852 is the printed bound and result."""
    workload = Workload.upto(Domain({"a": 50, "b": 100, "c": 7, "d": 4, "e": 2}), 5)
    found = opt_marginals(TermGrams.of(workload), NoiseKind.GAUSSIAN)
    assert found.solved
    assert 4.224678889 * np.sqrt(found.value.error / workload.queries) == pytest.approx(7.852, abs=5e-4)


def test_cps_under_laplace_noise_beats_the_printed_result() -> None:
    workload = Workload.upto(Domain({"a": 50, "b": 100, "c": 7, "d": 4, "e": 2}), 5)
    error = opt_marginals(TermGrams.of(workload), NoiseKind.LAPLACE).value.error
    assert np.sqrt(2 * error / workload.queries) <= 4.77


@pytest.mark.parametrize("noise", NoiseKind)
def test_a_hundred_attributes(noise: NoiseKind) -> None:
    domain = Domain({f"a{i}": 2 + i % 5 for i in range(100)})
    cliques = [(f"a{i}", f"a{i + 1}", f"a{i + 2}") for i in range(0, 98, 2)]
    workload = Workload.marginals(domain, cliques)
    strategy = opt_marginals(TermGrams.of(workload), noise, restarts=1, rounds=5).value
    direct = noise.total(np.array([float(domain.size(c)) for c in cliques]))
    assert strategy.error < direct


def test_cells_bound_the_marginals() -> None:
    grams = TermGrams.of(Workload.kway(Domain({"a": 2, "b": 5, "c": 50, "d": 100}), 2))
    for noise in NoiseKind:
        strategy = opt_marginals(grams, noise, cells=300).value
        assert all(
            grams.domain.size(product.clique) <= 300 or len(product.clique) == 2 for product in strategy.products
        )


def test_candidates_are_all_sets_or_what_is_asked_and_unions() -> None:
    assert candidates([2.0] * 3, {0: 1.0, 1: 1.0}) == list(range(8))
    wide = {a: 1.0 for top in (0b111, 0b111 << 17) for a in subsets(top)}
    found = candidates([2.0] * 20, wide)
    assert set(wide) <= set(found)
    assert (0b111 | 0b111 << 17) in found
    assert maximal(wide) == [0b111, 0b111 << 17]


def test_terms_over_too_many_attributes_are_refused() -> None:
    domain = Domain({f"a{i}": 2 for i in range(30)})
    with pytest.raises(SizeError, match="30 attributes"):
        opt_marginals(TermGrams.of(Workload.kway(domain, 30)), NoiseKind.GAUSSIAN)
