"""Spanning trees of columns, by Kruskal's algorithm."""

from __future__ import annotations

from collections.abc import Iterable

from hush.core.domain import Clique


def spanning_tree(pairs: Iterable[Clique], connected: Iterable[Clique] = ()) -> list[Clique]:
    """The pairs, taken in the order given, that close no loop; columns in one clique of `connected` are joined already.

    With the strongest pairs first, this is the maximum spanning tree.

    >>> spanning_tree([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")])
    [('a', 'b'), ('b', 'c'), ('c', 'd')]
    """
    group: dict[str, set[str]] = {}
    tree = []
    for clique, given in [*((clique, True) for clique in connected), *((pair, False) for pair in pairs)]:
        groups = [group.setdefault(name, {name}) for name in clique]
        if not given:
            if groups[0] is groups[1]:
                continue
            tree.append(clique)
        joined = set[str]().union(*groups)
        group.update(dict.fromkeys(joined, joined))
    return tree
