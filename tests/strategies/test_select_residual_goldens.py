"""Every number of the document's tables and worked examples, recomputed to six digits; pcost = 1, so rho = 1/2."""

import math

import numpy as np
import pytest

import hush
from hush.core.domain import Domain
from hush.strategies.residual_strategy import ResidualStrategy
from hush.strategies.select_residual import select_residual
from hush.workloads import Workload

CPS = (100, 50, 7, 4, 2)
ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
LOANS = (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)

# sizes, workload, marginals, closure, cells, RMSE, smallest largest variance, largest variance of the RMSE plan
TABLE = [
    (CPS, "1", 5, 6, 163, 1.743945, 4.346419, 13.6662),
    (CPS, "2", 10, 16, 7000, 2.034586, 7.897033, 53.0336),
    (CPS, "3", 10, 26, 72556, 2.047661, 7.705844, 70.7695),
    (CPS, "4", 5, 31, 258400, 1.626929, 4.140596, 15.3498),
    (CPS, "5", 1, 32, 280000, 1.000000, 1.000000, 1.0000),
    (CPS, "<=3", 26, 26, 79720, 2.275873, 13.215573, 432.5456),
    (CPS, "small", 24, 24, 17520, 2.525085, 11.774397, 224.9706),
    (ADULT, "1", 14, 15, 588, 3.046823, 12.046539, 39.7917),
    (ADULT, "2", 91, 106, 148137, 6.358720, 67.802126, 812.8144),
    (ADULT, "3", 364, 470, 20894536, 10.515270, 236.842807, 6904.7404),
    (ADULT, "4", 1001, 1471, 1812647259, 14.655760, 575.213468, 36628.7658),
    (ADULT, "5", 2002, 3473, 100439686524, 17.843621, 1030.948136, 129782.0684),
    (ADULT, "<=3", 470, 470, 21043262, 10.665008, 253.605156, 22488.1145),
    (ADULT, "small", 379, 379, 551626, 9.944604, 126.902412, 3357.4263),
    (LOANS, "1", 12, 13, 532, 2.875299, 10.639775, 32.1741),
    (LOANS, "2", 66, 79, 118974, 5.634288, 52.216936, 428.8644),
    (LOANS, "3", 220, 299, 14539522, 8.701935, 156.638060, 3150.7811),
    (LOANS, "4", 495, 794, 1059394960, 11.267030, 320.777753, 14393.2633),
    (LOANS, "5", 792, 1586, 47372135682, 12.678345, 474.242900, 40489.1753),
    (LOANS, "<=3", 299, 299, 14659029, 8.875639, 180.817119, 19548.0140),
    (LOANS, "small", 188, 188, 279751, 8.206484, 89.872701, 2492.1516),
]

# levels, attributes, RMSE, smallest largest variance, for all marginals of at most 3 attributes
SYNTH = [
    (2, 5, 1.890155, 4.148148),
    (4, 5, 2.680828, 9.760000),
    (8, 5, 3.155964, 15.643347),
    (16, 5, 3.366283, 20.066762),
    (32, 5, 3.422542, 22.811364),
    (64, 5, 3.407257, 24.345271),
    (128, 5, 3.366598, 25.156864),
    (256, 5, 3.322394, 25.574402),
    (512, 5, 3.283315, 25.786182),
    (1024, 5, 3.251762, 25.892835),
    (10, 2, 1.379084, 3.305785),
    (10, 4, 2.345538, 10.480090),
    (10, 6, 4.275167, 26.904583),
    (10, 8, 6.638166, 56.960932),
    (10, 10, 9.348111, 105.030804),
    (10, 12, 12.359598, 175.495868),
    (10, 14, 15.642320, 272.737791),
    (10, 15, 17.378185, 332.769346),
    (10, 20, 26.916839, 768.941397),
    (10, 30, 49.713185, 2540.440270),
    (10, 50, 107.258119, 11597.036814),
    (10, 100, 303.216110, 91960.917355),
    pytest.param(10, 200, 855.330092, 731834.713687, marks=pytest.mark.slow),
]


def domain_of(sizes: tuple[int, ...]) -> Domain:
    return Domain({f"a{i}": size for i, size in enumerate(sizes)})


def workload_of(sizes: tuple[int, ...], name: str) -> Workload:
    domain = domain_of(sizes)
    made = {"<=3": lambda: Workload.upto(domain, 3), "small": lambda: Workload.small(domain, 5000)}
    return made.get(name, lambda: Workload.kway(domain, int(name)))()


def plan(workload: Workload, loss: str = "rmse", tolerance: float = 1e-9) -> ResidualStrategy:
    return select_residual(workload, rho=0.5, loss=loss, tolerance=tolerance).checked()


@pytest.mark.parametrize(("sizes", "name", "count", "closure", "cells", "rmse", "largest", "largest_of_rmse"), TABLE)
def test_real_domains(
    sizes: tuple[int, ...], name: str, count: int, closure: int, cells: int, rmse: float, largest: float,
    largest_of_rmse: float,
) -> None:  # fmt: skip
    workload = workload_of(sizes, name)
    best = plan(workload)
    assert (len(workload), len(best.closure), workload.queries) == (count, closure, cells)
    assert best.rmse(workload) == pytest.approx(rmse, abs=6e-7)
    assert best.max_variance(workload) == pytest.approx(largest_of_rmse, abs=6e-5)
    assert best.lower_bound(workload) == pytest.approx(best.rmse(workload) ** 2 * cells, rel=1e-9)  # the SVD bound
    assert plan(workload, "maxvar").max_variance(workload) == pytest.approx(largest, rel=2e-9, abs=6e-7)


@pytest.mark.parametrize(
    ("sizes", "rmse", "largest"),
    [(ADULT, 17.844, 1030.948), (LOANS, 12.678, 474.243)],
    ids=["adult", "loans"],
)
def test_five_way_tables_are_planned_although_they_cannot_be_measured(
    sizes: tuple[int, ...], rmse: float, largest: float
) -> None:
    workload = workload_of(sizes, "5")
    planned = hush.plan(workload, hush.Budget(rho=0.5), mechanism="residual")
    even = hush.plan(workload, hush.Budget(rho=0.5), mechanism="residual", loss="maxvar")
    assert planned.rmse == pytest.approx(rmse, abs=6e-4)  # as printed, [ResidualPlanner, Tables 16 and 18]
    assert even.max_variance == pytest.approx(largest, rel=1e-4)


@pytest.mark.parametrize(("levels", "attributes", "rmse", "largest"), SYNTH)
def test_synthetic_domains(levels: int, attributes: int, rmse: float, largest: float) -> None:
    workload = Workload.upto(domain_of((levels,) * attributes), min(3, attributes))
    total = select_residual(workload, rho=0.5).stats["value"]
    assert math.sqrt(total / workload.queries) == pytest.approx(rmse, abs=6e-7)
    tolerance = 1e-9 if attributes <= 50 else 1e-7
    found = select_residual(workload, rho=0.5, loss="maxvar", tolerance=tolerance)
    assert found.solved
    assert found.stats["value"] == pytest.approx(largest, rel=2e-7)


def test_the_worked_example_of_appendix_b() -> None:
    domain = Domain({"1": 2, "2": 2, "3": 3})
    workload = Workload.marginals(domain, [("1",), ("1", "2"), ("2", "3")])
    best = plan(workload)
    assert best.closure.cliques == ((), ("1",), ("2",), ("3",), ("1", "2"), ("2", "3"))
    np.testing.assert_allclose(best.privacy, [1, 1 / 2, 1 / 2, 2 / 3, 1 / 4, 1 / 3])
    np.testing.assert_allclose(best.sigma_squared, [4.8066, 2.6569, 3.5646, 3.7575, 2.3010, 1.8787], atol=5e-5)
    assert best.rmse(workload) ** 2 * workload.queries == pytest.approx(21.177878, abs=1e-6)
    s0, s1, s2, s3, s12, s23 = best.sigma_squared
    assert best.variance(("1",)) == pytest.approx(s0 / 4 + s1 / 2)
    assert best.variance(("1", "2")) == pytest.approx(s0 / 16 + s1 / 8 + s2 / 8 + s12 / 4)
    assert best.variance(("2", "3")) == pytest.approx(s0 / 36 + s2 / 18 + s3 / 6 + s23 / 3)


def test_example_c1() -> None:
    domain = domain_of((3,) * 5)
    best = plan(Workload.upto(domain, 5), "maxvar")
    by_order = [7.59375, 10.125, 13.5, 18, 24, 32]
    np.testing.assert_allclose(best.sigma_squared, [by_order[len(c)] for c in best.closure], rtol=1e-6)
    np.testing.assert_allclose([best.variance(c) for c in best.closure], 1.5**5, rtol=1e-8)


def test_example_c2() -> None:
    domain = domain_of((3,) * 5)
    cliques = Workload.upto(domain, 5).cliques
    workload = Workload.marginals(domain, cliques, [3.0 if len(clique) == 5 else 1.0 for clique in cliques])
    best = plan(workload, "maxvar")
    by_order = [8.154, 10.871, 14.495, 19.327, 12.477, 4.159]
    np.testing.assert_allclose(best.sigma_squared, [by_order[len(c)] for c in best.closure], atol=2e-3)
    variances = {k: best.variance(tuple(f"a{i}" for i in range(k))) for k in range(6)}
    assert variances[5] == pytest.approx(2.718, abs=6e-4)
    assert variances[4] == pytest.approx(5.528, abs=6e-4)
    assert [variances[k] for k in range(4)] == pytest.approx([8.154] * 4, abs=6e-4)
    assert best.max_variance(workload) == pytest.approx(3 * variances[5], rel=1e-6)


@pytest.mark.parametrize("sizes", [CPS, (2, 3, 4, 5), (7, 2)])
def test_closed_form_of_the_largest_variance_on_a_full_power_set(sizes: tuple[int, ...]) -> None:
    workload = Workload.upto(domain_of(sizes), len(sizes))
    wanted = math.prod(2 * size / (size + 1) for size in sizes)
    assert plan(workload, "maxvar").max_variance(workload) == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize(
    ("attributes", "rmse"), [(8, 6.7259), (10, 9.6288), (12, 12.9042), (14, 16.5064), (15, 18.4201)]
)
def test_measuring_only_three_way_marginals_is_worse_by_what_the_document_says(attributes: int, rmse: float) -> None:
    """Equal noise on every 3-way marginal, as a residual strategy: 1 / sigma^2_A = sum_{B > A} 1 / (tau^2 prod l)."""
    domain = domain_of((10,) * attributes)
    workload = Workload.upto(domain, 3)
    best = plan(workload)
    supersets = np.array([math.comb(attributes - len(c), 3 - len(c)) / 10 ** (3 - len(c)) for c in best.closure])
    sigma_squared = math.comb(attributes, 3) / supersets
    other = ResidualStrategy(domain, best.bases, best.closure, sigma_squared, best.rho)
    assert other.pcost == pytest.approx(1)
    assert other.rmse(workload) == pytest.approx(rmse, abs=6e-5)
    assert other.max_variance(workload) == pytest.approx(1000)
    assert best.rmse(workload) < other.rmse(workload)
