"""How much memory can be had, and how to say it."""

from __future__ import annotations

import os
import re
from pathlib import Path

UNKNOWN_MEMORY = 4 * 2**30


def available_memory() -> int:
    """Bytes that can be had without swapping, within the limit of a container."""
    free = UNKNOWN_MEMORY
    try:
        found = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
        free = int(found[1]) * 1024 if found else free
    except OSError:
        names = getattr(os, "sysconf_names", {})
        if {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= set(names):
            free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    for cap, use in _CONTAINER_FILES:
        try:
            free = min(free, int(Path(cap).read_text()) - int(Path(use).read_text()))
        except (OSError, ValueError):  # no such controller, or the word "max"
            continue
    return max(free, 2**26)


_CONTAINER_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def readable(size: float) -> str:
    """Bytes for a person.

    >>> readable(1_610_612_736), readable(512)
    ('1.6 GB', '512 B')
    """
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.3g} {unit}" if unit == "B" else f"{size:.1f} {unit}"
