"""How much memory reading and counting may take, and whether a request fits, before anything is allocated."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from hush.domain import Clique, Domain
from hush.errors import SizeError
from hush.memory import available_memory, readable

BYTES_PER_CELL = 16  # an int64 result, its uint32 counter, and as much again for merged scans
LARGEST_CLIQUE = 2**32  # cells are numbered by uint32
SHARE = 0.75  # of the available memory, by default
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def memory_limit(wanted: int | str | None) -> int:
    """Bytes from a number, a text such as "4GB", or by default a share of what is available now.

    >>> memory_limit("1.5 GiB")
    1610612736
    """
    if wanted is None:
        return int(SHARE * available_memory())
    if isinstance(wanted, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?B?)\s*", wanted.upper())
        if found and found[2] in _UNITS:
            wanted = int(float(found[1]) * _UNITS[found[2]])
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise SizeError(f"memory_limit = {wanted!r}: expected bytes, or a text such as '4GB'")
    return wanted


def check_counts(domain: Domain, cliques: Iterable[Clique], limit: int) -> None:
    """Refuse cliques whose counts do not fit: `BYTES_PER_CELL` for each cell within half of the limit.

    The other half is for reading rows. Nothing here depends on the data.
    """
    extent = dict(zip(domain.attributes, domain.shape, strict=True))
    sizes = {clique: math.prod(map(extent.__getitem__, clique)) for clique in cliques}
    if not sizes:
        return
    largest = max(sizes, key=lambda clique: sizes[clique])
    advice = "drop an attribute, use wider bins, or ask for cliques of fewer attributes"
    if sizes[largest] > LARGEST_CLIQUE:
        raise SizeError(
            f"the table over {', '.join(largest)} has {sizes[largest]:,} cells, at most {LARGEST_CLIQUE:,} can be "
            f"counted; {advice}"
        )
    needed = BYTES_PER_CELL * sum(sizes.values())
    if needed > limit // 2:
        raise SizeError(
            f"counting {len(sizes)} cliques needs {readable(needed)}, more than the {readable(limit // 2)} that "
            f"memory_limit = {readable(limit)} leaves for counts; the largest is {', '.join(largest) or '()'} with "
            f"{sizes[largest]:,} cells; {advice}, or raise memory_limit"
        )
