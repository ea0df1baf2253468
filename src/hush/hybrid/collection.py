"""Collection: reports of many devices from JSON lines, Parquet, Arrow or DuckDB, checked and counted.

Every report is checked: its version, its question, its id (never twice) and its value. A report that fails is named by
its line or row. By default it stops the whole collection; with `refused="skip"` it is listed and the others count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from hush.core.arrays import Integers
from hush.core.errors import DataError
from hush.hybrid.client.choice_laws import RecordResponse, UnaryResponse
from hush.hybrid.client.number_laws import DuchiResponse, GaussianResponse, LaplaceResponse, PiecewiseResponse
from hush.hybrid.client.question import FORMAT_VERSION, Question, QuestionError, Report, is_id

if TYPE_CHECKING:
    import pyarrow as pa

JSON_BLOCK = 1 << 24  # bytes read at a time
ARROW_BLOCK = 1 << 18  # rows read at a time
MOST_LISTED = 1000  # refusals that are kept word for word
ARROW_READERS = ("to_arrow_reader", "fetch_arrow_reader")  # methods of DuckDB relations, new and old
Source: TypeAlias = Any  # a path, an Arrow table or reader, a DuckDB relation, a data frame, or texts and reports


class Refusal(NamedTuple):
    """A report that does not count: its line or row, from 1, and the reason."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportCounts:
    """The counts of all reports on one question, for estimates.

    `counts` is how often each option, bit or record was reported, in the order of the question; for numbers, how often
    each of `values` was reported.
    """

    question: Question
    total: int
    counts: Integers
    values: Integers | None = None
    refused: Sequence[Refusal] = ()
    refusals: int = 0

    def __post_init__(self) -> None:
        if self.total < 2:
            raise DataError(
                f"{self.total} reports on the question {self.question.name!r}: expected at least two, or nothing can "
                "be estimated"
            )


def collect(question: Question, source: Source, *, refused: Literal["raise", "skip"] = "raise") -> ReportCounts:
    """Check and count the reports on a question.

    `source` is a file (`.jsonl`, `.parquet`, `.arrow`), an Arrow table, a DuckDB relation, a data frame with the
    columns version, question, id and value, or any iterable of reports and JSON texts. With `refused="skip"` invalid
    reports are listed in the result; otherwise the first invalid report raises an error.

    >>> from hush.hybrid import Device
    >>> question = Question.yes_no("a smoker", epsilon=2)
    >>> collect(question, [Device().answer(question, "no") for _ in range(10)]).total
    10
    """
    counter = _Counter(question, skip=refused == "skip")
    if isinstance(source, str | Path):
        _collect_file(counter, Path(source))
    elif any(hasattr(source, name) for name in (*ARROW_READERS, "__arrow_c_stream__", "to_batches")):
        for batch in _batches(source):
            counter.add_batch(batch)
    else:
        counter.add_lines(source)
    return counter.result()


def count_reports(question: Question, reports: Any) -> ReportCounts:
    """The counts of reports that are known to be valid: drawn in a simulation, or checked already.

    Options, clusters and numbers are integers, unary reports rows of packed bytes, and records pairs.
    """
    counter = _Counter(question, skip=False)
    counter.add_values(np.asarray(reports))
    return counter.result()


class _Counter:
    """The running counts of a collection."""

    def __init__(self, question: Question, *, skip: bool) -> None:
        self.question = question
        self.law = question.law
        self.skip = skip
        self.counts = np.zeros(_cells(self.law), dtype=np.int64)
        self.total = 0
        self.line = 0
        self.refused: list[Refusal] = []
        self.refusals = 0
        self.seen: set[str] = set()
        self.ids: list[Any] = []
        self.firsts = np.zeros(0, dtype=np.uint64)  # of the first half of each id, sorted
        self.starts = np.cumsum([0, *self.law.sizes]) if isinstance(self.law, RecordResponse) else None

    def result(self) -> ReportCounts:
        values = None
        counts = self.counts
        if (lowest := _lowest(self.law)) is not None:
            reported = np.flatnonzero(counts)
            values, counts = reported + lowest, counts[reported]
        return ReportCounts(
            question=self.question,
            total=self.total,
            counts=counts,
            values=values,
            refused=tuple(self.refused),
            refusals=self.refusals,
        )

    def refuse(self, line: int, reason: str) -> None:
        if not self.skip:
            raise DataError(f"line {line}: {reason}; nothing was counted: fix the line, or skip refused reports")
        self.refusals += 1
        if len(self.refused) < MOST_LISTED:
            self.refused.append(Refusal(line, reason))

    def add_lines(self, lines: Iterable[str | bytes | Report]) -> None:
        """Reports one by one, each with its line number; blank lines are skipped."""
        values: list[Any] = []
        for text in lines:
            self.line += 1
            if not isinstance(text, Report) and not text.strip():
                continue
            reason, value = self._read(text)
            if reason:
                self.refuse(self.line, reason)
                continue
            values.append(value)
            if len(values) == 1 << 16:
                self.add_values(_array(self.law, values))
                values = []
        if values:
            self.add_values(_array(self.law, values))

    def _read(self, text: str | bytes | Report) -> tuple[str, Any]:
        """The reason to refuse a report, or "" and its value."""
        try:
            if isinstance(text, bytes):
                text = text.decode("utf-8")
            report = text if isinstance(text, Report) else Report.from_json(text)
        except UnicodeDecodeError:
            return "not UTF-8", None
        except QuestionError as error:
            return str(error), None
        if report.question != self.question.id:
            return "it answers another question", None
        if not _fits(self.law, report.value):
            return "its value is not a possible answer to this question", None
        if report.id in self.seen:
            return "its id was counted before", None
        self.seen.add(report.id)
        return "", report.value

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """A batch of columns, checked as arrays; if anything is invalid, row by row."""
        missing = {"version", "question", "id", "value"} - set(batch.schema.names)
        if missing:
            raise DataError(f"reports lack the columns {', '.join(sorted(missing))}; docs/hybrid.md describes reports")
        values = self._checked(batch)
        if values is None:
            rows = batch.to_pylist()
            self.seen.update(identifier.hex() for part in self.ids for identifier in map(bytes, part))
            self.ids = []
            self.add_lines(_report_of(row) for row in rows)
            return
        self.line += batch.num_rows
        self.add_values(values)

    def _checked(self, batch: pa.RecordBatch) -> Any:
        """The values of a batch in which every report is valid; None if one may be invalid."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if batch.num_rows == 0:
            return _array(self.law, [])
        expected = {"question": self.question.id, "version": FORMAT_VERSION}
        if "hush" in batch.schema.names:
            expected["hush"] = "report"
        try:
            same = [pc.all(pc.equal(batch.column(name), value), skip_nulls=False) for name, value in expected.items()]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a column of another type
            return None
        if not all(column.as_py() is True for column in same):
            return None
        ids = _hex_rows(batch.column("id"), 16)
        return self._fitting(ids, _values(self.law, batch.column("value")) if ids is not None else None)

    def _fitting(self, ids: Any, values: Any) -> Any:
        """The values, if all are valid and all ids are new; None if one may not be.

        Ids are compared by their first 64 bits; if two agree in these, the caller goes through the rows.
        """
        if ids is None or values is None or not _all_fit(self.law, values):
            return None
        if self.seen:
            rows = np.frombuffer(bytes.fromhex("".join(self.seen)), dtype=np.uint8).reshape(len(self.seen), 16)
            self.firsts = np.unique(_firsts(rows))
        firsts = np.sort(_firsts(ids))
        places = np.minimum(np.searchsorted(self.firsts, firsts), max(len(self.firsts) - 1, 0))
        if (firsts[1:] == firsts[:-1]).any() or (len(self.firsts) and (self.firsts[places] == firsts).any()):
            return None
        self.firsts = np.sort(np.concatenate([self.firsts, firsts]), kind="stable")
        self.ids.append(ids)
        return values

    def add_values(self, values: Any) -> None:
        """Count valid values."""
        self.total += len(values)
        if not len(values):
            return
        if isinstance(self.law, UnaryResponse):
            from hush.hybrid._kernels import SPREAD_BITS, bit_sums

            sums = np.zeros(8 * values.shape[1], dtype=np.int64)
            bit_sums(np.ascontiguousarray(values, dtype=np.uint8), SPREAD_BITS, sums)
            self.counts += sums[: self.law.size]
            return
        flat = values
        if self.starts is not None:
            flat = self.starts[values[:, 0]] + values[:, 1]
        self.counts += np.bincount(flat - (_lowest(self.law) or 0), minlength=len(self.counts))


def _collect_file(counter: _Counter, path: Path) -> None:
    """Reports from a file, by its ending."""
    import pyarrow as pa

    try:
        if path.suffix in (".parquet", ".arrow", ".feather"):
            for batch in _file_batches(path):
                counter.add_batch(batch)
            return
        if path.suffix not in (".jsonl", ".json", ".ndjson"):
            raise DataError(f"{path}: expected a .jsonl, .parquet or .arrow file of reports; rename or convert it")
        fresh = _Counter(counter.question, skip=counter.skip)
        if _add_json(fresh, path):
            counter.__dict__.update(fresh.__dict__)
            return
        with path.open("rb") as file:
            counter.add_lines(file)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or 'not a file of reports'}") from None
    except pa.ArrowInvalid:
        raise DataError(f"{path} cannot be read: it is damaged, or not a file of reports") from None


def _add_json(counter: _Counter, path: Path) -> bool:
    """Count a file of JSON lines block by block; False if any line is invalid, so that the caller goes line by line."""
    import msgspec

    # a decoder that accepts exactly the reports on this question
    whole = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
    kind: Any = whole
    if isinstance(counter.law, UnaryResponse):
        kind = str
    elif isinstance(counter.law, RecordResponse):
        kind = tuple[whole, whole]
    only: Any = Literal
    asked = only[counter.question.id]
    marks = [("hush", Literal["report"]), ("version", Literal[FORMAT_VERSION]), ("question", asked)]
    fields = [*marks, ("id", str), ("value", kind)]
    decoder = msgspec.json.Decoder(msgspec.defstruct("Line", fields, forbid_unknown_fields=True))
    # blocks end at line ends
    with path.open("rb") as file:
        rest = b""
        while block := file.read(JSON_BLOCK):
            head, newline, tail = block.rpartition(b"\n")
            lines, rest = (rest + head, tail) if newline else (b"", rest + block)
            if not _add_block(counter, decoder, lines):
                return False
        return _add_block(counter, decoder, rest)


def _add_block(counter: _Counter, decoder: Any, lines: bytes) -> bool:
    import msgspec

    try:
        rows = decoder.decode_lines(lines)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    if not rows:
        return True
    ids = _text_rows([row.id for row in rows], 16)
    values: Any = [row.value for row in rows]
    if isinstance(counter.law, UnaryResponse):
        values = _text_rows(values, (counter.law.size + 7) // 8)
    else:
        values = _array(counter.law, values)
    fitting = counter._fitting(ids, values)
    if fitting is None:
        return False
    counter.add_values(fitting)
    return True


def _text_rows(texts: list[str], length: int) -> Any:
    """Texts of 2 `length` hexadecimal digits as rows of bytes; None if any text is different."""
    from hush.hybrid._kernels import HEX_VALUES, unhex

    joined = "".join(texts)
    if set(map(len, texts)) - {2 * length} or not joined.isascii():
        return None
    packed = np.empty(len(texts) * length, dtype=np.uint8)
    letters = np.frombuffer(joined.encode("ascii"), dtype=np.uint8)
    return packed.reshape(len(texts), length) if unhex(letters, HEX_VALUES, packed) else None


def _file_batches(path: Path) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    if path.suffix == ".parquet":
        with parquet.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=ARROW_BLOCK)
        return
    with path.open("rb") as file, pa.ipc.open_file(file) as reader:
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)


def _batches(source: Any) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    fetch = next((getattr(source, name) for name in ARROW_READERS if hasattr(source, name)), None)
    if fetch is not None:
        yield from fetch(ARROW_BLOCK)
    elif isinstance(source, pa.Table):
        yield from source.to_batches(max_chunksize=ARROW_BLOCK)
    else:
        yield from pa.RecordBatchReader.from_stream(source)


def _report_of(row: dict[str, Any]) -> Report | str:
    """A row as a report, or as a text that will be refused if the row is invalid."""
    if row["version"] != FORMAT_VERSION or row.get("hush", "report") != "report":
        return f'{{"hush":"report","version":{row["version"] if isinstance(row["version"], int) else 0}}}'
    if not (is_id(row["question"]) and is_id(row["id"])):
        return "its ids are damaged"
    return Report(row["question"], row["value"], id=row["id"])


def _cells(law: Any) -> int:
    """The number of different reports of a law, or of bits for unary encoding."""
    if isinstance(law, RecordResponse):
        return sum(law.sizes)
    if isinstance(law, LaplaceResponse | GaussianResponse):
        return law.steps + 2 * law.reach + 1
    if isinstance(law, DuchiResponse):
        return 2
    return int(law.size)


def _lowest(law: Any) -> int | None:
    """The least report of a law for numbers; None for other laws."""
    if isinstance(law, LaplaceResponse | GaussianResponse):
        return -law.reach
    return 0 if isinstance(law, DuchiResponse | PiecewiseResponse) else None


def _fits(law: Any, value: Any) -> bool:
    """Whether a device could have sent a value."""
    if isinstance(law, UnaryResponse):
        length = (law.size + 7) // 8
        if not isinstance(value, str) or len(value) != 2 * length or not set(value) <= set("0123456789abcdef"):
            return False
        return bytes.fromhex(value)[-1] < 1 << (law.size - 8 * (length - 1))  # no bits beyond the last option
    if isinstance(law, RecordResponse):
        return (
            isinstance(value, list | tuple)
            and len(value) == 2
            and all(type(part) is int for part in value)
            and 0 <= value[0] < len(law.sizes)
            and 0 <= value[1] < law.sizes[value[0]]
        )
    lowest = _lowest(law) or 0
    return type(value) is int and lowest <= value < lowest + _cells(law)


def _array(law: Any, values: list[Any]) -> Any:
    """Values of single reports as `add_values` takes them."""
    if isinstance(law, UnaryResponse):
        return np.frombuffer(bytes.fromhex("".join(values)), dtype=np.uint8).reshape(len(values), (law.size + 7) // 8)
    shape = (len(values), 2) if isinstance(law, RecordResponse) else (len(values),)
    return np.array(values, dtype=np.int64).reshape(shape)


def _values(law: Any, column: Any) -> Any:
    """A column of values as an array; None if its type or its lengths do not match the law."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count:
        return None
    if isinstance(law, UnaryResponse):
        return _hex_rows(column, (law.size + 7) // 8)
    if isinstance(law, RecordResponse):
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            return None
        parts = column.flatten()
        if parts.null_count or not pa.types.is_integer(parts.type):
            return None
        if not pc.all(pc.equal(pc.list_value_length(column), 2)).as_py():
            return None
        return parts.to_numpy(zero_copy_only=False).astype(np.int64).reshape(-1, 2)
    if not pa.types.is_integer(column.type):
        return None
    return column.to_numpy(zero_copy_only=False).astype(np.int64)


def _all_fit(law: Any, values: Any) -> bool:
    """Whether devices could have sent all of these values."""
    if isinstance(law, UnaryResponse):
        spare = 8 * values.shape[1] - law.size
        return not spare or int(values[:, -1].max()) < 1 << (8 - spare)
    if isinstance(law, RecordResponse):
        sizes = np.array(law.sizes)
        queries, urls = values[:, 0], values[:, 1]
        inside = (queries >= 0) & (queries < len(sizes))
        return bool(inside.all() and (urls >= 0).all() and (urls < sizes[queries]).all())
    lowest = _lowest(law) or 0
    return bool((values >= lowest).all() and (values < lowest + _cells(law)).all())


def _hex_rows(column: Any, length: int) -> Any:
    """A column of texts of 2 `length` hexadecimal digits as rows of bytes; None if any text is different."""
    import pyarrow as pa

    from hush.hybrid._kernels import HEX_VALUES, unhex

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    if not pa.types.is_string(column.type) or column.null_count:
        return None
    width, rows = 2 * length, len(column)
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + rows + 1]
    if not np.array_equal(np.diff(offsets), np.full(rows, width)):
        return None
    letters = np.frombuffer(column.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    packed = np.empty(rows * length, dtype=np.uint8)
    return packed.reshape(rows, length) if unhex(letters, HEX_VALUES, packed) else None


def _firsts(rows: Any) -> Any:
    """The first half of ids of 16 bytes."""
    return np.ascontiguousarray(rows).view(np.uint64)[:, 0]
