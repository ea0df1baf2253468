import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.errors import WorkloadError
from hush.linops import Dense, Identity, Prefix, Total, Tree
from hush.optimizers.eigen_design import augmented, completed, missing_norms
from hush.optimizers.explicit_strategy import query_errors
from hush.strategies.strategy import NoiseKind


@pytest.mark.parametrize("noise", NoiseKind)
@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_columns_are_filled_and_no_answer_gets_worse(noise: NoiseKind, rows: int, cells: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    strategy = Dense(random.normal(size=(rows, cells)))
    workload = Dense(random.normal(size=(3, rows)) @ strategy.dense())
    full = completed(strategy, noise)
    assert full.column_norms(noise.norm) == pytest.approx(np.full(cells, strategy.sensitivity(noise.norm)))
    before, after = query_errors(workload, strategy, noise), query_errors(workload, full, noise)
    assert (after <= before * (1 + 1e-6)).all()


def test_a_query_on_a_completed_cell_gains() -> None:
    strategy = Dense([[1.0, 0.5], [0.0, 0.25]])
    workload = Dense([[0.0, 1.0]])
    for noise in NoiseKind:
        assert query_errors(workload, completed(strategy, noise), noise) < 0.999 * query_errors(
            workload, strategy, noise
        )


def test_full_strategies_stay_as_they_are() -> None:
    for strategy in (Identity(4), Tree(8)):
        assert completed(strategy) is strategy
        assert not missing_norms(strategy, NoiseKind.LAPLACE).any()


@pytest.mark.parametrize("noise", NoiseKind)
def test_other_queries_are_added_as_far_as_there_is_room(noise: NoiseKind) -> None:
    strategy, extra = Prefix(4), Dense([[0.0, 1, 1, 1], [0, 0, 1, -1]])
    larger = augmented(strategy, extra, noise)
    assert larger.sensitivity(noise.norm) == pytest.approx(strategy.sensitivity(noise.norm))
    assert np.count_nonzero(np.isclose(larger.column_norms(noise.norm), strategy.sensitivity(noise.norm))) == 3
    assert (query_errors(Prefix(4), larger, noise) <= query_errors(Prefix(4), strategy, noise) * (1 + 1e-9)).all()


def test_no_room_no_change() -> None:
    assert augmented(Prefix(4), Total(4)) == Prefix(4)
    assert augmented(Prefix(4), Dense(np.zeros((1, 4)))) == Prefix(4)
    with pytest.raises(WorkloadError, match="queries on 3 cells"):
        augmented(Prefix(4), Total(3))
