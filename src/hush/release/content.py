"""Content: the noisy answers of a release and how counts are estimated from them; files name its kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hush.arrays import Floats
from hush.codec import Stored
from hush.domain import Clique
from hush.errors import QueryError
from hush.inference.estimates import Estimates
from hush.privacy.measurement import Measurement
from hush.release.rounds import Round

if TYPE_CHECKING:
    from hush.graphical.graphical_model import GraphicalModel
    from hush.release.release import Release
    from hush.schema import Schema
    from hush.solution import Solution


class Content(ABC):
    """What a release is made of, whichever mechanism measured it.

    `laplace`: the noise has Laplace tails, which make intervals a little wider. `consistent`: tables agree on what
    they share. `bounded`: tables that were not measured are answered by a model, with bounds on their errors.
    `noisy_tables` are tables that were measured as they are, `rounds` the choices that were made on the way; `fitted`
    is a model that is kept with the answers.
    """

    kind: ClassVar[str]
    stored_type: ClassVar[Any]  # with the kind as its tag, an `of`, and a `build` that gives arguments of the class
    bounded: ClassVar[bool] = False

    noisy_tables: tuple[Measurement, ...] = ()
    rounds: tuple[Round, ...] = ()
    fitted: Solution[GraphicalModel] | None = None

    @property
    def laplace(self) -> bool:
        return False

    @property
    def consistent(self) -> bool:
        return True

    @property
    def grain(self) -> float:
        """Half the step of the coarsest noise over that noise's standard deviation; intervals are wider by it."""
        return 0.0

    @property
    def notes(self) -> tuple[str, ...]:
        """What every answer must be read with."""
        return ()

    @property
    @abstractmethod
    def tables(self) -> int:
        """How many noisy tables were measured."""

    @abstractmethod
    def measurements(self) -> list[Measurement]:
        """What was measured, as evidence that a model can be fitted to."""

    @abstractmethod
    def estimates(self, release: Release) -> Estimates:
        """Counts and their errors; `release.model()` may be asked for."""

    @abstractmethod
    def inconsistency(self, release: Release) -> str | None:
        """Explain why a release from a file cannot be what it says; None where all is well."""

    def stored(self) -> Stored:
        """The content as files hold it."""
        content: Stored = self.stored_type.of(self)
        return content

    @classmethod
    def build(cls, stored: Any, schema: Schema) -> Self:
        """The content that a file holds; ArchiveError where it does not fit together."""
        return cls(**stored.build(schema))

    def require_tables(self) -> None:
        """Refuse to answer from nothing."""
        return

    def total(self) -> float | None:
        """The number of records that a model should have; None where the estimates say it."""
        return None

    def combination(self, parts: Sequence[tuple[Clique, Any]]) -> tuple[float, float]:
        """The value and the variance of a linear combination of cells of several tables."""
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


def content_class(kind: object) -> type[Content] | None:
    """The content that files call `kind`; None where this version knows no such kind."""
    from hush.release.strategy_content import LinearContent, ResidualContent
    from hush.release.table_content import DrawContent, TableContent

    known: tuple[type[Content], ...] = (ResidualContent, LinearContent, TableContent, DrawContent)
    return next((content for content in known if content.kind == kind), None)
