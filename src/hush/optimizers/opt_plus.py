"""OPT_+: a product of strategies for each group of terms, and the best split of the budget between them.

Group g has error E_g at unit noise, so the best shares are c_g ~ E_g^{1/2} under Gaussian and ~ E_g^{1/3} under Laplace
noise (`NoiseKind.shares`). The error, that of local least squares, is (sum_g E_g^{1/2})^2 or (sum_g E_g^{1/3})^3, so
merging two groups gains the difference of their roots. Groups start as single terms. The pair that gains most is
merged, then the next, even at a small loss, and the best groups seen are kept. Then single terms move to other groups,
or to a new one, as long as that gains. E_g is predicted from the strategies in the pools, without new designs.

Reference: [HDMM, sec. 3.3.3, Def. 21].
Differs from [HDMM]: the printed Gaussian results use the Laplace split; groups are found here and given there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import WorkloadError
from hush.optimizers import p_identity
from hush.optimizers._kernels import set_errors
from hush.optimizers.opt_kron import fit_product, product_of
from hush.optimizers.strategy_pool import StrategyPool, strategy_pools
from hush.strategies.product_strategy import FloatStrategy, Recovery
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams

Groups = tuple[tuple[int, ...], ...]

MOST_PAIRED = 600  # sets of terms beyond which pairs are too many to compare
PREDICTION_SWEEPS = 3  # of coordinate descent, to predict the error of a set of terms
LEAST_GAIN = 1e-9  # relative; smaller gains are rounding
MERGING_DETOUR = 1.25  # merging goes on until the sum of roots exceeds this multiple of the best
MERGING_ROUNDS = 3  # of merging groups, then moving single terms


class TermGrouping:
    """The distinct terms of a workload, and the error that the pools promise for any set of them."""

    def __init__(self, grams: TermGrams, pools: Sequence[StrategyPool], noise: NoiseKind, cells: float) -> None:
        index, atom = np.unique(grams.index[:, list(grams.asked)], axis=0, return_inverse=True)
        self._index = np.ascontiguousarray(index, dtype=np.int32)
        self._terms = [np.flatnonzero(atom.ravel() == a) for a in range(len(index))]
        self._weights = np.log(np.bincount(atom.ravel(), grams.weights))
        self._counts = np.array([len(pool.errors) for pool in pools], dtype=np.int64)
        widest = max(pool.errors.shape[1] for pool in pools)
        self._errors = np.full((len(pools), int(self._counts.max()), widest), np.inf)
        for i, pool in enumerate(pools):
            errors = pool.errors
            self._errors[i, : errors.shape[0], : errors.shape[1]] = errors
        self._sizes = np.log([float(pool.size) for pool in pools])
        self._cells = math.log(cells) if cells < math.inf else math.inf
        self._power = 2 if noise is NoiseKind.GAUSSIAN else 3

    def merged(self) -> Groups:
        """The groups after merging and moving, as positions of terms."""
        groups = self._first()
        for _ in range(MERGING_ROUNDS):
            before = self.roots(groups).sum()
            groups = self._moved(self._agglomerated(groups))
            if not self.roots(groups).sum() < before * (1 - LEAST_GAIN):
                break
        together = [tuple(range(len(self._index)))]
        if self.roots(together).sum() < self.roots(groups).sum():
            groups = together
        return self._spelled(groups)

    def single(self) -> Groups:
        return self._spelled([(a,) for a in range(len(self._index))])

    def roots(self, sets: Sequence[Sequence[int]]) -> Floats:
        """E^{1/2} or E^{1/3} of each set of distinct terms, up to one common factor."""
        out = np.empty(len(sets))
        starts = np.zeros(len(sets) + 1, dtype=np.int64)
        np.cumsum([len(group) for group in sets], out=starts[1:])
        members = np.fromiter((a for group in sets for a in group), dtype=np.int64, count=int(starts[-1]))
        tables = (self._index, self._weights, self._errors, self._counts, self._sizes)
        set_errors(*tables, members, starts, self._cells, PREDICTION_SWEEPS, out)
        return np.asarray(np.exp((out - self._weights.max()) / self._power))

    def _first(self) -> list[tuple[int, ...]]:
        """Single terms; beyond `MOST_PAIRED` terms, grouped by a maximal set of attributes that contains them."""
        if len(self._index) <= MOST_PAIRED:
            return [(a,) for a in range(len(self._index))]
        asked = self._index != 0
        order = np.argsort(asked @ self._sizes, kind="stable")
        homes: dict[int, list[int]] = {}
        for position, a in enumerate(order.tolist()):
            larger = order[position + 1 :]
            within = larger[(asked[larger] >= asked[a]).all(axis=1)]
            homes.setdefault(int(within[-1]) if len(within) else a, []).append(a)
        return [tuple(sorted(atoms)) for atoms in homes.values()]

    def _agglomerated(self, groups: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The best groups seen while the best pair is merged again and again, even at a small loss."""
        if len(groups) > MOST_PAIRED:
            return groups
        groups = list(groups)
        roots = self.roots(groups)
        n = len(groups)
        left, right = np.triu_indices(n, 1)
        gains = np.full((n, n), -np.inf)
        pairs = [groups[a] + groups[b] for a, b in zip(left.tolist(), right.tolist(), strict=True)]
        gains[left, right] = roots[left] + roots[right] - self.roots(pairs)
        # Merge the pair that gains most, until the error is too far above that of the best groups so far.
        best, best_groups = roots.sum(), list(groups)
        while n > 1:
            a, b = divmod(int(np.argmax(gains)), n)
            if roots.sum() - gains[a, b] > MERGING_DETOUR * best:
                break
            groups[a], groups[b] = groups[a] + groups[b], ()
            roots[a], roots[b] = roots[a] + roots[b] - gains[a, b], 0.0
            gains[b], gains[:, b] = -np.inf, -np.inf
            others = [g for g in range(n) if groups[g] and g != a]
            merged_roots = self.roots([groups[a] + groups[g] for g in others]) if others else np.zeros(0)
            for g, value in zip(others, merged_roots.tolist(), strict=True):
                gains[min(a, g), max(a, g)] = roots[a] + roots[g] - value
            if roots.sum() < best * (1 - LEAST_GAIN):
                best, best_groups = roots.sum(), list(groups)
        return [group for group in best_groups if group]

    def _moved(self, groups: list[tuple[int, ...]], passes: int = 3) -> list[tuple[int, ...]]:
        """The groups after moving single terms to the group where they cost least, as long as that gains."""
        if len(groups) * len(self._index) > MOST_PAIRED**2 / 2:
            return groups
        roots = self.roots(groups).tolist()
        for _ in range(passes):
            moved = False
            for a in range(len(self._index)):
                # What the term would cost in every other group, or in a new one.
                home = next(g for g, group in enumerate(groups) if a in group)
                rest = tuple(x for x in groups[home] if x != a)
                if rest:
                    groups.append(())
                    roots.append(0.0)
                others = [g for g in range(len(groups)) if g != home]
                moved_roots = self.roots([*((rest,) if rest else ()), *(groups[g] + (a,) for g in others)]).tolist()
                left = moved_roots.pop(0) if rest else 0.0
                costs = [value - roots[g] for g, value in zip(others, moved_roots, strict=True)]
                best = int(np.argmin(costs)) if costs else -1
                if best >= 0 and left + costs[best] < roots[home] - LEAST_GAIN * sum(roots):
                    g = others[best]
                    groups[g], groups[home] = groups[g] + (a,), rest
                    roots[g], roots[home] = moved_roots[best], left
                    moved = True
                if not groups[-1]:
                    groups.pop()
                    roots.pop()
            groups, roots = [g for g in groups if g], [r for g, r in zip(groups, roots, strict=True) if g]
            if not moved:
                break
        return groups

    def _spelled(self, groups: Sequence[Sequence[int]]) -> Groups:
        return tuple(tuple(sorted(int(j) for a in group for j in self._terms[a])) for group in groups)


def opt_plus(
    grams: TermGrams,
    noise: NoiseKind,
    *,
    groups: Iterable[Iterable[int]] | None = None,
    pools: Sequence[StrategyPool] | None = None,
    cells: float = math.inf,
    restarts: int = 2,
    sweeps: int = 5,
    seed: int = p_identity.SEARCH_SEED,
) -> FloatStrategy:
    """The best union of products found; `groups` lists the positions of terms, by default grouped automatically.

    `cells` bounds the cells of a product over several terms.

    >>> from hush.core.domain import Domain
    >>> from hush.workloads import Workload
    >>> grams = TermGrams.of(Workload.kway(Domain({"a": 2, "b": 5, "c": 50, "d": 100}), 2))
    >>> single = opt_plus(grams, NoiseKind.LAPLACE, groups=[[j] for j in range(6)])
    >>> round(single.error), opt_plus(grams, NoiseKind.LAPLACE).error < single.error
    (85070, True)
    """
    chosen_groups = None if groups is None else check_groups(groups, len(grams))
    pools = strategy_pools(grams, noise, restarts=restarts, seed=seed) if pools is None else pools
    if chosen_groups is None:
        chosen_groups = TermGrouping(grams, pools, noise, cells).merged() if pools else (tuple(range(len(grams))),)
    choices = [fit_product(grams, pools, group, sweeps=sweeps) for group in chosen_groups]
    errors = np.array([chosen.error for chosen in choices])
    products = tuple(
        product_of(grams, pools, chosen, share)
        for chosen, share in zip(choices, noise.shares(errors).tolist(), strict=True)
    )
    return FloatStrategy(grams.domain, products, noise, Recovery.LOCAL, noise.total(errors), "plus")


def check_groups(groups: Iterable[Iterable[int]], terms: int) -> Groups:
    """Groups as sorted positions of terms; refuses a term that is in no group or in two."""
    checked = tuple(tuple(sorted(int(j) for j in group)) for group in groups)
    if any(not group for group in checked) or sorted(j for group in checked for j in group) != list(range(terms)):
        raise WorkloadError(f"groups: expected every one of the terms 0 .. {terms - 1} in exactly one group")
    return checked
