"""Values placed inside bins: they stay inside and their means are met."""

import numpy as np
import pytest

from hush.models.graphical.synthetic_rows import decoded
from hush.models.graphical.values_in_bins import EXTREME, mean_tilts, shares_in_bins, tilts
from hush.schema import Integer, Numeric, Schema


def test_the_tilt_gives_the_mean() -> None:
    means = np.array([0.01, 0.2, 0.5, 0.77, 0.99])
    x = (np.arange(200_000) + 0.5) / 200_000
    for mean, a in zip(means, tilts(means), strict=True):
        density = np.exp(a * (x - (a > 0)))
        assert float(x @ density / density.sum()) == pytest.approx(mean, abs=2e-5)


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_the_means_of_all_bins_are_met_to_a_row(rows: int) -> None:
    means = np.array([0.03, 0.3, 0.5, 0.9, 1.0])
    levels = np.repeat(np.arange(5), rows)
    shares = shares_in_bins(levels, means, np.random.default_rng(1))
    assert shares.min() >= 0
    assert shares.max() < 1
    found = np.array([shares[levels == level].mean() for level in range(5)])
    np.testing.assert_allclose(found, np.clip(means, EXTREME, 1 - EXTREME), atol=1 / rows)


def test_rows_of_a_bin_are_in_random_order() -> None:
    shares = shares_in_bins(np.zeros(1000, dtype=np.int64), np.array([0.2]), np.random.default_rng(1))
    assert abs(np.corrcoef(np.arange(1000), shares)[0, 1]) < 0.15  # 4.7 standard errors


def test_numbers_and_integers_meet_the_means_and_keep_their_codes() -> None:
    schema = Schema(
        [
            Numeric(name="fare", edges=(0.0, 10.0, 500.0), points=(0.0,), missing=True),
            Integer(name="age", low=0, high=99, starts=(0, 50)),
        ]
    )
    random = np.random.default_rng(2)
    codes = {"fare": random.integers(0, schema.domain["fare"], 6000), "age": random.integers(0, 2, 6000)}
    means = {"fare": np.array([0.0, 2.5, 40.0]), "age": np.array([10.0, 90.0])}
    table = decoded(schema, codes, random, means).to_pandas()
    for name, wanted in means.items():
        values = table[name].to_numpy(dtype=float)
        again = np.array([schema[name].size - 1 if np.isnan(v) else schema[name].code_of(v) for v in values])
        np.testing.assert_array_equal(again, codes[name])
        for code, mean in enumerate(wanted):
            assert values[codes[name] == code].mean() == pytest.approx(mean, rel=0.02, abs=0.3)


def test_the_least_change_of_shares_brings_a_mean_to_the_measured_one() -> None:
    counts = np.array([[900.0, 90.0, 10.0], [900.0, 90.0, 10.0], [5.0, 5.0, 90.0], [0.0, 0.0, 0.0]])
    values = np.array([0.0, 10.0, 1000.0])
    before = counts[:3] @ values / counts[:3].sum(axis=1)
    measured = np.array([6.0, before[1] + 0.5, 500.0, 3.0])
    logs = mean_tilts(counts, values, measured, np.array([0.1, 1.0, 1.0, 1.0]))
    after = counts * np.exp(logs)
    np.testing.assert_allclose(after.sum(axis=1), counts.sum(axis=1))
    means = after[:3] @ values / after[:3].sum(axis=1)
    assert means[0] == pytest.approx(6.0, abs=0.1)  # far from the model's 10.9, and sure
    assert means[1] == pytest.approx(before[1])  # within the error of the measured one: left alone
    assert means[2] == pytest.approx(500.0, abs=1.0)
    np.testing.assert_array_equal(logs[3], 0.0)
    ratio = np.log(after[0] / counts[0])
    assert (ratio[2] - ratio[1]) / (ratio[1] - ratio[0]) == pytest.approx(990 / 10)  # linear in the value


def test_without_means_bins_are_uniform() -> None:
    """The control: a bin far from uniform is seen."""
    schema = Schema([Numeric(name="fare", edges=(0.0, 100.0))])
    codes = {"fare": np.zeros(4000, dtype=np.int64)}
    assert decoded(schema, codes, np.random.default_rng(1))["fare"].to_numpy().mean() == pytest.approx(50, abs=3)
