"""Coverage: whether a release holds the table that a query needs, and what to say where it does not."""

from __future__ import annotations

from collections.abc import Iterable

from hush.domain import Clique
from hush.errors import QueryError
from hush.inference.estimates import Estimates
from hush.sql.cells import check_size

NEAREST = 3


def check_cover(clique: Clique, said: str, estimates: Estimates) -> None:
    """Refuse what the estimates do not cover, naming the nearest tables and the workload that would have covered it."""
    if estimates.covers(clique):
        check_size(estimates.domain, clique)
        return
    needed = estimates.domain.clique(clique)
    table = f"a table over {', '.join(needed)}" if needed else "the total"
    raise QueryError(
        f"{said} needs {table}, which this release does not hold; {_near(needed, estimates.cliques)}; "
        f"add {_tuple(needed)} to the workload of the next release, or leave a column out of the query; "
        "`hush model` or release.model() estimates it, without an error bar"
    )


def _near(needed: Clique, held: Iterable[Clique]) -> str:
    """The tables with the fewest of the needed attributes absent, the smallest first."""
    wanted = set(needed)
    ranked = sorted(held, key=lambda clique: (len(wanted - set(clique)), len(clique), clique))[:NEAREST]
    if not ranked:
        return "it holds answers to the queries of its workload alone (`hush query FILE --term 0`, release.term(0))"
    fewest = len(wanted - set(ranked[0]))
    near = [
        f"{_tuple(clique)} without {', '.join(name for name in needed if name not in clique)}"
        for clique in ranked
        if len(wanted - set(clique)) == fewest
    ]
    return f"the nearest it holds: {', '.join(near)}"


def _tuple(names: Clique) -> str:
    inside = ", ".join(f'"{name}"' for name in names)
    return f"({inside},)" if len(names) == 1 else f"({inside})"
