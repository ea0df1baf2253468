"""Sessions of Spark: a frame that is counted in a session of its own, and sessions for the command line.

Privacy: an error of Spark may quote rows or a query; callers turn it into words of their own.
"""

from __future__ import annotations

import os
import shutil
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow as pa

from hush.core.errors import DataError

Result = TypeVar("Result")
SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(2**17),
}
LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    "spark.log.level": "ERROR",
}
MISSING_SPARK = "reading with Spark needs pyspark, which is not installed; run: pip install 'hush[spark]'"
MISSING_CONNECT = "Spark Connect needs packages that are not installed; run: pip install 'pyspark[connect]'"
OLD_CONNECT = "hush works in a session of its own, which Spark Connect gives from pyspark 4.3 on; install that"
TOO_LONG = (
    "a job of Spark took more than {seconds:g} seconds and was cancelled; raise timeout= (--timeout), or ask for fewer "
    "tables"
)
MISSING_JAVA = (
    "Spark needs Java 17 or newer, and there is none: set JAVA_HOME to one, install it (Debian: apt install "
    "default-jre-headless), or connect to a cluster with --spark sc://host:port"
)


def is_frame(source: object) -> bool:
    """Whether an object is a DataFrame of Spark; imports nothing."""
    return _is(source, "DataFrame")


def is_session(source: object) -> bool:
    """Whether an object is a session of Spark; imports nothing."""
    return _is(source, "SparkSession")


def _is(source: object, name: str) -> bool:
    return any(kind.__name__ == name and kind.__module__.startswith("pyspark.sql") for kind in type(source).__mro__)


class SparkFrame:
    """A frame under a name that a session of our own sees, with settings that are not the user's.

    Columns are called c0, c1, ... by their positions. Within `snapshot`, coded rows are persisted once, on the cluster,
    and all counts are taken from them.
    """

    def __init__(self, frame: Any, functions: Mapping[str, str], timeout: float) -> None:
        view = f"hush_{uuid4().hex}"
        user = frame.sparkSession
        self._spark = _new_session(user)
        for name, value in {**_settings_of(user), **SETTINGS}.items():
            with suppress(Exception):  # static settings are those of the application already
                self._spark.conf.set(name, value)
        frame.toDF(*(f"c{place}" for place in range(len(frame.columns)))).createGlobalTempView(view)
        self.select = f"SELECT * FROM global_temp.{view}"
        self.timeout = timeout
        self._depth = 0
        self._persisted: dict[str, Any] = {}  # by the SQL of coded rows
        self._functions, self._declared = functions, set[str]()
        weakref.finalize(self, _drop, user, view)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """One state of the rows for all sessions within; may be nested."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                for name, frame in self._persisted.values():
                    with suppress(Exception):  # a cluster that is gone holds nothing
                        frame.unpersist()
                        self._spark.catalog.dropTempView(name)
                self._persisted.clear()

    def close(self) -> None:
        """Sessions end with the frame."""

    def run(self, statement: str) -> Any:
        """The frame that a statement gives; functions that it names are declared first."""
        for name, body in self._functions.items():
            if f"{name}(" in statement and name not in self._declared:
                self._declared.add(name)
                self.run(f"CREATE OR REPLACE TEMPORARY FUNCTION {body}")
        return self._spark.sql(statement)

    def declare_rows(self, name: str, rows: pa.Table) -> None:
        """A small table of our own, under a name."""
        lines = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        kinds = ", ".join(f"{field.name} {_KINDS[str(field.type)]}" for field in rows.schema)
        self._spark.createDataFrame([tuple(map(_plain, line)) for line in lines], kinds).createOrReplaceTempView(name)

    def kept(self, rows: str) -> str | None:
        """SQL of the same rows, persisted by the cluster; None outside a snapshot."""
        if not self._depth:
            return None
        if rows not in self._persisted:
            name = f"hush_kept_{len(self._persisted)}"
            frame = self.run(rows).persist()
            frame.createOrReplaceTempView(name)
            self._persisted[rows] = name, frame
        return f"SELECT * FROM {self._persisted[rows][0]}"

    def batches(self, select: str, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a SELECT, once all have arrived."""
        rows = self._finished(lambda: self.run(select).toArrow())
        return iter(rows.to_batches(max_chunksize=batch_rows))

    def first(self, select: str) -> tuple[Any, ...]:
        """The first row of a SELECT."""
        return tuple(self._finished(lambda: self.run(select).collect())[0])

    def _marking(self) -> tuple[Callable[[str], Any], Callable[[str], Any]]:
        """How to mark the jobs of a thread by a tag, and how to cancel them from another thread."""
        if ".connect." in type(self._spark).__module__:
            return self._spark.addTag, self._spark.interruptTag
        context = self._spark.sparkContext  # whose tags of sessions are known to their own thread only
        return lambda tag: context.setJobGroup(tag, "hush"), context.cancelJobGroup

    def _finished(self, job: Callable[[], Result]) -> Result:
        """The result of a job of the cluster, which a thread waits for: Ctrl-C and the time limit cancel it there."""
        tag, done, late = f"hush_{uuid4().hex}", Future[Result](), threading.Event()

        begin, interrupt = self._marking()

        def work() -> None:
            try:
                begin(tag)
                done.set_result(job())
            except BaseException as trouble:  # noqa: BLE001 - raised in the thread that waits
                done.set_exception(trouble)

        def cancel() -> None:
            while not wait([done], timeout=0.2).done:  # a job that has not begun yet cannot be cancelled
                with suppress(Exception):  # a cluster that is gone runs nothing
                    interrupt(tag)

        def expire() -> None:
            late.set()
            cancel()

        limit = threading.Timer(self.timeout, expire)
        limit.daemon = True
        limit.start()
        threading.Thread(target=work, name="hush-spark", daemon=True).start()
        try:
            while not wait([done], timeout=0.2).done:
                pass  # Ctrl-C ends the wait, whichever thread the signal comes to
        except BaseException:
            threading.Thread(target=cancel, name="hush-cancel", daemon=True).start()
            raise
        finally:
            limit.cancel()
        if late.is_set():
            raise DataError(TOO_LONG.format(seconds=self.timeout))
        return done.result()


def _new_session(user: Any) -> Any:
    with suppress(AttributeError, NotImplementedError):
        return user.newSession()
    raise DataError(OLD_CONNECT)


_KINDS = {"binary": "BINARY", "int32": "INT"}


def _plain(value: Any) -> Any:
    return bytearray(value) if isinstance(value, bytes) else value


def _settings_of(spark: Any) -> dict[str, str]:
    """What the user has set in a session, such as where a catalog is."""
    found: dict[str, str] = {}
    with suppress(Exception):
        found = dict(spark.conf.getAll)
    return {
        name: value for name, value in found.items() if name.startswith(("spark.sql.catalog", "spark.hadoop", "fs."))
    }


def _drop(spark: Any, view: str) -> None:
    with suppress(Exception):  # the session may have ended before
        spark.catalog.dropGlobalTempView(view)


def connect(address: str) -> Any:
    """A session for a master such as `local[2]`, or for the address of Spark Connect, such as `sc://host:15002`."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise DataError(MISSING_SPARK) from None
    remote = address.startswith("sc://")
    if remote and find_spec("grpc") is None:
        raise DataError(MISSING_CONNECT)
    if not remote and not _java():
        raise DataError(MISSING_JAVA)
    builder = SparkSession.builder.appName("hush")
    builder = builder.remote(address) if remote else builder.master(address)
    for name, value in {} if remote else LOCAL.items():
        builder = builder.config(name, value)
    where = shown_address(address)
    failed = f"Spark at {where} cannot be started or reached; check the address, Java (17 or newer) and its memory"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about versions of pandas, which is not used
        try:
            return builder.getOrCreate()
        except Exception:  # noqa: BLE001 - it may quote a token in the address
            pass
    raise DataError(failed)


def parquet_frame(spark: Any, path: str) -> Any:
    """The frame of a path of Parquet, as the cluster sees it."""
    try:
        return spark.read.parquet(path)
    except Exception:  # noqa: BLE001 - it may quote rows
        pass
    raise DataError(f"Spark cannot open {path!r} as Parquet; check the path, as the cluster sees it, and your rights")


def shown_address(address: str) -> str:
    """An address without its options, which may hold a token, and without a user.

    >>> shown_address("sc://anna@cluster:15002/;token=secret"), shown_address("local[2]")
    ('sc://cluster:15002', 'local[2]')
    """
    if not address.startswith("sc://"):
        return address
    return "sc://" + address.removeprefix("sc://").partition("/")[0].rpartition("@")[2]


def _java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return (Path(home) / "bin" / "java").exists() if home else shutil.which("java") is not None
