import math
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Workload
from hush.core.errors import ArchiveError, SizeError, WorkloadError
from hush.mechanisms import MST
from hush.mechanisms.candidates import MisfitScorer, on_grid
from hush.privacy.events import ComposedEvent, GaussianEvent, SelectionEvent
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gate import MarginalQuery
from hush.privacy.selection import ExponentialMechanism
from hush.strategies.rare_levels import MergedQuery
from hush.testing import TinyTable, neighbours_of
from hush.testing.laws import check_selection_privacy, scores_of

DOMAIN = Domain({"a": 2, "b": 3, "c": 2, "d": 4})
WORKLOAD = Workload.kway(DOMAIN, 3)
PAIRS = tuple(combinations(DOMAIN.attributes, 2))
ROWS = [(i % 2, (i % 2) + (i % 5 == 0), (i // 2) % 2, 2 * ((i // 2) % 2) + (i % 7 == 0)) for i in range(200)]
TABLE = TinyTable(DOMAIN, ROWS)  # a goes with b, c goes with d


def is_forest(edges: list[tuple[str, ...]]) -> bool:
    component = {name: name for name in DOMAIN}
    for first, second in edges:
        if component[first] == component[second]:
            return False
        old = component[second]
        component = {name: component[first] if label == old else label for name, label in component.items()}
    return True


def test_thirds_of_the_budget() -> None:
    rho = 0.3
    event = MST().plan(WORKLOAD, Budget(rho=rho)).release(TABLE).statement.event
    assert isinstance(event, ComposedEvent)
    events: Counter[str] = Counter()
    for event_part, count in event.parts:
        if isinstance(event_part, SelectionEvent):
            events["choosing"] += count
            assert float(event_part.cost.rho) == pytest.approx(rho / 9, rel=1e-6)  # type: ignore[arg-type]
        elif isinstance(event_part, GaussianEvent):
            column = float(event_part.variance) == pytest.approx(4 / (2 * rho / 3), rel=1e-6)
            events["column" if column else "pair"] += count
            assert column or float(event_part.variance) == pytest.approx(3 / (2 * rho / 3), rel=1e-6)
    assert events == {"choosing": 3, "column": 4, "pair": 3}


@pytest.mark.parametrize("seed", range(6))
def test_chosen_pairs_are_a_spanning_tree(seed: int) -> None:
    release = MST().plan(WORKLOAD, Budget(rho=0.01)).release(TABLE, entropy=NotPrivateEntropy(seed))
    edges = [played.clique for played in release.rounds]
    assert len(edges) == 3
    assert is_forest(edges)
    assert [table.clique for table in release.noisy_tables] == [("a",), ("b",), ("c",), ("d",), *edges]


def test_with_budget_the_tree_is_the_largest() -> None:
    release = MST().plan(WORKLOAD, Budget(rho=1e4)).release(TABLE)
    assert {played.clique for played in release.rounds[:2]} == {("a", "b"), ("c", "d")}
    exact, model = TABLE.counts(PAIRS), release.model().tables(PAIRS)
    for clique in [("a", "b"), ("c", "d")]:
        np.testing.assert_allclose(model[clique], exact[clique], atol=0.5)


def test_what_is_asked_changes_nothing() -> None:
    first, second = (
        MST().plan(workload, Budget(rho=1.0)).release(TABLE, entropy=NotPrivateEntropy(3))
        for workload in (WORKLOAD, Workload.marginals(DOMAIN, [("a",)]))
    )
    assert first.rounds == second.rounds
    np.testing.assert_array_equal(first.noisy_tables[-1].values, second.noisy_tables[-1].values)


def test_choices_are_as_private_as_they_are_charged_for() -> None:
    small = TinyTable(DOMAIN, ROWS[:4])
    model = {pair: np.full(DOMAIN.sizes(pair), 3.7 / DOMAIN.size(pair)) for pair in PAIRS}
    scorer = MisfitScorer(PAIRS, on_grid(model), np.ones(6), np.zeros(6))
    ratio = check_selection_privacy(
        ExponentialMechanism.for_rho(0.1),
        lambda table: scores_of(scorer, table),
        small,
        list(neighbours_of(small))[::5],
    )
    assert 0 < ratio <= 1


def test_bounds_of_pairs_hold() -> None:
    release = MST().plan(WORKLOAD, Budget(rho=20.0)).release(TABLE, entropy=NotPrivateEntropy(4))
    exact, model = TABLE.counts(PAIRS), release.model().tables(PAIRS)
    for pair in PAIRS:
        bound = release.error_bound(*pair)
        assert bound.kind in ("supported", "unsupported")
        assert np.abs(exact[pair] - model[pair]).sum() <= bound.bound


def test_pairs_that_are_too_large_are_left_out_and_their_budget_goes_to_the_others() -> None:
    limit = 8e-6 * 16  # a x b and c, d alone: 12; with c x d: 14; b x d alone takes 12 + 4
    release = MST(max_size_mb=limit).plan(WORKLOAD, Budget(rho=1e3)).release(TABLE)
    edges = [played.clique for played in release.rounds]
    assert is_forest(edges)
    assert 0 < len(edges) < 3
    assert release.record.fitted is not None
    assert release.record.fitted.value.size_mb <= limit
    again = [table for table in release.noisy_tables if table.clique in edges]
    assert len(again) == 2 * len(edges)


def test_tables_of_one_column_get_all_of_the_budget() -> None:
    domain = Domain({"a": 5})
    table = TinyTable(domain, [(1,), (2,)])
    release = MST().plan(Workload.kway(domain, 1), Budget(rho=0.5)).release(table)
    assert [noisy.stddev for noisy in release.noisy_tables] == pytest.approx([1.0], rel=1e-6)
    assert release.record.scored is None


def test_too_small_a_limit_is_refused() -> None:
    with pytest.raises(SizeError, match="starts with"):
        MST(max_size_mb=8e-6).plan(WORKLOAD, Budget(rho=1.0))
    plan = hush.plan(WORKLOAD, Budget(rho=1.0), mechanism="mst")
    assert plan.mechanism == "mst"
    assert math.isnan(plan.term_variances[0])


SPARSE = Domain({"a": 3, "b": 12, "c": 2})
FEW = TinyTable(SPARSE, [(i % 3, i % 3, i % 2) for i in range(300)] + [(0, 5, 0), (1, 7, 1), (2, 7, 1)])


def merging_release(seed: int = 1, rho: float = 2.0) -> hush.Release:
    plan = MST(merge_rare=True).plan(Workload.kway(SPARSE, 2), Budget(rho=rho))
    return plan.release(FEW, entropy=NotPrivateEntropy(seed))  # type: ignore[return-value]


def test_rare_levels_are_counted_together_in_pairs_alone() -> None:
    release = merging_release()
    columns, pairs = release.noisy_tables[:3], release.noisy_tables[3:]
    assert [column.values.shape for column in columns] == [(3,), (12,), (2,)]
    rare = columns[1].values < 3 * columns[1].stddev
    assert rare[3:].all()
    for pair in pairs:
        if "b" in pair.clique:
            assert isinstance(pair.asked, MergedQuery)
            assert pair.asked.merging.codes["b"].tolist() == np.where(rare, 3, np.cumsum(~rare) - 1).tolist()
            assert pair.values.shape[pair.clique.index("b")] == 4
        else:
            assert isinstance(pair.asked, MarginalQuery)


def test_answers_and_rows_have_all_levels_and_errors_where_nothing_was_merged(tmp_path: Path) -> None:
    release = merging_release()
    assert release.counts(("a", "b")).shape == (3, 12)
    assert release.estimates.has_covariance(("b",))
    assert not release.estimates.has_covariance(("a", "b"))
    assert release.error_bound("a", "b").kind == "none"
    exact = FEW.counts([("a", "b")])[("a", "b")]
    assert np.abs(release.model().tables([("a", "b")])[("a", "b")] - exact).sum() < 60
    release.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    np.testing.assert_allclose(loaded.counts(("a", "b")), release.counts(("a", "b")), atol=1e-9)  # type: ignore[union-attr]
    for ours, theirs in zip(release.noisy_tables, loaded.noisy_tables, strict=True):  # type: ignore[union-attr]
        assert type(ours.asked) is type(theirs.asked)
        np.testing.assert_array_equal(ours.values, theirs.values)
    rows = release.synthesize(rows=200, seed=1)
    assert max(rows["b"].to_pylist()) > 3
    assert loaded.model(max_size_mb=1.0).total == pytest.approx(303, abs=40)  # type: ignore[union-attr]


def test_merging_lowers_the_error_where_most_levels_are_empty() -> None:
    domain = Domain({"a": 40, "b": 40})
    table = TinyTable(domain, [(i % 3, i % 3) for i in range(300)])
    exact = table.counts([("a", "b")])[("a", "b")]
    errors = []
    for merge in (False, True):
        plan = MST(merge_rare=merge).plan(Workload.kway(domain, 2), Budget(rho=0.1))
        release = plan.release(table, entropy=NotPrivateEntropy(7))
        errors.append(np.abs(release.model().tables([("a", "b")])[("a", "b")] - exact).sum())
    assert errors[1] < errors[0]


def test_a_damaged_merging_is_refused(tmp_path: Path) -> None:
    release = merging_release()
    merging = next(table.asked.merging for table in release.noisy_tables if isinstance(table.asked, MergedQuery))
    merging.codes["b"][0] = 9  # type: ignore[index]
    release.save(tmp_path / "x.hush")
    with pytest.raises(ArchiveError, match="merged levels"):
        hush.load(tmp_path / "x.hush")


def test_flags_are_flags() -> None:
    with pytest.raises(WorkloadError, match="merge_rare='yes'"):
        MST(merge_rare="yes")  # type: ignore[arg-type]
