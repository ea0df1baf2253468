"""Sessions of Spark: a DataFrame that hush counts in a session of its own, and sessions for the command line.

Privacy: an error of Spark may quote rows or a query; callers replace it by a message of hush.
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
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow as pa

from hush.core.errors import DataError

Result = TypeVar("Result")
SESSION_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(2**17),
}
LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    "spark.log.level": "ERROR",
}


class SparkFrame:
    """A user's DataFrame as a view in a session of hush, whose settings leave those of the user alone.

    Columns are named c0, c1, ... by their positions. Within `snapshot`, the cluster persists coded rows once, and all
    counts are taken from them.
    """

    def __init__(self, frame: Any, functions: Mapping[str, str], timeout: float) -> None:
        view = f"hush_{uuid4().hex}"
        user = frame.sparkSession
        try:
            self._spark = user.newSession()
        except (AttributeError, NotImplementedError):
            raise DataError(
                "hush works in a session of its own, which Spark Connect gives from pyspark 4.3 on; install that"
            ) from None
        # the user's settings of catalogs and file systems, such as credentials, then those of hush
        user_settings: dict[str, str] = {}
        with suppress(Exception):
            user_settings = dict(user.conf.getAll)
        storage = ("spark.sql.catalog", "spark.hadoop", "fs.")
        inherited = {name: value for name, value in user_settings.items() if name.startswith(storage)}
        for name, value in {**inherited, **SESSION_SETTINGS}.items():
            with suppress(Exception):  # static settings are those of the application already
                self._spark.conf.set(name, value)
        frame.toDF(*(f"c{place}" for place in range(len(frame.columns)))).createGlobalTempView(view)
        self.select = f"SELECT * FROM global_temp.{view}"
        self.timeout = timeout
        self._depth = 0
        self._persisted: dict[str, Any] = {}  # view name and DataFrame, by the SQL of the coded rows
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
                    with suppress(Exception):  # the cluster may be gone
                        frame.unpersist()
                        self._spark.catalog.dropTempView(name)
                self._persisted.clear()

    def close(self) -> None:
        """Sessions end with the frame."""

    def run(self, statement: str) -> Any:
        """The DataFrame of a statement; the functions of hush that it calls are declared first."""
        for name, body in self._functions.items():
            if f"{name}(" in statement and name not in self._declared:
                self._declared.add(name)
                self.run(f"CREATE OR REPLACE TEMPORARY FUNCTION {body}")
        return self._spark.sql(statement)

    def declare_rows(self, name: str, rows: pa.Table) -> None:
        """Declare a small table of binary and int32 columns as a view."""
        types = {"binary": "BINARY", "int32": "INT"}
        declared = ", ".join(f"{field.name} {types[str(field.type)]}" for field in rows.schema)
        lines = [
            tuple(bytearray(value) if isinstance(value, bytes) else value for value in line)
            for line in zip(*(column.to_pylist() for column in rows.columns), strict=True)
        ]
        self._spark.createDataFrame(lines, declared).createOrReplaceTempView(name)

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

    def _finished(self, job: Callable[[], Result]) -> Result:
        """The result of a job, run by a thread, so that Ctrl-C and the time limit can cancel it on the cluster."""
        tag, done, late = f"hush_{uuid4().hex}", Future[Result](), threading.Event()
        # How to tag the jobs of a thread, and how to cancel the jobs of a tag from any thread.
        if ".connect." in type(self._spark).__module__:
            begin, interrupt = self._spark.addTag, self._spark.interruptTag
        else:  # tags of a classic session are known to their own thread only
            context = self._spark.sparkContext
            begin, interrupt = partial(context.setJobGroup, description="hush"), context.cancelJobGroup

        def work() -> None:
            try:
                begin(tag)
                done.set_result(job())
            except BaseException as trouble:  # noqa: BLE001 - raised in the caller's thread
                done.set_exception(trouble)

        def cancel() -> None:
            while not wait([done], timeout=0.2).done:  # a job that has not begun yet cannot be cancelled
                with suppress(Exception):  # the cluster may be gone
                    interrupt(tag)

        def expire() -> None:
            late.set()
            cancel()

        # Run the job, and wait for its end, the time limit or Ctrl-C.
        limit = threading.Timer(self.timeout, expire)
        limit.daemon = True
        limit.start()
        threading.Thread(target=work, name="hush-spark", daemon=True).start()
        try:
            while not wait([done], timeout=0.2).done:
                pass  # the timeout lets Ctrl-C end the wait, whichever thread the signal reaches
        except BaseException:
            threading.Thread(target=cancel, name="hush-cancel", daemon=True).start()
            raise
        finally:
            limit.cancel()
        if late.is_set():
            raise DataError(
                f"a job of Spark took more than {self.timeout:g} seconds and was cancelled; raise timeout= "
                "(--timeout), or ask for fewer tables"
            )
        return done.result()


def _drop(spark: Any, view: str) -> None:
    with suppress(Exception):  # the session may have ended before
        spark.catalog.dropGlobalTempView(view)


def connect(address: str) -> Any:
    """A session for a master such as `local[2]`, or for the address of Spark Connect, such as `sc://host:15002`."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise DataError(
            "reading with Spark needs pyspark, which is not installed; run: pip install 'hush[spark]'"
        ) from None
    remote = address.startswith("sc://")
    if remote and find_spec("grpc") is None:
        raise DataError("Spark Connect needs packages that are not installed; run: pip install 'pyspark[connect]'")
    java_home = os.environ.get("JAVA_HOME")
    java = (Path(java_home) / "bin" / "java").exists() if java_home else shutil.which("java") is not None
    if not remote and not java:
        raise DataError(
            "Spark needs Java 17 or newer, and there is none: set JAVA_HOME to one, install it (Debian: apt install "
            "default-jre-headless), or connect to a cluster with --spark sc://host:port"
        )
    builder = SparkSession.builder.appName("hush")
    builder = builder.remote(address) if remote else builder.master(address)
    for name, value in {} if remote else LOCAL_SETTINGS.items():
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
    """The DataFrame of Parquet files at a path, as the cluster sees it."""
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
