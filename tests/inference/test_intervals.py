"""Intervals of ratios, and the coverage of every kind of interval by simulation."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hush import Budget, Domain, Workload, plan
from hush.core.errors import QueryError
from hush.inference.intervals import ErrorMargins, FixedIntervals, NoiseIntervals, RatioIntervals, ratio_range
from hush.mechanisms import (
    AIM,
    DAWA,
    GEM,
    HDMM,
    MST,
    MWEM,
    RAP,
    SWIFT,
    Direct,
    DualQuery,
    Gaussian,
    Independent,
    Matrix,
    PrivBayes,
    PrivMRF,
    PrivSyn,
    Residual,
    Scout,
)
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.registry import BUILT_IN
from hush.testing import TinyTable

numbers = st.floats(-50, 50)


@example(2e-15, -1.0, -1.0, 0.0, 1.0)
@example(1.1390888232654144e-13, 1.0, -1.0, -1.0, 1.0)
@given(numbers, numbers, numbers, st.floats(-9, 0), st.floats(0.01, 9))
def test_the_range_of_a_ratio_holds_all_that_the_quadratic_allows(
    a: float, b: float, c: float, lowest: float, width: float
) -> None:
    """Against a fine grid of ratios; the range may hold more, never less."""
    with np.errstate(all="ignore"):
        lower, upper = (float(end[0]) for end in ratio_range(*map(np.atleast_1d, (a, b, c, lowest, lowest + width))))
    grid = np.linspace(lowest, lowest + width, 2001)
    allowed = grid[a * grid**2 - 2 * b * grid + c <= -1e-7]
    assert lowest - 1e-9 <= lower <= upper <= lowest + width + 1e-9
    if len(allowed):
        assert lower <= allowed[0] + 1e-6
        assert upper >= allowed[-1] - 1e-6


def ratio(a: float, b: float, lowest: float = 0.0, highest: float = 1.0, **options: float) -> RatioIntervals:
    one = ErrorMargins(np.ones(1), np.zeros(1))
    return RatioIntervals(
        NoiseIntervals(np.array([a]), one),
        NoiseIntervals(np.array([b]), one),
        one,
        np.zeros(1),
        np.array([lowest]),
        np.array([highest]),
        **options,
    )


def test_a_ratio_far_from_zero_has_the_interval_of_the_delta_method() -> None:
    lower, upper = ratio(500.0, 1000.0).at(0.95)
    assert (upper - lower)[0] / 2 == pytest.approx(1.96 * np.sqrt(1 + 0.25) / 1000, rel=1e-3)
    lower, upper = ratio(500.0, 1000.0, weight=-100.0, offset=3.0).at(0.95)
    assert lower[0] < 3 - 50 < upper[0]


def test_a_ratio_of_nothing_has_its_whole_range_and_none_without_one() -> None:
    assert [end.tolist() for end in ratio(0.5, 0.3).at(0.95)] == [[0.0], [1.0]]
    assert np.isnan(ratio(0.5, 0.3, -np.inf, np.inf).at(0.95)).all()
    assert np.isfinite(ratio(0.5, 30.0, -np.inf, np.inf).at(0.95)).all()


def test_fixed_intervals_hold_at_their_level() -> None:
    fixed = FixedIntervals(np.array([1.0]), np.array([2.0]), 0.9)
    assert fixed.at(0.9)[0].tolist() == [1.0]
    with pytest.raises(QueryError, match="hold at level 0.9"):
        fixed.at(0.5)


DOMAIN = Domain({"a": 2, "b": 3})
RARE = [(0, 0)] * 30 + [(1, 0)] * 14 + [(0, 1)] * 9 + [(1, 1)] * 2 + [(1, 2)]
PLAIN = Workload.kway(DOMAIN, 2)
SMALL, LARGE = Budget(rho=0.05), Budget(rho=4.0)
PURE_SMALL, PURE_LARGE = Budget(epsilon=0.4), Budget(epsilon=5.0)
COVERED: dict[str, tuple[Mechanism, int, Workload, tuple[Budget, Budget]]] = {
    "residual": (Residual(), 150, PLAIN, (SMALL, LARGE)),
    "residual, total": (Residual(), 150, Workload.kway(DOMAIN, 0), (Budget(rho=0.5), Budget(rho=2.0))),
    "residual, one-way": (Residual(), 80, Workload.kway(DOMAIN, 1), (SMALL, LARGE)),
    "hdmm": (HDMM(restarts=1), 80, PLAIN, (PURE_SMALL, PURE_LARGE)),
    "matrix": (Matrix(), 80, PLAIN, (SMALL, LARGE)),
    "direct": (Direct(), 80, PLAIN, (PURE_SMALL, PURE_LARGE)),
    "gaussian": (Gaussian(), 80, PLAIN, (SMALL, LARGE)),
    "independent": (Independent(), 80, PLAIN, (SMALL, LARGE)),
    "aim": (AIM(), 40, PLAIN, (SMALL, LARGE)),
    "mst": (MST(), 40, PLAIN, (SMALL, LARGE)),
    "mwem": (MWEM(rounds=2), 40, PLAIN, (SMALL, LARGE)),
    "privbayes": (PrivBayes(usefulness=1e-3), 40, PLAIN, (SMALL, LARGE)),
    "privmrf": (PrivMRF(usefulness=1e-3), 40, PLAIN, (SMALL, LARGE)),
    "privsyn": (PrivSyn(), 40, PLAIN, (SMALL, LARGE)),
    "swift": (SWIFT(), 40, PLAIN, (SMALL, LARGE)),
    "scout": (Scout(), 40, PLAIN, (SMALL, LARGE)),
    "dualquery": (DualQuery(turns=3, draws=2), 40, PLAIN, (SMALL, LARGE)),
    "rap": (RAP(rounds=3, rows=20), 40, PLAIN, (SMALL, LARGE)),
    "gem": (GEM(rounds=3, rows=20, hidden=8), 40, PLAIN, (SMALL, LARGE)),
    "dawa": (DAWA(), 80, PLAIN, (PURE_SMALL, PURE_LARGE)),
}
QUESTIONS = {
    "COUNT(*)": (),
    "b, COUNT(*)": ("b",),
    "b, AVG(a)": ("b",),
}


def truth(question: str) -> np.ndarray[Any, Any]:
    rows = np.array(RARE)
    if question == "COUNT(*)":
        return np.array([len(rows)])
    groups = [rows[rows[:, 1] == level, 0] for level in range(3)]
    return np.array([len(group) if "COUNT" in question else group.mean() for group in groups])


def hits(release: Any, question: str, shrink: float = 1.0) -> dict[float, np.ndarray[Any, Any]]:
    """Whether each interval holds the truth, at two levels; nothing if the release cannot tell."""
    grouped = f" GROUP BY {', '.join(QUESTIONS[question])}" if QUESTIONS[question] else ""
    text = f"SELECT {question} FROM t{grouped}"
    try:
        sure = release.sql(text, level=0.95)
    except QueryError:
        return {}
    if (sure.basis == "none").all():
        return {}
    held = {}
    for answers in (sure, release.sql(text, level=0.5) if (sure.basis == "bound").any() else sure.at_level(0.5)):
        middle, half = (answers.lower + answers.upper) / 2, shrink * (answers.upper - answers.lower) / 2
        held[answers.level] = np.abs(truth(question) - middle) <= half + 1e-9
    return held


def rates(mechanism: Mechanism, runs: int, workload: Workload, budget: Budget, shrink: float = 1.0) -> dict[Any, float]:
    made = plan(workload, budget, mechanism=mechanism)
    held: dict[Any, list[Any]] = {}
    for _ in range(runs):
        release = made.release(TinyTable(DOMAIN, RARE))
        for question in QUESTIONS:
            for level, found in hits(release, question, shrink).items():
                held.setdefault((question, level), []).append(found)
    return {key: float(np.mean(found)) for key, found in held.items() if len(found) > runs / 2}


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1], ids=["small budget", "large budget"])
@pytest.mark.parametrize("name", COVERED)
def test_intervals_cover_the_truth_at_every_budget(name: str, size: int) -> None:
    """Counts and means of rare groups at 50 % and 95 %, whole groups taken as one draw.

    A right mechanism fails with probability below 1e-5 a check (4.3 standard errors of `runs` draws). Of 95 %
    intervals, those that hold 87 % are found with 150 runs in half of the cases, with 80 runs those that hold 84 %, and
    with 40 runs those that hold 80 %. `test_mechanism_strategies.py` has 300 releases of every strategy.
    """
    mechanism, runs, workload, budgets = COVERED[name]
    found = rates(mechanism, runs, workload, budgets[size])
    assert ("COUNT(*)", 0.95) in found
    for (question, level), rate in found.items():
        assert rate >= level - 4.3 * np.sqrt(level * (1 - level) / runs), (question, level)


@pytest.mark.slow
def test_intervals_that_are_too_short_are_found() -> None:
    """The control: intervals of 40 % of the width hold 21 % and 57 %, 3 standard errors below the limits or more."""
    mechanism, _, workload, budgets = COVERED["residual"]
    runs = 120
    found = rates(mechanism, runs, workload, budgets[0], shrink=0.4)
    for (question, level), rate in found.items():
        if question != "b, AVG(a)":
            assert rate < level - 4.3 * np.sqrt(level * (1 - level) / runs), (question, level)


def test_every_mechanism_is_covered() -> None:
    """But for `all-zero`, which has no interval, as `test_all_zero.py` checks."""
    assert {mechanism.name for mechanism, *_ in COVERED.values()} == set(BUILT_IN) - {"auto", "all-zero"}


@pytest.mark.parametrize("name", ["residual", "hdmm", "aim"])
def test_means_of_rare_groups_have_intervals(name: str) -> None:
    mechanism, _, workload, (small, _) = COVERED[name]
    made = plan(workload, small, mechanism=mechanism)
    for _ in range(5):
        answers = made.release(TinyTable(DOMAIN, RARE)).sql("SELECT b, AVG(a) FROM t GROUP BY b")
        if any("not known" in note for note in answers.notes):  # a table of the model that nothing bounds
            continue
        assert ((answers.lower >= 0) & (answers.upper <= 1)).all()
