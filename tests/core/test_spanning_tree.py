"""Spanning trees against all trees."""

from itertools import combinations

import numpy as np
import pytest

from hush.core.domain import Clique
from hush.core.spanning_tree import spanning_tree


def connected(tree: tuple[Clique, ...]) -> bool:
    reached = {"a"}
    for _ in tree:
        reached |= {name for pair in tree if reached & set(pair) for name in pair}
    return reached == set("abcde")


@pytest.mark.parametrize("seed", range(5))
def test_the_strongest_pairs_first_give_the_maximum_spanning_tree(seed: int) -> None:
    pairs = list(combinations("abcde", 2))
    weight = dict(zip(pairs, np.random.default_rng(seed).permutation(len(pairs)).tolist(), strict=True))
    best = max(
        (tree for tree in combinations(pairs, 4) if connected(tree)), key=lambda tree: sum(weight[p] for p in tree)
    )
    assert set(spanning_tree(sorted(pairs, key=lambda pair: -weight[pair]))) == set(best)


def test_columns_that_are_connected_already_are_not_joined_again() -> None:
    assert spanning_tree([("a", "c"), ("c", "d"), ("a", "d")], [("a", "b", "c")]) == [("c", "d")]
    assert spanning_tree([("a", "d"), ("b", "c")], [("a", "b"), ("c", "d")]) == [("a", "d")]
