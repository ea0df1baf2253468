"""Milliseconds and memory of `hush serve` while a hundred analysts ask at once, on loopback.

    python -m benchmarks.serving [--analysts 100] [--seconds 20] [--pause 1.0] [--release FILE.hush]

Each analyst asks, reads for a while (`--pause` seconds on average), and asks again: SQL with conditions of its own,
tables, pages, and now and then rows. The server is a process of its own; three in ten questions were asked by somebody
before. Milliseconds are from sending a question to the end of its answer. The goal on two free cores is a median below
50 and 99 % below 500; on a busy machine only the milliseconds of CPU per answer compare.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

import hush

COLUMNS = ("sex", "region", "employed")
REPEATED_SHARE = 0.3  # of questions
WARM_UP_SECONDS = 5.0


def release_file(folder: Path) -> Path:
    """A release of all pairs of an invented table."""
    schema = hush.datasets.people_schema()
    table = hush.read(hush.datasets.people(50_000, seed=7), schema)
    plan = hush.plan("<=2-way", hush.Budget(epsilon=1.0, delta=1e-9), "residual", schema=schema)
    path = folder / "people.hush"
    plan.release(table).save(path)
    return path


def question(draw: random.Random) -> str:
    """A question, as an address."""
    fresh = draw.random() >= REPEATED_SHARE
    low = draw.uniform(0, 60) if fresh else 10 * draw.randrange(7)
    column = draw.choice(COLUMNS)
    sql = f"SELECT {column}, COUNT(*) FROM t WHERE age >= {low:.6g} GROUP BY {column}"
    kind = draw.random()
    if kind < 0.6:
        return f"/api/v1/sql?{urlencode({'query': sql})}"
    if kind < 0.75:
        level = draw.uniform(0.5, 0.99) if fresh else 0.95
        pair = ",".join(draw.sample(COLUMNS, 2))
        return f"/api/v1/table?{urlencode({'columns': pair, 'level': f'{level:.6g}'})}"
    if kind < 0.97:
        return f"/?{urlencode({'sql': sql})}"
    return f"/rows.csv?rows=100&seed={draw.randrange(5)}"


async def ask(port: int, address: str) -> tuple[float, int]:
    """Seconds until the end of an answer, and its status."""
    start = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
    content = await reader.read()
    while chunk := await reader.read():
        content += chunk
    writer.close()
    return time.perf_counter() - start, int(content.split(b" ", 2)[1])


async def analyst(port: int, seed: int, end: float, pause: float) -> list[tuple[float, int]]:
    """All answers to one analyst."""
    draw, answers = random.Random(seed), []
    await asyncio.sleep(draw.uniform(0, max(pause, 0.1)))
    while time.perf_counter() < end:
        answers.append(await ask(port, question(draw)))
        await asyncio.sleep(draw.uniform(0, 2 * pause))
    return answers


async def crowd(port: int, analysts: int, seconds: float, pause: float, first: int) -> list[tuple[float, int]]:
    """All answers to all analysts."""
    end = time.perf_counter() + seconds
    found = await asyncio.gather(*(analyst(port, first + i, end, pause) for i in range(analysts)))
    return [answer for answers in found for answer in answers]


def resident_megabytes(process: int) -> float:
    """Memory that a process holds now."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else float("nan")


def cpu_seconds(process: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Serve a release, let the crowd ask, and print percentiles of milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analysts", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--pause", type=float, default=1.0)
    parser.add_argument("--release", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.release or release_file(Path(folder))
        command = [sys.executable, "-m", "hush", "serve", str(path), "--port", "0", "--rate", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            found = re.search(r":(\d+)/", server.stdout.readline())
            assert found is not None
            port = int(found[1])
            asyncio.run(crowd(port, given.analysts, WARM_UP_SECONDS, given.pause, 10**6))
            before, used = resident_megabytes(server.pid), cpu_seconds(server.pid)
            answers = asyncio.run(crowd(port, given.analysts, given.seconds, given.pause, 0))
            after, used = resident_megabytes(server.pid), cpu_seconds(server.pid) - used
        finally:
            server.terminate()
            server.wait(20)
    times = sorted(1000 * seconds for seconds, _ in answers)
    failed = sum(status != 200 for _, status in answers)
    print(f"{given.analysts} analysts, {given.seconds:g} s: {len(times):,} answers, {len(times) / given.seconds:.0f}/s")
    for share in (0.5, 0.9, 0.99, 1.0):
        print(f"  {share:4.0%}  {times[min(int(share * len(times)), len(times) - 1)]:8.1f} ms")
    print(f"  {1000 * used / len(times):.1f} ms of CPU per answer; load of the machine {os.getloadavg()[0]:.1f}")
    print(f"  not answered: {failed}; memory {before:.0f} MB after the warm-up, {after:.0f} MB at the end")


if __name__ == "__main__":
    main()
