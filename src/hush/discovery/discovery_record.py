"""Discovery record: what a discovery has measured and paid for, in a file from which an interrupted run goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hush.core.arrays import Integers
from hush.core.errors import ArchiveError, HushError
from hush.core.rational import parse_rational, rational_text
from hush.discovery.discovery_step import FoundColumn, FoundUnit
from hush.discovery.point_discovery import FoundPoints
from hush.files.atomic_write import write_whole
from hush.files.codec import Stored, unpack
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace, Noise
from hush.release.statement import Statement
from hush.schema.column import Column
from hush.schema.provenance import Discovered
from hush.schema.schema import Schema
from hush.schema.schema_toml import read_toml
from hush.schema.stamps import Stamp

RECORD_VERSION = 1
LARGEST_RECORD = 64 * 2**20  # bytes
GridName = Literal["wide", "zoom", "fine"]
GRID_NAMES: tuple[GridName, ...] = ("wide", "zoom", "fine")


class CountsFile(Stored):
    """Noisy counts in a file."""

    grid: GridName
    column: str
    noise: Literal["gaussian", "laplace"]
    parameter: str
    rows: list[int]


class FoundFile(Stored):
    """A column that was found, as a schema of one column, or a cap on rows per unit."""

    private: bool
    schema: str | None = None
    max_rows: int | None = None
    provenance: dict[str, Any] | None = None


class PointsFile(Stored):
    """Numbers of a column that many rows were found to hold."""

    column: str
    points: list[str]
    cost: float
    delta: float
    private: bool


class RecordFile(Stored):
    """A record in a file."""

    hush_discovery: int
    draft: str
    dataset: str | None
    statement: dict[str, Any]
    counts: list[CountsFile]
    found: list[FoundFile]
    points: list[PointsFile]


@dataclass
class DiscoveryRecord:
    """Noisy counts by grid and column, columns and a cap that were found, and the privacy statement of all of it.

    Privacy: everything here left through the gate and was charged; nothing else is kept.
    """

    draft: str  # fingerprint
    statement: Statement
    dataset: str | None = None
    counts: dict[tuple[GridName, str], tuple[Integers, Noise]] = field(default_factory=dict)
    columns: dict[str, FoundColumn] = field(default_factory=dict)
    points: dict[str, FoundPoints] = field(default_factory=dict)
    unit: FoundUnit | None = None

    def save(self, path: Path) -> None:
        """Write the record as JSON, whole or not at all."""
        found = [
            FoundFile(private=column.private, schema=Schema([column.column]).to_toml())
            for column in self.columns.values()
        ]
        if self.unit is not None:
            cap = self.unit
            found.append(FoundFile(private=cap.private, max_rows=cap.max_rows, provenance=cap.provenance.entries()))
        content = RecordFile(
            hush_discovery=RECORD_VERSION,
            draft=self.draft,
            dataset=self.dataset,
            statement=self.statement.to_dict(),
            counts=[
                CountsFile(grid=grid, column=name, noise=law.name, parameter=_parameter(law), rows=rows.tolist())
                for (grid, name), (rows, law) in self.counts.items()
            ],
            found=found,
            points=[
                PointsFile(
                    column=name,
                    points=[rational_text(point) for point in held.points],
                    cost=held.cost,
                    delta=held.delta,
                    private=held.private,
                )
                for name, held in self.points.items()
            ],
        )
        import msgspec

        write_whole(path, msgspec.json.encode(content), ArchiveError)

    @classmethod
    def load(cls, path: Path) -> DiscoveryRecord:
        """The record in a file."""
        try:
            with path.open("rb") as file:
                body = file.read(LARGEST_RECORD + 1)
        except OSError as error:
            raise ArchiveError(f"{path} cannot be read: {error.strerror}; check the path") from None
        try:
            if len(body) > LARGEST_RECORD:
                raise ValueError
            entry = json.loads(body)
        except (ValueError, RecursionError):
            raise ArchiveError(f"{path} is no record of a discovery; name the .partial file of one") from None
        if not isinstance(entry, dict) or entry.get("hush_discovery") != RECORD_VERSION:
            raise ArchiveError(f"{path} is no record of a discovery, or one of a newer hush")
        try:
            return cls._built(unpack(RecordFile, entry, None, "record"))
        except (HushError, ArithmeticError, LookupError, TypeError, ValueError, OverflowError):
            raise ArchiveError(f"{path} is damaged: its parts do not fit together; discover anew") from None

    @classmethod
    def _built(cls, content: RecordFile) -> DiscoveryRecord:
        record = cls(content.draft, Statement.from_dict(content.statement), content.dataset)
        for counts in content.counts:
            parameter = parse_rational(counts.parameter, "noise")
            law: Noise = (DiscreteGaussian if counts.noise == "gaussian" else DiscreteLaplace)(parameter)
            record.counts[counts.grid, counts.column] = np.array(counts.rows, dtype=np.int64), law
        for found in content.found:
            if found.schema is not None:
                column = declared(read_toml(found.schema))
                assert column.discovered is not None  # noqa: S101
                record.columns[column.name] = FoundColumn(
                    column=column, provenance=column.discovered, private=found.private
                )
            elif found.max_rows is not None:
                provenance = Discovered.read("max_rows", found.provenance)
                record.unit = FoundUnit(max_rows=found.max_rows, provenance=provenance, private=found.private)
        for held in content.points:
            points = tuple(parse_rational(point, "point") for point in held.points)
            record.points[held.column] = FoundPoints(
                points=points, cost=held.cost, delta=held.delta, private=held.private
            )
        return record

    def copy(self) -> DiscoveryRecord:
        """A record that another run may extend."""
        return replace(self, counts=dict(self.counts), columns=dict(self.columns), points=dict(self.points))


def declared(schema: Schema) -> Column | Stamp:
    """The single declared column of a schema: a column, or the times whose parts are its columns."""
    part = schema.columns[0].part
    return schema.columns[0] if part is None else part.stamp


def _parameter(law: Noise) -> str:
    """The exact parameter of a law."""
    exact = law.variance_parameter if isinstance(law, DiscreteGaussian) else law.scale  # type: ignore[attr-defined]
    return rational_text(exact)
