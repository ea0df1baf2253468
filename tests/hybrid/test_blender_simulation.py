"""BLENDER on invented people: a whole run, and the shares of the log."""

import numpy as np
import pytest

from hush.core.errors import DataError
from hush.hybrid.blender_simulation import (
    COMMON_QUERIES,
    TOP_QUERIES,
    query_shares,
    search_log,
    simulate_blender,
)
from hush.hybrid.promises import Promise


def test_a_whole_run_is_nearer_than_each_group() -> None:
    """An invented log of 60,000 people at 10 % opt-in and epsilon 4; a fixed seed for people and reports."""
    run = simulate_blender(search_log(60_000, seed=1), Promise.of(4, 1e-5), opt_in_share=0.1, most_queries=10, seed=1)
    errors = run.share_errors()
    assert run.reached
    assert errors["both"] <= 1.1 * min(errors["opt-in"], errors["clients"])
    assert run.blended.queries[0] == "google"


def test_invented_logs_have_their_shares() -> None:
    """200,000 people: the nine top shares within 6 standard deviations; URLs as stated; queries typed once are."""
    log = search_log(200_000, seed=2)
    for code, (_, share) in enumerate(TOP_QUERIES):
        assert np.mean(log.queries == code) == pytest.approx(share, abs=6 * np.sqrt(share / 200_000))
    assert np.mean(log.urls == 0) == pytest.approx(0.7, abs=0.01)
    once = log.queries[log.queries >= COMMON_QUERIES]
    assert len(np.unique(once)) == len(once)
    assert np.mean(log.queries >= COMMON_QUERIES) == pytest.approx(1 - query_shares().sum(), abs=0.01)
    assert list(log.true_shares(1)) == ["google"]
    with pytest.raises(DataError):
        search_log(0, seed=1)
