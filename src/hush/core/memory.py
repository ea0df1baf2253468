"""Memory: how much is available, how much may be used, and sizes as text."""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from pathlib import Path

from hush.core.errors import SizeError
from hush.core.validation import check_whole

UNKNOWN_MEMORY = 4 * 2**30
DEFAULT_SHARE = 0.75  # of the available memory, by default
UNCHECKED_BYTES = 2**25  # requests below this are never refused; `available_memory` reports at least twice as many
_UNIT_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNIT_BYTES |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def available_memory() -> int:
    """Bytes available without swapping and within the limit of a container."""
    free = UNKNOWN_MEMORY
    try:
        free_kb = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
        free = int(free_kb[1]) * 1024 if free_kb else free
    except OSError:
        names = getattr(os, "sysconf_names", {})
        if {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= set(names):
            free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    for cap, use in _CONTAINER_FILES:
        with suppress(OSError, ValueError):  # no such controller, or the word "max"
            free = min(free, int(Path(cap).read_text()) - int(Path(use).read_text()))
    return max(free, 2**26)


_CONTAINER_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def memory_limit(wanted: int | str | None) -> int:
    """Bytes from a number, a text such as "4GB", or by default a share of what is available now.

    >>> memory_limit("1.5 GiB")
    1610612736
    """
    if wanted is None:
        return int(DEFAULT_SHARE * available_memory())
    if isinstance(wanted, str):
        parsed = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?B?)\s*", wanted.upper())
        if parsed and parsed[2] in _UNIT_BYTES:
            wanted = int(float(parsed[1]) * _UNIT_BYTES[parsed[2]])
    return check_whole(SizeError, "memory_limit", wanted, least=1, hint=", in bytes, or a text such as '4GB'")


def require_memory(needed: int, what: str, remedy: str, *, share: float = 1.0) -> None:
    """Refuse work that needs more than a share of the available memory, before it begins."""
    if needed > UNCHECKED_BYTES and needed > (free := share * available_memory()):
        size = readable(needed) if needed < 2**83 else f"2^{math.log2(needed):.0f} bytes"
        raise SizeError(f"{what}: {size} needed, {readable(free)} free; {remedy}")


def cached_cells(most: int) -> int:
    """How many 8-byte numbers a cache may keep: `most`, or as many as fit in a 64th of the available memory."""
    return min(most, available_memory() // (64 * 8))


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
