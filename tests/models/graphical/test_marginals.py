import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.constraints import Constraint
from hush.core.domain import Clique, Domain
from hush.core.errors import DomainError, SizeError, WorkloadError
from hush.inference.factors import Factors
from hush.linops import AllRange, Dense, Differences, Identity, Kronecker, Prefix, Total
from hush.models.graphical import marginals
from hush.models.graphical import marginals as node_tables
from hush.models.graphical.belief_propagation import in_tree_order
from hush.models.graphical.graphical_model import GraphicalModel
from hush.models.graphical.junction_tree import JunctionTree

DOMAIN = Domain({"a": 3, "b": 4, "one": 1, "c": 2, "d": 5, "e": 3, "alone": 6})
CLIQUES = {
    "tree": [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")],
    "star": [("a", "b"), ("c", "b"), ("d", "b"), ("e", "b"), ("alone", "b")],
    "chain": [("a", "b", "c"), ("b", "c", "d"), ("c", "d", "e"), ("e", "one"), ("e", "alone")],
    "loop": [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")],
    "nested": [("a",), ("a", "b"), ("a", "b", "c"), ("c",), ()],
    "disconnected": [("a", "b"), ("d", "e")],
    "duplicate and permuted": [("a", "b"), ("b", "a"), ("a", "b")],
    "size 1": [("one",), ("a", "one"), ("one", "d")],
    "full": [tuple(DOMAIN)],
    "no cliques": [],
}
ZEROS = {"none": (), "some": (Constraint.forbid(DOMAIN, ("b", "a"), [(0, 0), (1, 0), (3, 2)]),)}
EVERY = [clique for size in range(len(DOMAIN) + 1) for clique in itertools.combinations(DOMAIN, size)]


def model_of(
    domain: Domain,
    cliques: list[Clique],
    constraints: tuple[Constraint, ...] = (),
    seed: int = 1,
    total: float = 1000.0,
) -> GraphicalModel:
    held = [*cliques, *(constraint.clique for constraint in constraints)]
    tree = in_tree_order(JunctionTree.build(domain, held))
    factors = Factors(tree.domain, cliques)
    potentials = np.random.Generator(np.random.PCG64(seed)).normal(0, 2, factors.size)
    return GraphicalModel(domain, tree, factors, potentials, total, constraints)


def joint_of(model: GraphicalModel) -> np.ndarray:
    """The counts of every cell of the domain, by the definition."""
    domain = model.domain
    table = np.zeros(domain.shape)
    every = [(clique, own) for clique, own in model.tables.items()]
    every += [(one.clique, one.potentials()) for one in model.constraints]
    for clique, own in every:
        ordered = sorted(clique, key=domain.attributes.index)
        moved = own.transpose([clique.index(name) for name in ordered])
        table = table + moved.reshape([domain[name] if name in clique else 1 for name in domain])
    weights = np.exp(table - table.max())
    return model.total * weights / weights.sum()


def margin(joint: np.ndarray, domain: Domain, clique: Clique) -> np.ndarray:
    kept = [name for name in domain if name in clique]
    table = joint.sum(axis=tuple(i for i, name in enumerate(domain) if name not in clique))
    return table.transpose([kept.index(name) for name in clique])


@pytest.fixture(params=[(c, z) for c in CLIQUES for z in ZEROS], ids=lambda p: f"{p[0]}, zeros: {p[1]}", scope="module")
def model(request):
    return model_of(DOMAIN, CLIQUES[request.param[0]], ZEROS[request.param[1]])


def test_many_gives_every_marginal_of_the_joint(model):
    joint = joint_of(model)
    found = model.many(EVERY)
    assert list(found) == EVERY
    for clique in EVERY:
        expected = margin(joint, DOMAIN, clique)
        assert found[clique].shape == DOMAIN.sizes(clique)
        np.testing.assert_allclose(found[clique], expected, rtol=1e-9, atol=1e-9)
        assert np.all(found[clique][expected == 0] == 0)


def test_one_marginal_equals_the_same_among_many(model):
    cliques = [(), ("e",), ("e", "a"), ("alone", "a", "e"), ("d", "one", "b", "c"), tuple(reversed(DOMAIN.attributes))]
    found = model.many(cliques)
    for clique in cliques:
        np.testing.assert_allclose(model.counts(clique), found[clique], rtol=1e-9, atol=1e-9)


def test_permuted_cliques_have_their_axes_permuted_and_share_no_memory(model):
    found = model.many([("a", "e"), ("e", "a"), ("one", "a"), ("a", "one")])
    np.testing.assert_array_equal(found["a", "e"], found["e", "a"].T)
    for one, other in itertools.combinations(found.values(), 2):
        assert not np.shares_memory(one, other)
    model.counts(("a", "b"))[:] = -1
    assert model.counts(("a", "b")).min() >= 0


def test_the_empty_clique_is_the_total_and_marginals_agree(model):
    assert model.counts(()) == pytest.approx(model.total)
    table = model.counts(("alone", "d", "a"))
    np.testing.assert_allclose(table.sum(axis=0), model.counts(("d", "a")))
    assert table.sum() == pytest.approx(model.total)


def test_products_equal_the_table_with_the_blocks_applied(model):
    signed = Dense(np.array([[1.0, -2.0, 0.0, 0.0, 0.5]]))
    cases = [
        (("d",), [Prefix(5)]),
        (("e", "a"), [Prefix(3), Total(3)]),
        (("alone", "d", "a"), [AllRange(6), signed, Differences(3)]),
        (("a", "b", "c", "d", "e"), [Total(3), Differences(4), Identity(2), signed, Dense(np.zeros((1, 3)))]),
        (DOMAIN.attributes, [Dense(np.eye(n)[: (n + 1) // 2] - 0.25) for n in DOMAIN.shape]),
        (("a", "c", "e"), [Dense(np.array([[0.0, 3.0, 0.0]])), Prefix(2), Dense(np.ones((7, 3)))]),
    ]
    for clique, blocks in cases:
        expected = Kronecker(blocks).matmat(model.counts(clique).reshape(-1, 1)).ravel()
        found = model.product(clique, blocks)
        assert found.shape == tuple(block.shape[0] for block in blocks)
        np.testing.assert_allclose(found.ravel(), expected, rtol=1e-9, atol=1e-9)
    assert model.product((), []) == pytest.approx(model.total)


@st.composite
def random_models(draw: st.DrawFn) -> tuple[GraphicalModel, list[Clique]]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=7))
    domain = Domain({f"x{i}": size for i, size in enumerate(sizes)})
    clique = st.lists(st.sampled_from(domain.attributes), max_size=3, unique=True).map(tuple)
    cliques = draw(st.lists(clique, max_size=8))
    zeros = []
    pair = draw(clique)
    if pair:
        allowed = np.random.Generator(np.random.PCG64(draw(st.integers(0, 99)))).random(domain.sizes(pair)) < 0.7
        allowed.flat[0] = True
        zeros.append(Constraint.of_table(domain, pair, allowed))
    asked = st.lists(st.sampled_from(domain.attributes), max_size=5, unique=True).map(tuple)
    return model_of(domain, cliques, tuple(zeros), draw(st.integers(0, 99))), draw(st.lists(asked, max_size=6))


@given(random_models())
@settings(max_examples=150, deadline=None)
def test_random_models_and_cliques_equal_the_joint(case):
    model, cliques = case
    joint = joint_of(model)
    found = model.many(cliques)
    for clique in cliques:
        np.testing.assert_allclose(found[clique], margin(joint, model.domain, clique), rtol=1e-8, atol=1e-8)


@given(random_models(), st.data())
@settings(max_examples=100, deadline=None)
def test_random_products_equal_the_joint(case, data):
    model, _ = case
    clique = data.draw(st.permutations(model.domain.attributes))
    rows = data.draw(st.lists(st.integers(1, 4), min_size=len(clique), max_size=len(clique)))
    random = np.random.Generator(np.random.PCG64(data.draw(st.integers(0, 99))))
    blocks = [
        Dense(random.integers(-1, 2, (m, model.domain[name])) * 1.0) for m, name in zip(rows, clique, strict=True)
    ]
    table = margin(joint_of(model), model.domain, tuple(clique))
    expected = Kronecker(blocks).matmat(table.reshape(-1, 1)).ravel()
    np.testing.assert_allclose(model.product(clique, blocks).ravel(), expected, rtol=1e-8, atol=1e-8)


def test_tables_that_make_room_for_others_are_made_again(monkeypatch):
    monkeypatch.setattr(node_tables, "CACHED_CELLS", 0)
    monkeypatch.setattr(marginals, "CACHED_CELLS", 0)
    model = model_of(DOMAIN, CLIQUES["chain"])
    object.__setattr__(model.tree, "cells", 0)
    joint = joint_of(model)
    for clique, table in model.many(EVERY).items():
        np.testing.assert_allclose(table, margin(joint, DOMAIN, clique), rtol=1e-9, atol=1e-9)


def test_the_ends_of_a_long_chain():
    domain = Domain({f"x{i}": 2 for i in range(1500)})
    model = model_of(domain, [(f"x{i}", f"x{i + 1}") for i in range(1499)], total=1.0)
    steps = [model.conditional((f"x{i + 1}",), {f"x{i}": 0}) for i in range(2)]
    first, second = model.counts(("x0", "x1")), model.conditional(("x2",), {"x1": 1})
    expected = first[:, 0] * steps[1][0] + first[:, 1] * second[0]
    np.testing.assert_allclose(model.counts(("x0", "x2"))[:, 0], expected)
    ends = model.counts(("x1499", "x0"))
    np.testing.assert_allclose(ends, np.outer(model.counts(("x1499",)), model.counts(("x0",))), atol=1e-9)


def wide() -> GraphicalModel:
    domain = Domain({f"x{i}": 50 for i in range(40)})
    return model_of(domain, [(f"x{i}", f"x{i + 1}") for i in range(39)])


def test_what_does_not_fit_is_refused_before_it_is_made():
    model = wide()
    with pytest.raises(SizeError, match=r"the table over \('x0', .* cells\): .* TB needed, .* free; ask for fewer"):
        model.counts([f"x{i}" for i in range(0, 40, 3)])
    with pytest.raises(SizeError, match=r"41 tables \(.* cells\): 2\^\d+ bytes needed, .* or tables"):
        model.many([model.domain, *((name,) for name in model.domain)])
    with pytest.raises(SizeError, match="use fewer rows"):
        model.product(model.domain, [Identity(50)] * 40)


def test_an_intermediate_that_does_not_fit_is_refused(monkeypatch):
    model = model_of(Domain({"hub": 500, "x": 60, "y": 60}), [("hub", "x"), ("hub", "y")])
    assert model.counts(("x", "y")).shape == (60, 60)
    monkeypatch.setattr("hush.core.memory.UNCHECKED_BYTES", 8 * 10_000)
    monkeypatch.setattr("hush.core.memory.available_memory", lambda: 8 * 20_000)
    with pytest.raises(
        SizeError,
        match=r"table over \('x', 'y'\) with intermediate tables .*: .* needed, .* give codes of some",
    ):
        model.counts(("x", "y"))


def test_a_product_of_few_rows_is_answered_where_the_table_does_not_fit():
    model = wide()
    names = model.domain.attributes
    young = Dense((np.arange(50) < 25.0)[None])
    below, above = model.conditional, model.counts
    found = model.product(names, [Total(50)] * 20 + [young] * 2 + [Total(50)] * 18)
    np.testing.assert_allclose(found.ravel(), [above(names[20:22])[:25, :25].sum()])
    halves = Dense(np.stack([np.arange(50) < 25, np.arange(50) >= 25]) * 1.0)
    found = model.product(names[::4], [halves] * 10)
    assert found.shape == (2,) * 10
    assert found.sum() == pytest.approx(model.total)
    np.testing.assert_allclose(found.sum(axis=tuple(range(1, 10)))[0], above(("x0",))[:25].sum())
    assert below(("x0",), {"x39": 3}).shape == (50,)


def test_more_attributes_than_an_array_has_axes():
    domain = Domain({f"x{i}": 2 for i in range(80)})
    model = model_of(domain, [(f"x{i}", f"x{i + 1}") for i in range(79)])
    with pytest.raises(SizeError, match="has 80 axes, and an array at most 64"):
        model.product(domain, [Total(2)] * 80)
    with pytest.raises(SizeError, match="has 65 axes"):
        model.counts(domain.attributes[:65])
    found = model.product(domain.attributes[:64], [Total(2)] * 63 + [Identity(2)])
    np.testing.assert_allclose(found.ravel(), model.counts(("x63",)))


def test_blocks_and_cliques_that_do_not_fit_the_domain_are_refused():
    model = model_of(DOMAIN, CLIQUES["tree"])
    with pytest.raises(WorkloadError, match="1 blocks for 2 attributes"):
        model.product(("a", "b"), [Total(3)])
    with pytest.raises(WorkloadError, match="block of 'b' has 3 columns; expected one per level, 4"):
        model.product(("a", "b"), [Total(3), Total(3)])
    with pytest.raises(WorkloadError, match="expected a linear operator"):
        model.product(("a",), [np.ones((1, 3))])
    with pytest.raises(DomainError, match="'z' is not in the domain"):
        model.many([("a",), ("z",)])
    with pytest.raises(DomainError, match="twice"):
        model.counts(("a", "a"))


def test_sizes_of_results_add_up():
    model = model_of(DOMAIN, CLIQUES["loop"])
    assert sum(table.size for table in model.many(EVERY).values()) == math.prod(n + 1 for n in DOMAIN.shape)
