"""Small fitting problems with an exact optimum, for the tests of estimators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

from dense_twins import DenseModel
from hush.core.constraints import Constraint
from hush.core.domain import Clique, Domain
from hush.inference.factors import Factors
from hush.models.graphical.belief_propagation import Belief, in_tree_order
from hush.models.graphical.descent import independent_start
from hush.models.graphical.fit_problem import FitProblem
from hush.models.graphical.graphical_model import GraphicalModel, fixed_tables
from hush.models.graphical.junction_tree import JunctionTree
from hush.models.graphical.likelihood import Loss, loss_of
from hush.privacy.measurement import Measurement

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

SMALL = Domain({"a": 2, "b": 3, "c": 2, "d": 3})
SHAPES: list[list[Clique]] = [
    [("a", "b"), ("b", "c"), ("c", "d")],
    [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")],
    [("a",), ("b",), ("c", "b", "a"), ("c", "d"), ("b", "d")],
]


class Case:
    """Noisy tables of a random distribution over a small domain, and the exact optimum of their Gaussian loss."""

    def __init__(
        self,
        seed: int,
        total: float = 1000.0,
        deviations: Sequence[float] = (0.5, 2.0, 10.0),
        cliques: Sequence[Clique] | None = None,
        constraints: Sequence[Constraint] = (),
        noise: float = 1.0,
        flatness: float = 0.3,
    ) -> None:
        random = np.random.default_rng(seed)
        self.domain, self.total, self.constraints = SMALL, total, tuple(constraints)
        self.cliques = list(SHAPES[seed % len(SHAPES)] if cliques is None else cliques)
        self.dense = DenseModel(Factors(SMALL, self.cliques), fixed_tables(SMALL, self.constraints))
        p = random.dirichlet(np.full(SMALL.size(), flatness)).reshape(SMALL.shape) * np.isfinite(self.dense.fixed)
        self.truth = total * p / p.sum()
        self.measurements = [self._measured(clique, random, deviations, noise) for clique in self.cliques]

    def _measured(
        self, clique: Clique, random: np.random.Generator, deviations: Sequence[float], noise: float
    ) -> Measurement:
        stddev = float(random.choice(np.array(deviations)))
        table = marginal_of(self.truth, clique)
        return Measurement(clique, table + noise * stddev * random.normal(size=table.shape), stddev)

    def optimum(self) -> Floats:
        """Counts over the whole domain with the least loss."""
        return self.dense.least_squares(self.measurements, self.total)

    def loss(self, x: Floats) -> float:
        """Half the squared distance of a table over the domain to the measurements, in standard deviations."""
        b, y = self.dense.answers(self.measurements)
        return 0.5 * float(np.sum((b @ x.ravel() - y) ** 2))

    def distance(self, first: Floats, second: Floats) -> float:
        """The root mean square distance of the answers of two tables over the domain, in standard deviations."""
        b, _ = self.dense.answers(self.measurements)
        return float(np.sqrt(np.mean((b @ (first - second).ravel()) ** 2)))

    def problem(self, loss: Loss = "auto", **options: Any) -> FitProblem:
        tree = JunctionTree.build(SMALL, [*self.cliques, *(one.clique for one in self.constraints)], restarts=0)
        ordered = in_tree_order(tree)
        made = loss_of(ordered.domain, self.measurements, loss)
        belief = Belief(ordered, made.factors, fixed_tables(ordered.domain, self.constraints))
        return FitProblem(belief, made, self.total, **options)

    def start(self, seed: int = 0, scale: float = 0.0) -> Floats:
        cells = sum(SMALL.size(clique) for clique in {SMALL.clique(clique) for clique in self.cliques})
        return scale * np.random.default_rng(seed).normal(size=cells)

    def independent(self, problem: FitProblem) -> Floats:
        """Where `fit_model` starts."""
        factors = problem.loss.factors
        return independent_start(factors, [one.on(factors.domain) for one in self.measurements], self.total)


def marginal_of(table: Floats, clique: Clique, domain: Domain = SMALL) -> Floats:
    """The sums of a table over a domain, with axes in the order of the clique."""
    names = list(domain)
    return np.einsum(table, range(len(names)), [names.index(name) for name in clique])


def dense_counts(model: GraphicalModel) -> Floats:
    """The counts of a model over its whole domain."""
    own = model.tree.domain
    dense = DenseModel(model.factors, fixed_tables(own, model.constraints))
    p = dense.probabilities(np.array(model.potentials))
    return model.total * p.transpose([own.attributes.index(name) for name in model.domain])


def problem_counts(problem: FitProblem, potentials: Floats) -> Floats:
    """The counts of a problem's model, without constraints, over the whole of the small domain."""
    own = problem.loss.factors.domain
    dense = DenseModel(problem.loss.factors)
    return problem.total * dense.probabilities(potentials).transpose([own.attributes.index(name) for name in SMALL])


@pytest.fixture
def make_case() -> Callable[..., Case]:
    return Case


@pytest.fixture
def counts_of() -> Callable[[GraphicalModel], Floats]:
    return dense_counts


@pytest.fixture
def counts_at() -> Callable[[FitProblem, Floats], Floats]:
    return problem_counts


@pytest.fixture
def margin() -> Callable[..., Floats]:
    return marginal_of
