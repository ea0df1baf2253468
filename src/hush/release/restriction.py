"""Restriction: what a model is fitted to where it is limited to some cliques."""

from __future__ import annotations

from collections.abc import Iterable

from hush.domain import Clique, Domain, listed_cliques
from hush.errors import WorkloadError
from hush.graphical.measurement import Measurement


class Restriction:
    """The measurements inside some cliques, each of which must hold one beside the total.

    >>> domain = Domain({"a": 2, "b": 2, "c": 2})
    >>> known = [Measurement(("a",), [1.0, 2.0], 1.0), Measurement(("b",), [2.0, 1.0], 1.0)]
    >>> inside = Restriction(domain, [("a", "c")], known)
    >>> [one.clique for one in inside.measurements], inside.tables([("a", "b"), ("b", "c")])
    ([('a',)], [('a',)])
    """

    def __init__(self, domain: Domain, cliques: Iterable[Iterable[str]], known: Iterable[Measurement]) -> None:
        self._domain = domain
        named = [domain.check(clique) for clique in listed_cliques(cliques)]
        if not named:
            raise WorkloadError("cliques is empty: nothing was measured inside; give cliques of the workload")
        self._cliques = [frozenset(clique) for clique in named]
        self.measurements = [one for one in known if any(own.issuperset(one.clique) for own in self._cliques)]
        self._measured = {frozenset(one.clique) for one in self.measurements} - {frozenset()}
        for clique in named:
            if not any(own.issubset(clique) for own in self._measured):
                raise WorkloadError(f"nothing was measured inside {clique!r}; give cliques of the workload")

    def tables(self, largest: Iterable[Clique]) -> list[Clique]:
        """The largest parts of some tables that lie inside the cliques and hold something measured there."""
        shared = {own.intersection(clique) for clique in largest for own in self._cliques}
        found = {names for names in shared if any(own <= names for own in self._measured)}
        return sorted(self._domain.clique(names) for names in found if not any(names < other for other in found))
