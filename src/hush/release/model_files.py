"""Models in files: the tree, the potentials and the measured tables as arrays, checked as a stranger's.

The tree is stored node by node, with parents first, so that it need not be searched for again and every sum is done
in the same order: a model from a file gives the same numbers, bit for bit, and the same rows for the same seed.

The file of a model: its schema, its distribution, the tables it was fitted to, and how the fit went.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.archive import ArchiveReader, write_archive
from hush.arrays import Floats
from hush.constraints import Constraint, check_cells, merge
from hush.domain import Clique, Domain
from hush.errors import ArchiveError, SizeError
from hush.graphical.graphical_model import GraphicalModel
from hush.graphical.junction_tree import JunctionTree, Node
from hush.inference.factors import Factors
from hush.local.local_model import LocalModel
from hush.memory import available_memory, readable
from hush.privacy.measurement import EXTREME, Measurement, NoiseName
from hush.release.model_estimates import Distribution
from hush.schema import Schema
from hush.solution import Solution
from hush.workloads.workload_files import pack_cliques, pack_domain, unpack_cliques

if TYPE_CHECKING:
    from hush.release.model import Model

Arrays = dict[str, np.ndarray[Any, Any]]
AGREEMENT = 1e-5  # of the total: how far apart tables of an approximate model may be on one attribute


def pack_distribution(distribution: Distribution) -> tuple[dict[str, Any], Arrays]:
    """The manifest entry and the arrays of an exact or approximate model."""
    domain, entry = distribution.domain, {"exact": distribution.exact, "total": distribution.total}
    if isinstance(distribution, LocalModel):
        at_fault = _contradicting(
            distribution.factors, distribution.table, distribution.total, distribution.constraints
        )
        if at_fault is not None:
            raise ArchiveError(
                f"the model's table over {at_fault!r} contradicts the others, as its status says: it cannot be saved; "
                "fit with more iterations"
            )
        tables = [distribution.table(index).ravel() for index in range(len(distribution.cliques))]
        arrays: Arrays = pack_cliques(domain, distribution.cliques, "tables")
        arrays["tables"] = np.concatenate(tables)
        return entry | {"seed": int(distribution.seed)}, arrays | _pack_zeros(domain, distribution.constraints)
    if not isinstance(distribution, GraphicalModel):
        raise ArchiveError(f"a model of kind {type(distribution).__name__} cannot be saved; save what hush.fit gave")
    nodes = distribution.tree.nodes
    arrays = pack_cliques(domain, [node.axes for node in nodes], "nodes")
    arrays["parents"] = np.array([node.parent for node in nodes], dtype=np.int32)
    arrays |= pack_cliques(domain, distribution.factors.cliques, "factors")
    arrays["potentials"] = distribution.potentials
    return entry, arrays | _pack_zeros(domain, distribution.constraints)


def unpack_distribution(schema: Schema, entry: Any, archive: ArchiveReader) -> Distribution:
    """The model that `pack_distribution` stored; one that does not fit together or into memory is refused."""
    domain = schema.domain
    total, exact = entry["total"], entry["exact"]
    if type(total) is not float or not 0 < total <= EXTREME or type(exact) is not bool:
        raise ArchiveError("the file's model states no total, or not whether it is exact; make it anew")
    constraints = merge(domain, (*schema.constraints, *_unpack_zeros(domain, archive)))
    if not exact:
        return _unpack_local(domain, entry, total, constraints, archive)
    tree = _tree(domain, unpack_cliques(domain, archive, "nodes"), archive.array("parents"))
    factors = Factors(tree.domain, unpack_cliques(domain, archive, "factors"))
    potentials = _flat(archive, "potentials", factors.size)
    model = GraphicalModel(domain, tree, factors, potentials, total, constraints)
    if not math.isfinite(model.belief.log_partition):
        raise ArchiveError("the file's model has no distribution; make it anew")
    return model


def pack_measured(domain: Domain, measurements: Iterable[Measurement]) -> Arrays:
    """The tables that were measured cell by cell, which unbiased estimates are made from."""
    tables = [one for one in measurements if one.query is None]
    values = [one.values.ravel() for one in tables]
    return pack_cliques(domain, [one.clique for one in tables], "measured") | {
        "measured_values": np.concatenate(values) if values else np.zeros(0),
        "measured_stddev": np.array([one.stddev for one in tables]),
        "measured_laplace": np.array([one.noise == "laplace" for one in tables], dtype=np.bool_),
    }


def unpack_measured(domain: Domain, archive: ArchiveReader) -> list[Measurement]:
    """The measurements that `pack_measured` stored."""
    cliques = unpack_cliques(domain, archive, "measured")
    values = _flat(archive, "measured_values", sum(domain.size(clique) for clique in cliques))
    deviations, laplace = _flat(archive, "measured_stddev", len(cliques)), archive.array("measured_laplace")
    if laplace.dtype != np.bool_ or laplace.shape != (len(cliques),):
        raise ArchiveError("the file's measured tables do not say what their noise is; make it anew")
    made, start = [], 0
    for clique, stddev, heavy in zip(cliques, deviations.tolist(), laplace.tolist(), strict=True):
        shape, size = domain.sizes(clique), domain.size(clique)
        noise: NoiseName = "laplace" if heavy else "gaussian"
        made.append(Measurement(clique, values[start : start + size].reshape(shape), stddev, noise=noise))
        start += size
    return made


def unpack_stats(archive: ArchiveReader) -> tuple[str, dict[str, float], list[str]]:
    """How the fit stopped, in words and in numbers, and what answers must be read with."""
    status, names, values = archive.field("status", str), archive.field("stats", list), archive.array("stats")
    caveats = archive.field("caveats", list)
    plain = values.dtype.kind == "f" and values.shape == (len(names),)
    plain = plain and all(isinstance(name, str) and name.isidentifier() for name in names)
    if not plain or not all(isinstance(text, str) and text.isprintable() for text in (status, *caveats)):
        raise ArchiveError("the file does not say how its model was fitted; make it anew")
    return status, dict(zip(names, values.tolist(), strict=True)), caveats


def _tree(domain: Domain, axes: Sequence[Clique], parents: np.ndarray[Any, Any]) -> JunctionTree:
    """The tree of nodes with these axes, separator first, in tree order; its size is compared with memory."""
    count = len(axes)
    if parents.dtype.kind != "i" or parents.shape != (count,) or not count or parents[0] != -1:
        raise ArchiveError("the file's tree does not say how its nodes hang together; make it anew")
    if count > 1 and not ((parents[1:] >= 0) & (parents[1:] < np.arange(1, count))).all():
        raise ArchiveError("the file's tree has a node before its parent; make it anew")
    _check_memory(8 * sum(math.prod(domain[name] for name in own) for own in axes) + count * len(domain) // 8)
    separators = [(), *(_shared(own, axes[k]) for own, k in zip(axes[1:], parents[1:].tolist(), strict=True))]
    rests = [own[len(separator) :] for own, separator in zip(axes, separators, strict=True)]
    order = [name for rest in rests for name in rest]
    if len(order) != len(domain) or set(order) != set(domain) or not all(rests[1:]):
        raise ArchiveError("the file's nodes do not hold every attribute once, so they are no tree; make it anew")
    ordered = domain.project(order)
    parts = zip(axes, separators, rests, parents.tolist(), strict=True)
    return JunctionTree(ordered, [Node(ordered.clique(own), *rest) for own, *rest in parts])


def _shared(own: Clique, parent: Clique) -> Clique:
    """The leading attributes of a node that are its parent's too, in that order."""
    held = set(parent)
    return own[: next((place for place, name in enumerate(own) if name not in held), len(own))]


def _unpack_local(
    domain: Domain, entry: Any, total: float, constraints: Sequence[Constraint], archive: ArchiveReader
) -> LocalModel:
    """Tables that are not negative, zero where they must be, and agree on every attribute that they share."""
    factors = Factors(domain, unpack_cliques(domain, archive, "tables"))
    tables, seed = _flat(archive, "tables", factors.size), entry["seed"]
    if type(seed) is not int or not 0 <= seed < 2**63 or not len(factors) or (tables < 0).any():
        raise ArchiveError("the file's tables have negative counts, or no seed; make it anew")
    at_fault = _contradicting(factors, lambda index: factors.table(tables, index), total, constraints)
    if at_fault is not None:
        raise ArchiveError(f"the file's table over {at_fault!r} contradicts the others; make it anew")
    return LocalModel(factors, tables, total, constraints, seed=seed)


def _contradicting(
    factors: Factors, table: Callable[[int], Floats], total: float, constraints: Sequence[Constraint]
) -> Clique | None:
    """A clique whose table has another total, or other counts of an attribute, or some where a constraint has none."""
    known: dict[str, Floats] = {}
    for index, clique in enumerate(factors.cliques):
        counts = table(index)
        agree = abs(float(counts.sum()) - total) <= AGREEMENT * total
        for axis, name in enumerate(clique):
            own = counts.sum(axis=tuple(other for other in range(len(clique)) if other != axis))
            before = known.setdefault(name, own)
            agree = agree and bool(np.abs(own - before).max() <= AGREEMENT * total)
        for one in constraints:
            if set(one.clique) <= set(clique):
                outside = tuple(axis for axis, name in enumerate(clique) if name not in one.clique)
                agree = agree and not counts.sum(axis=outside)[~one.allowed].any()
        if not agree:
            return clique
    return None


def _pack_zeros(domain: Domain, constraints: Sequence[Constraint]) -> Arrays:
    """Which combinations the constraints leave possible."""
    tables = [one.allowed.ravel() for one in constraints]
    arrays: Arrays = pack_cliques(domain, [one.clique for one in constraints], "constraints")
    return arrays | {"allowed": np.concatenate(tables) if tables else np.zeros(0, dtype=np.bool_)}


def _unpack_zeros(domain: Domain, archive: ArchiveReader) -> list[Constraint]:
    cliques, allowed = unpack_cliques(domain, archive, "constraints"), archive.array("allowed")
    check_cells(domain, cliques)
    if allowed.dtype != np.bool_ or allowed.shape != (sum(domain.size(clique) for clique in cliques),):
        raise ArchiveError("the file's constraints do not fit its domain; make it anew")
    made, start = [], 0
    for clique in cliques:
        size = domain.size(clique)
        made.append(Constraint.of_table(domain, clique, allowed[start : start + size].reshape(domain.sizes(clique))))
        start += size
    return made


def _flat(archive: ArchiveReader, name: str, size: int) -> Floats:
    """An array of that many finite floats."""
    found = archive.array(name)
    if found.dtype.kind != "f" or found.shape != (size,):
        raise ArchiveError(f"the file's {name} are of another size than its cliques; make it anew")
    made = np.array(found, dtype=np.float64, order="C")
    if size and not np.abs(made).max() <= EXTREME:  # NaN fails too
        raise ArchiveError(f"the file's {name} hold NaN, or numbers beyond {EXTREME:g}; make it anew")
    return made


def _check_memory(needed: int) -> None:
    free = available_memory()
    if needed > 0.5 * free:
        size = readable(needed) if needed < 2**80 else "more than any memory"
        raise SizeError(f"the file's model takes {size}, {readable(free)} are free; make room, or distrust the file")


KIND = "model"
VERSION = 1


def save_model(model: Model, path: str | Path) -> None:
    """Write a model; the measurements of one that was made from a release stay in the file of the release."""
    entry, arrays = pack_distribution(model.distribution)
    manifest = {
        "status": model.status,
        "stats": list(model.stats),
        "caveats": list(model.caveats),
        "domain": pack_domain(model.domain),
        "schema": model.schema.to_toml(),
        "model": entry,
    }
    arrays |= pack_measured(model.domain, model.measurements if model.source is None else ())
    arrays["stats"] = np.array(list(model.stats.values()), dtype=np.float64)
    write_archive(path, kind=KIND, version=VERSION, manifest=manifest, arrays=arrays)


def unpack_model(archive: ArchiveReader, schema: Schema) -> tuple[Solution[Distribution], list[Measurement], list[str]]:
    """The distribution with how its fit went, the measurements and the caveats that `save_model` wrote."""
    status, stats, caveats = unpack_stats(archive)
    value = unpack_distribution(schema, archive.field("model", dict), archive)
    return Solution(value=value, status=status, stats=stats), unpack_measured(schema.domain, archive), caveats
