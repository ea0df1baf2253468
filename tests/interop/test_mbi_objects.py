"""Domains, datasets and measurements go to mbi and come back the same."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest

import hush
from hush.interop import from_mbi_domain, from_mbi_measurements, mbi_dataset, mbi_domain, mbi_measurements

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # mbi warns about the settings of JAX when it is imported
    mbi = pytest.importorskip("mbi")

DOMAIN = hush.Domain({"age": 4, "sex": 2, "race": 3})


def test_a_domain_comes_back_and_keeps_its_labels() -> None:
    assert from_mbi_domain(mbi_domain(DOMAIN)) == DOMAIN
    schema = hush.datasets.people_schema()
    assert mbi_domain(schema).labels[1] == ("female", "male")


def test_measured_tables_come_back_in_any_order_of_columns() -> None:
    values = np.arange(8.0).reshape(2, 4)
    (theirs,) = mbi_measurements([hush.Measurement(("sex", "age"), values, stddev=2.0)], DOMAIN)
    assert theirs.clique == ("age", "sex")
    (back,) = from_mbi_measurements([theirs], DOMAIN)
    assert (back.clique, back.stddev) == (("age", "sex"), 2.0)
    assert back.values.tolist() == values.T.tolist()


def test_queries_come_back_as_matrices() -> None:
    prefix = hush.Measurement(("age",), [1.0, 2.0, 5.0, 9.0], stddev=1.0, query={"age": hush.queries.prefix})
    (theirs,) = mbi_measurements([prefix], DOMAIN)
    table = mbi.Factor(mbi.Domain(("age",), (4,)), np.array([1.0, 2.0, 3.0, 4.0]))
    assert np.asarray(theirs.query(table)).tolist() == [1.0, 3.0, 6.0, 10.0]
    (back,) = from_mbi_measurements([theirs], DOMAIN)
    assert back.query.dense().tolist() == np.tri(4).tolist()


def test_both_fit_the_same_model() -> None:
    rng = np.random.default_rng(3)
    tables = [("age", "sex"), ("sex", "race")]
    noisy = [hush.Measurement(c, rng.normal(100, 20, DOMAIN.sizes(c)), stddev=5.0) for c in tables]
    ours = hush.fit(DOMAIN, noisy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = mbi.estimation.MirrorDescent().estimate(
            mbi_domain(DOMAIN), mbi_measurements(noisy, DOMAIN), known_total=float(ours.counts(())), iters=2000
        )
        table = np.asarray(theirs.project(("age", "sex")).datavector(flatten=False))
    assert np.abs(table - ours.counts(("age", "sex"))).max() < 1.0


def test_rows_of_a_model_are_a_dataset_and_read_back() -> None:
    model = hush.fit(DOMAIN, [hush.Measurement(("age", "sex"), np.full((4, 2), 25.0), stddev=1.0)])
    dataset = mbi_dataset(model, 200, seed=1)
    counts = np.asarray(dataset.project(("age", "sex")).datavector(flatten=False))
    table = hush.read(pa.table(dataset.to_dict()), DOMAIN)
    assert table.counts([("age", "sex")])[("age", "sex")].tolist() == counts.tolist()
    assert counts.sum() == 200
