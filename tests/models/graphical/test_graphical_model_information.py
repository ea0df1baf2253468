import numpy as np
import pytest
from scipy.special import xlogy

from hush.core.constraints import Constraint
from hush.core.domain import Domain
from hush.core.errors import DataError
from hush.inference.factors import Factors
from hush.models.graphical import graphical_model as information
from hush.models.graphical.belief_propagation import in_tree_order
from hush.models.graphical.graphical_model import GraphicalModel, entropy, log_probability
from hush.models.graphical.junction_tree import JunctionTree

DOMAIN = Domain({"a": 3, "b": 4, "one": 1, "c": 2, "d": 5})
CLIQUES = {
    "chain": [("a", "b"), ("b", "c"), ("c", "d")],
    "loop": [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")],
    "disconnected": [("a", "b"), ("d",)],
    "full": [DOMAIN.attributes],
    "no cliques": [],
}
ZEROS = {"no zeros": (), "zeros": (Constraint.forbid(DOMAIN, ("a", "b"), [(0, i) for i in range(4)] + [(2, 1)]),)}


@pytest.fixture(params=[(c, z) for c in CLIQUES for z in ZEROS], ids=", ".join)
def model(request):
    cliques, zeros = CLIQUES[request.param[0]], ZEROS[request.param[1]]
    tree = in_tree_order(JunctionTree.build(DOMAIN, [*cliques, ("a", "b")]))
    factors = Factors(tree.domain, cliques)
    potentials = np.random.Generator(np.random.PCG64(1)).normal(0, 2, factors.size)
    return GraphicalModel(DOMAIN, tree, factors, potentials, 500.0, zeros)


def every_row() -> dict[str, np.ndarray]:
    return dict(zip(DOMAIN, np.indices(DOMAIN.shape).reshape(len(DOMAIN), -1), strict=True))


def test_entropy_is_that_of_the_joint(model):
    p = model.counts(DOMAIN.attributes) / model.total
    assert model.entropy() == pytest.approx(-xlogy(p, p).sum(), rel=1e-10)


def test_entropy_in_pieces(model, monkeypatch):
    whole = model.entropy()
    monkeypatch.setattr(information, "CHUNK_CELLS", 1)
    assert model.entropy() == pytest.approx(whole)


def test_a_uniform_model_has_the_logarithm_of_the_cells_and_a_certain_one_none():
    tree = JunctionTree.build(Domain({"x": 4, "y": 2}), [("x", "y")])
    assert entropy(tree, [np.full((1, 8), 1 / 8)], [np.array([70.0])]) == pytest.approx(np.log(8))
    assert entropy(tree, [np.eye(8)[:1]], [np.array([70.0])]) == 0.0


def test_log_probability_of_every_row_is_that_of_the_joint(model):
    p = model.counts(DOMAIN.attributes).ravel() / model.total
    found = model.log_probability(every_row())
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(found, np.log(p), rtol=1e-9)
    assert np.exp(found).sum() == pytest.approx(1)


def test_log_likelihood_by_hand():
    domain = Domain({"sex": 2, "smokes": 2})
    tree = in_tree_order(JunctionTree.build(domain, [("sex", "smokes")]))
    factors = Factors(tree.domain, [("sex", "smokes")])
    model = GraphicalModel(domain, tree, factors, np.log([0.1, 0.2, 0.3, 0.4]), 10.0)
    rows = {"sex": np.array([0, 1, 1]), "smokes": np.array([1, 1, 1], dtype=np.uint8)}
    assert model.log_likelihood(rows) == pytest.approx(np.log(0.2) + 2 * np.log(0.4))
    assert model.log_likelihood({name: own[:0] for name, own in rows.items()}) == 0.0


def test_a_row_that_cannot_be_is_minus_infinity(model):
    rows = every_row()
    impossible = np.zeros(DOMAIN.size(), dtype=bool)
    for constraint in model.constraints:
        impossible |= ~constraint.allowed[tuple(rows[name] for name in constraint.clique)]
    np.testing.assert_array_equal(np.isneginf(model.log_probability(rows)), impossible)
    assert np.isneginf(model.log_likelihood(rows)) == impossible.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d": np.array([0, 5])}, r"codes of 'd': expected 0 .. 4"),
        ({"d": np.array([-1, 0])}, r"codes of 'd': expected 0 .. 4"),
        ({"d": np.array([0.0, 1.0])}, "expected one integer per row"),
        ({"d": np.array([[0, 1]])}, "expected one integer per row"),
        ({"d": np.array([0])}, r"attributes have \[1, 2\] rows"),
    ],
)
def test_bad_codes_are_refused(model, change, message):
    rows = {name: np.zeros(2, dtype=np.int64) for name in DOMAIN} | change
    with pytest.raises(DataError, match=message):
        log_probability(model.tree, model.conditionals, rows)


def test_a_missing_attribute_is_refused(model):
    with pytest.raises(DataError, match="no codes of attribute 'd'"):
        model.log_probability({name: np.zeros(2, dtype=np.int64) for name in DOMAIN if name != "d"})
