"""Noisy tables of OpenDP's contingency tables become measurements over a schema with the same labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import hush
from hush.errors import DataError
from hush.interop import from_opendp_table

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    mbi = pytest.importorskip("mbi")
    opendp_mbi = pytest.importorskip("opendp.extras.mbi")

NOISY = np.array([[5.0, 60.0, 41.0], [7.0, 30.0, 80.0]])


def released(query: Any = None) -> Any:
    """A contingency table of OpenDP as its algorithms return it, with null as the first key of a column."""
    options = {} if query is None else {"query": query}
    values = NOISY.ravel() if query is None else NOISY.ravel()[1:]
    measurement = mbi.LinearMeasurement(values, ("sex", "town"), 2.0, **options)
    domain = mbi.Domain(("sex", "town"), (2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mbi.estimation.MirrorDescent().estimate(domain, [measurement], known_total=223.0)
    keys = {"sex": ["f", "m"], "town": [None, "x", "y"]}
    return opendp_mbi.ContingencyTable(keys=keys, cuts={}, marginals={("sex", "town"): measurement}, model=model)


def test_a_table_becomes_measurements_with_missing_last() -> None:
    schema, (measurement,) = from_opendp_table(released())
    assert [schema["town"].label(code) for code in range(3)] == ["x", "y", "(missing)"]
    assert (measurement.clique, measurement.stddev) == (("sex", "town"), 2.0)
    assert measurement.values.tolist() == NOISY[:, [1, 2, 0]].tolist()


def test_the_model_fitted_to_it_is_theirs() -> None:
    table = released()
    schema, measurements = from_opendp_table(table)
    ours = hush.fit(schema, measurements).counts(("sex", "town"))
    theirs = np.asarray(table.project(["sex", "town"]))[:, [1, 2, 0]]
    assert np.abs(theirs - ours).max() < 1.0


def test_other_queries_than_tables_are_refused() -> None:
    from mbi.marginal_loss import SlicedQuery

    with pytest.raises(DataError, match="other queries"):
        from_opendp_table(released(SlicedQuery(1)))
