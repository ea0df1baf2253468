"""Discovery sources: the distinct values of a column and the rows of each unit, counted where the rows lie.

The engine groups and counts. Only values that enough units hold leave it, or the number of units in each of a few
classes. Every engine gives the same counts: values are grouped by the bytes of their compared text, to which no
collation applies, and a unit's values are chosen by its id and its own values alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, overload

import numpy as np
import pyarrow as pa

from hush.core.arrays import Integers
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError
from hush.core.unit import ROW, Unit
from hush.privacy.sum_query import SumQuery
from hush.schema.text_folding import folded
from hush.tables.counting import as_numpy
from hush.tables.dialects.dialect import Family, type_name
from hush.tables.encoding import Names
from hush.tables.rows_per_unit import declare_words, encoded_rows, unit_id, unit_misfits
from hush.tables.sources import (
    COUNT_IS_REFUSED,
    COUNT_NAME,
    LARGEST_TOTAL,
    RowSource,
    raise_together,
    refused_counts,
    row_count,
    too_many_rows,
)

LONGEST_VALUE = 1000  # bytes of a value's text; longer texts are no categories and are never found
KEYS_AT_ONCE = 2**17
BYTES_PER_KEY = 64  # of a value of common length and its count, as an engine sends them
WORDS = Names.numbered(0, "").texts  # what a session calls the texts that are no keys
_CLASSES = "classes"  # of units by their rows


class DiscoverySource(ABC):
    """Rows that the gate reads for a discovery; a unit's rows are those with its id, or a single row."""

    unit: Unit = ROW
    domain: Domain

    def __init__(self, source: RowSource, unit: Unit) -> None:
        self._source, self._dialect = source, source.dialect
        self._id = None if unit.column is None else unit_id(source, unit.column)
        self._unit = unit
        self._checked = False

    def check(self, most_rows: int = LARGEST_TOTAL) -> None:
        """Read every row, and raise DataError if an id is missing or may have been rounded, or a count is refused."""
        if self._checked:
            return
        counts, dialect = self._source.counts, self._dialect
        tests = ["unit IS NULL", "octet_length(unit) = 0"] if self._id else []
        tests += [COUNT_IS_REFUSED] if counts else []
        if tests:
            flags = ", ".join(f"coalesce(bool_or({test}), false)" for test in tests)
            total = f"coalesce(sum({COUNT_NAME}), 0)" if counts else "0"
            with self._source.session() as session:
                select = f"SELECT {total}, {flags} FROM ({self._rows()}) AS held"
                added, *refused = dialect.fetch_row(session, select, self._source.failure)
            messages = unit_misfits(str(self._unit.column), *refused[:2]) if self._id else []
            if counts and refused[-1]:
                messages.append(refused_counts(counts))
            raise_together(messages)
            if counts and int(added) > most_rows:
                raise DataError(too_many_rows(counts, most_rows))
        self._checked = True

    def _rows(self, carried: Mapping[str, str] | None = None) -> str:
        """SQL of the rows: further expressions, the id as `unit` and the count as `COUNT_NAME`, if there are any."""
        carried = dict(carried or {})
        if self._id:
            carried["unit"] = self._id
        if self._source.counts:
            carried[COUNT_NAME] = row_count(self._source)
        return encoded_rows(self._source, [], carried)

    def require(self, cliques: Sequence[Clique]) -> None:
        for clique in cliques:
            self.domain.check(clique)

    @abstractmethod
    def counts(self, cliques: Sequence[Clique]) -> dict[Clique, Integers]:
        """Exact counts, for the gate alone."""

    def require_sums(self, queries: Sequence[SumQuery]) -> None:
        raise DataError(f"{type(self).__name__} give counts alone")

    def sums(self, queries: Sequence[SumQuery]) -> dict[SumQuery, Integers]:
        raise DataError(f"{type(self).__name__} give counts alone")


class DistinctValues(DiscoverySource):
    """The distinct values of a column, compared without the differences to ignore; texts of `no_keys` are left out.

    A unit counts once for each of at most `most_values` of its distinct values. Sorted, they are numbered r = 1 .. n,
    and r is kept if (r m + h) mod n < m, with m = `most_values` and h a hash of the id: exactly min(n, m) of them.

    Privacy: exact counts, for the gate alone. Adding a unit adds one to the counts of at most m values, which depend on
    that unit alone. Whether a value is left out as too long, blank, or one of `no_keys` depends on the value alone.
    """

    def __init__(
        self,
        source: RowSource,
        name: str,
        unit: Unit,
        *,
        most_values: int = 1,
        ignore: tuple[str, ...] = (),
        no_keys: Sequence[str] = (),
    ) -> None:
        super().__init__(source, unit)
        self.max_keys = most_values
        self.unit = ROW if unit.column is None else Unit(column=unit.column, max_rows=most_values)
        self.domain = Domain({name: 1})
        at, dialect = source.position(name), source.dialect
        family = dialect.family(source.types[at])
        if family is Family.UNSUPPORTED:
            raise DataError(
                f"column {name!r} is stored as {type_name(source.types[at])}, whose values are no categories; "
                "convert it to text or leave it out"
            )
        text = (
            dialect.cast("NULL", dialect.text_type) if family is Family.NOTHING else dialect.as_text(f"c{at}", family)
        )
        if family is Family.TEXT:
            text = dialect.folded(text, ignore)
        self._text = text
        self._no_keys = tuple(dict.fromkeys(folded(text, ignore) for text in no_keys))

    def counts(self, cliques: Sequence[Clique]) -> dict[Clique, Integers]:
        """How many values of all units are counted, for the clique of the column; a unit adds `most_values` at most."""
        chosen, units = self._chosen()
        with self._session() as session:
            select = f"SELECT {units} FROM ({chosen}) AS chosen"
            (total,) = self._dialect.fetch_row(session, select, self._source.failure)
        return {tuple(clique): np.array([int(total or 0)], dtype=np.int64) for clique in cliques}

    def counted_keys(self, least: int) -> Iterator[tuple[Sequence[str], Integers]]:
        """The values that at least so many units hold, as texts, and how many units hold each; each value once."""
        dialect, (chosen, units) = self._dialect, self._chosen()
        grouped = f"SELECT value, {units} AS units FROM ({chosen}) AS chosen GROUP BY value HAVING {units} >= {least}"
        selects = [grouped]
        if dialect.most_collected is not None:
            # Such an engine sends results as a whole, so ask for slices of values that it can send.
            select = f"SELECT count(*), coalesce(sum(octet_length(value)), 0) FROM ({grouped}) AS keys"
            with self._session() as session:
                keys, size = map(int, dialect.fetch_row(session, select, self._source.failure))
            slices = 1 + 2 * (size + BYTES_PER_KEY * keys) // dialect.most_collected
            if slices > 1:
                place = f"{dialect.unit_hash('value')} % {slices}"
                selects = [f"SELECT * FROM ({grouped}) AS keys WHERE {place} = {part}" for part in range(slices)]
        with self._session() as session:
            for select in selects:
                for batch in dialect.stream(session, select, KEYS_AT_ONCE, self._source.failure):
                    yield _Texts(batch.column(0)), as_numpy(batch.column(1))

    @contextmanager
    def _session(self) -> Iterator[Any]:
        with self._source.session() as session:
            if self._no_keys:
                declare_words(session, self._source, WORDS, self._no_keys)
            yield session

    def _chosen(self) -> tuple[str, str]:
        """SQL of the values that count, as bytes, one line per unit and value, and SQL that counts the units."""
        dialect, m = self._dialect, self.max_keys
        kept = f"octet_length(value) BETWEEN 1 AND {LONGEST_VALUE}"
        if self._no_keys:
            kept += f" AND {dialect.position('word', WORDS, len(self._no_keys))} IS NULL"
        rows = f"SELECT *, {dialect.as_bytes('word')} AS value FROM ({self._rows({'word': self._text})}) AS words"
        values = f"SELECT * FROM ({rows} {dialect.fence}) AS words WHERE {kept}"
        units = "count(*)"
        if self._id:
            distinct = f"SELECT DISTINCT unit, value FROM ({values}) AS held"
            numbered = (
                "SELECT unit, value, row_number() OVER (PARTITION BY unit ORDER BY value) AS nth, "
                f"count(*) OVER (PARTITION BY unit) AS held FROM ({distinct}) AS each_once"
            )
            number, of = (dialect.cast(name, dialect.wide_type) for name in ("nth", "held"))
            values = (
                f"SELECT value FROM ({numbered}) AS numbered "
                f"WHERE held <= {m} OR ({number} * {m} + {dialect.unit_hash('unit')}) % {of} < {m}"
            )
        elif self._source.counts:
            values, units = f"SELECT * FROM ({values}) AS lines WHERE {COUNT_NAME} > 0", dialect.counted(COUNT_NAME)
        return values, units


class UnitSizes(DiscoverySource):
    """How many units have how many rows: each unit is in one class of `firsts`, by the number of its rows.

    Class k holds the units of firsts[k] .. firsts[k + 1] - 1 rows; the last class has no end.

    Privacy: exact counts, for the gate alone. A unit adds one to one class.
    """

    def __init__(self, source: RowSource, unit: Unit, firsts: Sequence[int]) -> None:
        super().__init__(source, unit)
        if self._id is None:
            raise DataError("without an id column every row is a unit of its own, so there is no number to discover")
        self._firsts = tuple(firsts)
        self.domain = Domain({_CLASSES: len(self._firsts)})

    @property
    def clique(self) -> Clique:
        """The clique of the classes."""
        return (_CLASSES,)

    def counts(self, cliques: Sequence[Clique]) -> dict[Clique, Integers]:
        held = f"SELECT count(*) AS held FROM ({self._rows()}) AS rows_of_units GROUP BY unit"
        place = " ".join(f"WHEN held < {first} THEN {k}" for k, first in enumerate(self._firsts[1:]))
        numbered = f"CASE {place} ELSE {len(self._firsts) - 1} END" if place else "0"
        sums = ", ".join(f"coalesce(sum(CASE WHEN place = {k} THEN 1 ELSE 0 END), 0)" for k in range(len(self._firsts)))
        select = f"SELECT {sums} FROM (SELECT {numbered} AS place FROM ({held}) AS sizes) AS placed"
        with self._source.session() as session:
            row = self._dialect.fetch_row(session, select, self._source.failure)
        cells = np.array([int(count) for count in row], dtype=np.int64)
        return {tuple(clique): cells for clique in cliques}


class _Texts(Sequence[str]):
    """The texts of an Arrow array of bytes, decoded when they are asked for."""

    def __init__(self, held: pa.Array) -> None:
        self._held = held

    def __len__(self) -> int:
        return len(self._held)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        return bytes(self._held[at].as_py()).decode("utf-8", "replace")
