import itertools

import numpy as np
import pytest

from hush.core.arrays import Floats, Integers
from hush.core.constraints import Constraint
from hush.core.domain import Clique, Domain
from hush.inference.factors import Factors
from hush.models.graphical.junction_tree import JunctionTree
from hush.models.local import local_rows
from hush.models.local.local_model import LocalModel
from hush.models.local.local_rows import Chooser, mean_error, proportional_fit, repaired

DOMAIN = Domain({"a": 2, "b": 2, "c": 2, "d": 2})
PAIRS: list[Clique] = list(itertools.combinations(DOMAIN, 2))


def pair(strength: float) -> Floats:
    """A table over two attributes that are the same with some probability."""
    return 50 * np.array([[strength, 1 - strength], [1 - strength, strength]])


STRENGTHS = {("a", "b"): 0.9, ("b", "c"): 0.8, ("c", "d"): 0.7, ("a", "c"): 0.75, ("b", "d"): 0.6, ("a", "d"): 0.55}


def counts(clique: Clique) -> Floats:
    return pair(STRENGTHS[clique]) if len(clique) == 2 else np.array([50.0, 50.0])


def test_the_spanning_tree_of_most_information_comes_first() -> None:
    chosen = Chooser(DOMAIN, counts, PAIRS, max_size_mb=1.0).choose()
    assert chosen[:3] == [("a", "b"), ("b", "c"), ("c", "d")]


def test_more_is_added_while_it_fits() -> None:
    found = {}
    for cells in (8, 12, 16):
        found[cells] = Chooser(DOMAIN, counts, PAIRS, max_size_mb=cells * 8e-6).choose()
        assert JunctionTree.build(DOMAIN, found[cells]).cells <= cells
    assert len(found[8]) < len(found[12]) < len(found[16]) == len(PAIRS)


def test_what_is_needed_is_chosen_whatever_it_says() -> None:
    chosen = Chooser(DOMAIN, counts, PAIRS, max_size_mb=12 * 8e-6).choose([("a", "d")])
    assert chosen[0] == ("a", "d")
    assert JunctionTree.build(DOMAIN, chosen).cells <= 12


def test_tables_that_say_nothing_are_left_out() -> None:
    uniform = Chooser(DOMAIN, lambda clique: np.ones([2] * len(clique)), PAIRS, max_size_mb=1.0).choose()
    assert uniform == []


def test_a_clique_that_does_not_fit_is_replaced_by_its_subsets() -> None:
    domain = Domain({"a": 2, "b": 2, "c": 2, "d": 50})
    table = np.random.Generator(np.random.PCG64(0)).uniform(1.0, 5.0, domain.shape)

    def own(clique: Clique) -> Floats:
        return np.asarray(table.sum(axis=tuple(i for i, name in enumerate(domain) if name not in clique)))

    chosen = Chooser(domain, own, [domain.attributes], max_size_mb=8e-6 * 320).choose()
    assert any(len(clique) == 3 for clique in chosen)
    assert JunctionTree.build(domain, chosen).cells <= 320


def test_margins_without_a_joint_table_still_give_the_total() -> None:
    same, other = np.eye(2) * 5, 5 - np.eye(2) * 5
    margins = [(("a", "b"), same), (("b", "c"), same), (("a", "c"), other)]
    assert proportional_fit(("a", "b", "c"), margins, (2, 2, 2), 10.0).sum() == 10.0


SIZES = Domain({"a": 3, "b": 4, "c": 2})
TRIPLE_AND_PAIRS: list[Clique] = [("a", "b"), ("a", "c"), ("b", "c")]


def random_rows(rows: int, seed: int) -> dict[str, Integers]:
    random = np.random.Generator(np.random.PCG64(seed))
    return {name: random.integers(size, size=rows) for name, size in zip(SIZES, SIZES.shape, strict=True)}


def tables_of(rows: dict[str, Integers], constraints: tuple[Constraint, ...] = ()) -> LocalModel:
    """The model whose tables are those of some rows, so that rows exist that have all of them."""
    tables = []
    for clique in TRIPLE_AND_PAIRS:
        table = np.zeros(SIZES.sizes(clique))
        np.add.at(table, tuple(rows[name] for name in clique), 1.0)
        tables.append(table.ravel())
    return LocalModel(Factors(SIZES, TRIPLE_AND_PAIRS), np.concatenate(tables), float(len(rows["a"])), constraints)


def squares(model: LocalModel, rows: dict[str, Integers]) -> float:
    """What a pass lowers, computed from scratch."""
    loss = 0.0
    for index, clique in enumerate(model.cliques):
        excess = -model.table(index) * (len(rows["a"]) / model.total)
        np.add.at(excess, tuple(rows[name] for name in clique), 1.0)
        loss += float((excess**2).sum())
    return loss


def plain_pass(model: LocalModel, rows: dict[str, Integers], order: Integers) -> dict[str, Integers]:
    """One pass that tries every level of every attribute and computes the loss anew; constraints as infinite loss."""
    moved = {name: column.copy() for name, column in rows.items()}

    def loss() -> float:
        forbidden = any(
            not rule.allowed[tuple(moved[name] for name in rule.clique)].all() for rule in model.constraints
        )
        return np.inf if forbidden else squares(model, moved)

    for row in order:
        for name in SIZES:
            here, levels = moved[name][row], range(SIZES[name])
            losses = []
            for level in levels:
                moved[name][row] = level
                losses.append(loss())
            best = int(np.argmin(losses))
            moved[name][row] = best if losses[best] < losses[here] - 1e-9 else here
    return moved


def test_a_pass_is_the_one_that_tries_every_level() -> None:
    """The twin computes the loss from scratch for every level. Targets are multiples of 40/17."""
    wanted = tables_of(random_rows(17, 1))
    rows = random_rows(40, 2)
    order = np.random.Generator(np.random.PCG64(3)).permutation(40)
    expected = plain_pass(wanted, rows, order)
    found = repaired(wanted, rows, np.random.Generator(np.random.PCG64(3)), passes=1)
    assert squares(wanted, expected) < squares(wanted, rows)
    for name in SIZES:
        np.testing.assert_array_equal(found[name], expected[name])


def test_rows_reach_tables_that_rows_have() -> None:
    wanted = tables_of(random_rows(500, 4))
    rows = random_rows(500, 5)
    rows["b"][:] = 0
    found = repaired(wanted, rows, np.random.Generator(np.random.PCG64(0)), passes=20)
    assert mean_error(wanted, rows) > 0.3
    assert mean_error(wanted, found) < 0.01


def test_a_short_pass_visits_rows_in_cells_that_hold_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 of 2,000 rows are misplaced, and a pass may visit 200. A random choice would find four of them."""
    right = random_rows(2000, 8)
    wanted = tables_of(right)
    rows = {name: column.copy() for name, column in right.items()}
    rows["b"][:40] = (rows["b"][:40] + 1) % 4
    monkeypatch.setattr(local_rows, "MOST_EVALUATIONS", 200 * (3 * 2 + 4 * 2 + 2 * 2))
    found = repaired(wanted, rows, np.random.Generator(np.random.PCG64(0)), passes=1)
    assert mean_error(wanted, found) < 0.3 * mean_error(wanted, rows)


def test_no_row_enters_a_forbidden_cell() -> None:
    """The tables ask for what the constraint forbids; without it, rows take those combinations."""
    allowed = np.ones((3, 4), dtype=np.bool_)
    allowed[0] = [True, False, False, False]
    wanted = random_rows(300, 6)
    rows = {**random_rows(300, 7), "a": np.full(300, 1)}
    for rules in ((), (Constraint(("a", "b"), allowed),)):
        found = repaired(tables_of(wanted, rules), rows, np.random.Generator(np.random.PCG64(0)), passes=5)
        assert ((found["a"] == 0) & (found["b"] > 0)).any() == (not rules)
        assert mean_error(tables_of(wanted), found) < mean_error(tables_of(wanted), rows)
