"""LDPMiner on an invented log: right with much budget, and worse than both groups together with little."""

from benchmarks.local_miner import mined_shares

from hush.hybrid import Promise
from hush.hybrid.blender_simulation import l1_distance, search_log, simulate_blender


def test_much_budget_finds_the_true_list() -> None:
    log = search_log(20_000, seed=1)
    true = {query: sum(urls.values()) for query, urls in log.true_shares(3).items()}
    found = mined_shares(log, 30.0, most_queries=3, seed=2)
    assert set(found) == set(true)
    assert l1_distance(found, true) < 0.001


def test_both_groups_together_err_less() -> None:
    """40,000 people at epsilon 2: clients alone list queries at random, which counts as missed ones."""
    log = search_log(40_000, seed=3)
    head = {query: sum(urls.values()) for query, urls in log.true_shares(5).items()}
    alone = l1_distance(mined_shares(log, 2.0, most_queries=5, seed=4), head)
    run = simulate_blender(log, Promise.of(2, 1e-5), opt_in_share=0.3, most_queries=5, seed=4)
    together = dict(zip(run.blended.queries, map(float, run.blended.shares), strict=True))
    assert l1_distance(together, head) < alone / 2
