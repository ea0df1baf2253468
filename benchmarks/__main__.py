"""Run every benchmark that needs no input file: python -m benchmarks [--full]

The tables from the papers take half an hour at full size. Without --full each runs at its smallest size.
"""

from __future__ import annotations

import subprocess
import sys

NAMES = ("noise", "counting", "residual", "selection_speed")
TABLES = ("one_dimension", "many_dimensions", "eigen_design", "pareto", "hybrid")

size = [] if "--full" in sys.argv[1:] else ["--quick"]
for command in [*([name] for name in NAMES), *([name, *size] for name in TABLES)]:
    subprocess.run([sys.executable, "-m", f"benchmarks.{command[0]}", *command[1:]], check=True)
