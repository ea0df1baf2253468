"""Run every benchmark that needs no file: python -m benchmarks"""

from __future__ import annotations

import subprocess
import sys

for name in ("noise", "counting", "residual"):
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
