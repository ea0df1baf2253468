"""MarginalSystem: the error of measured marginals, for any workload that is a union of products.

A set of attributes is a number with a bit for each asked attribute. Marginal b, of sensitivity one, with share c_b of
the budget has precision u_b = c_b under Gaussian and c_b^2 under Laplace noise. On the space of functions that depend
on exactly the attributes of a, all marginals together have precision q(a) = sum over b containing a of
u_b prod_{i not in b} n_i, and the workload has the summed squared norm

    act(a) = sum_j w_j prod_{i in a} (tr V_i - 1^T V_i 1 / n_i) prod_{i not in a} 1^T V_i 1 / n_i.

With p = 1 or 2 the error, its gradient over z = log c, and h are

    F = (sum c)^p sum_a act(a) / q(a),   dF/dz_b = p F (c_b / sum c - u_b h_b / S),   S = sum_a act(a) / q(a),
    h_b = prod_{i not in b} n_i sum over a within b of act(a) / q(a)^2.

Act and q are both divided by prod_i n_i here, which keeps them in range for any number of attributes.

Reference: [HDMM, sec. 3.5, Thms 5-8]. Differs from [HDMM]: O(d 2^d) by sums over supersets in place of O(4^d); no
generalised inverse, since the printed one is wrong; only the sets that matter where 2^d is too many.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy

from hush.core.arrays import Floats
from hush.linops.marginal_operators import subset_sums, superset_differences, superset_sums
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams


class MarginalSystem(ABC):
    """Candidate marginals `sets`, and the sets a with act(a) > 0, on which the candidates are judged."""

    def __init__(self, noise: NoiseKind, sets: Sequence[int], act: Floats) -> None:
        self.noise, self.sets, self.act = noise, sets, act
        self.power = 1 if noise is NoiseKind.GAUSSIAN else 2

    @abstractmethod
    def precision(self, u: Floats) -> Floats:
        """q(a) of every judged set, (judged,)."""

    @abstractmethod
    def pull(self, values: Floats) -> Floats:
        """prod_{i not in b} n_i times the sum of values over a within b, (sets,)."""

    def error(self, shares: Floats) -> float:
        """F; infinite where some judged set is not supported."""
        q = self.precision(shares**self.power)
        if not self.supported(q):
            return float("inf")
        return float(shares.sum() ** self.power * self._ratio(q).sum())

    def supported(self, q: Floats) -> bool:
        """Whether every set that the workload asks about has some precision: the strategy's eigenvalue is not zero.

        Differs from [HDMM], where the test by the Moore-Penrose inverse refuses workloads that are supported.
        """
        return bool((q[self.act > 0] > 0).all())

    def _ratio(self, q: Floats, power: int = 1) -> Floats:
        """act / q^power where act is positive."""
        return np.divide(self.act, q**power, out=np.zeros_like(self.act), where=self.act > 0)

    def log_error(self, z: Floats) -> tuple[float, Floats]:
        """log F and its gradient at shares e^z."""
        c = np.exp(z - z.max())
        u = c**self.power
        q = self.precision(u)
        if not self.supported(q):
            return 1e300, np.zeros_like(z)
        total = float(self._ratio(q).sum())
        slope = self.power * (c / c.sum() - u * self.pull(self._ratio(q, 2)) / total)
        return self.power * float(np.log(c.sum())) + float(np.log(total)), slope

    def lower_bound(self, shares: Floats) -> float:
        """What no shares of these marginals can beat under Gaussian noise: F^2 / max h, since 1 / F is concave."""
        return self.error(shares) / (1 + float(self.excess(shares).max()))

    def excess(self, shares: Floats) -> Floats:
        """h / F - 1 at u = shares: positive for marginals that should have more under Gaussian noise, (sets,)."""
        q = self.precision(shares / shares.sum())
        return np.asarray(self.pull(self._ratio(q, 2)) / self._ratio(q).sum() - 1)

    def stepped(self, shares: Floats) -> Floats:
        """c (c^{p-1} h)^{1/(p+1)}, normalised: the best split if answers keep their present weights on the marginals.

        The error never rises: sum_b E_b / u_b with E_b = u_b^2 h_b lies above S and touches it.
        """
        c = shares / shares.sum()
        q = self.precision(c**self.power)
        h = self.pull(self._ratio(q, 2))
        c = c * (c ** (self.power - 1) * h) ** (1 / (self.power + 1))
        return np.asarray(c / c.sum())


class AllSets(MarginalSystem):
    """All 2^d marginals, by zeta transforms."""

    def __init__(self, noise: NoiseKind, sizes: Sequence[float], act: Floats) -> None:
        self.attributes = len(sizes)
        super().__init__(noise, range(1 << self.attributes), act)
        cells = np.ones(1)
        for size in sizes:
            cells = np.concatenate([cells, cells / size])
        self._cells = cells  # prod over i in b of 1 / n_i
        self._sizes = sizes

    def precision(self, u: Floats) -> Floats:
        return superset_sums(u * self._cells, self.attributes)

    def pull(self, values: Floats) -> Floats:
        return self._cells * subset_sums(values, self.attributes)

    def closed_form(self) -> Floats:
        """u with q(a) proportional to the root of the workload's eigenvalue; optimal for Gaussian noise if u >= 0.

        Reference: [HDMM, sec. 3.5.4]; negative entries are set to zero, as there.
        """
        many = np.ones(1)
        for size in self._sizes:
            many = np.concatenate([many, many * max(size - 1, 1e-6)])
        u = superset_differences(np.sqrt(self.act / (many * self._cells[-1])), self.attributes) / self._cells
        u = np.maximum(u, 0)
        return np.asarray(u / u.sum())


class SomeSets(MarginalSystem):
    """Any marginals, by a sparse matrix that says which judged sets each marginal contains."""

    def __init__(self, noise: NoiseKind, sizes: Sequence[float], act: dict[int, float], sets: Sequence[int]) -> None:
        super().__init__(noise, list(sets), np.array(list(act.values())))
        self.matrix = _incidence(sizes, {a: k for k, a in enumerate(act)}, self.sets)  # (judged, sets)

    def precision(self, u: Floats) -> Floats:
        return np.asarray(self.matrix @ u)

    def pull(self, values: Floats) -> Floats:
        return np.asarray(values @ self.matrix)

    def column(self, candidate: int) -> tuple[Any, Floats]:
        """The judged sets within a candidate, and what each unit of its precision gives them."""
        entries = slice(self.matrix.indptr[candidate], self.matrix.indptr[candidate + 1])
        return self.matrix.indices[entries], self.matrix.data[entries]

    def only(self, candidates: Sequence[int]) -> SomeSets:
        """The same system with fewer candidates."""
        system = SomeSets.__new__(SomeSets)
        MarginalSystem.__init__(system, self.noise, [self.sets[k] for k in candidates], self.act)
        system.matrix = self.matrix[:, list(candidates)]
        return system


def acts(grams: TermGrams) -> dict[int, float]:
    """act(a) divided by prod n_i over asked attributes, for every a where it is positive. O(sum_j 2^{|clique_j|})."""
    split = []
    for axis in grams.asked:
        size = float(grams.domain.shape[axis])
        mean = grams.sums(axis) / size**2
        split.append((mean, np.maximum(grams.traces(axis) / size - mean, 0)))
    return summed_acts(grams, split)


def summed_acts(grams: TermGrams, split: Sequence[tuple[Floats, Floats]]) -> dict[int, float]:
    """sum_j w_j prod over i in a of spread_i prod over the others of mean_i, from both numbers of every block."""
    index, atom = np.unique(grams.index[:, list(grams.asked)], axis=0, return_inverse=True)
    weights = np.bincount(atom.ravel(), grams.weights)
    act: dict[int, float] = {}
    for blocks, weight in zip(index.tolist(), weights.tolist(), strict=True):
        inside = [(0, weight)]
        for i, block in enumerate(blocks):
            mean, spread = float(split[i][0][block]), float(split[i][1][block])
            varying = [(a | 1 << i, v * spread) for a, v in inside] if spread > 1e-12 * mean else []
            inside = [(a, v * mean) for a, v in inside if mean > 0] + varying
        for a, v in inside:
            act[a] = act.get(a, 0.0) + v
    return dict(sorted(act.items()))


def subsets(number: int) -> list[int]:
    """All sets within a set."""
    inside = [0]
    while number:
        bit = number & -number
        inside += [a | bit for a in inside]
        number ^= bit
    return inside


def _incidence(sizes: Sequence[float], judged: dict[int, int], sets: Iterable[int]) -> scipy.sparse.csc_array:
    """M[a, b] = prod over i in b of 1 / n_i for a within b, (judged, sets)."""
    rows: list[int] = []
    data: list[float] = []
    starts = [0]
    for b in sets:
        if 1 << b.bit_count() <= len(judged):
            inside = [judged[a] for a in subsets(b) if a in judged]
        else:
            inside = [k for a, k in judged.items() if a & ~b == 0]
        cells = 1.0
        for i, size in enumerate(sizes):
            if b >> i & 1:
                cells /= size
        rows += inside
        data += [cells] * len(inside)
        starts.append(len(rows))
    return scipy.sparse.csc_array((data, rows, starts), shape=(len(judged), len(starts) - 1))
