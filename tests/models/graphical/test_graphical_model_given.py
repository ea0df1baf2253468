import itertools

import numpy as np
import pytest

from hush.core.constraints import Constraint
from hush.core.domain import Domain
from hush.core.errors import DomainError
from hush.inference.factors import Factors
from hush.models.graphical.belief_propagation import in_tree_order
from hush.models.graphical.graphical_model import GraphicalModel, codes_of, constraints_of
from hush.models.graphical.junction_tree import JunctionTree

DOMAIN = Domain({"a": 3, "b": 4, "one": 1, "c": 2, "d": 5})
CLIQUES = {
    "chain": [("a", "b"), ("b", "c"), ("c", "d")],
    "loop": [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")],
    "disconnected": [("a", "b"), ("d",)],
}
FORBIDDEN = Constraint.forbid(DOMAIN, ("a", "b"), [(0, 0), (0, 1), (2, 3)])


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@pytest.fixture(params=CLIQUES)
def model(request):
    tree = in_tree_order(JunctionTree.build(DOMAIN, CLIQUES[request.param]))
    factors = Factors(tree.domain, CLIQUES[request.param])
    return GraphicalModel(DOMAIN, tree, factors, generator(1).normal(0, 2, factors.size), 500.0, (FORBIDDEN,))


def joint(model: GraphicalModel, given: dict) -> np.ndarray:
    """The counts of all cells, zero where they differ from what is given."""
    table = model.counts(DOMAIN.attributes)
    for axis, name in enumerate(DOMAIN):
        own = np.isin(np.arange(DOMAIN[name]), given.get(name, np.arange(DOMAIN[name])))
        table = table * own.reshape([-1 if i == axis else 1 for i in range(len(DOMAIN))])
    return table


def total_of(table: np.ndarray, clique: tuple[str, ...]) -> np.ndarray:
    kept = [name for name in DOMAIN if name in clique]
    made = table.sum(axis=tuple(i for i, name in enumerate(DOMAIN) if name not in clique))
    return made.transpose([kept.index(name) for name in clique])


GIVEN = [{"d": 3}, {"b": 2, "d": 0}, {"a": [1, 2], "c": 1}, {"b": (3, 0, 3), "one": 0}, {"d": np.array([4, 1])}, {}]


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_conditional_tables_are_those_of_the_joint(model, given):
    table = joint(model, given)
    free = [name for name in DOMAIN if name not in given]
    for size in range(len(free) + 1):
        for clique in itertools.permutations(free, size):
            found = model.conditional(clique, given)
            assert found.shape == DOMAIN.sizes(clique)
            np.testing.assert_allclose(found, total_of(table, clique) / table.sum(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_a_conditioned_model_is_the_part_of_the_model_that_has_the_evidence(model, given):
    other = model.conditioned(given)
    table = joint(model, given)
    assert other.total == pytest.approx(table.sum())
    assert other.tree is model.tree
    for clique in [(), ("d", "a"), ("c", "b", "d"), DOMAIN.attributes]:
        np.testing.assert_allclose(other.counts(clique), total_of(table, clique), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_rows_of_a_conditioned_model_all_have_the_evidence(model, given):
    rows = model.conditioned(given).synthesize_codes(300, generator(2))
    for name, codes in codes_of(DOMAIN, given).items():
        assert np.isin(rows[name], codes).all()
    assert not ((rows["a"] == 0) & (rows["b"] <= 1)).any()


def test_conditioning_twice_is_conditioning_on_both(model):
    both, after = (
        model.conditioned({"b": [1, 2], "d": 1}),
        model.conditioned({"b": [0, 1, 2]}).conditioned({"d": 1, "b": [1, 2, 3]}),
    )
    assert after.total == pytest.approx(both.total)
    np.testing.assert_allclose(after.counts(("a", "b", "c")), both.counts(("a", "b", "c")))


@pytest.mark.parametrize("ask", [lambda m, g: m.conditional(("c",), g), lambda m, g: m.conditioned(g)])
def test_evidence_of_probability_zero_says_so(model, ask):
    with pytest.raises(
        DomainError, match=r"given = \{'a': 0, 'b': 1\} has probability zero.*: the constraints exclude"
    ):
        ask(model, {"a": 0, "b": 1})
    if np.isfinite(model.potentials).all():
        empty = model.potentials.copy()
        empty[:] = -np.inf
        nothing = GraphicalModel(model.domain, model.tree, model.factors, empty, model.total)
        with pytest.raises(DomainError, match="the model has no such row"):
            nothing._conditioned({"a": 1}, 1.0)


def test_evidence_too_unlikely_for_a_sum_is_entered_by_logarithms():
    domain = Domain({f"x{i}": 3 for i in range(600)})
    tree = in_tree_order(JunctionTree.build(domain, [(f"x{i}", f"x{i + 1}") for i in range(599)]))
    factors = Factors(tree.domain, [(f"x{i}", f"x{i + 1}") for i in range(599)])
    model = GraphicalModel(domain, tree, factors, generator(1).normal(0, 1, factors.size), 1.0)
    given = {f"x{i}": i % 3 for i in range(1, 600)}
    np.testing.assert_allclose(model.conditional(("x0",), given), model.conditional(("x0",), {"x1": 1}), rtol=1e-9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"z": 1}, "'z' is not in the domain"),
        ({"d": 5}, r"given 'd' = 5: expected codes 0 .. 4"),
        ({"d": [0, -1]}, r"given 'd' = -1: expected codes"),
        ({"d": []}, r"given 'd' = \[\]: expected a code"),
        ({"d": 1.0}, r"given 'd' = 1.0: expected a code"),
        ({"d": "x"}, "expected a code 0 .. 4"),
        ({"d": True}, "expected a code"),
        ([("d", 1)], "expected names and codes"),
        ({"c": 1}, "'c' is both asked for and given"),
    ],
)
def test_bad_evidence_is_refused(model, given, message):
    with pytest.raises(DomainError, match=message):
        model.conditional(("c",), given)


def test_constraints_allow_the_given_codes_alone():
    (one,) = constraints_of(DOMAIN, {"d": [2, 0]})
    assert one.clique == ("d",)
    assert one.allowed.tolist() == [True, False, True, False, False]
