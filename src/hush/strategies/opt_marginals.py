"""OPT_M: the marginals to measure, and with what share of the budget, for any union of products.

Under Gaussian noise the error is convex in the shares, and the shares found carry a certificate. Under Laplace noise it
is not, and the best of several searches is taken. Up to 15 attributes every marginal is a candidate; beyond, those
within a term of the workload and the unions of a few terms are.

Reference: [HDMM, sec. 3.5].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hush.errors import SizeError
from hush.linops import Identity
from hush.solution import SOLVED, Solution
from hush.strategies.draft import Draft, PartDraft, Recovery
from hush.strategies.marginal_search import Support, fit_shares, search_support
from hush.strategies.marginal_system import AllSets, MarginalSystem, SomeSets, acts
from hush.strategies.noise_kind import NoiseKind
from hush.strategies.term_grams import TermGrams

Floats = np.ndarray[Any, np.dtype[np.float64]]

MOST_ATTRIBUTES = 15  # with all their marginals as candidates
SEED = 2018  # public: it places the starts of the search, and is no part of any noise
_NEGLIGIBLE = 1e-9
_LARGEST_ACT = 1 << 22
_LARGEST_PAIRS = 1 << 22  # candidates and the sets within them, together
_GAP = 1e-3
_TRIAL = 20  # a start is followed for 1 / _TRIAL of the rounds; the best _FINALS of them go on
_FINALS = 1
_FEW = 64  # candidates up to which every start, and more of them, is followed to its end
_RETURNS = 20  # times that marginals whose share fell to nothing too early are brought back


def opt_marginals(
    grams: TermGrams,
    noise: NoiseKind,
    *,
    cells: float = math.inf,
    starts: Sequence[Sequence[tuple[str, ...]]] = (),
    restarts: int = 4,
    rounds: int = 200,
    seed: int = SEED,
) -> Solution[Draft]:
    """The best marginals found; none has more than `cells` cells unless a term asks about that many attributes.

    Further `starts` for the search under Laplace noise are lists of marginals. `stats` has `value` and, under Gaussian
    noise, `lower_bound` over the candidates and `gap`.

    >>> from hush.domain import Domain
    >>> from hush.workloads import Workload
    >>> grams = TermGrams.of(Workload.kway(Domain({"a": 2, "b": 5, "c": 50, "d": 100}), 2))
    >>> round(opt_marginals(grams, NoiseKind.LAPLACE).value.error)
    62886
    """
    widest = (grams.index != 0).sum(axis=1)
    if (2.0**widest).sum() > _LARGEST_ACT:
        raise SizeError(
            f"a term over {int(widest.max())} attributes has too many marginals within it; "
            "leave 'marginals' out of the operators"
        )
    sizes = [float(grams.domain.shape[place]) for place in grams.asked]
    act = acts(grams)
    stats: dict[str, float] = {}
    status = SOLVED
    if noise is NoiseKind.GAUSSIAN:
        system, shares = convex_shares(sizes, act, cells)
        lower = system.lower_bound(shares)
        gap = system.error(shares) / lower - 1
        stats = {"lower_bound": lower, "gap": gap}
        if gap > _GAP:
            status = f"the marginals are within {gap:.2g} of the best; nothing needs to be done unless that matters"
    else:
        system = SomeSets(noise, sizes, act, candidates(sizes, act, cells))
        bit = {grams.domain.attributes[place]: 1 << i for i, place in enumerate(grams.asked)}
        given = [[sum(bit[name] for name in clique) for clique in start] for start in starts]
        shares = searched_shares(system, [maximal(act), *given], restarts, rounds, seed)
    kept = shares > _NEGLIGIBLE
    if system.error(np.where(kept, shares, 0.0)) < np.inf:
        shares = np.where(kept, shares, 0.0) / shares[kept].sum()
    error = system.error(shares)
    parts = [_part(grams, system.sets[k], float(shares[k])) for k in np.flatnonzero(shares).tolist()]
    draft = Draft(grams.domain, tuple(parts), noise, Recovery.MARGINALS, error, "marginals")
    return Solution(value=draft, status=status, stats={"value": error, **stats})


def candidates(sizes: Sequence[float], act: dict[int, float], cells: float = math.inf) -> list[int]:
    """All sets if they are few; else those asked about, then the unions of two of the largest, smallest first."""
    d = len(sizes)
    if d <= MOST_ATTRIBUTES and sum(2.0 ** (d - a.bit_count()) for a in act) <= _LARGEST_PAIRS:
        found = list(range(1 << d))
    else:
        found = list(act)
        room = _LARGEST_PAIRS - sum(2.0 ** a.bit_count() for a in found)
        tops = maximal(act)
        pairs = itertools.islice(itertools.combinations(tops, 2), _LARGEST_PAIRS // 4)
        unions = sorted({a | b for a, b in pairs} - act.keys(), key=lambda b: (_cells(sizes, b), b))
        for union in unions:
            room -= min(2.0 ** union.bit_count(), len(act))
            if room < 0:
                break
            found.append(union)
    return [b for b in found if _cells(sizes, b) <= cells or b in act]


def maximal(act: Iterable[int]) -> list[int]:
    """Sets asked about that are within no other."""
    inside: set[int] = set()
    for a in act:
        left = a
        while left:
            bit = left & -left
            inside.add(a ^ bit)
            left ^= bit
    return [a for a in act if a not in inside]


def convex_shares(sizes: Sequence[float], act: dict[int, float], cells: float) -> tuple[MarginalSystem, Floats]:
    """The certified shares under Gaussian noise, from the closed form where there is one."""
    system: MarginalSystem
    if len(sizes) <= MOST_ATTRIBUTES and cells == math.inf:
        dense = np.zeros(1 << len(sizes))
        dense[list(act)] = list(act.values())
        system = AllSets(NoiseKind.GAUSSIAN, sizes, dense)
        start = 0.999 * system.closed_form() + 0.001 / len(dense)
    else:
        system = SomeSets(NoiseKind.GAUSSIAN, sizes, act, candidates(sizes, act, cells))
        start = np.full(len(system.sets), 1 / len(system.sets))
        for _ in range(10):
            start = system.stepped(start)
    shares = fit_shares(system, start, iterations=200)
    for _ in range(_RETURNS):
        excess = system.excess(shares)
        if excess.max() <= _GAP / 10:
            break
        lacking = np.where(excess > _GAP / 10, excess, 0.0)
        active = np.flatnonzero((shares > _NEGLIGIBLE) | (lacking > 0))
        few = SomeSets(NoiseKind.GAUSSIAN, sizes, act, [system.sets[k] for k in active.tolist()])
        again = np.zeros_like(shares)
        again[active] = fit_shares(few, 0.99 * shares[active] + 0.01 * (lacking / lacking.sum())[active])
        if not system.error(again) < system.error(shares):
            break
        shares = again
    return system, shares


def searched_shares(system: SomeSets, given: Sequence[Sequence[int]], restarts: int, rounds: int, seed: int) -> Floats:
    """The best support of several searches under Laplace noise; the first start given supports the workload."""
    random = np.random.Generator(np.random.PCG64(seed))
    place = {b: k for k, b in enumerate(system.sets)}
    n = len(system.sets)
    starts: list[Support] = [{place[b]: 1.0 for b in own if b in place} for own in given]
    for k in range(restarts if n > _FEW else 3 * restarts):
        spread = np.full(n, 1.0) if k == 0 else np.exp(random.normal(0.0, 3.0, n))
        shares = fit_shares(system, spread, iterations=200)
        order = np.argsort(-shares, kind="stable")
        starts.append({int(b): float(shares[b]) for b in order[:200].tolist() if shares[b] > 1e-6})
    trials = []
    for start in starts:
        if system.only(list(start)).error(np.ones(len(start))) == np.inf:
            start = {**start, **{place[b]: 1e-3 for b in given[0]}}
        trials.append(search_support(system, start, rounds=-(-rounds // _TRIAL)))
    finals = sorted(trials, key=lambda trial: trial[0])[: _FINALS if n > _FEW else len(trials)]
    _, support = min((search_support(system, own, rounds=rounds) for _, own in finals), key=lambda found: found[0])
    shares = np.zeros(n)
    shares[list(support)] = list(support.values())
    return shares


def _part(grams: TermGrams, number: int, share: float) -> PartDraft:
    places = [place for i, place in enumerate(grams.asked) if number >> i & 1]
    names = [grams.domain.attributes[place] for place in places]
    return PartDraft(tuple((name,) for name in names), tuple(Identity(grams.domain[name]) for name in names), share)


def _cells(sizes: Sequence[float], number: int) -> float:
    return math.prod(size for i, size in enumerate(sizes) if number >> i & 1)
