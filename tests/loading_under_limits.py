"""Loads what strangers may send, each in a process of its own under limits; run by test_loading_limits.py.

Reads lines `[loader, path, seconds, bytes]` of JSON and answers each with a line `[outcome, seconds, bytes]`. The
outcome is "loaded", "refused: ..." for a HushError, or what went wrong. Memory is limited by the kernel. A MemoryError
that a loader turned into a HushError still counts as one: without the limit it would have eaten the machine.
"""

import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import hush
from hush.core.errors import HushError
from hush.tables.formats.file_sources import read_csv_header
from hush.workloads.sql_workload import workload_of_sql
from hush.workloads.workload_text import parse_workload

DOMAIN = hush.Domain({f"a{k}": 10 for k in range(30)})
SCHEMA = hush.datasets.people_schema()


def read_text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="surrogateescape")


def ask(path: str) -> object:
    return RELEASE.sql(read_text(path))  # type: ignore[union-attr]


def verify(path: str) -> None:
    for ledger in hush.Ledger.open_all(path):
        ledger.verify()


def loop_forever(path: str) -> None:
    while True:
        pass


def fill_memory(path: str) -> int:
    return len(bytearray(b"x") * (3 << 29))


def hide_full_memory(path: str) -> None:
    try:
        bytearray(64 << 30)
    except MemoryError:
        raise HushError("damaged") from None


def fail(path: str) -> None:
    raise ValueError("no reason given")


LOADERS: dict[str, Callable[[str], object]] = {
    "archive": hush.load,
    "schema": hush.Schema.load,
    "ledger": verify,
    "sql": ask,
    "sql workload": lambda path: workload_of_sql(SCHEMA, read_text(path)),
    "workload": lambda path: parse_workload(DOMAIN, read_text(path)),
    "header": lambda path: read_csv_header(Path(path)),
    "loop": loop_forever,
    "hog": fill_memory,
    "hidden hog": hide_full_memory,
    "bug": fail,
}


def outcome_of(loader: str, path: str) -> str:
    try:
        LOADERS[loader](path)
    except HushError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, MemoryError):
                return "memory: a MemoryError became a refusal"
            cause = cause.__context__
        return f"refused: {str(error)[:200]}"
    except MemoryError:
        return "memory: a MemoryError"
    except BaseException:  # noqa: BLE001 - anything else is what the test looks for
        return f"failed: {traceback.format_exc()[-3000:]}"
    return "loaded"


def watched(loader: str, path: str, seconds: int, most: int) -> tuple[str, float, int]:
    """What became of a case, the processor time that it took, and the memory beyond that of this process."""
    pages, resident = (int(text) * resource.getpagesize() for text in Path("/proc/self/statm").read_text().split()[:2])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (pages + most, pages + most))
        signal.alarm(20 * seconds)
        os.write(writing, outcome_of(loader, path).encode(errors="replace"))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        outcome = pipe.read().decode()
    _, status, used = os.wait4(child, 0)
    if os.WIFSIGNALED(status):
        outcome = f"killed: {signal.Signals(os.WTERMSIG(status)).name} after {time.strftime('%X')}"
    return outcome, used.ru_utime + used.ru_stime, max(used.ru_maxrss * 1024 - resident, 0)


if __name__ == "__main__":
    RELEASE, *_ = [hush.load(path) for path in sys.argv[1:]]
    RELEASE.sql("SELECT sex, COUNT(*), AVG(age) FROM t GROUP BY sex")  # compiles what cases need
    for line in sys.stdin:
        print(json.dumps(watched(*json.loads(line))), flush=True)
