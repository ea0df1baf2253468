import functools
import importlib.util
import math
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any

import numpy as np
import pytest

from hush.core.constraints import Constraint
from hush.core.domain import Domain
from hush.core.errors import DomainError
from hush.inference.factors import Factors
from hush.models.graphical import graphical_model as module
from hush.models.graphical.belief_propagation import Belief, in_tree_order
from hush.models.graphical.graphical_fit import fit_model
from hush.models.graphical.graphical_model import GraphicalModel, fixed_tables
from hush.models.graphical.junction_tree import JunctionTree

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})


def model_of(constraints: tuple[Constraint, ...] = (), scale: float = 1.0) -> GraphicalModel:
    cliques = [("a", "c"), ("b", "c")]
    tree = in_tree_order(JunctionTree.build(DOMAIN, [*cliques, *(one.clique for one in constraints)]))
    factors = Factors(tree.domain, cliques)
    potentials = scale * np.random.default_rng(0).normal(size=factors.size)
    return GraphicalModel(DOMAIN, tree, factors, potentials, 500.0, constraints)


def test_what_a_model_says_of_itself() -> None:
    model = model_of()
    assert model.exact
    assert model.cliques == (("a", "c"), ("b", "c"))
    assert model.size_mb == pytest.approx(8e-6 * (2 * 4 + 3 * 4))
    assert repr(model) == "GraphicalModel(2 cliques over 3 attributes, 160 B, total 500)"
    assert model.covers(("a", "b", "c"))
    with pytest.raises(DomainError, match="'x' is not in the domain"):
        model.covers(("x",))


def test_potentials_cannot_be_written() -> None:
    model = model_of()
    with pytest.raises(ValueError, match="read-only"):
        model.potentials[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        model.tables[model.factors.cliques[0]][...] = 0.0
    with pytest.raises(TypeError):
        model.tables["a",] = np.zeros(2)  # type: ignore[index]


def test_conditionals_make_the_whole_table(counts_of: Any) -> None:
    rule = Constraint.forbid(DOMAIN, ("a", "b"), [(0, 0), (1, 2)])
    model = model_of((rule,))
    own = model.tree.domain
    letter = {name: chr(ord("a") + i) for i, name in enumerate(own)}
    operands = [
        table.reshape(own.sizes(node.axes)) for node, table in zip(model.tree.nodes, model.conditionals, strict=True)
    ]
    inputs = ",".join("".join(letter[name] for name in node.axes) for node in model.tree.nodes)
    joint = np.einsum(f"{inputs}->{''.join(letter[name] for name in DOMAIN)}", *operands)
    np.testing.assert_allclose(500.0 * joint, counts_of(model), rtol=1e-10)
    assert (joint[0, 0] == 0).all()
    assert (joint[1, 2] == 0).all()


def test_rows_follow_the_model_and_its_zeros(counts_of: Any) -> None:
    rule = Constraint.forbid(DOMAIN, ("a", "b"), [(0, 0), (1, 2)])
    model = model_of((rule,), scale=2.0)
    codes = model.synthesize_codes(20_000, np.random.Generator(np.random.PCG64(1)))
    assert list(codes) == list(DOMAIN)
    rows = np.zeros(DOMAIN.shape)
    np.add.at(rows, tuple(codes.values()), 1)
    assert (rows[0, 0] == 0).all()
    assert (rows[1, 2] == 0).all()
    np.testing.assert_allclose(rows / 20_000, counts_of(model) / 500.0, atol=2e-3)


def test_a_model_that_excludes_every_record_is_refused_when_it_is_asked() -> None:
    domain = Domain(dict.fromkeys("abc", 2))
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    rules = tuple(Constraint.forbid(domain, pair, [(0, 0), (1, 1)]) for pair in pairs)
    tree = in_tree_order(JunctionTree.build(domain, pairs))
    factors = Factors(tree.domain, pairs)
    model = GraphicalModel(domain, tree, factors, np.zeros(factors.size), 1.0, rules)
    with pytest.raises(DomainError, match="contradict each other"):
        _ = model.belief


def test_fixed_tables_follow_the_order_of_a_domain() -> None:
    rule = Constraint.forbid(DOMAIN, ("a", "c"), [(0, 3)])
    ((clique, table),) = fixed_tables(Domain({"c": 4, "b": 3, "a": 2}), [rule])
    assert clique == ("c", "a")
    assert table.flags.c_contiguous
    expected = np.zeros((4, 2))
    expected[3, 0] = -np.inf
    np.testing.assert_array_equal(table, expected)


def test_a_fitted_model_is_the_one_its_potentials_make(make_case: Any, counts_of: Any) -> None:
    """It borrows the buffers of the fit, whose last evaluation may have been elsewhere."""
    case = make_case(1)
    fitted = fit_model(case.domain, case.measurements, total=case.total).value
    again = GraphicalModel(
        fitted.domain, fitted.tree, fitted.factors, np.array(fitted.potentials), fitted.total, fitted.constraints
    )
    for first, second in zip(fitted.conditionals, again.conditionals, strict=True):
        np.testing.assert_array_equal(first, second)
    assert counts_of(again).sum() == pytest.approx(case.total)


class Lockless:
    """functools.cached_property as it is from Python 3.12 on: without a lock."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: type) -> Any:
        name = self.function.__name__
        if name not in instance.__dict__:
            instance.__dict__[name] = self.function(instance)
        return instance.__dict__[name]


def test_threads_that_ask_first_at_one_time_share_one_preparation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass works in place; a thread that starts one waits a little for others to start it too."""
    calls: Counter[str] = Counter()

    def watched(name: str) -> Any:
        original, together = getattr(Belief, name), Barrier(2)

        def run(*args: Any) -> Any:
            calls[name] += 1
            with suppress(BrokenBarrierError):
                together.wait(0.1)
            return original(*args)

        return run

    for name in ("condition", "conditionals", "separators"):
        monkeypatch.setattr(Belief, name, watched(name))
    monkeypatch.setattr(functools, "cached_property", Lockless)
    spec = importlib.util.find_spec(module.__name__)
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    given = model_of()
    model = fresh.GraphicalModel(given.domain, given.tree, given.factors, given.potentials, 500.0)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: model.counts(("a", "b")), range(4)))
    assert calls == {"condition": 1, "conditionals": 1, "separators": 1}
    for table in found:
        np.testing.assert_array_equal(table, given.counts(("a", "b")))


def test_models_that_were_asked_can_be_pickled() -> None:
    model = model_of()
    expected = model.counts(("a", "b"))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).counts(("a", "b")), expected)  # noqa: S301


def test_records_too_few_to_be_counted_have_an_entropy(counts_of: Any) -> None:
    cliques = [("a", "c"), ("b", "c")]
    tree = in_tree_order(JunctionTree.build(DOMAIN, cliques))
    factors = Factors(tree.domain, cliques)
    model = GraphicalModel(DOMAIN, tree, factors, np.array([-800.0, 0, 0, 0, 0, 0, 0, 0] + [0.0] * 12), 500.0)
    clique = factors.cliques[0]
    rare = model.conditioned(dict.fromkeys(clique, 0))
    assert rare.total == 0.0
    (free,) = set(DOMAIN) - set(clique)
    assert rare.entropy() == pytest.approx(math.log(DOMAIN[free]))
