"""Whole runs of AIM on small tables: error bounds and intervals hold as often as they say, and not for being idle.

What is counted is one thing a run, so that counts over runs with seeds of their own are binomial: of one table of each
kind, picked at random, whether its bound fails; whether any of the simultaneous bounds does; of one cell, whether its
interval holds it. Bounds that fail in 5 % of runs pass with all but a thousandth of seeds; bounds that fail in 15 % of
runs are found with a chance of 95 % at least, see `test_bounds_that_failed_three_times_as_often_would_be_found`.
"""

import itertools
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy.stats import binom

import hush
from hush import Budget, Domain, Workload
from hush.core.arrays import Floats
from hush.mechanisms import AIM, MST
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.release.error_bounds import BoundTable
from hush.strategies.rare_levels import MergedQuery
from hush.testing import TinyTable

pytestmark = pytest.mark.slow

LEVEL = 0.95
RUNS, ROWS = 55, 300
CASES = [  # sizes, whether each column follows the one before, rho
    ((2, 2, 2, 2), False, 0.06),
    ((2, 3, 4, 6), False, 0.1),
    ((4, 3, 3, 2), True, 0.05),
    ((3, 3, 2, 2), True, 0.3),
]
CUTS = {"supported": 0.4, "unsupported": 0.2, "together": 0.5}  # parts of bounds that are too small


@dataclass
class Seen:
    """What was seen in all runs, one entry a run."""

    supported: list[tuple[float, float]] = field(default_factory=list)  # bound and error of a table
    unsupported: list[tuple[float, float]] = field(default_factory=list)
    together: list[float] = field(default_factory=list)  # the largest error / bound of simultaneous bounds
    cells: list[tuple[bool, bool]] = field(default_factory=list)  # inside intervals of 95 % and 50 %


def codes(sizes: tuple[int, ...], follow: bool, random: np.random.Generator) -> list[tuple[int, ...]]:
    columns = [random.choice(size, ROWS, p=random.dirichlet(np.ones(size))) for size in sizes]
    if follow:
        for before, after in itertools.pairwise(range(len(sizes))):
            columns[after] = np.where(random.random(ROWS) < 0.8, columns[before] % sizes[after], columns[after])
    return [tuple(map(int, row)) for row in zip(*columns, strict=True)]


def errors(table: TinyTable, release: hush.Release, bounds: BoundTable) -> list[float]:
    cliques = [bound.clique for bound in bounds]
    true, fitted = table.counts(cliques), release.model().tables(cliques)
    return [float(np.abs(true[clique] - fitted[clique]).sum()) for clique in cliques]


def seen() -> Seen:
    seen_so_far = Seen()
    for case, (sizes, follow, rho) in enumerate(CASES):
        domain = Domain({f"c{index}": size for index, size in enumerate(sizes)})
        plan = AIM(rounds=8).plan(Workload.kway(domain, 3), Budget(rho=rho))
        for run in range(RUNS):
            random = np.random.Generator(np.random.PCG64([case, run]))
            table = TinyTable(domain, codes(sizes, follow, random))
            watch(seen_so_far, table, plan.release(table, entropy=NotPrivateEntropy(1000 * case + run)), random)
    return seen_so_far


def watch(seen_so_far: Seen, table: TinyTable, release: hush.Release, random: np.random.Generator) -> None:
    bounds = release.error_bounds(level=LEVEL)
    true_errors = errors(table, release, bounds)
    for kind, pairs in (("supported", seen_so_far.supported), ("unsupported", seen_so_far.unsupported)):
        indices = [index for index, bound in enumerate(bounds) if bound.kind == kind]
        if indices:
            index = int(random.choice(indices))
            pairs.append((bounds[index].bound, true_errors[index]))
    together = release.error_bounds(level=LEVEL, simultaneous=True)
    known = [error / bound.bound for error, bound in zip(true_errors, together, strict=True) if bound.kind != "none"]
    seen_so_far.together.append(max(known))
    clique = bounds[int(random.choice([p for p, bound in enumerate(bounds) if bound.kind == "supported"]))].clique
    true = table.counts([clique])[clique].ravel()
    cell = int(random.integers(true.size))
    answers = [release.marginal(*clique, level=level) for level in (LEVEL, 0.5)]
    seen_so_far.cells.append(tuple(bool(answer.lower[cell] <= true[cell] <= answer.upper[cell]) for answer in answers))  # type: ignore[arg-type]


def most(runs: int, chance: float) -> int:
    """As many failures, each of the given chance, as are exceeded for one seed in a thousand."""
    return int(binom.isf(1e-3, runs, chance))


def check_bounds(ratios: Floats, cut: float) -> None:
    """Error / bound of every run: above 1 as rarely as said, and too often for a bound cut to a part of itself."""
    assert (ratios > 1).sum() <= most(len(ratios), 1 - LEVEL)
    assert (ratios > cut).sum() > most(len(ratios), 1 - LEVEL)


def check_intervals(inside: Floats) -> None:
    """Of 95 % and of 50 %; tables that noise has led astray are measured again, so that some more are inside."""
    for held, level in zip(inside.T, (LEVEL, 0.5), strict=True):
        assert (~held).sum() <= most(len(held), 1 - level)
    assert inside[:, 1].mean() < 0.7 < inside[:, 0].mean() < 1


def test_bounds_and_intervals_hold_as_often_as_they_say() -> None:
    checks = seen()  # for all checks at once: tests may be spread over processes
    assert len(checks.together) == len(checks.supported) == len(checks.cells) == RUNS * len(CASES) >= 200
    assert len(checks.unsupported) >= 200
    for kind in ("supported", "unsupported"):
        bound, error = np.array(getattr(checks, kind)).T
        check_bounds(error / bound, CUTS[kind])
    check_bounds(np.array(checks.together), CUTS["together"])
    check_intervals(np.array(checks.cells))


def test_bounds_that_failed_three_times_as_often_would_be_found() -> None:
    assert binom.sf(most(200, 1 - LEVEL), 200, 3 * (1 - LEVEL)) > 0.95


@pytest.mark.parametrize("mechanism", [AIM(merge_rare=True, rounds=6), MST(merge_rare=True)])
def test_bounds_hold_where_the_chosen_table_has_merged_levels(mechanism: AIM | MST) -> None:
    domain = Domain({"rare": 300, "b": 8, "c": 8, "d": 8})
    random = np.random.Generator(np.random.PCG64(0))
    first = np.where(random.random(3000) < 0.7, random.integers(0, 2, 3000), random.integers(2, 300, 3000))
    second = np.where(random.random(3000) < 0.9, (first >= 2) * 4 + (first == 0) * 2, random.integers(0, 8, 3000))
    third = random.integers(0, 8, 3000)
    fourth = np.where(random.random(3000) < 0.95, third, random.integers(0, 8, 3000))
    table = TinyTable(domain, np.stack([first, second, third, fourth], 1).tolist())
    plan, failed, looked_at, smaller = mechanism.plan(Workload.kway(domain, 2), Budget(rho=0.5)), 0, 0, 0
    for seed in range(10):
        release = plan.release(table, entropy=NotPrivateEntropy(seed))
        bounds = release.error_bounds(level=LEVEL)
        of_rounds = {
            played.clique
            for played, noisy in zip(release.rounds, release.noisy_tables[-len(release.rounds) :], strict=True)
            if isinstance(noisy.asked, MergedQuery)
        }
        smaller += bool(of_rounds)
        for bound, error in zip(bounds, errors(table, release, bounds), strict=True):
            if bound.kind == "unsupported":
                looked_at += 1
                failed += error > bound.bound
    assert looked_at >= 8
    assert smaller >= 5
    assert failed <= most(looked_at, 1 - LEVEL)
