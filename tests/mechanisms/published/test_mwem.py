import math

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Workload
from hush.core.errors import BudgetError, SizeError, WorkloadError
from hush.mechanisms import MWEM
from hush.mechanisms.candidates import MisfitScorer, on_grid
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.selection import ExponentialMechanism
from hush.testing import TinyTable, neighbours_of
from hush.testing.laws import check_selection_privacy, scores_of

DOMAIN = Domain({"a": 2, "b": 3, "c": 2, "d": 4})
WORKLOAD = Workload.kway(DOMAIN, 2)
ROWS = [(0, 0, 0, 1), (1, 2, 1, 3), (1, 2, 0, 3), (0, 1, 1, 0)] * 50
TABLE = TinyTable(DOMAIN, ROWS)


def test_noise_and_epsilon_are_those_of_the_paper_less_the_count() -> None:
    rho, rounds = 0.2, 5
    release = MWEM(rounds=rounds).plan(WORKLOAD, Budget(rho=rho)).release(TABLE)
    assert release.noisy_tables[0].clique == ()
    assert release.noisy_tables[0].stddev == pytest.approx(math.sqrt(100 / (2 * rho)), rel=1e-6)
    assert len(release.rounds) == rounds
    left = 0.99 * rho
    for played in release.rounds:
        assert played.epsilon == pytest.approx(2 * math.sqrt(left / rounds), rel=1e-6)
        assert played.stddev == pytest.approx(math.sqrt(rounds / left), rel=1e-6)
        assert played.penalty == DOMAIN.size(played.clique)
        assert played.weight == 1
        assert played.clique in WORKLOAD.cliques


@pytest.mark.parametrize(
    ("workload", "rounds"),
    [
        (WORKLOAD, 4),
        (Workload.marginals(DOMAIN, [("a", "b"), ("c", "d"), ()]), 2),
        (Workload.marginals(DOMAIN, [("a", "b"), ("b",), ("a",)]), 2),
    ],
)
def test_by_default_as_many_rounds_as_columns_or_tables(workload: Workload, rounds: int) -> None:
    assert MWEM().planned_rounds(workload) == rounds
    assert len(MWEM().plan(workload, Budget(rho=1.0)).release(TABLE).rounds) == rounds


def test_choices_are_as_private_as_they_are_charged_for() -> None:
    small = TinyTable(DOMAIN, ROWS[:4])
    model = {clique: np.full(DOMAIN.sizes(clique), 5.3 / DOMAIN.size(clique)) for clique in WORKLOAD.cliques}
    scorer = MisfitScorer(
        WORKLOAD.cliques,
        on_grid(model),
        np.ones(6),
        np.array([float(DOMAIN.size(clique)) for clique in WORKLOAD.cliques]),
    )
    ratio = check_selection_privacy(
        ExponentialMechanism.for_rho(0.1),
        lambda table: scores_of(scorer, table),
        small,
        list(neighbours_of(small))[::5],
    )
    assert 0 < ratio <= 1


def test_the_table_that_is_most_wrong_is_chosen_first_where_budget_is_no_matter() -> None:
    release = MWEM(rounds=1).plan(WORKLOAD, Budget(rho=800.0)).release(TABLE)
    exact = TABLE.counts(WORKLOAD.cliques)
    misfit = {
        clique: np.abs(exact[clique] - 200 / DOMAIN.size(clique)).sum() - DOMAIN.size(clique)
        for clique in WORKLOAD.cliques
    }
    assert release.rounds[0].clique == max(misfit, key=misfit.__getitem__)


def test_with_budget_it_is_better_than_uniform_and_comes_close() -> None:
    release = MWEM(rounds=6).plan(WORKLOAD, Budget(rho=50.0)).release(TABLE, entropy=NotPrivateEntropy(5))
    exact, model = TABLE.counts(WORKLOAD.cliques), release.model().tables(WORKLOAD.cliques)
    error = sum(np.abs(exact[clique] - model[clique]).sum() for clique in WORKLOAD.cliques)
    uniform = sum(np.abs(exact[clique] - 200 / DOMAIN.size(clique)).sum() for clique in WORKLOAD.cliques)
    assert error < 0.1 * uniform


def test_bounds_hold_for_tables_that_were_not_chosen() -> None:
    release = MWEM(rounds=3).plan(WORKLOAD, Budget(rho=20.0)).release(TABLE, entropy=NotPrivateEntropy(2))
    exact, model = TABLE.counts(WORKLOAD.cliques), release.model().tables(WORKLOAD.cliques)
    kinds = set()
    for clique in WORKLOAD.cliques:
        bound = release.error_bound(*clique)
        kinds.add(bound.kind)
        assert np.abs(exact[clique] - model[clique]).sum() <= bound.bound
    assert kinds == {"supported", "unsupported"}


def test_the_model_stays_within_its_limit() -> None:
    limit = 22 * 8e-6
    release = MWEM(max_size_mb=limit, rounds=6).plan(WORKLOAD, Budget(rho=5.0)).release(TABLE)
    assert all(played.size_mb <= limit for played in release.rounds)
    assert release.record.fitted is not None
    assert release.record.fitted.value.size_mb <= limit


@pytest.mark.parametrize("rounds", [0, -1, 2.0, True])
def test_bad_numbers_of_rounds_are_refused(rounds: object) -> None:
    with pytest.raises(BudgetError, match="rounds="):
        MWEM(rounds=rounds).plan(WORKLOAD, Budget(rho=1.0))  # type: ignore[arg-type]


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(SizeError, match="not even that over a, c"):
        MWEM(max_size_mb=8e-6).plan(WORKLOAD, Budget(rho=1.0))
    with pytest.raises(WorkloadError, match="nothing to choose"):
        MWEM().plan(Workload.marginals(DOMAIN, [()]), Budget(rho=1.0))
    with pytest.raises(WorkloadError, match="preset='huge'"):
        MWEM(preset="huge")
    with pytest.raises(SizeError, match="max_size_mb=-1"):
        MWEM(max_size_mb=-1)
    assert hush.plan(WORKLOAD, Budget(rho=1.0), mechanism="mwem").mechanism == "mwem"
