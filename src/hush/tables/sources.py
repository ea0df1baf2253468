"""RowSource: rows that an engine can read, wherever they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hush.core.errors import DataError, close_match
from hush.tables.dialects.dialect import Dialect, Explain, Frame, attempt, attempted

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSource:
    """A SELECT over a connection, and what messages call it.

    `rows` is about how many lines there are, if that is known without reading them; private. A source with `once` can
    be read a single time.
    """

    dialect: Dialect
    name: str
    connection: Any
    select: str
    columns: tuple[str, ...]  # names as the source has them, possibly repeated
    types: tuple[str, ...]  # as the dialect spells them
    advice: str = ""  # for a missing column, instead of a similar name, which may be somebody's cell
    frames: Mapping[str, Frame] = field(default_factory=dict)
    explain: Explain | None = None
    rows: float | None = None
    once: bool = False
    typed: bool = True  # whether its types say what the columns hold
    counts: str | None = None  # the column that says how many rows each line stands for

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A session on the connection in which the source can be read."""
        session = attempt(lambda: self.dialect.open_session(self.connection, self.frames), self.failure)
        try:
            yield session
        finally:
            session.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Sessions opened within see one state of the rows."""
        with attempted(self.dialect.snapshot(self.connection), self.failure):
            yield

    def failure(self, trouble: str) -> str:
        """The message for a source that cannot be read; it does not quote the engine."""
        return self.explain(trouble) if self.explain else f"{self.name} cannot be read; check it and its types"

    def position(self, name: str) -> int:
        """Where the column of this name is; refuses a name that is not there or there twice."""
        return find_column(name, self.columns, self.name, self.advice)


def find_column(name: str, columns: Sequence[str], where: str, advice: str = "", *, similar: bool = True) -> int:
    """The position of a name among the columns of `where`; DataError with the likeliest cause otherwise.

    Privacy: a column of `where` is quoted only if it is the name but for case and spaces, or `similar` allows it.
    """
    positions = [position for position, column in enumerate(columns) if column == name]
    if len(positions) == 1:
        return positions[0]
    if positions:
        raise DataError(f"{where} has several columns named {name!r}; rename all but one")
    folded = [column for column in columns if column.strip().lower() == name.strip().lower()]
    near = folded[0] if folded else close_match(name, columns) if similar else None
    hint = f"did you mean {near!r}?" if near else "none of its columns is spelled alike"
    raise DataError(f"{where} has no column {name!r}; {advice or hint}")


def gathered(calls: Iterable[Callable[[], Result]]) -> list[Result]:
    """The result of every call; one DataError with the messages of all that fail, so that nobody mends one per try."""
    results, messages = [], []
    for call in calls:
        try:
            results.append(call())
        except DataError as error:
            messages.append(str(error))
    raise_together(messages)
    return results


def raise_together(messages: Iterable[str], advice: str = "") -> None:
    """Raise one DataError for all messages; none if there are none."""
    distinct = list(dict.fromkeys(messages))
    if distinct:
        listed = " ".join(f"({number}) {message}." for number, message in enumerate(distinct, start=1))
        several = f"the data do not fit the schema in {len(distinct)} ways: {listed}"
        text = distinct[0] if len(distinct) == 1 else several
        raise DataError(f"{text.removesuffix('.')}. {advice}" if advice else text)
