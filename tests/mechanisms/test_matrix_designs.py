"""Designs of the matrix mechanism: weighted eigenvectors, wavelets and Fourier rows, as settings of a plan."""

from pathlib import Path

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Workload, queries
from hush.core.errors import SizeError, WorkloadError
from hush.linops import AllRange
from hush.mechanisms import Matrix
from hush.mechanisms.plan import Plan

RANGES = Workload.product(Domain({"x": 64}), {"x": queries.ranges})
GAUSSIAN, LAPLACE = Budget(rho=0.5), Budget(epsilon=2**0.5)  # noise of variance one at sensitivity one


def total(workload: Workload, budget: Budget, **settings: object) -> float:
    """The summed variance of all answers."""
    plan: Plan = hush.plan(workload, budget, mechanism=Matrix(**settings))  # type: ignore[arg-type, assignment]
    return float(plan.rmse or 0.0) ** 2 * workload.queries


@pytest.mark.parametrize(
    ("settings", "budget", "error"),
    [
        # [Li 2013, sec. 5], recomputed; the certified optimum is 11,024.4.
        ({"design": "eigen", "complete": False}, GAUSSIAN, 11752.58),
        ({"design": "eigen"}, GAUSSIAN, 11224.19),
        # [Li 2013, Program 6.4.1] over cells, at the variance of continuous Laplace noise.
        ({"strategy": "greedy-h"}, LAPLACE, 41221.0),
    ],
)
def test_errors_are_those_of_the_document(settings: dict[str, object], budget: Budget, error: float) -> None:
    assert total(RANGES, budget, **settings) == pytest.approx(error, rel=1e-3)


def test_shorter_searches_lose_little_and_completion_never_loses() -> None:
    best = total(RANGES, GAUSSIAN, design="eigen")
    assert best < total(RANGES, GAUSSIAN, design="eigen", group=8) < 1.03 * best
    assert best < total(RANGES, GAUSSIAN, design="eigen", principal=0.25) < 1.1 * best
    for budget, design in ((GAUSSIAN, "wavelet"), (GAUSSIAN, "fourier"), (LAPLACE, "wavelet")):
        plain = total(RANGES, budget, design=design, complete=False)
        assert total(RANGES, budget, design=design) <= plain * (1 + 1e-6)
    for budget in (GAUSSIAN, LAPLACE):
        assert total(RANGES, budget, design="wavelet", complete=False) < total(RANGES, budget, strategy="wavelet")


def test_relative_errors_favour_short_ranges() -> None:
    plans = [
        hush.plan(RANGES, GAUSSIAN, mechanism=Matrix(design="eigen", relative=relative)) for relative in (False, True)
    ]
    widths = AllRange(64).dense().sum(axis=1)
    cells, wide = (
        [float(p.query_variances(0).ravel()[mask].mean()) for p in plans] for mask in (widths == 1, widths > 48)
    )
    assert cells[1] < cells[0]
    assert wide[1] > wide[0]


def test_designs_of_several_columns_answer_their_workload() -> None:
    domain = Domain({"a": 4, "b": 8, "c": 2})
    marginals = Workload.kway(domain, 2)
    least = hush.plan(marginals, GAUSSIAN, mechanism="residual").rmse
    for design in ("eigen", "fourier"):  # both are optimal for marginals
        plan = hush.plan(marginals, GAUSSIAN, mechanism=Matrix(design=design))
        assert plan.rmse == pytest.approx(least, rel=1e-3)
    wavelet = hush.plan(marginals, GAUSSIAN, mechanism=Matrix(design="wavelet"))
    assert wavelet.rmse == pytest.approx(least, rel=0.2)


def test_settings_are_stored_with_the_plan(tmp_path: Path) -> None:
    plan = hush.plan(RANGES, GAUSSIAN, mechanism=Matrix(design="eigen", group=4, complete=False))
    plan.save(tmp_path / "plan.hush")
    assert hush.load(tmp_path / "plan.hush").settings == plan.settings
    assert np.isfinite(plan.rmse)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"design": "eigne"}, "did you mean 'eigen'"),
        ({"design": "eigen", "strategy": "wavelet"}, "leave out strategy"),
        ({"design": "eigen", "loss": "maxvar"}, "leave out strategy and loss"),
        ({"design": "fourier", "group": 4}, "design='eigen'"),
        ({"principal": 0.5}, "design='eigen'"),
        ({"design": "eigen", "group": 4, "principal": 0.5}, "one of them"),
        ({"design": "eigen", "group": -1}, "group=-1"),
        ({"design": "eigen", "principal": 0.0}, "principal=0.0"),
        ({"design": "eigen", "complete": 1}, "complete=1"),
        ({"relative": True}, "are for designs"),
        ({"complete": False}, "are for designs"),
        ({"design": "eigen", "group": 4, "noise": "laplace"}, "Gaussian noise"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, object], message: str) -> None:
    budget = LAPLACE if settings.get("noise") == "laplace" else GAUSSIAN
    with pytest.raises(WorkloadError, match=message):
        hush.plan(RANGES, budget, mechanism=Matrix(**settings))  # type: ignore[arg-type]


def test_queries_known_by_their_squared_error_alone_have_no_relative_design() -> None:
    workload = Workload.product(Domain({"x": 8}), {"x": queries.all_predicates})
    with pytest.raises(SizeError, match="one by one"):
        hush.plan(workload, GAUSSIAN, mechanism=Matrix(design="eigen", relative=True))
