"""Hybrid K-means: unbiased client means, what one person moves, charges, and each variant on invented clusters."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush.core.errors import BudgetError, DataError
from hush.hybrid.client import Question
from hush.hybrid.kmeans import ClusterSums, OptInPoints, SimulatedClients, client_means, hybrid_kmeans, nearest, wcss
from hush.hybrid.promises import CLIENTS, Promise
from hush.hybrid.simulated_reports import generator_of
from hush.privacy.gate import MarginalQuery
from hush.privacy.ledger import Ledger
from hush.privacy.sensitivity import Neighbours, sensitivity
from hush.testing import check_replay

CENTRES = np.array([[0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]])
START = CENTRES + np.array([[0.06, -0.05], [0.05, 0.04], [-0.07, 0.03], [0.02, 0.06]])


def blobs(each: int, seed: int) -> Any:
    generator = generator_of(seed)
    points = np.concatenate([centre + 0.028 * generator.normal(size=(each, 2)) for centre in CENTRES])
    return generator.permutation(points).clip(0, 1)


def test_client_means_are_corrected_for_randomised_labels() -> None:
    """160,000 clients at epsilon 7 in 4 parts: corrected means within 0.03 of the centres, raw ones pulled inwards."""
    points = blobs(40_000, 1)
    clients = SimulatedClients(points, 0, 1, epsilon=Fraction(7, 4), generator=generator_of(2))
    question = Question.cluster("near", CENTRES.tolist(), epsilon=Fraction(7, 4))
    found = client_means(question, clients)
    assert np.abs(found.means - CENTRES).max() < 0.03
    labels = clients.labels(question)
    raw = np.array([clients.points[labels == k].mean(axis=0) for k in range(4)])
    assert np.abs(raw - 0.5).max() < 0.21


def test_the_variance_of_client_means_is_that_of_repetitions() -> None:
    points = blobs(2000, 3)
    question = Question.cluster("near", CENTRES.tolist(), epsilon=2)
    means, variances = [], []
    for seed in range(150):
        clients = SimulatedClients(points, 0, 1, epsilon=Fraction(2), generator=generator_of(seed))
        found = client_means(question, clients)
        means.append(found.means)
        variances.append(found.variances)
    assert np.mean(np.var(means, axis=0), axis=1) == pytest.approx(np.mean(variances, axis=0), rel=0.3)


@pytest.mark.parametrize("axis", [0, 1])
def test_one_person_moves_sums_and_counts_by_no_more_than_declared(axis: int) -> None:
    corners = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.5, 0.2]]
    queries = [ClusterSums(axis, 4), MarginalQuery(("cluster",))]
    worst = [0, 0]
    for mine in corners:
        for other in corners:
            tables = [OptInPoints([point], 0, 1, steps=4).near(CENTRES) for point in (mine, other)]
            for i, query in enumerate(queries):
                answers = [query.answer(table.counts(query.cliques)) for table in tables]
                worst[i] = max(worst[i], int(np.abs(answers[0] - answers[1]).sum()))
    bounds = [sensitivity(q.row_norms, max_rows=1, neighbours=Neighbours.REPLACE).l1 for q in queries]
    assert worst == [int(bound) for bound in bounds] == [8, 2]


def test_replay_finds_nothing_beside_the_gate() -> None:
    people = blobs(5, 4)
    others = people.copy()
    others[3] = [0.9, 0.1]

    def run(held: Any) -> Any:
        return hybrid_kmeans(START, 2, Promise.of(7), opt_in=OptInPoints(held, 0, 1))

    assert check_replay(run, people, [others]) == 1


def test_all_rounds_together_spend_epsilon() -> None:
    from hush.hybrid.kmeans import _curator_means
    from hush.privacy.account import Allowance
    from hush.privacy.budget import Budget

    allowance = Allowance(Budget(epsilon=7.0))
    for _ in range(3):
        _curator_means(OptInPoints(blobs(50, 5), 0, 1).near(START), 4, Fraction(7, 3), allowance)
    assert allowance.cost.epsilon is not None
    assert 7 - Fraction(1, 10**6) < allowance.cost.epsilon <= 7


class RecordingClients:
    """Simulated clients who keep the epsilon of every question about labels."""

    def __init__(self, points: Any, epsilon: Fraction) -> None:
        self._clients = SimulatedClients(points, 0, 1, epsilon=epsilon, generator=generator_of(7))
        self.points = self._clients.points
        self.asked: list[Fraction] = []

    def labels(self, question: Question) -> Any:
        self.asked.append(question.epsilon)
        return self._clients.labels(question)


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_clients_point_and_labels_together_spend_epsilon_and_are_charged_first(rounds: int, tmp_path: Path) -> None:
    file = str(tmp_path / "budget.db")
    clients = RecordingClients(blobs(50, 5), Fraction(7, rounds + 1))
    hybrid_kmeans(START, rounds, Promise.of(7, ledger=file), clients=clients)
    assert len(clients.asked) == rounds
    assert sum(clients.asked) + Fraction(7, rounds + 1) == 7
    (book,) = Ledger.open_all(file)
    assert book.dataset == CLIENTS
    assert [event.epsilon for event in book.events()] == clients.asked
    used_up = Promise.of(7, ledger=file)
    used_up.record_question(Question.number("coordinate", 0, 1, epsilon=Fraction(7, rounds + 1)))
    with pytest.raises(BudgetError, match="nothing is left"):
        hybrid_kmeans(START, rounds, used_up, clients=clients)
    assert len(clients.asked) == rounds


def test_each_variant_finds_the_clusters_and_the_hybrid_is_near_the_better() -> None:
    """40,000 points, 4 % opt-in, three rounds at epsilon 7, five runs at fixed seeds for clients."""
    points = blobs(10_000, 6)
    scores: dict[str, list[float]] = {"curator": [], "clients": [], "hybrid": []}
    for seed in range(5):
        clients = SimulatedClients(points[1600:], 0, 1, epsilon=Fraction(7, 4), generator=generator_of(seed))
        opt_in = OptInPoints(points[:1600], 0, 1)
        for name, groups in (
            ("curator", {"opt_in": opt_in}),
            ("clients", {"clients": clients}),
            ("hybrid", {"opt_in": opt_in, "clients": clients}),
        ):
            scores[name].append(wcss(points, hybrid_kmeans(START, 3, Promise.of(7), **groups)))  # type: ignore[arg-type]
    best = wcss(points, np.array([points[nearest(points, CENTRES) == k].mean(axis=0) for k in range(4)]))
    means = {name: np.mean(values) / best for name, values in scores.items()}
    assert means["hybrid"] <= 1.05 * min(means["curator"], means["clients"])
    assert means["hybrid"] < 1.2


def test_bad_input_is_refused() -> None:
    points = OptInPoints([[0.5, 0.5]], 0, 1)
    for call, message in (
        (lambda: hybrid_kmeans([[0.5, 0.5]], 3, Promise.of(1), opt_in=points), "at least two centres"),
        (lambda: hybrid_kmeans(START, 0, Promise.of(1), opt_in=points), "rounds=0"),
        (lambda: hybrid_kmeans(START, 3, Promise.of(1)), "neither opt-in people nor clients"),
        (lambda: hybrid_kmeans(START, 3, Promise.of(1), opt_in=START), "only people who opted in"),  # type: ignore[arg-type]
        (lambda: OptInPoints([], 0, 1), "nobody opted in"),
        (lambda: OptInPoints([[np.nan]], 0, 1), "expected finite numbers"),
    ):
        with pytest.raises(DataError, match=message):
            call()
