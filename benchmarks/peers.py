"""Peers: other packages that a benchmark compares hush with, and what to say where one is missing."""

from __future__ import annotations

from importlib.util import find_spec


def installed(package: str, left_out: str = "its column") -> bool:
    """Whether a peer can be imported; if not, says so and what the benchmark leaves out."""
    if find_spec(package) is None:
        print(f"{package} is not installed: pip install 'hush[bench]'; {left_out} is left out")
        return False
    return True
