"""Which tables are drawn: those that say most, judged against noise."""

from collections.abc import Callable

import numpy as np

from hush.core.domain import Domain
from hush.release.release import Release
from hush.report.figures import departure, map_figures, rank_columns, rank_pairs
from hush.schema import Schema

DOMAIN = Domain({"a": 5, "b": 4, "c": 3})


def release(make: Callable[..., Release], noise: float, seed: int, dependent: bool) -> Release:
    """Columns a and b with or without dependence, c independent of both, noise on every cell of every table."""
    random = np.random.default_rng(seed)
    a, b, c = np.array([5, 4, 3, 2, 1]), np.array([1, 1, 1, 1]), np.array([3, 2, 1])
    joint = 300.0 * np.multiply.outer(np.multiply.outer(a, b), c)
    if dependent:
        joint[0, 0] *= 1.5
        joint[1, 1] *= 0.5
    cliques = [(), ("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")]
    axes = {name: place for place, name in enumerate(DOMAIN)}
    counts = {}
    for clique in cliques:
        others = tuple(axes[name] for name in DOMAIN if name not in clique)
        table = joint.sum(axis=others)
        counts[clique] = table + noise * random.normal(size=table.shape)
    return make(Schema.from_domain(DOMAIN), counts=counts, variance=noise**2)


def test_the_steepest_column_comes_first(make: Callable[..., Release]) -> None:
    ranked = rank_columns(release(make, 20.0, 1, False).estimates)
    assert [one.clique for one in ranked] == [("c",), ("a",), ("b",)]
    assert [one.visible for one in ranked] == [True, True, False]


def test_dependent_columns_come_first(make: Callable[..., Release]) -> None:
    made = release(make, 20.0, 2, True)
    pairs = rank_pairs(made.estimates, rank_columns(made.estimates))
    assert pairs[0].clique == ("a", "b")
    assert [pair.visible for pair in pairs] == [True, False, False]
    assert [figure.ranked.clique for figure in map_figures(made, pairs)] == [("a", "b")]


def test_noise_alone_is_not_taken_for_dependence(make: Callable[..., Release]) -> None:
    found = []
    for seed in range(60):
        for noise in (20.0, 400.0):  # the second hides most cells, and blurs what is expected of them
            made = release(make, noise, seed, False)
            found += rank_pairs(made.estimates, rank_columns(made.estimates))
    assert not [pair for pair in found if pair.visible]
    assert 0.7 < np.mean([pair.departure for pair in found]) < 1.1


def test_where_even_the_total_is_noise_nothing_is_claimed(make: Callable[..., Release]) -> None:
    made = make(Schema.from_domain(DOMAIN), counts={("a", "b"): -np.ones((5, 4))}, variance=100.0)
    pairs = rank_pairs(made.estimates, rank_columns(made.estimates))
    assert next(pair.departure for pair in pairs if pair.clique == ("a", "b")) == 0.0
    assert len(map_figures(made, pairs[-1:])) == 1


def test_departure_falls_back_on_the_error_of_a_count() -> None:
    counts, expected = np.array([10.0, 30.0]), np.array([16.0, 25.0])
    unknown = np.array([np.nan, 0.0])
    assert departure(counts, expected, unknown, 1) == np.sqrt((6 / 4) ** 2 + (5 / 5) ** 2)
