"""Scores of head lists: by hand on small lists, and of a whole run."""

import numpy as np
import pytest
from benchmarks.head_list_scores import dcg, ndcg, nested_ndcg, regressions, scores

from hush.hybrid.blender_simulation import l1_distance, search_log, simulate_blender
from hush.hybrid.promises import Promise


def test_a_whole_run_is_in_good_order() -> None:
    """An invented log of 60,000 people at 10 % opt-in and epsilon 4; a fixed seed for people and reports."""
    log = search_log(60_000, seed=1)
    found = scores(simulate_blender(log, Promise.of(4, 1e-5), opt_in_share=0.1, most_queries=10, seed=1))
    assert found["l1"] <= 1.1 * min(found["l1 opt-in"], found["l1 clients"])
    assert found["NDCG"] > 0.85
    assert found["NDCG at best"] >= found["NDCG"] - 1e-12


def test_metrics() -> None:
    true = {"a": 0.5, "b": 0.3, "c": 0.2}
    assert l1_distance({"a": 0.4, "d": 0.1}, true) == pytest.approx(0.1 + 0.1 + 0.3 + 0.2)
    assert ndcg(["a", "b", "c"], true) == pytest.approx(1)
    assert ndcg(["c", "b", "a"], true) < ndcg(["b", "a", "c"], true) < 1
    assert ndcg(["x", "y"], true) == 0  # a missing item counts nothing
    assert dcg([1.0, 0.5]) == pytest.approx(1 + (2**0.5 - 1) / np.log2(3))
    urls = {"a": {"u": 0.4, "v": 0.1}, "b": {"w": 0.3}}
    assert nested_ndcg(["a", "b"], {"a": ["u", "v"], "b": ["w"]}, urls) == pytest.approx(1)
    assert nested_ndcg(["a", "b"], {"a": ["v", "u"], "b": ["w"]}, urls) < 1
    assert nested_ndcg(["x"], {}, urls) == 0
    assert regressions(["a", "c", "b"], true) == 1
