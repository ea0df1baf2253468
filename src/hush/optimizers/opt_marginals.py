"""OPT_M: the marginals to measure, and with what share of the budget, for any union of products.

Under Gaussian noise the error is convex in the shares, and the shares found are certified. Under Laplace noise it is
not convex: a small share costs privacy in proportion to the share but helps in proportion to its square, so a marginal
with share zero stays at zero, and every support has its own local optimum. The search fits the shares of a support,
then tries to add a marginal, drop one, add or drop one attribute of a marginal, or replace two marginals by their
union, and keeps what lowers the error; the best of several searches is taken. Up to 15 attributes every marginal is a
candidate; beyond that, the marginals within a term of the workload and the unions of a few terms are.

`opt_bases` measures marginals of designed strategies: product b is the kron of Q_i over i in b and of totals over the
others. With X = Q^T Q of full rank, the matrix X^{-1/2} 1 1^T X^{-1/2} has one eigenvalue besides zero,
lambda = 1^T X^{-1} 1, so all products are diagonal in one basis, as plain marginals are, and OPT_M holds for global
least squares with lambda_i in place of n_i,

    mean = 1^T X^{-1} V X^{-1} 1 / lambda   and   spread = tr X^{-1} V - mean.

Plain marginals are Q = I: lambda = n, mean = 1^T V 1 / n.

Reference: [HDMM, sec. 3.5] for the problem and random starts; the search is ours.
Differs from [HDMM, sec. 3.5], where Q_i is the identity: prefix sums and ranges keep strategies of their own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import scipy

from hush.core.arrays import Floats
from hush.core.errors import SizeError
from hush.core.solution import SOLVED, Solution
from hush.linops import Identity, LinearOperator
from hush.optimizers.marginal_system import AllSets, MarginalSystem, SomeSets, acts, summed_acts
from hush.optimizers.p_identity import SEARCH_SEED
from hush.optimizers.strategy_pool import LEVELS, LevelsAndTotalPool, StrategyPool, strategy_pools
from hush.strategies.product_strategy import FloatProduct, FloatStrategy, Recovery
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams

Support = dict[int, float]  # positions of candidates and their shares
Change = dict[int, float]  # positions of candidates and their new shares, zero for those that go

DROPPED_SHARE = 1e-4  # a fit drops smaller shares if that does not hurt
ADDED_SHARES = (0.01, 0.03, 0.1, 0.3)  # shares that a new marginal is tried with
CHANGES_TRIED = 12  # single changes tried in each round, after all changes that help together
TRIAL_ITERATIONS = 15  # of a fit that decides whether a change is kept
LEAST_IMPROVEMENT = 1e-6  # relative
LARGEST_SUPPORT = 1000  # marginals beyond which the search ends
FEW_MARGINALS = 60  # up to this many, any two are tried as one; beyond, only those that differ by one attribute


def fit_shares(system: MarginalSystem, start: Floats, *, iterations: int = 300) -> Floats:
    """The shares with the smallest error found from a start; they add up to one."""
    floor = np.maximum(start / start.sum(), 1e-12)
    options = {"maxiter": iterations, "ftol": 1e-12, "gtol": 1e-9, "maxcor": 20}
    fit = scipy.optimize.minimize(system.log_error, np.log(floor), jac=True, method="L-BFGS-B", options=options)
    c = np.exp(fit.x - fit.x.max())
    return np.asarray(c / c.sum())


def search_support(system: SomeSets, start: Support, *, rounds: int) -> tuple[float, Support]:
    """The best support reached from `start` by single changes."""
    value, support = _fitted(system, start)
    for _ in range(rounds):
        if len(support) > LARGEST_SUPPORT:
            break
        changes = sorted(_changes(system, support), key=lambda change: change[0])
        trials = [_together(system, support, value, changes), *(change for _, change in changes[:CHANGES_TRIED])]
        for change in trials:
            changed = {k: share for k, share in {**support, **change}.items() if share > 0}
            if not change or system.only(list(changed)).error(np.array(list(changed.values()))) == np.inf:
                continue
            trial, fitted = _fitted(system, changed, iterations=TRIAL_ITERATIONS)
            if trial < value * (1 - LEAST_IMPROVEMENT):
                value, support = trial, fitted
                break
        else:
            break
    return _fitted(system, support)


def _together(system: SomeSets, support: Support, value: float, changes: Sequence[tuple[float, Change]]) -> Change:
    """The changes that lower the error even without a new fit, applied one after the other."""
    changed: Change = {}
    now = dict(support)
    for predicted, change in changes:
        if not predicted < value:
            break
        if changed.keys() & change.keys():
            continue
        u = np.zeros(len(system.sets))
        trial = {**now, **change}
        u[list(trial)] = np.array(list(trial.values()))
        if (error := system.error(u)) < value:
            value, now, changed = error, trial, {**changed, **change}
    return changed


def _fitted(system: SomeSets, support: Support, *, iterations: int = 300) -> tuple[float, Support]:
    """Shares fitted on a support, without marginals that do not help."""
    members = list(support)
    subsystem = system.only(members)
    c = fit_shares(subsystem, np.array([support[k] for k in members]), iterations=iterations)
    value = subsystem.error(c)
    large = c > DROPPED_SHARE
    if not large.all() and subsystem.error(np.where(large, c, 0.0)) < np.inf:
        smaller = subsystem.only(np.flatnonzero(large).tolist())
        fewer = fit_shares(smaller, c[large], iterations=iterations)
        if smaller.error(fewer) <= value * (1 + 1e-9):
            return smaller.error(fewer), {
                k: float(v) for k, v in zip(np.array(members)[large].tolist(), fewer, strict=True)
            }
    return value, {k: float(v) for k, v in zip(members, c.tolist(), strict=True)}


def _changes(system: SomeSets, support: Support) -> Iterator[tuple[float, Change]]:
    """Changes of a support, each with the error it leads to before shares are fitted again."""
    position = {b: k for k, b in enumerate(system.sets)}
    u = np.zeros(len(system.sets))
    u[list(support)] = np.array(list(support.values())) ** 2
    q = system.precision(u)
    yield from _additions(system, support, q)
    total = sum(support.values())
    attributes = max(system.sets).bit_length()
    listed = list(support.items())
    for x, (k, share) in enumerate(listed):
        changes: list[Change] = [{k: 0.0}]
        for i in range(attributes):
            other = position.get(system.sets[k] ^ 1 << i)
            if other is not None:
                changes.append({k: 0.0, other: support.get(other, 0.0) + share})
        for j, other_share in listed[:x]:
            both = system.sets[k] | system.sets[j]
            grown = both.bit_count() - max(system.sets[k].bit_count(), system.sets[j].bit_count())
            union = position.get(both) if grown <= 1 or len(support) <= FEW_MARGINALS else None
            if union is not None:
                changes.append({k: 0.0, j: 0.0, union: max(share, other_share)})
                changes.append({k: 0.0, j: 0.0, union: share + other_share})
        for change in changes:
            yield _changed_error(system, support, change, q, total), change


def _changed_error(system: SomeSets, support: Support, change: Change, q: Floats, total: float) -> float:
    """F after a change, from the precisions before it."""
    now = q.copy()
    for k, share in change.items():
        old = support.get(k, 0.0)
        total += share - old
        rows, data = system.column(k)
        now[rows] += data * (share**2 - old**2)
    if now.min() <= 0 or (now <= 1e-12 * q).any():
        return float("inf")
    return float(total**2 * (system.act / now).sum())


def _additions(system: SomeSets, support: Support, q: Floats) -> Iterator[tuple[float, Change]]:
    """The few marginals whose addition lowers the error most, with several shares tried for each candidate."""
    total = sum(support.values())
    m = system.matrix
    columns = np.repeat(np.arange(m.shape[1]), np.diff(m.indptr))
    now = float(np.sum(system.act / q))
    act, old = system.act[m.indices], q[m.indices]
    additions: list[tuple[float, int, float]] = []
    for step in ADDED_SHARES:
        t = step * total
        saved = np.bincount(columns, act / old - act / (old + t**2 * m.data), m.shape[1])
        values = (total + t) ** 2 * (now - saved)
        additions += [(float(values[k]), k, t) for k in np.argsort(values, kind="stable")[:CHANGES_TRIED].tolist()]
    for value, k, t in sorted(additions)[: 2 * CHANGES_TRIED]:
        yield value, {k: support.get(k, 0.0) + t}


MOST_ATTRIBUTES = 15  # with all their marginals as candidates
NEGLIGIBLE_SHARE = 1e-9
LARGEST_ACT = 1 << 22  # sets within terms
LARGEST_PAIRS = 1 << 22  # candidates and the sets within them, together
CERTIFIED_GAP = 1e-3  # to the lower bound under Gaussian noise
TRIAL_DIVISOR = 20  # a start is followed for 1 / TRIAL_DIVISOR of the rounds; the best FINAL_STARTS of them go on
FINAL_STARTS = 1
FEW_CANDIDATES = 64  # up to this many, there are more starts, and each is followed to its end
MOST_RETURNS = 20  # times that marginals are brought back if their share fell to nothing too early


def opt_marginals(
    grams: TermGrams,
    noise: NoiseKind,
    *,
    cells: float = math.inf,
    starts: Sequence[Sequence[tuple[str, ...]]] = (),
    restarts: int = 4,
    rounds: int = 200,
    every: bool = True,
    seed: int = SEARCH_SEED,
) -> Solution[FloatStrategy]:
    """The best marginals found; none has more than `cells` cells unless a term asks about that many attributes.

    Further `starts` for the search under Laplace noise are lists of marginals. `stats` has `value` and, under Gaussian
    noise, `lower_bound` over the candidates and `gap`. Without `every`, the candidates under Laplace noise are the
    marginals within a term and the unions of a few terms, however few attributes there are.

    >>> from hush.core.domain import Domain
    >>> from hush.workloads import Workload
    >>> grams = TermGrams.of(Workload.kway(Domain({"a": 2, "b": 5, "c": 50, "d": 100}), 2))
    >>> round(opt_marginals(grams, NoiseKind.LAPLACE).value.error)
    62886
    """
    widest = (grams.index != 0).sum(axis=1)
    if (2.0**widest).sum() > LARGEST_ACT:
        raise SizeError(
            f"a term over {int(widest.max())} attributes has too many marginals within it; "
            "leave 'marginals' out of the operators"
        )
    # For the search, attributes become bits and cliques numbers.
    sizes = [float(grams.domain.shape[axis]) for axis in grams.asked]
    bit = {grams.domain.attributes[axis]: 1 << i for i, axis in enumerate(grams.asked)}
    given = [[sum(bit[name] for name in clique) for clique in start] for start in starts]
    system, shares = _shares(noise, sizes, acts(grams), cells, given, restarts, rounds, seed, every=every)
    factors = [Identity(grams.domain.shape[axis]) for axis in grams.asked]
    strategy = _float_strategy(grams, system, shares, factors, "marginals")
    # Under Gaussian noise the shares are certified.
    stats, status = {"value": strategy.error}, SOLVED
    if noise is NoiseKind.GAUSSIAN:
        lower = system.lower_bound(shares)
        gap = system.error(shares) / lower - 1
        stats |= {"lower_bound": lower, "gap": gap}
        if gap > CERTIFIED_GAP:
            status = f"the marginals are within {gap:.2g} of the best; this matters only if you need the very best"
    return Solution(value=strategy, status=status, stats=stats)


def _shares(
    noise: NoiseKind,
    sizes: Sequence[float],
    act: dict[int, float],
    cells: float,
    starts: Sequence[Sequence[int]],
    restarts: int,
    rounds: int,
    seed: int,
    *,
    every: bool = True,
) -> tuple[MarginalSystem, Floats]:
    """The candidate marginals and the best shares found for them."""
    if noise is NoiseKind.GAUSSIAN:
        return convex_shares(sizes, act, cells)
    system = SomeSets(noise, sizes, act, candidates(sizes, act, cells, every=every))
    return system, searched_shares(system, [maximal(act), *starts], restarts, rounds, seed)


def _float_strategy(
    grams: TermGrams, system: MarginalSystem, shares: Floats, factors: Sequence[LinearOperator], method: str
) -> FloatStrategy:
    """The marginals with more than a negligible share, with one factor for each asked attribute."""
    large = np.where(shares > NEGLIGIBLE_SHARE, shares, 0.0)
    shares = shares if system.error(large) == np.inf else large / large.sum()
    names = [grams.domain.attributes[axis] for axis in grams.asked]
    products = []
    for k in np.flatnonzero(shares).tolist():
        used = [i for i in range(len(names)) if system.sets[k] >> i & 1]
        groups = tuple((names[i],) for i in used)
        products.append(FloatProduct(groups, tuple(factors[i] for i in used), float(shares[k])))
    return FloatStrategy(grams.domain, tuple(products), system.noise, Recovery.MARGINALS, system.error(shares), method)


def candidates(
    sizes: Sequence[float], act: dict[int, float], cells: float = math.inf, *, every: bool = True
) -> list[int]:
    """All sets if they are few; otherwise the sets asked about, then unions of two maximal ones, smallest first."""
    d = len(sizes)
    if every and d <= MOST_ATTRIBUTES and sum(2.0 ** (d - a.bit_count()) for a in act) <= LARGEST_PAIRS:
        sets = list(range(1 << d))
    else:
        sets = list(act)
        room = LARGEST_PAIRS - sum(2.0 ** a.bit_count() for a in sets)
        tops = maximal(act)
        pairs = itertools.islice(itertools.combinations(tops, 2), LARGEST_PAIRS // 4)
        unions = sorted({a | b for a, b in pairs} - act.keys(), key=lambda b: (_cells(sizes, b), b))
        for union in unions:
            room -= min(2.0 ** union.bit_count(), len(act))
            if room < 0:
                break
            sets.append(union)
    return [b for b in sets if _cells(sizes, b) <= cells or b in act]


def maximal(act: Iterable[int]) -> list[int]:
    """The sets asked about that are contained in no other."""
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
    for _ in range(MOST_RETURNS):
        excess = system.excess(shares)
        if excess.max() <= CERTIFIED_GAP / 10:
            break
        lacking = np.where(excess > CERTIFIED_GAP / 10, excess, 0.0)
        active = np.flatnonzero((shares > NEGLIGIBLE_SHARE) | (lacking > 0))
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
    position = {b: k for k, b in enumerate(system.sets)}
    n = len(system.sets)
    starts: list[Support] = [{position[b]: 1.0 for b in start if b in position} for start in given]
    for k in range(restarts if n > FEW_CANDIDATES else 3 * restarts):
        spread = np.full(n, 1.0) if k == 0 else np.exp(random.normal(0.0, 3.0, n))
        shares = fit_shares(system, spread, iterations=200)
        order = np.argsort(-shares, kind="stable")
        starts.append({int(b): float(shares[b]) for b in order[:200].tolist() if shares[b] > 1e-6})
    trials = []
    for start in starts:
        if system.only(list(start)).error(np.ones(len(start))) == np.inf:
            start = {**start, **{position[b]: 1e-3 for b in given[0]}}
        trials.append(search_support(system, start, rounds=-(-rounds // TRIAL_DIVISOR)))
    finals = sorted(trials, key=lambda trial: trial[0])[: FINAL_STARTS if n > FEW_CANDIDATES else len(trials)]
    _, support = min(
        (search_support(system, support, rounds=rounds) for _, support in finals), key=lambda search: search[0]
    )
    shares = np.zeros(n)
    shares[list(support)] = list(support.values())
    return shares


def _cells(sizes: Sequence[float], number: int) -> float:
    return math.prod(size for i, size in enumerate(sizes) if number >> i & 1)


def opt_bases(
    grams: TermGrams,
    noise: NoiseKind,
    *,
    pools: Sequence[StrategyPool] | None = None,
    cells: float = math.inf,
    restarts: int = 2,
    rounds: int = 200,
    seed: int = SEARCH_SEED,
) -> FloatStrategy:
    """The best marginals of designed strategies found; the error is that of global least squares over all products."""
    pools = strategy_pools(grams, noise, restarts=restarts, seed=seed) if pools is None else pools
    chosen = [_base(pool) for pool in pools]
    numbers = [_numbers(pool, base) for pool, base in zip(pools, chosen, strict=True)]
    roots = [root for root, _, _ in numbers]
    act = summed_acts(grams, [(mean, spread) for _, mean, spread in numbers])
    system, shares = _shares(noise, roots, act, cells, (), restarts, rounds, seed)
    return _float_strategy(grams, system, shares, chosen, "bases")


def _base(pool: StrategyPool) -> LinearOperator:
    """The best full-rank strategy for an attribute's blocks without its total, all blocks weighted equally."""
    if isinstance(pool, LevelsAndTotalPool):
        return pool.operator(LEVELS)
    weights = np.append(0.0, 1 / pool.errors[LEVELS, 1:])
    supporting = np.flatnonzero(np.isfinite(pool.errors).all(axis=1))
    for choice in supporting[np.argsort(pool.errors[supporting] @ weights, kind="stable")].tolist():
        gram = pool.operator(choice).gram_dense()
        if np.linalg.matrix_rank(gram, hermitian=True) == len(gram):
            return pool.operator(choice)
    return pool.operator(LEVELS)


def _numbers(pool: StrategyPool, base: LinearOperator) -> tuple[float, Floats, Floats]:
    """lambda, and the mean and spread of every block, both divided by lambda."""
    grams, axis, n = pool.grams, pool.axis, float(pool.size)
    if isinstance(pool, LevelsAndTotalPool):
        mean = grams.sums(axis) / n**2
        return n, mean, np.maximum(grams.traces(axis) / n - mean, 0)
    inverse = np.linalg.inv(base.gram_dense())
    ones = inverse.sum(axis=0)
    root = float(ones.sum())
    block_grams = [grams.gram(axis, b) for b in range(len(pool.blocks))]
    mean = np.array([ones @ gram @ ones for gram in block_grams]) / root**2
    return root, mean, np.maximum(np.array([np.sum(inverse * gram) for gram in block_grams]) / root - mean, 0)
