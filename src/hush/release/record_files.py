"""The record of a measured release in files: noisy integers, rounds and the model, checked as a stranger's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.archive import ArchiveReader
from hush.codec import Arrays, CliqueTable, narrow, pack, unpack
from hush.domain import Clique, Domain
from hush.errors import ArchiveError
from hush.privacy.gate import LinearQuery, MarginalQuery
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian
from hush.rational import parse_rational, rational_text
from hush.release.model_files import DistributionFile, FitFile, build_distribution, store_distribution
from hush.release.rounds import Round, Scored, gaussian_law
from hush.schema import Schema
from hush.solution import Solution
from hush.strategies.rare_levels import MergedQuery, Merging

if TYPE_CHECKING:
    from hush.release.table_content import TableContent

LONGEST_VARIANCE = 512  # characters
COLUMNS = ("weights", "rounds", "penalties", "slacks", "slopes", "distances")


def pack_record(content: TableContent) -> tuple[dict[str, Any], Arrays]:
    """The manifest entry and the arrays of a measured content."""
    domain = content.domain
    arrays: Arrays = pack_cliques(domain, [table.clique for table in content.noisy_tables], "taken")
    for index, table in enumerate(content.noisy_tables):
        arrays[f"noisy_{index}"] = narrow(table.raw)
    entry: dict[str, Any] = {
        "variances": [rational_text(gaussian_law(table).variance_parameter) for table in content.noisy_tables],
        "rounds": [asdict(one) for one in content.rounds],
        "scored": content.scored is not None,
        "model": None,
        "fit": None,
    }
    merged = {
        index: table.asked.merging
        for index, table in enumerate(content.noisy_tables)
        if isinstance(table.asked, MergedQuery)
    }
    if merged:
        entry["merged"] = list(merged)
        for name, codes in next(iter(merged.values())).codes.items():
            arrays[f"merging_{domain.attributes.index(name)}"] = narrow(codes)
    if content.scored is not None:
        arrays |= pack_cliques(domain, content.scored.cliques, "scored")
        arrays |= {f"scored_{name}": getattr(content.scored, name) for name in COLUMNS}
    if content.fitted is not None:
        fit = FitFile.of(content.fitted.status, {name: float(value) for name, value in content.fitted.stats.items()})
        for name, stored in (("model", store_distribution(content.fitted.value)), ("fit", fit)):
            entry[name], tables = pack(stored, name)
            arrays |= tables
    return entry, arrays


def unpack_record(schema: Schema, entry: dict[str, Any], archive: ArchiveReader) -> dict[str, Any]:
    """What `pack_record` stored, as the arguments of a `TableContent`."""
    domain = schema.domain
    rounds = [_round(domain, one) for one in entry["rounds"]]
    return {
        "noisy_tables": _noisy_tables(domain, entry["variances"], entry.get("merged", []), archive),
        "rounds": rounds,
        "scored": _scored(domain, archive, rounds) if entry["scored"] is True else None,
        "fitted": None if entry["model"] is None else _fitted(schema, entry, archive),
    }


def _noisy_tables(domain: Domain, variances: Any, merged: Any, archive: ArchiveReader) -> list[Measurement]:
    cliques = unpack_cliques(domain, archive, "taken")
    if not isinstance(merged, list):
        raise ArchiveError("the file does not say which tables have merged levels; get the release again")
    merging = _merging(domain, archive) if merged else None
    if not isinstance(variances, list) or len(variances) != len(cliques):
        raise ArchiveError("the file's noisy tables do not state their noise; get the release again")
    tables = []
    for index, (clique, text) in enumerate(zip(cliques, variances, strict=True)):
        domain.check(clique)
        if not isinstance(text, str) or len(text) > LONGEST_VARIANCE:
            raise ArchiveError("the file's noisy tables do not state their noise; get the release again")
        law = DiscreteGaussian(parse_rational(text, "variance"))
        values = archive.array(f"noisy_{index}")
        sizes = whole = domain.sizes(clique)
        query: LinearQuery = MarginalQuery(clique)
        if merging is not None and index in merged:
            sizes, query = merging.sizes(clique, whole), MergedQuery(clique, whole, merging)
        if values.dtype.kind != "i" or values.shape != sizes:
            raise ArchiveError("the file's noisy tables do not fit its schema; get the release again")
        tables.append(Measurement.of(query, values.astype(np.int64), law))
    return tables


def _merging(domain: Domain, archive: ArchiveReader) -> Merging:
    known, found = set(archive.names()), {}
    for place, name in enumerate(domain):
        if f"merging_{place}" in known:
            codes = archive.array(f"merging_{place}")
            plain = codes.dtype.kind == "i" and codes.shape == (domain[name],) and codes.max() < domain[name]
            if not plain or not np.array_equal(np.unique(codes), np.arange(codes.max() + 1)):
                raise ArchiveError("the file's merged levels do not fit its schema; get the release again")
            found[name] = codes.astype(np.int64)
    return Merging(found)


def _round(domain: Domain, entry: Any) -> Round:
    if not isinstance(entry, dict) or set(entry) != {one.name for one in fields(Round)}:
        raise ArchiveError("a round of the file cannot be read; get the release again")
    numbers = [entry[name] for name in ("epsilon", "stddev", "misfit", "penalty", "weight", "size_mb")]
    plain = all(isinstance(value, int | float) and math.isfinite(value) for value in numbers)
    plain = plain and min(entry["epsilon"], entry["stddev"]) >= 0 and type(entry["candidates"]) is int
    if not plain or type(entry["annealed"]) is not bool:
        raise ArchiveError("a round of the file cannot be read; get the release again")
    return Round(**{**entry, "clique": domain.check(tuple(entry["clique"]))})


def _scored(domain: Domain, archive: ArchiveReader, rounds: Sequence[Round]) -> Scored:
    cliques = tuple(domain.check(clique) for clique in unpack_cliques(domain, archive, "scored"))
    columns = {name: archive.array(f"scored_{name}") for name in COLUMNS}
    kinds = {name: "i" if name == "rounds" else "f" for name in COLUMNS}
    for name, values in columns.items():
        if values.dtype.kind != kinds[name] or values.shape != (len(cliques),):
            raise ArchiveError("the file's scores do not fit together; get the release again")
    used = columns["rounds"] >= 0
    sound = all(np.isfinite(values[used]).all() for values in columns.values()) and (columns["weights"] > 0).all()
    if not sound or any((columns[name][used] < 0).any() for name in ("penalties", "slopes", "distances")):
        raise ArchiveError("the file's scores are not the numbers that scores are; get the release again")
    if len(cliques) and not -1 <= columns["rounds"].min() <= columns["rounds"].max() < len(rounds):
        raise ArchiveError("the file's scores are of rounds that it does not have; get the release again")
    chosen = [rounds[number] for number in set(columns["rounds"][used].tolist())]
    if any(min(one.weight, one.stddev) <= 0 or min(one.misfit, one.penalty) < 0 for one in chosen):
        raise ArchiveError("the file's rounds are not such as scores are made in; get the release again")
    return Scored(cliques=cliques, **columns)


def _fitted(schema: Schema, entry: dict[str, Any], archive: ArchiveReader) -> Solution[Any]:
    fit: FitFile = unpack(FitFile, entry["fit"], archive, "account of the fit")
    model: DistributionFile = unpack(DistributionFile, entry["model"], archive, "model")
    return Solution(value=build_distribution(schema, model), status=fit.status, stats=fit.stats)


def pack_cliques(domain: Domain, cliques: Sequence[Clique], prefix: str) -> Arrays:
    """The arrays of cliques."""
    return pack(CliqueTable.of(domain, cliques), prefix)[1]


def unpack_cliques(domain: Domain, archive: ArchiveReader, prefix: str) -> list[Clique]:
    """The cliques that `pack_cliques` stored."""
    names = {"members": f"{prefix}_members", "lengths": f"{prefix}_lengths"}
    table: CliqueTable = unpack(CliqueTable, names, archive, "cliques")
    return table.build(domain, "record")
