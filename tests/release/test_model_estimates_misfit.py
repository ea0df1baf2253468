"""Misfit: tables that cannot be of the same rows are told from tables that noise moved."""

from typing import Any

import numpy as np
import pytest

import hush
from hush import Domain, Measurement
from hush.release.model_estimates import Misfit

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})
TRUTH = np.random.Generator(np.random.PCG64(5)).integers(0, 30, size=DOMAIN.shape).astype(float)
PAIRS = [("a", "b"), ("b", "c"), ("c", "a")]


def table(*clique: str) -> np.ndarray[Any, Any]:
    ordered = DOMAIN.clique(clique)
    summed = TRUTH.sum(axis=tuple(axis for axis, name in enumerate(DOMAIN) if name not in clique))
    return np.transpose(summed, [ordered.index(name) for name in clique])


def noisy(seed: int, stddev: float, noise: Any = "gaussian") -> list[Measurement]:
    chance = np.random.Generator(np.random.PCG64(seed))
    draw = chance.normal if noise == "gaussian" else chance.laplace
    scale = stddev if noise == "gaussian" else stddev / np.sqrt(2)
    return [
        Measurement(pair, table(*pair) + draw(scale=scale, size=table(*pair).shape), stddev, noise=noise)
        for pair in PAIRS
    ]


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("stddev", [0.5, 5.0, 200.0])
@pytest.mark.parametrize("method", ["exact", "approximate"])
def test_noise_as_stated_is_not_remarked_on(noise: Any, stddev: float, method: Any) -> None:
    for seed in range(3):
        model = hush.fit(DOMAIN, noisy(seed, stddev, noise), method=method)
        assert not any("differ" in caveat for caveat in model.caveats)
        assert 0 < model.stats["misfit"] < 1.5


def test_the_misfit_is_the_root_mean_square_by_hand() -> None:
    told = [
        Measurement(("a", "c"), table("a", "c") + 1.0, 2.0),
        Measurement(("c", "a"), table("c", "a") + 3.0, 2.0),
        Measurement(("b",), np.cumsum(table("b")) - 10.0, 5.0, query={"b": hush.queries.prefix}),
    ]
    exact = hush.fit(DOMAIN, [Measurement(DOMAIN.attributes, TRUTH, 1e-4)])
    found = Misfit(exact.distribution, told)
    assert list(found.tables) == [("b",), ("a", "c")]
    np.testing.assert_allclose(found.tables[("b",)], 2.0, rtol=1e-3)
    np.testing.assert_allclose(found.tables[("a", "c")], np.sqrt((0.25 + 2.25) / 2), rtol=1e-3)
    np.testing.assert_allclose(found.overall, np.sqrt((4 * 4.0 + 12 * 1.25) / 16), rtol=1e-3)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("method", ["exact", "approximate"])
def test_tables_of_other_rows_are_remarked_on(noise: Any, method: Any) -> None:
    other = Measurement(("c", "a"), 3 * table("c", "a")[::-1], 1.0, noise=noise)
    model = hush.fit(DOMAIN, [*noisy(1, 1.0, noise)[:2], other], method=method)
    (caveat,) = model.caveats
    assert "differ from the model by" in caveat
    assert next(iter(model.misfit)) in [("a", "c"), ("b", "c")]
    assert caveat in model.marginal("a").notes


def test_a_single_table_with_a_wrong_stddev_is_named_among_many() -> None:
    many = [Measurement(("a", "b"), table("a", "b"), 1.0) for _ in range(60)]
    shifted = table("c") + np.array([8.0, -8.0])
    model = hush.fit(DOMAIN, [*many, Measurement(("b", "c"), table("b", "c"), 0.1), Measurement(("c",), shifted, 1.0)])
    assert model.stats["misfit"] < 1.5
    assert any("most in (c)" in caveat for caveat in model.caveats)


def test_a_misfit_is_kept_in_files(tmp_path: Any) -> None:
    told = noisy(1, 1.0)
    model = hush.fit(DOMAIN, told)
    model.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    assert isinstance(loaded, hush.Model)
    assert (loaded.stats["misfit"], loaded.misfit) == (model.stats["misfit"], model.misfit)
    assert list(model.misfit.values()) == sorted(model.misfit.values(), reverse=True)


@pytest.mark.parametrize("method", ["exact", "approximate"])
def test_tables_that_add_up_to_nothing_are_remarked_on(method: Any) -> None:
    model = hush.fit(DOMAIN, [Measurement(("a",), [-3.0, -1.0, -2.0], 5.0)], method=method)
    assert model.total == 1.0
    assert any("less than 1 record" in caveat for caveat in model.caveats)
    assert hush.fit(DOMAIN, [Measurement(("a",), [-3.0, -1.0, -2.0], 5.0)], total=1.0, method=method).caveats == ()
