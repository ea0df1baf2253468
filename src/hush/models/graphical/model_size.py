"""Model size: predicted before anything is measured, for every candidate of a round, and checked against a limit.

Reference: JT-SIZE of [HDMM, sec. 4.4, Remark 1] and [AIM], in decimal megabytes of 8-byte cells over all nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hush.core.domain import Clique, Domain, domain_of, listed_cliques
from hush.core.errors import SizeError
from hush.core.memory import readable
from hush.core.validation import check_number
from hush.models.graphical.elimination_order import DEFAULT_RESTARTS, bits, cells_of, eliminate, graph
from hush.models.graphical.junction_tree import BYTES_PER_CELL, JunctionTree, megabytes, sets_of

if TYPE_CHECKING:
    from hush.schema import Schema
    from hush.workloads import Workload

MOST_NAMED = 4  # cliques that a refusal names
EDGES_PER_NAMED = 20_000  # edges that the search for such a clique visits, which limits the cliques tried
FEWEST_TRIED = 4
FIT_OVERHEAD = 1 << 25  # bytes
BYTES_PER_MODEL_CELL = 40  # of a fit: two passes over the tree, their messages, the requested tables
BYTES_PER_MEASURED_CELL = 260  # of a fit: noisy numbers, points, directions and pairs of the descent


def model_size_mb(
    domain: Domain | Schema,
    cliques: Iterable[Iterable[str]] | Workload,
    *,
    restarts: int = DEFAULT_RESTARTS,
    seed: int = 0,
) -> float:
    """Megabytes of the junction tree of `cliques`, or of a workload's cliques; infinite beyond the range of floats.

    The cliques of a schema's constraints are part of every model, and count.

    >>> model_size_mb(Domain({"age": 85, "sex": 2, "race": 5}), [("age", "sex"), ("race", "sex")])
    0.00144
    """
    attributes = domain_of(domain)
    named = [
        *listed_cliques(getattr(cliques, "cliques", cliques)),
        *(c.clique for c in getattr(domain, "constraints", ())),
    ]
    adjacent = graph(len(attributes), sets_of(attributes, named))
    return megabytes(eliminate(adjacent, attributes.shape, restarts=restarts, seed=seed).cells)


def sizes_with(
    domain: Domain,
    cliques: Iterable[Iterable[str]],
    candidates: Iterable[Iterable[str]],
    *,
    tree: JunctionTree | None = None,
    restarts: int = 0,
    seed: int = 0,
    enough: float = 0.0,
) -> list[int]:
    """Cells of the model of `cliques` with each candidate added, one at a time; `tree` is that of `cliques`, if known.

    A candidate inside a node of the tree adds nothing. For others the order of the tree is tried and, unless its cells
    are at most `enough`, one order per criterion and `restarts` random ones. So
    `JunctionTree.build(domain, cliques + [candidate], start=tree)`, with the same seed and no fewer restarts, is never
    larger than predicted here.

    >>> domain = Domain({"a": 2, "b": 3, "c": 5})
    >>> sizes_with(domain, [("a", "b"), ("b", "c")], [("b",), ("c", "a")])
    [21, 30]
    """
    # The model without candidates.
    given = sets_of(domain, cliques)
    if tree is None:
        tree = JunctionTree.build(domain, (names_of(domain, members) for members in given), seed=seed)
    sizes = domain.shape
    base = graph(len(domain), given)
    order = tree.order

    # Each different candidate once: its edges are added, and the graph is eliminated.
    known: dict[int, int] = {}
    cells = []
    for candidate in candidates:
        (members,) = sets_of(domain, [candidate])
        if members not in known:
            known[members] = tree.cells
            if tree.find(members) < 0:
                adjacent = base.copy()
                for i in bits(members):
                    adjacent[i] |= members & ~(1 << i)
                if enough:
                    known[members] = eliminate(adjacent, sizes, criteria=(), restarts=0, start=order).cells
                if not enough or known[members] > enough:
                    known[members] = eliminate(adjacent, sizes, restarts=restarts, seed=seed, start=order).cells
        cells.append(known[members])
    return cells


def fit_bytes(model_cells: float, measured_cells: float) -> int:
    """An upper bound on the bytes of a fit at its peak, by the cells of the tree and the number of noisy numbers.

    >>> fit_bytes(2_000_000, 3_000_002) // 10**6
    893
    """
    return int(FIT_OVERHEAD + BYTES_PER_MODEL_CELL * model_cells + BYTES_PER_MEASURED_CELL * measured_cells)


def check_fits(
    domain: Domain,
    cliques: Iterable[Iterable[str]],
    max_size_mb: float,
    *,
    tree: JunctionTree | None = None,
    restarts: int = DEFAULT_RESTARTS,
    seed: int = 0,
) -> JunctionTree:
    """The tree of `cliques` (`tree`, if known) if it is within the limit, else an error that names cliques to drop."""
    if max_size_mb != math.inf:
        check_number(SizeError, "max_size_mb", max_size_mb, above=0, hint=", in megabytes")
    given = sets_of(domain, cliques)
    if tree is None:
        names = (names_of(domain, members) for members in given)
        tree = JunctionTree.build(domain, names, restarts=restarts, seed=seed)
    if tree.size_mb > max_size_mb:
        raise SizeError(_refusal(domain, given, max_size_mb, tree))
    return tree


def names_of(domain: Domain, members: int) -> Clique:
    """A set of positions as a clique, in domain order."""
    names = domain.attributes
    return tuple(names[i] for i in bits(members))


def _refusal(domain: Domain, given: Sequence[int], limit: float, tree: JunctionTree) -> str:
    """The message about a model that is too large: its size, its largest table, and which cliques to drop."""
    node = max((node.clique for node in tree.nodes), key=domain.size)
    dropped, cells = _offenders(domain, given, limit, tree)
    columns = ", ".join(node[:8]) + (f" and {len(node) - 8} more" if len(node) > 8 else "")
    scale = {"B": 1, "KB": 1e3, "GB": 1e9, "TB": 1e12}
    unit = _shown_size(tree.cells).rsplit(" ", 1)[-1]
    in_unit = f" ({1e6 * limit / scale[unit]:.3g} {unit})" if unit in scale else ""  # unless in megabytes anyway
    text = (
        f"the model of {len(given)} cliques takes {_shown_size(tree.cells)}, more than max_size_mb = {limit:g}"
        f"{in_unit}; its largest table is over {columns} and takes {_shown_size(domain.size(node))}"
    )
    if len(node) < 2:
        return f"{text}; coarsen that column, or raise max_size_mb"
    ways = 'raise max_size_mb, coarsen large columns, or use method="approximate"'
    if not dropped:
        return f"{text}; it is due to many cliques at once: use fewer of them, {ways}"
    named = ", ".join(repr(names_of(domain, members)) for members in dropped)
    them = ("it" if len(dropped) == 1 else "these") + (" and others" if megabytes(cells) > limit else "")
    return f"{text}; without {named} the model takes {_shown_size(cells)}: drop {them}, {ways}"


def _offenders(domain: Domain, given: Sequence[int], limit: float, tree: JunctionTree) -> tuple[list[int], int]:
    """Up to `MOST_NAMED` cliques to drop until the model fits, greedily, and the cells that are left without them.

    Each is the clique whose removal leaves the fewest cells. Only cliques that share two attributes with the largest
    table, and are inside no other clique, are tried, those with the most cells in it first; the larger the graph, the
    fewer are tried. Empty if no smaller model results.
    """
    sizes, kept, dropped = domain.shape, list(given), list[int]()
    order = tree.order

    def model(cliques: Sequence[int]) -> tuple[int, int]:
        adjacent = graph(len(domain), cliques)
        elimination = eliminate(adjacent, sizes, criteria=("weighted fill",), restarts=0, start=order)
        return elimination.cells, max(elimination.cliques, key=lambda clique: cells_of(clique, sizes), default=0)

    cells, largest = model(kept)
    while megabytes(cells) > limit and len(dropped) < MOST_NAMED:
        edges = sum(near.bit_count() for near in graph(len(domain), kept)) // 2
        inside = [clique for clique in kept if (clique & largest).bit_count() > 1]
        inside = [clique for clique in inside if not any(clique != other and not clique & ~other for other in kept)]
        inside.sort(key=lambda clique: cells_of(clique & largest, sizes), reverse=True)
        tried = []
        for clique in inside[: max(FEWEST_TRIED, EDGES_PER_NAMED // max(edges, 1))]:
            left = [other for other in kept if other != clique]
            tried.append((*model(left), clique, left))
        if not tried:
            break
        cells, largest, clique, kept = min(tried, key=lambda option: option[0])
        dropped.append(clique)
    return (dropped, cells) if cells < tree.cells else ([], tree.cells)


def _shown_size(cells: int) -> str:
    if cells < 10**15:
        return readable(BYTES_PER_CELL * cells)
    return f"8 bytes for each of about 10^{math.log10(cells):.0f} cells"
