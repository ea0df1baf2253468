"""Run every benchmark that needs no file: python -m benchmarks [--full]

The papers' tables take half an hour at their full size; without --full each is run at its smallest.
"""

from __future__ import annotations

import subprocess
import sys

NAMES = ("noise", "counting", "residual", "selection_speed")
TABLES = ("one_dimension", "many_dimensions", "eigen_design")

size = [] if "--full" in sys.argv[1:] else ["--quick"]
for command in [*([name] for name in NAMES), *([name, *size] for name in TABLES)]:
    subprocess.run([sys.executable, "-m", f"benchmarks.{command[0]}", *command[1:]], check=True)
