"""Record: what was paid for, how counts are estimated from it, and how files store it.

Every mechanism fills one record while it runs. A record class states its `kind`, by which files name it, and is known
from then on; another package offers its class in the entry-point group `hush.records`, under its kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import msgspec
from msgspec import Meta

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique
from hush.core.errors import ArchiveError, DataError, QueryError, WorkloadError, shown
from hush.files.codec import Finite, NonNegative, Stored, Whole
from hush.inference.error_law import ErrorLaw
from hush.inference.estimates import Estimates, ZeroEstimates
from hush.inference.measured_sums import MeasuredSums
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian, Noise
from hush.privacy.sensitivity import RowNorms
from hush.release.answers import ErrorKind
from hush.release.statement import event_parts

if TYPE_CHECKING:
    from hush.core.solution import Solution
    from hush.histograms.axis_grid import AxisGrid
    from hush.models.distribution import Distribution
    from hush.release.release import Release
    from hush.schema import Schema

# Fits assume noise of at least a tenth of a row: noise in whole steps vanishes fast as it gets small, and weights that
# differ by its square cannot be fitted.
LEAST_STDDEV = 0.1
MOST_TURNS = 1 << 20


class Round(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One choice of a table and its measurement.

    `misfit` is ||M_r(p) - y||_1 between the model before the round and the noisy table. The score of the table was
    weight * (error - penalty).
    """

    clique: Clique
    epsilon: NonNegative  # of the choice, in the exponential mechanism
    stddev: NonNegative  # of the noise of the table
    candidates: int
    misfit: Finite
    penalty: Finite
    weight: Finite
    annealed: bool  # whether the round changed so little that later rounds get more budget
    size_mb: Finite  # of the model with the table in it


class Draw(Round, frozen=True, kw_only=True):
    """One query drawn in a game: a cell of a table whose count is above or below the present estimate.

    `weight` is 1 for above and -1 for below, `penalty` is the estimate, and the score of a cell is
    weight * (count - penalty). No table is measured, so `stddev` and `misfit` are 0.
    """

    turn: Annotated[int, Meta(ge=2, lt=MOST_TURNS)]  # of the game
    cell: Whole  # of the table, in row-major order


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """For every candidate table, what the last choice that considered it says about its error.

    In round t = `rounds`[r] the score was q_r = w_r (||M_r(D) - M_r(p)||_1 - penalty_r), and with probability at least
    1 - exp(-l) all candidates of the round have
    ||M_r(D) - M_r(p)||_1 <= penalty_r + (w_t / w_r) (||M_t(D) - M_t(p)||_1 - penalty_t) + slack_r + slope_r l.
    `distance` is ||M_r(p) - M_r(final model)||_1. `rounds` is -1 for a table that never was a candidate.
    """

    cliques: tuple[Clique, ...]
    weights: Floats  # w_r
    rounds: Integers
    penalties: Floats
    slacks: Floats
    slopes: Floats
    distances: Floats


def measured_in(rounds: Sequence[Round], tables: Sequence[Measurement]) -> tuple[Measurement | None, ...]:
    """The noisy table of each round, matched by clique and noise in order; None if the round measured none.

    Matching starts from the end, since tables measured before the rounds may look the same.
    """
    measured: list[Measurement | None] = []
    end = len(tables)
    for played in reversed(rounds):
        alike = (
            i for i in reversed(range(end)) if tables[i].clique == played.clique and tables[i].stddev == played.stddev
        )
        index = next(alike, None)
        measured.append(None if index is None else tables[index])
        end = end if index is None else index
    return tuple(reversed(measured))


def gaussian_law(table: Measurement) -> DiscreteGaussian:
    """The noise of a table that an adaptive mechanism measured."""
    if not isinstance(table.law, DiscreteGaussian):
        raise DataError(f"{table!r} has no discrete Gaussian noise: expected a table as the gate gave it")
    return table.law


ENTRY_POINTS = "hush.records"
LACKING_TABLES = "it says it is complete, and lacks tables"
NOTHING_YET = (
    "the release was interrupted before {first} and answers nothing; resume it with --resume, or plan.release(table, "
    "resume=release)"
)
ONE_RECORD = "a run measures one strategy or noisy tables, not both: a release holds one of them"

# Classes by kind. Those of hush are named, so that a file loads only the modules that its own record needs.
_classes: dict[str, str | type[Record]] = {
    "residual": "hush.release.strategy_record:ResidualRecord",
    "linear": "hush.release.strategy_record:LinearRecord",
    "tables": "hush.release.noisy_tables_record:NoisyTablesRecord",
    "draws": "hush.release.noisy_tables_record:DrawsRecord",
    "surveyed": "hush.release.survey_record:SurveyRecord",
    "histogram": "hush.release.histogram_record:HistogramRecord",
    "bucket-tree": "hush.release.histogram_record:BucketTreeRecord",
}


class Record(ABC):
    """What a run measured, and so what its release is made of.

    `noisy_tables` are tables measured cell by cell, `rounds` the choices made on the way, `scored` the last scores of
    all candidates, `fitted` the model of a complete run, `sums` the sums of values measured along with the counts.
    `buckets` has the grid of every column that was counted in buckets of levels, and `bias_words` says what is known
    of the error within buckets. `consistent`: tables agree on what they share. `bounded`: a model answers tables that
    were not measured, with bounds on their errors. `charged_at_once`: everything was charged once, up front.
    """

    kind: ClassVar[str]
    stored_type: ClassVar[Any]  # with the kind as its tag, an `of`, and a `build` that gives arguments of the class
    bounded: ClassVar[bool] = False
    charged_at_once: ClassVar[bool] = False

    scored: Scored | None = None
    fitted: Solution[Distribution] | None = None
    sums: MeasuredSums | None = None

    def __init_subclass__(cls) -> None:
        """Make the class known by its kind; a kind belongs to one class."""
        super().__init_subclass__()
        if "kind" in cls.__dict__:
            home = f"{cls.__module__}:{cls.__qualname__}"
            known = _classes.get(cls.kind, home)
            if home != (known if isinstance(known, str) else f"{known.__module__}:{known.__qualname__}"):
                raise TypeError(f"kind={cls.kind!r} of {home} is taken by {known}; choose another")
            _classes[cls.kind] = cls

    @cached_property
    def noisy_tables(self) -> list[Measurement]:
        return []

    @cached_property
    def rounds(self) -> list[Round]:
        return []

    @property
    def buckets(self) -> Mapping[str, AxisGrid]:
        return {}

    @property
    def bias_words(self) -> str:
        return ""

    @property
    def consistent(self) -> bool:
        return True

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats for every answer."""
        return ()

    @property
    def errors(self) -> ErrorKind | None:
        """`NOISE` if estimates have other errors than those of the noise, `NONE` if no error is known; else None."""
        return None

    @property
    @abstractmethod
    def tables(self) -> int:
        """How many noisy tables were measured."""

    @abstractmethod
    def measurements(self) -> list[Measurement]:
        """What was measured, as evidence that a model can be fitted to."""

    @abstractmethod
    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        """What one row adds to every query that was paid for and the law of its noise, with how often they occur."""

    @abstractmethod
    def estimates(self, release: Release) -> Estimates:
        """Counts and their errors; may call `release.model()`."""

    @abstractmethod
    def inconsistency(self, release: Release) -> str | None:
        """Explain why a loaded release cannot be what it says; None if all is well."""

    def all_law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        """As `law_counts`, with the sums of values among the queries."""
        return self.law_counts() if self.sums is None else self.law_counts() + self.sums.law_counts()

    def stored(self) -> Stored:
        """The record as files hold it."""
        stored: Stored = self.stored_type.of(self)
        return stored

    @classmethod
    def build(cls, stored: Any, schema: Schema) -> Self:
        """The record that a file holds; ArchiveError where its parts do not fit together."""
        return cls(**stored.build(schema))

    def check_storable(self, queries: Sequence[object]) -> None:
        """Refuse queries whose answers cannot join `noisy_tables`; asked before anything is charged for them."""
        raise WorkloadError(ONE_RECORD)

    def resumed(self) -> Self:
        """A copy for a run that continues an interrupted one; the interrupted release stays as it is."""
        record = copy(self)
        record.noisy_tables, record.rounds = list(self.noisy_tables), list(self.rounds)
        record.sums = None if self.sums is None else MeasuredSums(self.sums.strategy, self.sums.tables)
        return record

    @property
    def progress(self) -> str:
        """How many noisy tables an interrupted run has, in words."""
        return str(self.tables)

    def interruption(self) -> str:
        """The message to a person who interrupted the run."""
        if self.progress == "0":
            return "interrupted before the first noisy table; the budget spent and the budget left are recorded"
        return f"interrupted after {self.progress} noisy tables; those are paid for and kept"

    def require_tables(self) -> None:
        """Raise if nothing was measured."""
        return

    def total(self) -> float | None:
        """The number of rows that a model should have; None where the estimates say it."""
        return None

    def combination(self, parts: Sequence[tuple[Clique, Any]]) -> tuple[float, ErrorLaw]:
        """The value of a linear combination of cells of several tables, and the law of its error."""
        raise QueryError(
            "combinations of tables need noise whose correlations across tables are known; plan with "
            "mechanism='residual'"
        )

    def nonnegative_cells(self, release: Release, method: str) -> tuple[Clique, Floats]:
        """The attributes that were measured, and non-negative counts over all of them."""
        raise QueryError(
            "non-negative cells are fitted to the answers of a linear strategy; plan with mechanism='hdmm', 'matrix' "
            "or 'direct', or use release.tables(kind='nonnegative')"
        )


def record_class(kind: object) -> type[Record]:
    """The class of a kind in files; ArchiveError if neither hush nor an installed package has it."""
    known = _classes.get(kind) if isinstance(kind, str) else None
    if isinstance(known, type):
        return known
    if known is not None:
        module, name = known.split(":")
        record: type[Record] = getattr(import_module(module), name)
        return record
    offered = [entry for entry in entry_points(group=ENTRY_POINTS) if entry.name == kind]
    if not offered:
        raise ArchiveError(
            f"the file holds a record of the kind {shown(kind)}, which this hush does not know; upgrade hush, or "
            "install the package of the mechanism that made it"
        )
    loaded = offered[0].load()
    if not (isinstance(loaded, type) and issubclass(loaded, Record) and loaded.kind == kind):
        raise ArchiveError(f"{offered[0].value} is no record of the kind {shown(kind)}; repair the package it is in")
    return loaded


NOTHING_MEASURED = "nothing was measured: every count is given as 0, whatever the rows are."


class ZeroRecordFile(Stored, tag_field="kind", tag="zeros"):
    """No answers at all."""

    @classmethod
    def of(cls, record: ZeroRecord) -> Self:
        return cls()

    def build(self, schema: Schema) -> dict[str, Any]:
        return {}


class ZeroRecord(Record):
    """Nothing measured: every count is estimated as 0, and no error is known.

    Privacy: it holds no number that depends on rows, so it costs nothing; a statement that names a cost is not its own.
    """

    kind: ClassVar[str] = "zeros"
    stored_type: ClassVar[Any] = ZeroRecordFile
    charged_at_once: ClassVar[bool] = True
    errors: ClassVar[ErrorKind | None] = ErrorKind.NONE

    notes: ClassVar[tuple[str, ...]] = (NOTHING_MEASURED,)
    tables: ClassVar[int] = 0

    def measurements(self) -> list[Measurement]:
        return []

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        return Counter()

    def require_tables(self) -> None:
        raise QueryError(
            "nothing was measured: the release gives 0 for every count, and has no model, rows or report; for these, "
            "plan with another mechanism, such as 'independent'"
        )

    def estimates(self, release: Release) -> ZeroEstimates:
        return ZeroEstimates(release.domain, release.workload.cliques)

    def inconsistency(self, release: Release) -> str | None:
        if event_parts(release.statement.event) or self.sums is not None:
            return "it states a cost, and nothing was measured"
        return None if release.complete else "it says that it was interrupted, and there was nothing to measure"
