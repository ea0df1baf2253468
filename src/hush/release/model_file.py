"""The file of a model: its schema, its distribution, the tables it was fitted to, and how the fit went."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hush.archive import ArchiveReader, write_archive
from hush.graphical.measurement import Measurement
from hush.release.model_estimates import Distribution
from hush.release.model_storage import (
    pack_distribution,
    pack_measured,
    unpack_distribution,
    unpack_measured,
    unpack_stats,
)
from hush.schema import Schema
from hush.solution import Solution
from hush.workloads.storage import pack_domain

if TYPE_CHECKING:
    from hush.release.model import Model

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
