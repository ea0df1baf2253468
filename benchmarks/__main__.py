"""Run every benchmark that needs no file: python -m benchmarks"""

from __future__ import annotations

import subprocess
import sys

NAMES = (
    "noise",
    "counting",
    "residual",
    "selection_speed",
    "one_dimension",
    "many_dimensions",
    "eigen_design",
)
for name in NAMES:
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
