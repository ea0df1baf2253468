"""Data cubes beside every possible choice of tables, and beside the optimum."""

import itertools
import math

import pytest

import hush
from hush.core.domain import Clique, Domain
from hush.core.errors import WorkloadError
from hush.research import data_cubes

DOMAIN = Domain({"a": 2, "b": 3, "c": 5})


def largest(domain: Domain, asked: list[Clique], chosen: tuple[Clique, ...], power: int) -> float:
    """The largest variance of an asked count if these tables have equal shares; infinite without an answer."""
    sums = [[domain.size(s) // domain.size(t) for s in chosen if set(t) <= set(s)] for t in asked]
    return len(chosen) ** power * max(min(each, default=math.inf) for each in sums)


@pytest.mark.parametrize(("noise", "power"), [("gaussian", 1), ("laplace", 2)])
@pytest.mark.parametrize("workload", [hush.Workload.upto(DOMAIN, 2), hush.Workload.kway(DOMAIN, 1)])
def test_the_choice_is_nearly_the_best_of_all(workload: hush.Workload, noise: str, power: int) -> None:
    asked = list(workload.cliques)
    tables = [t for size in range(4) for t in itertools.combinations(DOMAIN.attributes, size)]
    best = min(
        largest(DOMAIN, asked, chosen, power)
        for count in range(1, len(tables) + 1)
        for chosen in itertools.combinations(tables, count)
    )
    found = data_cubes(workload, noise)
    assert found.largest_error == largest(DOMAIN, asked, found.cliques, power)
    assert best <= found.largest_error <= 1.5 * best


def test_the_least_largest_error_of_all_marginals_is_below() -> None:
    asked = hush.Workload.upto(DOMAIN, 2)
    plan = hush.plan(asked, hush.Budget(rho=0.5), mechanism="residual", loss="maxvar")
    assert plan.max_variance is not None
    assert 1 < plan.max_variance < data_cubes(asked).largest_error


def test_wide_tables_are_refused() -> None:
    wide = Domain({str(i): 2 for i in range(14)})
    with pytest.raises(WorkloadError, match="ask for tables of fewer columns"):
        data_cubes(hush.Workload.marginals(wide, [wide.attributes]))


def test_questions_other_than_tables_are_refused() -> None:
    ranges = hush.Workload.product(DOMAIN, {"c": hush.queries.ranges})
    for workload in (ranges, hush.Workload.thresholds(DOMAIN, 3, 2)):
        with pytest.raises(WorkloadError, match="answer tables cell by cell"):
            data_cubes(workload)
