"""Run jobs in their own processes, each with a time limit, and keep results in a file so that a run can continue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ONE_CORE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
FAILED = "failed"
SLOW = "slow"


def run_limited(module: str, job: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """What `python -m module --job JSON` prints in its last line, or {"failed": reason}; on one core."""
    environment = {**os.environ, **dict.fromkeys(ONE_CORE, "1")}
    command = [sys.executable, "-m", module, "--job", json.dumps(job)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return {FAILED: f"took more than {seconds:g} s", SLOW: seconds}
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return {FAILED: said[-1] if said else f"ended with {done.returncode}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


class Jobs:
    """Jobs of one module. Each result is appended to a file at once, as one line of JSON, and is never computed twice.

    A job that was too slow is tried again only with a longer limit. A job that failed otherwise is always tried again.
    """

    def __init__(self, module: str, folder: Path, seconds: float, keep: Path | None) -> None:
        self.module = module
        self.folder = folder
        self.seconds = seconds
        self.keep = keep
        self.known: dict[str, dict[str, Any]] = {}
        if keep is not None and keep.exists():
            for line in keep.read_text().splitlines():
                entry = json.loads(line)
                self.known[_key(entry["job"])] = entry["result"]

    def trials(self, job: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
        """The results of the trials; if one fails, those before it and the failure."""
        made = []
        for trial in range(count):
            made.append(self.one({**job, "trial": trial}))
            if FAILED in made[-1]:
                break
        return made

    def one(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The result of one job, from the file if it is there."""
        known = self.known.get(_key(job))
        if known is not None and (FAILED not in known or known.get(SLOW, 0.0) >= self.seconds):
            return known
        print(f"{self.module} {' '.join(f'{name}={value}' for name, value in job.items())}", end=" ", flush=True)
        result = run_limited(self.module, {**job, "folder": str(self.folder.resolve())}, self.seconds)
        print(result.get(FAILED) or " ".join(f"{name}={value:.4g}" for name, value in result.items()), flush=True)
        self.known[_key(job)] = result
        if self.keep is not None and (FAILED not in result or SLOW in result):
            with self.keep.open("a") as file:
                file.write(json.dumps({"job": job, "result": result}) + "\n")
        return result


def _key(job: Mapping[str, Any]) -> str:
    return json.dumps(job, sort_keys=True)
