"""Connections to PostgreSQL: one read-only snapshot at a time, over ADBC, which sends columns as Arrow.

Privacy: an error of the server may quote rows, one of the driver the password. Both end here: a `ServerTrouble` holds
the five characters of an SQLSTATE, and nothing else.
"""

from __future__ import annotations

import queue
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa

from hush.core.errors import DataError, HushError

Result = TypeVar("Result")
SCHEMES = ("postgresql://", "postgres://")
LOST = "08006"  # the SQLSTATE of a connection that broke
REFUSED_TO_CONNECT = "08001"
STARTING, FULL = "57P03", "53300"  # the server will take connections soon
BATCHES_AHEAD = 2
CONNECT_SECONDS = 30
SETTINGS = {  # of every transaction; they end with it
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "client_encoding": "UTF8",
    "idle_in_transaction_session_timeout": "0",
    "work_mem": "64MB",
    "jit": "off",
}
MISSING_DRIVER = (
    "reading PostgreSQL needs the package adbc-driver-postgresql, which is not installed; install hush[postgres]"
)


class ServerTrouble(Exception):
    """What went wrong, as an SQLSTATE."""


class PostgresConnection:
    """A connection of its own, made when it is first needed and closed with this object.

    Everything runs within `snapshot`: one REPEATABLE READ READ ONLY transaction, which blocks no writer.
    """

    def __init__(self, open_driver: Callable[[], Any], *, timeout: float) -> None:
        self._open = open_driver
        self.timeout = timeout
        self._driver: Any = None
        self._cursors: set[Any] = set()  # those that receive rows
        self._depth = 0

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """One state of the database for all statements within; may be nested."""
        if self._depth:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
            return
        self._begin()
        self._depth = 1
        try:
            yield
        finally:
            self._depth = 0
            with suppress(ServerTrouble):
                self.execute("ROLLBACK")

    def _begin(self) -> None:
        """Start the transaction; a connection that broke while it was idle is made anew: nothing was read over it."""
        fresh = self._driver is None
        settings = {**SETTINGS, "statement_timeout": f"{max(1, round(1000 * self.timeout))}ms"}
        try:
            self._start(settings)
        except ServerTrouble as trouble:
            if fresh or str(trouble)[:2] not in {"08", "57"}:
                raise
            self._driver = None
            self._start(settings)

    def _start(self, settings: dict[str, str]) -> None:
        if self._driver is None:
            self._driver = _connected(self._open)
            weakref.finalize(self, _close, self._driver, self._cursors)
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        for name, value in settings.items():
            self.execute(f"SET LOCAL {name} = '{value}'")

    def execute(self, statement: str) -> None:
        """Run a statement that gives no rows."""
        with self._driver.cursor() as cursor:
            _told(lambda: cursor.execute(statement))

    def rows(self, select: str, values: Sequence[Any] = (), *, copy: bool = True) -> list[tuple[Any, ...]]:
        """The rows of a small SELECT with bound values; `copy` is for statements that COPY takes."""

        def fetch() -> list[tuple[Any, ...]]:
            if not copy:
                cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            cursor.execute(select, list(values) or None)
            return list(cursor.fetchall())

        with self._driver.cursor() as cursor:
            return _told(fetch)

    def columns(self, select: str) -> tuple[str, ...]:
        """The names of the columns of a SELECT."""
        with self._driver.cursor() as cursor:
            _told(lambda: cursor.execute(f"SELECT * FROM (\n{select}\n) AS described LIMIT 0"))
            return tuple(item[0] for item in cursor.description)

    def batches(self, select: str, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a SELECT, received by a thread while the ones before are counted.

        Whoever stops early, with Ctrl-C too, cancels the statement on the server.
        """
        received: queue.Queue[Any] = queue.Queue(maxsize=BATCHES_AHEAD)
        stopped = threading.Event()
        cursor = self._driver.cursor()
        self._cursors.add(cursor)

        def put(item: Any) -> None:
            while not stopped.is_set():
                with suppress(queue.Full):
                    received.put(item, timeout=0.1)
                    return

        def receive() -> None:
            try:
                cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(batch_rows * 16)})
                cursor.execute(select)
                results = getattr(cursor, "_results", None)  # whose reader keeps the SQLSTATE, unlike Arrow's own
                reader = getattr(results, "reader", None) or cursor.fetch_record_batch()
                while not stopped.is_set():
                    put(reader.read_next_batch())
            except StopIteration:
                put(None)
            except BaseException as trouble:  # noqa: BLE001 - told in the thread that waits
                put(ServerTrouble(state_of(trouble)))

        thread = threading.Thread(target=receive, name="hush-receive", daemon=True)
        thread.start()
        ended = False
        try:
            while (item := _next_of(received)) is not None:
                if isinstance(item, ServerTrouble):
                    ended = True
                    raise item
                yield item
            ended = True
        finally:
            stopped.set()
            if not ended:
                with suppress(BaseException):
                    cursor.adbc_cancel()
            thread.join(timeout=60)
            self._cursors.discard(cursor)
            with suppress(BaseException):
                cursor.close()


def _next_of(received: queue.Queue[Any]) -> Any:
    """The next item; Ctrl-C ends the wait, whichever thread the signal comes to."""
    while True:
        with suppress(queue.Empty):
            return received.get(timeout=0.2)


def _connected(open_driver: Callable[[], Any]) -> Any:
    """A connection, tried for again while the server starts or has no room: nothing was read yet."""
    for pause in (0.2, 1.0, 3.0, None):
        try:
            return _told(open_driver)
        except ServerTrouble as trouble:
            if pause is None or str(trouble) not in {STARTING, FULL}:
                raise
            threading.Event().wait(pause)
    raise ServerTrouble(REFUSED_TO_CONNECT)


def _close(driver: Any, cursors: set[Any]) -> None:
    """Close a connection, after the cursors that a reader left behind: it cannot be closed before them."""
    for each in (*cursors, driver):
        with suppress(BaseException):
            each.close()


def _told(call: Callable[[], Result]) -> Result:
    """The result of a call to the driver; its failure as a trouble without its words."""
    try:
        return call()
    except HushError:
        raise
    except Exception as trouble:  # noqa: BLE001 - the driver's errors have many types
        state = state_of(trouble)
    raise ServerTrouble(state)


def state_of(trouble: BaseException) -> str:
    """The SQLSTATE of an error of the driver; where it has none, that of a broken or a refused connection.

    >>> state_of(OSError("FATAL: password authentication failed for user u"))
    '28P01'
    """
    state = getattr(trouble, "sqlstate", None)
    if state:
        return str(state)
    text = str(trouble)
    for words, known in _WORDS.items():
        if words in text:
            return known
    return LOST if "closed" in text or "terminat" in text else "XX000"


_WORDS = {
    "password": "28P01",
    "authentication": "28000",
    "pg_hba.conf": "28000",
    "database": "3D000",
    "role": "28000",
    "starting up": STARTING,
    "too many clients": FULL,
    "server closed the connection": LOST,
    "no connection to the server": LOST,
    "terminating connection": LOST,
    "Failed to connect": REFUSED_TO_CONNECT,
}


def driver_of(source: Any) -> Callable[[], Any]:
    """How to connect to what an address, a psycopg or an ADBC connection connects to.

    The user's own connection is left as it is: what it has not committed is not seen.
    """
    if isinstance(source, str):
        address = _with_time_limit(source)
        return lambda: driver().connect(address, autocommit=True)
    if _of(source, "adbc_driver_manager"):
        return source.adbc_clone  # type: ignore[no-any-return]
    parameters = {**source.info.get_parameters(), "password": source.info.password}
    text = " ".join(f"{key}={_quoted(str(value))}" for key, value in parameters.items() if value)
    return lambda: driver().connect(text, autocommit=True)


def driver() -> Any:
    """ADBC's driver of PostgreSQL."""
    try:
        import adbc_driver_postgresql.dbapi
    except ImportError:
        raise DataError(MISSING_DRIVER) from None
    return adbc_driver_postgresql.dbapi


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _with_time_limit(address: str) -> str:
    """The address with a limit on the time to connect, unless it has one."""
    if "connect_timeout" in address:
        return address
    return f"{address}{'&' if '?' in address else '?'}connect_timeout={CONNECT_SECONDS}"


def is_connection(source: object) -> bool:
    """Whether an object is a connection of psycopg, or one of ADBC to PostgreSQL; imports neither."""
    if _of(source, "psycopg"):
        return hasattr(source, "pgconn")
    if not _of(source, "adbc_driver_manager"):
        return False
    told: Any = source
    return "postgres" in str(told.adbc_get_info().get("vendor_name", "")).lower()


def _of(source: object, package: str) -> bool:
    """Whether an object is a connection of a package."""
    kinds = type(source).__mro__
    return any(kind.__name__ == "Connection" and kind.__module__.split(".")[0] == package for kind in kinds)


def shown_address(address: str) -> str:
    """An address without its user, password and options.

    >>> shown_address("postgresql://anna:secret@db.example:5433/clinic?sslmode=require&password=hunter2")
    'postgresql://db.example:5433/clinic'
    >>> shown_address("postgresql:///clinic?host=/var/run&user=anna")
    'postgresql:///clinic'
    """
    try:
        parts = urlsplit(address)
        hosts = parts.netloc.rpartition("@")[2]
        name = unquote(parts.path.lstrip("/")) or dict(parse_qsl(parts.query)).get("dbname", "")
    except ValueError:
        return "postgresql://"
    plain = "/" + name if name and re.fullmatch(r"[\w .-]+", name) else ""
    host = hosts if re.fullmatch(r"[A-Za-z0-9.,:\[\]_-]*", hosts) else ""
    return f"postgresql://{host}{plain}"
