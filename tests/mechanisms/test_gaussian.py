import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Neighbours, Workload, queries
from hush.core.errors import BudgetError, DataError, WorkloadError
from hush.mechanisms import Direct, Gaussian
from hush.mechanisms.plan import Plan
from hush.privacy.events import ComposedEvent, GaussianEvent
from hush.testing import TinyTable, check_replay, neighbours_of

DOMAIN = Domain({"a": 2, "b": 3, "c": 20})
ROWS = [(0, 0, 0), (1, 2, 1), (1, 2, 0), (0, 1, 1), (1, 0, 0), (1, 2, 17)]
TABLE = TinyTable(DOMAIN, ROWS)
CLIQUES = [("a", "b"), ("b", "c"), ("a", "c")]
WEIGHTS = [1.0, 3.0, 0.5]
WORKLOAD = Workload.marginals(DOMAIN, CLIQUES, weights=WEIGHTS)
BUDGET = Budget(rho=0.04)


def gaussian_plan(workload: Workload = WORKLOAD, budget: Budget = BUDGET, **options: Any) -> Plan:
    return hush.plan(workload, budget, mechanism="gaussian", **options)  # type: ignore[return-value]


def test_shares_are_the_two_thirds_powers() -> None:
    plan = gaussian_plan()
    powers = [(c * DOMAIN.size(clique)) ** (2 / 3) for c, clique in zip(WEIGHTS, CLIQUES, strict=True)]
    shares = [0.04 * power / sum(powers) for power in powers]
    np.testing.assert_allclose(plan.term_variances, [1 / (2 * share) for share in shares], rtol=1e-5)


def test_the_workload_error_is_the_closed_form_and_no_other_split_has_less() -> None:
    plan = gaussian_plan()
    n = np.array([c * DOMAIN.size(clique) for c, clique in zip(WEIGHTS, CLIQUES, strict=True)])
    least = math.sqrt(2 / math.pi) * (n ** (2 / 3)).sum() ** 1.5 / math.sqrt(2 * 0.04) / (3 * 1000)
    assert plan.workload_error(1000) == pytest.approx(least, rel=1e-5)
    for shares in itertools.product([0.2, 0.5, 1.0], repeat=3):
        split = 0.04 * np.array(shares) / sum(shares)
        assert least <= math.sqrt(2 / math.pi) * (n / np.sqrt(2 * split)).sum() / 3000 * (1 + 1e-9)
    with pytest.raises(DataError, match="total=0"):
        plan.workload_error(0)


def test_it_beats_direct_in_l1_and_loses_in_squares() -> None:
    direct = hush.plan(WORKLOAD, BUDGET, mechanism=Direct(noise="gaussian"))
    ours = gaussian_plan()
    n = np.array([c * DOMAIN.size(clique) for c, clique in zip(WEIGHTS, CLIQUES, strict=True)])
    assert (n * np.sqrt(ours.term_variances)).sum() < (n * np.sqrt(direct.term_variances)).sum()
    assert direct.rmse < ours.rmse


def test_a_table_asked_twice_is_measured_once() -> None:
    twice = Workload.marginals(DOMAIN, [("a", "b"), ("c",)]) + Workload.marginals(DOMAIN, [("a", "b")])
    plan, heavy = gaussian_plan(twice), gaussian_plan(Workload.marginals(DOMAIN, [("a", "b"), ("c",)], weights=[2, 1]))
    assert len(plan.requests()) == 2
    np.testing.assert_allclose(plan.term_variances[:2], heavy.term_variances)


@pytest.mark.parametrize("relation", list(Neighbours))
def test_the_charge_is_what_was_measured(relation: Neighbours) -> None:
    event = gaussian_plan(neighbours=relation).release(TABLE).statement.event
    assert isinstance(event, ComposedEvent)
    total = Fraction(0)
    for event_part, count in event.parts:
        assert isinstance(event_part, GaussianEvent)
        total += count * event_part.sensitivity_l2_squared / (2 * event_part.variance)
    assert Fraction(BUDGET.rho) * (1 - Fraction(1, 2**30)) <= total <= Fraction(BUDGET.rho)


def test_replay_finds_nothing_beside_the_gate(tmp_path: Path) -> None:
    def run(table: TinyTable) -> object:
        release = gaussian_plan().release(table)
        release.save(tmp_path / "x.hush", overwrite=True)
        return {"file": tmp_path / "x.hush", "table": str(release.marginal("a", "b"))}

    assert check_replay(run, TABLE, neighbours_of(TABLE)) == len(ROWS) + DOMAIN.size()


def test_files_and_tables(tmp_path: Path) -> None:
    plan = gaussian_plan(budget=Budget(rho=800.0))
    plan.save(tmp_path / "plan.hush")
    loaded_plan = hush.load(tmp_path / "plan.hush")
    assert isinstance(loaded_plan, Plan)
    release = loaded_plan.release(TABLE)
    release.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    assert isinstance(loaded, hush.Release)
    for clique in CLIQUES:
        np.testing.assert_array_equal(loaded.counts(clique), release.counts(clique))
        np.testing.assert_allclose(release.counts(clique), TABLE.counts([clique])[clique], atol=0.5)
    assert loaded.synthesize(rows=6, seed=1).num_rows == 6


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(WorkloadError, match="'direct'"):
        gaussian_plan(Workload.product(DOMAIN, {"b": queries.prefix}))
    with pytest.raises(BudgetError, match="delta"):
        gaussian_plan(budget=Budget(epsilon=1.0))
    with pytest.raises(WorkloadError, match="rmse"):
        gaussian_plan(loss="maxvar")
    assert Gaussian() == Gaussian()
