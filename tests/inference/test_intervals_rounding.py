"""Intervals at budgets where noise is hardly ever drawn: they hold what floats make of exact numbers."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import hush
from hush.core.errors import BudgetError
from hush.inference import error_law
from hush.mechanisms import AIM, HDMM, MST, MWEM, Direct, Gaussian, PrivBayes
from hush.mechanisms.mechanism import Mechanism
from hush.testing import TinyTable

DOMAIN = hush.Domain({"a": 5, "b": 4, "c": 3})
CLIQUES = [(), ("a",), ("b",), ("a", "b"), ("b", "c")]
PREFIXES = hush.Workload.product(DOMAIN, {"a": hush.queries.prefix, "b": hush.queries.identity})
PREFIXES += hush.Workload.upto(DOMAIN, 2)
MECHANISMS = [HDMM(restarts=1, quick=True), Direct(), Gaussian(), AIM(rounds=4), MST(), MWEM(), PrivBayes()]
WHERE = "SELECT COUNT(*) FROM t WHERE a >= 2 AND b = 1"


@pytest.fixture(scope="module")
def table() -> TinyTable:
    random = np.random.default_rng(0)
    return TinyTable(DOMAIN, np.column_stack([random.integers(size, size=400) for size in DOMAIN.shape]).tolist())


def outside(mechanism: Mechanism, table: TinyTable) -> tuple[int, int]:
    """How many answers got no noise, and how many of these their intervals leave out, over large budgets."""
    exact: dict[Any, Any] = table.counts(CLIQUES)
    where = np.array([exact["a", "b"][2:, 1].sum()])
    noiseless = left_out = 0
    for rho in (300.0, 3e3, 1e5):
        workload = PREFIXES if isinstance(mechanism, HDMM | Direct) else hush.Workload.upto(DOMAIN, 2)
        with suppress(BudgetError):
            release = mechanism.plan(workload, hush.Budget(rho=rho)).release(table)  # type: ignore[arg-type]
            known = getattr(release.estimates, "has_covariance", lambda clique: True)  # else a model answers
            answers = [(release.marginal(*c, unbiased=True), exact[c].ravel()) for c in CLIQUES if known(c)]
            for answer, truth in [*answers, (release.sql(WHERE), where)]:
                without = (np.abs(answer.estimate - truth) < 1e-6) & ~np.isnan(answer.lower)
                noiseless += int(without.sum())
                left_out += int((without & ((truth < answer.lower) | (truth > answer.upper))).sum())
    return noiseless, left_out


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_an_answer_without_noise_is_inside_its_interval(mechanism: Mechanism, table: TinyTable) -> None:
    noiseless, left_out = outside(mechanism, table)
    assert noiseless > 20
    assert left_out == 0


def test_intervals_without_rounding_leave_answers_out(table: TinyTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control."""
    monkeypatch.setattr(error_law, "ROUNDING_SHARE", 0.0)
    assert outside(MWEM(), table)[1] > 0
    assert outside(PrivBayes(), table)[1] > 0


def test_rounding_is_far_below_a_count(table: TinyTable) -> None:
    release = Gaussian().plan(hush.Workload.upto(DOMAIN, 2), hush.Budget(rho=3e3)).release(table)  # type: ignore[arg-type]
    answer = release.marginal("a", "b")
    assert 0 < (answer.upper - answer.lower).max() < 1e-8
