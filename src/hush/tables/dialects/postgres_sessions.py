"""Connections to PostgreSQL: one read-only snapshot at a time, over ADBC, which sends columns as Arrow.

Privacy: an error of the server may quote rows, and an error of the driver the password. Neither leaves this file: a
`ServerTrouble` holds the five characters of an SQLSTATE, and nothing else.
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
from hush.tables.dialects.dialect import is_a

Result = TypeVar("Result")
ADDRESS_SCHEMES = ("postgresql://", "postgres://")
# SQLSTATEs; a server that is starting or full will accept connections soon
CONNECTION_LOST, REFUSED_TO_CONNECT, SERVER_STARTING, SERVER_FULL = "08006", "08001", "57P03", "53300"
BATCHES_AHEAD = 2  # received while the ones before are counted
CONNECT_SECONDS = 30
TRANSACTION_SETTINGS = {  # of every transaction; they end with it
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


class ServerTrouble(Exception):
    """A failure of the server or the driver; its only text is the SQLSTATE."""


class PostgresConnection:
    """A connection that hush opens when it is first needed, and closes with this object.

    Every statement runs within `snapshot`: one REPEATABLE READ READ ONLY transaction, which blocks no writer.
    """

    def __init__(self, open_driver: Callable[[], Any], *, timeout: float) -> None:
        self._open = open_driver
        self.timeout = timeout
        self._driver: Any = None
        self._cursors: set[Any] = set()  # of running statements
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
        # Start the transaction, on a new connection if the old one broke while idle: nothing was read from it.
        fresh = self._driver is None
        try:
            self._start()
        except ServerTrouble as trouble:
            if fresh or str(trouble)[:2] not in {"08", "57"}:
                raise
            self._driver = None
            self._start()
        self._depth = 1
        try:
            yield
        finally:
            self._depth = 0
            with suppress(ServerTrouble):
                self.execute("ROLLBACK")

    def _start(self) -> None:
        """Begin the transaction of a snapshot, with its settings."""
        settings = {**TRANSACTION_SETTINGS, "statement_timeout": f"{max(1, round(1000 * self.timeout))}ms"}
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
        """The rows of a small SELECT with bound values; `copy=False` for statements that COPY does not accept."""

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
        """The rows of a SELECT; a thread receives batches while the caller counts earlier ones.

        Closing the iterator early, or Ctrl-C, cancels the statement on the server.
        """
        received: queue.Queue[Any] = queue.Queue(maxsize=BATCHES_AHEAD)
        stopped = threading.Event()
        cursor = self._driver.cursor()
        self._cursors.add(cursor)

        # The thread puts batches into the queue, then None at the end or a ServerTrouble.
        def put(item: Any) -> None:
            while not stopped.is_set():
                with suppress(queue.Full):
                    received.put(item, timeout=0.1)
                    return

        def receive() -> None:
            try:
                cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(batch_rows * 16)})
                cursor.execute(select)
                results = getattr(cursor, "_results", None)  # unlike Arrow's, ADBC's own reader keeps the SQLSTATE
                reader = getattr(results, "reader", None) or cursor.fetch_record_batch()
                while not stopped.is_set():
                    put(reader.read_next_batch())
            except StopIteration:
                put(None)
            except BaseException as trouble:  # noqa: BLE001 - raised in the caller's thread
                put(ServerTrouble(state_of(trouble)))

        # The caller takes them out; the timeout lets Ctrl-C end the wait, whichever thread the signal reaches.
        thread = threading.Thread(target=receive, name="hush-receive", daemon=True)
        thread.start()
        ended = False
        try:
            while not ended:
                with suppress(queue.Empty):
                    item = received.get(timeout=0.2)
                    ended = item is None or isinstance(item, ServerTrouble)
                    if not ended:
                        yield item
            if item is not None:
                raise item
        finally:
            # Stop the thread, and cancel the statement if the caller stopped before its end.
            stopped.set()
            if not ended:
                with suppress(BaseException):
                    cursor.adbc_cancel()
            thread.join(timeout=60)
            self._cursors.discard(cursor)
            with suppress(BaseException):
                cursor.close()


def _connected(open_driver: Callable[[], Any]) -> Any:
    """A connection; tries again while the server is starting or full, since nothing was read yet."""
    for pause in (0.2, 1.0, 3.0, None):
        try:
            return _told(open_driver)
        except ServerTrouble as trouble:
            if pause is None or str(trouble) not in {SERVER_STARTING, SERVER_FULL}:
                raise
            threading.Event().wait(pause)
    raise ServerTrouble(REFUSED_TO_CONNECT)


def _close(driver: Any, cursors: set[Any]) -> None:
    """Close the cursors that readers left open, then the connection, which cannot be closed before them."""
    for handle in (*cursors, driver):
        with suppress(BaseException):
            handle.close()


def _told(call: Callable[[], Result]) -> Result:
    """The result of a call to the driver; a failure becomes a ServerTrouble, which does not quote it."""
    try:
        return call()
    except HushError:
        raise
    except Exception as trouble:  # noqa: BLE001 - the driver's errors have many types
        state = state_of(trouble)
    raise ServerTrouble(state)


def state_of(trouble: BaseException) -> str:
    """The SQLSTATE of an error of the driver; if it has none, one that fits its words.

    >>> state_of(OSError("FATAL: password authentication failed for user u"))
    '28P01'
    """
    state = getattr(trouble, "sqlstate", None)
    if state:
        return str(state)
    text = str(trouble)
    for words, known in _STATE_OF_WORDS.items():
        if words in text:
            return known
    return CONNECTION_LOST if "closed" in text or "terminat" in text else "XX000"


_STATE_OF_WORDS = {
    "password": "28P01",
    "authentication": "28000",
    "pg_hba.conf": "28000",
    "database": "3D000",
    "role": "28000",
    "starting up": SERVER_STARTING,
    "too many clients": SERVER_FULL,
    "server closed the connection": CONNECTION_LOST,
    "no connection to the server": CONNECTION_LOST,
    "terminating connection": CONNECTION_LOST,
    "Failed to connect": REFUSED_TO_CONNECT,
}


def driver_of(source: Any) -> Callable[[], Any]:
    """A function that opens a new connection to the database of an address, a psycopg or an ADBC connection.

    The user's own connection is not used, so its uncommitted changes are not visible.
    """
    if isinstance(source, str):
        limit = (
            "" if "connect_timeout" in source else f"{'&' if '?' in source else '?'}connect_timeout={CONNECT_SECONDS}"
        )
        return lambda: driver().connect(source + limit, autocommit=True)
    if is_a(source, "adbc_driver_manager", "Connection"):
        return source.adbc_clone  # type: ignore[no-any-return]
    parameters = {**source.info.get_parameters(), "password": source.info.password}
    escaped = {key: str(value).replace("\\", "\\\\").replace("'", "\\'") for key, value in parameters.items() if value}
    conninfo = " ".join(f"{key}='{value}'" for key, value in escaped.items())
    return lambda: driver().connect(conninfo, autocommit=True)


def driver() -> Any:
    """ADBC's driver of PostgreSQL."""
    try:
        import adbc_driver_postgresql.dbapi
    except ImportError:
        raise DataError(
            "reading PostgreSQL needs the package adbc-driver-postgresql, which is not installed; run: pip install "
            "'hush[postgres]'"
        ) from None
    return adbc_driver_postgresql.dbapi


def is_connection(source: object) -> bool:
    """Whether an object is a connection of psycopg, or an ADBC connection to PostgreSQL; imports neither."""
    if is_a(source, "psycopg", "Connection"):
        return hasattr(source, "pgconn")
    connection: Any = source
    adbc = is_a(source, "adbc_driver_manager", "Connection")
    return adbc and "postgres" in str(connection.adbc_get_info().get("vendor_name", "")).lower()


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
