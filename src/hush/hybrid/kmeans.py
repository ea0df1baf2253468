"""Hybrid K-means: centres from the points of opt-in people and the randomised points and labels of clients.

In each of tau rounds, opt-in people's points are counted and summed by cluster, with noise, at epsilon/tau a round.
Each client reports a randomised point once and, in every round, the nearest centre by k-ary response, at
epsilon/(tau + 1) each. The two means of a cluster are weighted by their inverse variances.

Differs from [Avent 2023, Alg. 2.7]: the noise of a mean is that of the sum divided by the count (line 13 omits the
count, so that the hybrid would use clients alone). Labels are randomised, so each cluster includes clients of every
other cluster; counts and sums are corrected for this. Points are measured from the middle of the range, which halves
the sensitivity, and clients use the best law for each coordinate.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError
from hush.core.validation import check_whole
from hush.hybrid.client.choice_laws import KaryResponse
from hush.hybrid.client.question import Question
from hush.hybrid.opt_in import OptInPeople, check_bounds, require_opt_in
from hush.hybrid.promises import ESTIMATION, Promise
from hush.hybrid.simulated_reports import kary_reports, number_reports
from hush.privacy.account import Account
from hush.privacy.gate import Counts, Gate, MarginalQuery, Request
from hush.privacy.noise import DiscreteLaplace
from hush.privacy.sensitivity import Neighbours, RowNorms, sensitivity

CLUSTER = "cluster"  # the attribute of clusters


class OptInPoints(OptInPeople):
    """People who opted in, each with a point of d numbers between two bounds, on a grid of steps."""

    def __init__(self, points: Any, lower: float, upper: float, *, steps: int = 256) -> None:
        values = np.asarray(points, dtype=np.float64)
        if values.ndim != 2 or not values.size:
            raise DataError("nobody opted in: give at least one point of at least one number")
        if not np.isfinite(values).all():
            raise DataError("points: expected finite numbers; replace missing numbers first")
        check_bounds(lower, upper)
        self.lower, self.upper, self.steps = float(lower), float(upper), steps
        inside = np.clip(values, lower, upper)
        self._steps = np.rint((inside - lower) / (upper - lower) * steps).astype(np.int64)
        self._clusters = np.zeros(len(values), dtype=np.int64)
        self.dimensions = values.shape[1]
        self.domain = self._domain(1)

    def __len__(self) -> int:
        return len(self._steps)

    def near(self, centres: Floats) -> OptInPoints:
        """The same people, each in the cluster of the nearest of these public centres."""
        same = copy.copy(self)
        points = np.asarray(self.lower + self._steps * ((self.upper - self.lower) / self.steps), dtype=np.float64)
        same._clusters = nearest(points, centres)
        same.domain = self._domain(len(centres))
        return same

    def _domain(self, clusters: int) -> Domain:
        return Domain({CLUSTER: clusters} | {axis_name(axis): self.steps + 1 for axis in range(self.dimensions)})

    def counts(self, cliques: Sequence[Clique]) -> Counts:
        """Exact counts of clusters, or of clusters and steps of one axis; private, for the gate alone."""
        columns = {CLUSTER: self._clusters} | {axis_name(a): self._steps[:, a] for a in range(self.dimensions)}
        answers = {}
        for clique in cliques:
            sizes = self.domain.sizes(clique)
            flat = np.ravel_multi_index(tuple(columns[name] for name in clique), sizes)
            answers[tuple(clique)] = np.bincount(flat, minlength=int(np.prod(sizes))).reshape(sizes).astype(np.int64)
        return answers


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """For each cluster, the sum over its people of 2 j - steps: twice the distance, in steps, from the middle."""

    axis: int
    steps: int

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return ((CLUSTER, axis_name(self.axis)),)

    @property
    def row_norms(self) -> RowNorms:
        s = Fraction(self.steps)
        return RowNorms(s, s**2, 2 * s, 4 * s**2)  # two people at opposite ends, in one cluster or in two

    def answer(self, counts: Counts) -> Integers:
        return np.asarray(counts[self.cliques[0]] @ (2 * np.arange(self.steps + 1) - self.steps), dtype=np.int64)


class ClientPoints(Protocol):
    """Clients who each reported a randomised point, and who answer cluster questions."""

    @property
    def points(self) -> Floats: ...  # (clients, dimensions), unbiased
    def labels(self, question: Question) -> Integers: ...  # (clients,)


class SimulatedClients:
    """Simulated clients: they hold points, report them once, and answer cluster questions."""

    def __init__(
        self, points: Any, lower: float, upper: float, *, epsilon: Fraction, generator: np.random.Generator
    ) -> None:
        self._held = np.asarray(points, dtype=np.float64)
        self._generator = generator
        axes = self._held.shape[1]
        asked = Question.number("coordinate", lower, upper, epsilon=epsilon / axes)
        law: Any = asked.law
        unit = (upper - lower) / law.steps
        drawn = [number_reports(asked, self._held[:, axis], generator) for axis in range(axes)]
        self.points = np.column_stack(
            [lower + unit * (reports - float(law.intercept)) / float(law.slope) for reports in drawn]
        )

    def labels(self, question: Question) -> Integers:
        """Randomised answers to a cluster question."""
        law = question.law
        if not isinstance(law, KaryResponse):
            raise DataError("clusters are asked by k-ary response")
        return kary_reports(law, nearest(self._held, np.array(question.body["centres"])), self._generator)


@dataclass(frozen=True, slots=True)
class GroupMeans:
    """One group's mean of each cluster, and the variance of a coordinate; infinite where the group has no estimate."""

    means: Floats  # (clusters, dimensions)
    variances: Floats  # (clusters,)


def hybrid_kmeans(
    start: Any,
    rounds: int,
    promise: Promise,
    *,
    opt_in: OptInPoints | None = None,
    clients: ClientPoints | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Floats:
    """Centres after some rounds, from public start centres; one group alone gives that group's baseline.

    Privacy: epsilon-DP for opt-in people, by the gate, over all rounds; each client's point and labels together are
    epsilon-DP if the point was reported at epsilon/(rounds + 1). Each question for labels is charged to the clients
    before they are asked; whoever asks for the points charges that question.
    """
    centres = np.array(start, dtype=np.float64)
    if centres.ndim != 2 or len(centres) < 2:
        raise DataError("start: expected at least two centres; one cluster needs no K-means")
    rounds = check_whole(DataError, "rounds", rounds, least=1)
    if opt_in is None and clients is None:
        raise DataError("neither opt-in people nor clients were given")
    if opt_in is not None:
        require_opt_in(opt_in, OptInPoints)
    account = None if opt_in is None else promise.account(ESTIMATION)
    for _ in range(rounds):
        groups = []
        if opt_in is not None and account is not None:
            groups.append(_curator_means(opt_in.near(centres), len(centres), promise.epsilon / rounds, account))
        if clients is not None:
            question = Question.cluster("nearest", centres.tolist(), epsilon=promise.epsilon / (rounds + 1))
            promise.record_question(question)
            groups.append(client_means(question, clients))
        # move each centre that some group has an estimate for
        precision = np.stack([1 / group.variances for group in groups])
        total = precision.sum(axis=0)
        estimated = total > 0
        weights = precision[:, estimated] / total[estimated]
        means = np.stack([np.nan_to_num(group.means) for group in groups])[:, estimated]
        centres[estimated] = np.clip((weights[:, :, None] * means).sum(axis=0), *bounds)
    return centres


def _curator_means(people: OptInPoints, clusters: int, epsilon: Fraction, account: Account) -> GroupMeans:
    """Means of opt-in people: half of epsilon for the counts, half for the sums."""
    axes = people.dimensions
    queries: list[Any] = [MarginalQuery((CLUSTER,)), *(ClusterSums(axis, people.steps) for axis in range(axes))]
    shares = [epsilon / 2, *[epsilon / (2 * axes)] * axes]
    requests = []
    for query, share in zip(queries, shares, strict=True):
        bound = sensitivity(query.row_norms, max_rows=1, neighbours=Neighbours.REPLACE)
        requests.append(Request(query, DiscreteLaplace.for_epsilon(share, bound)))
    gate = Gate(people, account, neighbours=Neighbours.REPLACE)
    counts, *sums = gate.measure(requests, note="clusters")
    unit = (people.upper - people.lower) / (2 * people.steps)
    number = np.maximum(np.asarray(counts.values, dtype=np.float64), 1.0)
    offsets = unit * np.column_stack([np.asarray(part.values, dtype=np.float64) for part in sums]) / number[:, None]
    noise = (unit * sums[0].stddev) ** 2 + np.mean(offsets**2, axis=1).clip(max=(unit * people.steps) ** 2) * (
        counts.stddev**2
    )
    return GroupMeans((people.lower + people.upper) / 2 + offsets, noise / number**2)


def client_means(question: Question, clients: ClientPoints) -> GroupMeans:
    """The means of clients, with counts and sums corrected for randomised labels.

    A label is the true one with probability p, else uniform. Then N' = (N_k - (1 - p)/K N)/p and
    S' = (S_k - (1 - p)/K S)/p, and the variance of S'/N' is
    s^2 (N_k (1 - (1-p)/K)^2 + (N - N_k)((1-p)/K)^2)/(p N')^2 for reports of variance s^2.
    """
    labels, points = clients.labels(question), clients.points
    law: Any = question.law
    size, people = law.size, len(points)
    other = float(law.probability(0, 1))  # (1 - p)/K
    p = 1 - size * other
    number = np.bincount(labels, minlength=size).astype(np.float64)
    sums = np.column_stack([np.bincount(labels, weights=column, minlength=size) for column in points.T])
    true_number = (number - other * people) / p
    true_sums = (sums - other * points.sum(axis=0)) / p
    spread = float(np.mean(np.var(points, axis=0)))
    with np.errstate(divide="ignore", invalid="ignore"):
        variances = spread * (number * (1 - other) ** 2 + (people - number) * other**2) / (p * true_number) ** 2
        means = true_sums / true_number[:, None]
    empty = true_number < 1
    variances[empty], means[empty] = np.inf, 0.0
    return GroupMeans(means, variances)


def nearest(points: Floats, centres: Floats) -> Integers:
    """The nearest centre of each point."""
    gaps = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    return np.asarray(np.argmin(gaps, axis=1), dtype=np.int64)


def wcss(points: Floats, centres: Floats) -> float:
    """The sum over points of the squared distance to the nearest centre."""
    return float(((points - centres[nearest(points, centres)]) ** 2).sum())


def axis_name(axis: int) -> str:
    """The attribute of one coordinate."""
    return f"axis {axis}"
