"""Processes that charge one ledger and are killed, crowded or forked; run as a program, prints what happened as JSON.

A program of its own, so that it forks from a small process with one thread.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from fractions import Fraction

from hush.core.errors import BudgetError, LedgerError
from hush.privacy.budget import Budget
from hush.privacy.events import SelectionEvent
from hush.privacy.ledger import Ledger

EVENT = SelectionEvent(Fraction(1))  # rho 1/8
HUGE = Budget(rho=2.0**40)


def child(act: Callable[[], None]) -> int:
    """Fork a process that acts and ends without cleaning up; returns its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        act()
        code = 0
    finally:
        os._exit(code)


def wait_for(pids: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def kill(path: str, kills: int, order: str) -> dict[str, int]:
    """Kill a process that charges and then releases (or, wrongly, the other way round), many times over."""
    chance = random.Random(20)
    ledger, released_path = Ledger(path, cap=HUGE), path + ".released"
    ready, tell = os.pipe()
    start = time.monotonic()
    for turn in range(5):
        ledger.charge(EVENT, release=f"warm-up-{turn}")
        with open(released_path, "a") as file:
            file.write(f"warm-up-{turn}\n")
    turn_time = (time.monotonic() - start) / 5  # kills are spread over a few turns, however slow the disk
    fewer = lost = journals = charged = 0
    for round_ in range(kills):

        def act(round_: int = round_) -> None:
            handle = os.open(released_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            own = Ledger.open(path)
            os.write(tell, b".")
            for turn in range(10**6):
                name = f"{round_}-{turn}"
                steps = [
                    lambda name=name: own.charge(EVENT, release=name),
                    lambda name=name: (os.write(handle, f"{name}\n".encode()), os.fsync(handle)),
                ]
                for step in steps if order == "charge first" else reversed(steps):
                    step()

        pid = child(act)
        os.read(ready, 1)
        time.sleep(chance.uniform(0, 3 * turn_time))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        journals += os.path.exists(path + "-journal")
        now = int(ledger.total.rho / EVENT.cost.rho)
        lost += now < charged
        charged = now
        with open(released_path, "a+") as file:
            file.seek(0)
            fewer += charged < len(file.read().split())
    with open(released_path) as file:
        released = file.read().split()
    names = {entry.release for entry in ledger.entries()}
    ledger.verify()
    return {
        "kills": kills,
        "charged": charged,
        "released": len(released),
        "released without a charge": len(set(released) - names),
        "times charged less than released": fewer,
        "times a charge was lost": lost,
        "kills inside a transaction": journals,
    }


def crowd(path: str, processes: int, each: int, fits: int) -> dict[str, object]:
    """Let many processes create the ledger at once and charge it beyond its cap."""
    cap = Budget(rho=fits / 8)

    def act() -> None:
        own, taken = Ledger(path, cap=cap), 0
        for turn in range(each):
            with suppress(BudgetError):
                own.charge(EVENT, release=f"{os.getpid()}-{turn}")
                taken += 1
        with open(f"{path}.{os.getpid()}", "w") as file:
            file.write(str(taken))

    pids = [child(act) for _ in range(processes)]
    codes = wait_for(pids)
    taken = []
    for pid in pids:
        with open(f"{path}.{pid}") as file:
            taken.append(int(file.read()))
    ledger = Ledger.open(path)
    ledger.verify()
    names = [entry.release for entry in ledger.entries() if entry.release]
    return {
        "codes": codes,
        "taken": sum(taken),
        "entries": len(names),
        "distinct": len(set(names)),
        "left": str(ledger.remaining),
        "caps": sum(entry.action == "cap" for entry in ledger.entries()),
    }


def fork_amid_threads(path: str, forks: int) -> dict[str, object]:
    """Fork while threads of the parent are inside the ledger; parent, threads and children all charge."""
    ledger, stop = Ledger(path, cap=HUGE), threading.Event()
    counts: list[int] = []

    def busy() -> None:
        done = 0
        while not stop.is_set():
            ledger.charge(EVENT)
            done += 1
            time.sleep(0.01)
        counts.append(done)

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    codes = []
    for _ in range(forks):
        codes += wait_for([child(lambda: ledger.charge(EVENT))])
        ledger.charge(EVENT)
    stop.set()
    for thread in threads:
        thread.join()
    ledger.verify()
    charged = int(ledger.total.rho / EVENT.cost.rho)
    return {"codes": codes, "charged": charged, "expected": sum(counts) + 2 * forks}


def links(path: str, other: str, wanted: int) -> dict[str, int]:
    """Kill charges until journals are left; then charge five times under another name, and open the first again.

    The other name is a hard link that takes the place of the first for a while, as a second mount of the file would:
    each name alone is the only one at the time it is used.
    """
    chance = random.Random(21)
    ledger = Ledger(path, cap=HUGE)
    start = time.monotonic()
    for _ in range(5):
        ledger.charge(EVENT)
    turn_time = (time.monotonic() - start) / 5
    ready, tell = os.pipe()
    left = opened = lost = lost_by_sqlite = 0

    def act() -> None:
        own = Ledger.open(path)
        os.write(tell, b".")
        for _ in range(10**6):
            own.charge(EVENT)

    for _ in range(100 * wanted):
        if left == wanted:
            break
        pid = child(act)
        os.read(ready, 1)
        time.sleep(chance.uniform(0, 3 * turn_time))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if not is_hot(path + "-journal"):
            continue
        os.link(path, other)
        for name in (path, other):
            with suppress(LedgerError):
                Ledger.open(name)
                opened += 1
        os.unlink(path)
        try:
            later = Ledger.open(other)
        except LedgerError:  # the kill came amid the writes, and the file is damaged without its journal
            os.rename(other, path)
            continue
        left += 1
        for _ in range(5):
            later.charge(EVENT)
        before = later.total.rho
        os.rename(other, path)
        shutil.copy(path, path + ".copy")
        shutil.copy(path + "-journal", path + ".copy-journal")
        lost_by_sqlite += entries(path + ".copy") < entries(path, "&immutable=1")
        with suppress(LedgerError):
            lost += Ledger.open(path).total.rho < before
        with suppress(FileNotFoundError):
            os.unlink(path + "-journal")
    return {
        "journals left by a kill": left,
        "opened while there were two names": opened,
        "lost by plain SQLite": lost_by_sqlite,
        "lost": lost,
    }


def is_hot(journal: str) -> bool:
    """Whether a journal is there that SQLite would apply."""
    with suppress(FileNotFoundError), open(journal, "rb") as file:
        return file.read(12)[8:] not in (b"", bytes(4))
    return False


def entries(path: str, options: str = "") -> int:
    """How many entries SQLite finds, which uses the journal unless told that the file is immutable."""
    with (
        suppress(sqlite3.DatabaseError),
        closing(sqlite3.connect(f"file:{path}?mode=rw{options}", uri=True)) as connection,
    ):
        (count,) = connection.execute("SELECT COUNT(*) FROM entries").fetchone()
        return int(count)
    return 0  # the journal was not that of this state, and what it left is no database


if __name__ == "__main__":
    kinds = {"kill": kill, "crowd": crowd, "fork": fork_amid_threads, "links": links}
    what, arguments = kinds[sys.argv[1]], sys.argv[2:]
    print(json.dumps(what(arguments[0], *(int(a) if a.isdigit() else a for a in arguments[1:]))))
