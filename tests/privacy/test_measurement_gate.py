"""What the gate gives is what its query asks of the counts, plus the noise that it drew."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

import hush
from hush.core.domain import Clique, Domain
from hush.core.errors import WorkloadError
from hush.linops import Identity, LevelsAndTotal
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.gate import Counts, Gate, LinearQuery, MarginalQuery, Request, watch
from hush.privacy.measurement import Measurement, StatedNoise
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace, Noise
from hush.privacy.sensitivity import ONE_CELL, RowNorms
from hush.strategies.axis_strategy import AxisStrategy
from hush.strategies.product_strategy import ProductQuery
from hush.strategies.rare_levels import MergedQuery, Merging
from hush.strategies.residual_strategy import residual_query
from hush.strategies.select_residual import select_residual
from hush.testing import TinyTable
from hush.testing.replay import Recorder
from hush.workloads import Workload

DOMAIN = Domain({"a": 2, "b": 4, "c": 3})
TABLE = TinyTable(DOMAIN, [(0, 0, 0), (1, 2, 1), (1, 3, 0), (0, 1, 2), (1, 0, 0), (1, 3, 1), (0, 3, 2)])
MERGING = Merging({"b": np.array([0, 2, 1, 2])})
MIXED = Workload.product(DOMAIN, {"b": hush.queries.prefix, "c": hush.queries.identity}) + Workload.kway(DOMAIN, 2)
PLAN = select_residual(MIXED, rho=0.5).value
MATRIX = AxisStrategy.of([[2, 0, 1], [0, 3, -1]], scale=3)
LAWS = [DiscreteGaussian.of_scale(5), DiscreteLaplace.of_scale(Fraction(7, 2)), DiscreteGaussian.of_scale(0.3)]

QUERIES: dict[str, LinearQuery] = {
    "table": MarginalQuery(("a", "c")),
    "table in another order": MarginalQuery(("c", "a")),
    "total": MarginalQuery(()),
    "merged": MergedQuery(("a", "b"), (2, 4), MERGING),
    "merged in another order": MergedQuery(("b", "a"), (4, 2), MERGING),
    "levels": ProductQuery(
        (("b",), ("c",)), (AxisStrategy(LevelsAndTotal(4, levels=3, total=2)), AxisStrategy(Identity(3)))
    ),
    "matrix": ProductQuery((("a",), ("c",)), (AxisStrategy(Identity(2)), MATRIX)),
    "one group": ProductQuery((("a", "b"), ("c",)), (AxisStrategy(Identity(8)), MATRIX)),
    "one group of counts": ProductQuery((("a", "b"), ("c",)), (AxisStrategy(Identity(8)), AxisStrategy(Identity(3)))),
    "product of nothing": ProductQuery((), ()),
    "residual": residual_query(PLAN, ("b", "c")),
    "residual of one": residual_query(PLAN, ("a",)),
}


def flat(clique: Clique) -> np.ndarray:
    return TABLE.counts([clique])[clique].ravel().astype(float)


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("name", QUERIES)
def test_values_are_the_operator_on_the_counts_plus_the_noise(name: str, law: Noise) -> None:
    query, seen = QUERIES[name], Recorder()
    with watch(seen):
        (noisy,) = Gate(TABLE, Allowance(Budget(rho=1e9))).measure([Request(query, law)])
    (passage,) = (passage for passage in seen.passages if passage.kind == "measure")
    noise = (passage.output - passage.exact).ravel() / query.scale
    exact = flat(noisy.clique)
    asked = exact if query.operator is None else query.operator @ exact
    np.testing.assert_allclose(noisy.values.ravel(), asked + noise, atol=1e-12)
    assert noisy.raw.dtype == np.int64
    assert (noisy.law, noisy.noise, noisy.asked) == (law, law.name, query)
    assert noisy.stddev == law.stddev / query.scale
    placed = noisy.on(DOMAIN)
    cells = flat(placed.clique)
    answers = cells if placed.query is None else placed.query @ cells
    assert placed.clique == DOMAIN.clique(placed.clique)
    assert placed.stddev == noisy.stddev
    moved = Measurement.of(query, passage.output - passage.exact, law).on(DOMAIN).values
    np.testing.assert_allclose(placed.values.ravel(), answers + moved.ravel(), atol=1e-12)


@pytest.mark.parametrize("stddev", [0.05, 0.1])
def test_noise_that_counts_as_no_less_keeps_everything_else(stddev: float) -> None:
    for query in QUERIES.values():
        noisy = Measurement.of(query, query.answer(TABLE.counts(query.cliques)), StatedNoise(stddev * query.scale))
        floored = noisy.floored(0.1)
        assert floored.stddev == pytest.approx(0.1)
        assert (floored is noisy) == (noisy.stddev >= 0.1)
        assert (floored.raw is noisy.raw, floored.asked, floored.noise) == (True, query, "gaussian")


@dataclass(frozen=True)
class Largest:
    """A query of several tables that is no sum of counts."""

    cliques = (("a",), ("b", "a"))
    row_norms: RowNorms = ONE_CELL

    def answer(self, counts: Counts) -> np.ndarray:
        return np.array([max(counts[clique].max() for clique in self.cliques)])


def test_what_is_no_sum_of_counts_is_no_evidence() -> None:
    (noisy,) = Gate(TABLE, Allowance(Budget(rho=1e9))).measure([Request(Largest(), LAWS[0])])
    assert (noisy.clique, noisy.values.shape, noisy.stddev) == (("a", "b"), (1,), 5.0)
    assert repr(noisy) == "Measurement(('a', 'b'), 1 numbers, stddev=5, gaussian, with a query)"
    with pytest.raises(WorkloadError, match=r"the measurement of \('a', 'b'\) answers no linear query of counts"):
        noisy.on(DOMAIN)
