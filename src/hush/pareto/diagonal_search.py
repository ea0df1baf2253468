"""Search for the rounds T and choices K of adaptive mechanisms along the diagonal of a grid.

The error of marginals depends mostly on c = T K, and falls, then rises, with it. So a binary search along the diagonal
T = K finds the best c, and a scan of all pairs with that product finds the best shape: O(grid) tries in place of
O(grid^2). For thresholds of few columns, where many rounds of few choices are best, search the whole grid instead.

Privacy: every try on private rows is a release of its own. Search on a public or generated table.
Reference: [Avent 2023, sec. 4.3.3].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hush.core.errors import SearchError, shown
from hush.core.validation import check_number, check_whole


@dataclass(frozen=True, slots=True)
class DiagonalSearch:
    """The best (T, K) found, and the errors of all pairs that were tried."""

    rounds: int
    queries: int
    errors: Mapping[tuple[int, int], float]

    @property
    def error(self) -> float:
        return self.errors[self.rounds, self.queries]


def search_diagonal(error: Callable[[int, int], float], sizes: Sequence[int]) -> DiagonalSearch:
    """The (T, K) of least error: binary search for the product along the diagonal, then all pairs with that product.

    `error` takes T and K; `sizes` are the values of either, rising by one factor, such as 1, 4, 16, 64.

    >>> import math
    >>> found = search_diagonal(lambda t, k: abs(math.log(t * k / 64)) + 0.01 * k, (1, 2, 4, 8, 16, 32, 64))
    >>> (found.rounds, found.queries), len(found.errors) < 49
    ((64, 1), True)
    """
    sizes = [check_whole(SearchError, "sizes: a value", size, least=1) for size in sizes]
    if len(sizes) < 2 or any(b * sizes[0] != a * sizes[1] for a, b in pairwise(sizes)):
        raise SearchError(f"sizes={shown(tuple(sizes))}: expected at least two values that rise by one factor")
    if sizes[1] <= sizes[0]:
        raise SearchError(f"sizes={shown(tuple(sizes))}: expected rising values, such as 1, 4, 16, 64")
    known: dict[tuple[int, int], float] = {}

    def tried(rounds: int, queries: int) -> float:
        if (rounds, queries) not in known:
            known[rounds, queries] = check_number(SearchError, "the error of a try", error(rounds, queries))
        return known[rounds, queries]

    # Along the diagonal: the first place whose neighbour is worse.
    low, high = 0, len(sizes) - 1
    while low < high:
        middle = (low + high) // 2
        if tried(sizes[middle], sizes[middle]) <= tried(sizes[middle + 1], sizes[middle + 1]):
            high = middle
        else:
            low = middle + 1
    # All pairs with that product.
    product = sizes[low] ** 2
    for rounds in sizes:
        if product % rounds == 0 and product // rounds in sizes:
            tried(rounds, product // rounds)
    best = min(known, key=lambda pair: (known[pair], pair))
    return DiagonalSearch(*best, known)
