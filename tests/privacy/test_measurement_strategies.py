"""Evidence: the noisy answers of strategies as measurements, with nothing of what they know lost."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Measurement, Workload, queries
from hush.core.errors import InterruptedRelease
from hush.mechanisms import HDMM, Direct, Matrix
from hush.mechanisms.plan import Plan
from hush.testing import StoppingTable, TinyTable

DOMAIN = Domain({"a": 2, "b": 4, "c": 3})
ROWS = [(0, 0, 0), (1, 2, 1), (1, 3, 0), (0, 1, 2), (1, 0, 0), (1, 3, 1), (0, 3, 2)]
TABLE = TinyTable(DOMAIN, ROWS)
PLAIN = Workload.marginals(DOMAIN, [("a", "b"), ("b", "c"), ("a",)], weights=[1.0, 3.0, 0.5])
MIXED = PLAIN + Workload.product(DOMAIN, {"b": queries.prefix, "c": queries.identity})
CASES: dict[str, tuple[Any, Budget]] = {
    "residual": ("residual", Budget(rho=0.5)),
    "hdmm": (HDMM(noise="gaussian"), Budget(rho=0.5)),
    "marginals": (HDMM(noise="gaussian", operators=("marginals",)), Budget(rho=0.5)),
    "matrix": (Matrix(noise="gaussian"), Budget(rho=0.5)),
    "direct": (Direct(noise="gaussian", least_squares="global"), Budget(rho=0.5)),
    "direct, laplace": (Direct(noise="laplace"), Budget(epsilon=1.0)),
}


@cache
def planned(name: str, workload: Workload) -> Plan:
    mechanism, budget = CASES[name]
    return hush.plan(workload, budget, mechanism=mechanism)


def released(name: str, workload: Workload = MIXED, scale: float = 1.0, table: TinyTable = TABLE) -> hush.Release:
    plan = planned(name, workload)
    scaled = Budget(epsilon=scale) if plan.budget.pure else Budget(rho=0.5 * scale**2)
    return plan.with_budget(scaled).release(table)


def design(one: Measurement) -> np.ndarray:
    """The rows of a measurement as sums over every cell of the domain."""
    placed = one.on(DOMAIN)
    outside = [np.eye(DOMAIN[n]) if n in placed.clique else np.ones((1, DOMAIN[n])) for n in DOMAIN]
    marginal = outside[0]
    for factor in outside[1:]:
        marginal = np.kron(marginal, factor)
    return marginal if placed.query is None else placed.query.dense() @ marginal


@pytest.mark.parametrize("name", CASES)
def test_without_noise_the_values_are_the_queries_on_the_counts(name: str) -> None:
    cells = TABLE.counts([DOMAIN.attributes])[DOMAIN.attributes].ravel().astype(float)
    found = released(name, scale=60.0).measurements()
    assert found
    for one in found:
        rows = design(one)
        np.testing.assert_allclose(one.on(DOMAIN).values.ravel(), rows @ cells, atol=9 * one.stddev + 1e-6)
        assert one.stddev < 1.5 * np.abs(rows).max()


@pytest.mark.parametrize("name", ["residual", "direct", "matrix", "marginals"])
def test_least_squares_on_the_evidence_are_the_estimates_of_the_release(name: str) -> None:
    """So the stated deviations are the right weights, and nothing was left out."""
    release = released(name, PLAIN if name == "marginals" else MIXED)
    evidence = release.measurements()
    rows = np.concatenate([design(one) / one.stddev for one in evidence])
    values = np.concatenate([one.on(DOMAIN).values.ravel() / one.stddev for one in evidence])
    cells = np.linalg.lstsq(rows, values, rcond=None)[0].reshape(DOMAIN.shape)
    for clique in [("a", "b"), ("b", "c"), ("a",), ()]:
        outside = tuple(axis for axis, attribute in enumerate(DOMAIN) if attribute not in clique)
        np.testing.assert_allclose(release.counts(clique), cells.sum(axis=outside), atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_noise_is_named_and_stays_with_its_part(name: str) -> None:
    evidence = released(name).measurements()
    assert {one.noise for one in evidence} == {"laplace" if "laplace" in name else "gaussian"}
    coarse = released(name, scale=0.1).measurements()
    for one, other in zip(evidence, coarse, strict=True):
        assert one.clique == other.clique
        assert other.stddev > 5 * one.stddev


def test_plain_tables_have_no_query() -> None:
    release = released("direct", Workload.marginals(DOMAIN, [("b", "c")]))
    (one,) = release.measurements()
    assert one.query is None
    assert one.clique == ("b", "c")
    np.testing.assert_allclose(one.values.reshape(4, 3), release.counts(("b", "c")))


@pytest.mark.parametrize("name", ["residual", "direct, laplace"])
def test_an_interrupted_release_gives_what_was_measured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hush.privacy.gate.BATCH_CELLS", 10)
    with pytest.raises(InterruptedRelease) as stopped:
        released(name, table=StoppingTable(DOMAIN, ROWS))
    monkeypatch.undo()
    partial = stopped.value.release
    assert isinstance(partial, hush.Release)
    assert 0 < len(partial.measurements()) < len(released(name).measurements())
