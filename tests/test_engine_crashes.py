"""Crashes of a client or its server: the ledger never knows less than what left, and what was paid for goes on."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import hush
from hush.mechanisms.release_job import ReleaseJob
from postgres_server import Server, new_server

ROWS = 40_000
CLIENT = """
import sys
import hush
from hush.mechanisms.release_job import ReleaseJob
folder, address, resumed = sys.argv[1:]
schema = hush.Schema.load(f"{folder}/s.toml")
plan = hush.plan(hush.Workload.upto(schema.domain, 2), hush.Budget(rho=0.4), "aim")
table = hush.read(address, schema, table="people", engine="sql")
print("ready", flush=True)
kept = dict(output=f"{folder}/x.hush", ledger=f"{folder}/ledger.db")
job = ReleaseJob.resumed(hush.load(resumed), **kept) if resumed else ReleaseJob(plan, **kept)
job.run(table, on_round=lambda played, share: print("round", flush=True))
print("done", flush=True)
"""
SCHEMA = "hush_schema = 1\n" + "".join(
    f'[columns.{name}]\nkind = "integer"\nlow = 0\nhigh = 5\n' for name in ("a", "b", "c", "d")
)


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server that tests may kill."""
    server = new_server()
    with server.connect() as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT i % 6 AS a, (i / 7) % 6 AS b, (i % 6 + i % 2) % 6 AS c, (i * i) % 6 AS d "
            f"FROM generate_series(1, {ROWS}) AS i"
        )
        connection.execute("CHECKPOINT")
    yield server
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


def client(folder: Path, server: Server, resumed: Path | str = "") -> subprocess.Popen[str]:
    words = [sys.executable, "-c", CLIENT, str(folder), server.address(), str(resumed)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def spent(file: Path) -> float:
    """What a release says that it cost."""
    release = hush.load(file)
    assert isinstance(release, hush.Release)
    return float(release.statement.rho)


def check_books(folder: Path) -> None:
    """Whatever is on disk was charged before, and the cap holds."""
    book = folder / "ledger.db"
    charged = 0.0
    if book.exists():
        ledger = hush.Ledger.open(book)
        ledger.verify()
        charged = 0.4 - float(ledger.remaining)
        assert -1e-12 <= charged <= 0.4 + 1e-12
    for file in (folder / "x.hush", folder / "x.hush.partial"):
        if file.exists():
            assert spent(file) <= charged + 1e-9


def finish(folder: Path, server: Server) -> None:
    """Resume what was kept; the whole run stays within the budget."""
    partial = folder / "x.hush.partial"
    if not partial.exists():
        return
    with client(folder, server, partial) as run:
        out, err = run.communicate(timeout=300)
        assert "done" in out, err
    check_books(folder)
    done = hush.load(folder / "x.hush")
    assert isinstance(done, hush.Release)
    assert done.complete


def let_run(run: subprocess.Popen[str], rounds: int, pause: float) -> None:
    """Wait until so many rounds were played, and a little longer."""
    assert run.stdout is not None
    seen = 0
    for line in run.stdout:
        seen += line.startswith("round")
        if seen >= rounds and (rounds or line.startswith("ready")):
            break
    time.sleep(pause)


@pytest.mark.slow
@pytest.mark.parametrize(("rounds", "seed"), [(0, 1), (2, 3)])
def test_a_client_that_is_killed_leaves_books_that_agree(own, tmp_path, rounds, seed) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA)
    with client(tmp_path, own) as run:
        let_run(run, rounds, float(np.random.default_rng(seed).uniform(0, 0.4)))
        run.send_signal(signal.SIGKILL)
        run.wait()
    check_books(tmp_path)
    assert (tmp_path / "x.hush.partial").exists() or (tmp_path / "x.hush").exists() or rounds == 0
    finish(tmp_path, own)


@pytest.mark.slow
@pytest.mark.parametrize(("rounds", "seed"), [(1, 4)])
def test_a_server_that_is_killed_leaves_a_release_that_resumes(own, tmp_path, rounds, seed) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA)
    with client(tmp_path, own) as run:
        let_run(run, rounds, float(np.random.default_rng(seed).uniform(0, 0.2)))
        own.kill()
        out, err = run.communicate(timeout=300)
    try:
        assert "done" in out or "what was paid for is kept" in err or "cannot be reached" in err, err
        assert own.address() not in err
        check_books(tmp_path)
    finally:
        time.sleep(0.5)
        own.start()
    finish(tmp_path, own)


def test_a_connection_lost_after_the_charge_is_told_and_resumes(postgres, tmp_path, monkeypatch) -> None:
    """The server ends the session between two rounds: what was measured is kept, and the rest is spent later."""
    monkeypatch.setattr("hush.tables.table.CACHE_SHARE", 0.0)  # each round asks the server
    (tmp_path / "s.toml").write_text(SCHEMA)
    schema = hush.Schema.load(tmp_path / "s.toml")
    plan = hush.plan(hush.Workload.upto(schema.domain, 2), hush.Budget(rho=0.4), "aim")
    kept = {"output": tmp_path / "x.hush", "ledger": tmp_path / "ledger.db"}
    with postgres.connect() as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS lost AS SELECT i % 6 AS a, i / 7 % 6 AS b, i % 5 AS c, i % 4 AS d "
            "FROM generate_series(1, 4000) AS i"
        )
        table = hush.read(postgres.address() + "?application_name=lost", schema, table="lost", engine="sql")

        def cut(*_: object) -> None:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lost'")

        with pytest.raises(hush.core.errors.DataError, match="what was paid for is kept") as told:
            ReleaseJob(plan, **kept).run(table, on_round=cut)
        assert "hush@" not in str(told.value)
        check_books(tmp_path)
        rest = ReleaseJob.resumed(hush.load(tmp_path / "x.hush.partial"), **kept)
        assert rest.run(hush.read(postgres.address(), schema, table="lost")).complete
        check_books(tmp_path)
        connection.execute("DROP TABLE lost")
