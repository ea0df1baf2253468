"""Consistency: a quick look for constraints that no row can satisfy together."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import combinations

import numpy as np

from hush.constraints import Constraint, check_constraints, merge
from hush.domain import Clique, Domain
from hush.errors import DomainError


def contradiction(domain: Domain, constraints: Iterable[Constraint]) -> str | None:
    """Why no row satisfies all constraints, or None where pairwise consistency finds no reason.

    Tables are thinned until any two agree on what they share: with L_r the combinations of r that are left,
    L_r <- {x_r in L_r : x_{r∩s} in pi_{r∩s}(L_s) for every s}. An empty L_r is a contradiction. That none is found is
    necessary for a row to exist, and sufficient only where the cliques form a junction tree: three attributes of two
    levels that must all differ pass. Exact inference decides the rest: there the normaliser has log Z = -inf.

    >>> domain = Domain({"a": 2, "b": 2})
    >>> rules = [Constraint.allow(domain, ("a", "b"), [(0, 0), (1, 0)]), Constraint.forbid(domain, ("b",), [(0,)])]
    >>> contradiction(domain, rules)
    "the constraints leave no possible value of 'b'; relax one of those over ('a', 'b'), ('b',)"
    """
    kept = check_constraints(domain, constraints)
    cliques = [constraint.clique for constraint in kept]
    left = [constraint.allowed.copy() for constraint in kept]
    holders = _separators(cliques)
    agreed = {names: np.ones(domain.sizes(names), dtype=np.bool_) for names in holders}
    shared: list[list[Clique]] = [[] for _ in kept]
    for names, places in holders.items():
        for k in places:
            shared[k].append(names)
    queue, waiting = deque(range(len(kept))), set(range(len(kept)))
    while queue:
        k = queue.popleft()
        waiting.discard(k)
        for names in shared[k]:
            left[k] &= agreed[names].reshape([domain[name] if name in names else 1 for name in cliques[k]])
        if not left[k].any():
            near = sorted({place for names in shared[k] for place in holders[names]})
            return _message(cliques[k], list(dict.fromkeys(cliques[place] for place in near)))
        for names in shared[k]:
            found = left[k].any(axis=tuple(axis for axis, name in enumerate(cliques[k]) if name not in names))
            if (agreed[names] & ~found).any():
                agreed[names] &= found
                changed = [place for place in holders[names] if place != k and place not in waiting]
                queue.extend(changed)
                waiting.update(changed)
    return None


def _separators(cliques: list[Clique]) -> dict[Clique, list[int]]:
    """What two or more of the cliques share, each with the places of the cliques that hold it."""
    holding: dict[Clique, list[int]] = {}
    for k, clique in enumerate(cliques):
        for names in (*combinations(clique, 1), *combinations(clique, 2)):
            holding.setdefault(names, []).append(k)
    found: dict[Clique, list[int]] = {
        names: places for names, places in holding.items() if len(names) == 1 and len(places) > 1
    }
    for names, places in holding.items():
        for j, k in combinations(places, 2) if len(names) == 2 else ():
            both = tuple(name for name in cliques[j] if name in cliques[k])
            if both not in found:
                found[both] = [place for place in places if set(both) <= set(cliques[place])]
    return found


def _message(emptied: Clique, near: list[Clique]) -> str:
    what = f"value of {emptied[0]!r}" if len(emptied) == 1 else f"combination of {', '.join(map(repr, emptied))}"
    names = ", ".join(map(repr, near[:4])) + (f" and {len(near) - 4} more" if len(near) > 4 else "")
    return f"the constraints leave no possible {what}; relax one of those over {names}"


def checked(domain: Domain, constraints: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """The constraints, one for each clique; refused where they are found to contradict each other."""
    merged = merge(domain, constraints)
    found = contradiction(domain, merged)
    if found is not None:
        raise DomainError(found)
    return merged
