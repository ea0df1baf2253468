import itertools

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.models.graphical.junction_tree import JunctionTree
from hush.models.local.local_rows import Chooser, proportional_fit

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
