"""Column chances: laws, drift with its total variation, and sets drawn by the product of masses."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from hush.core.errors import WorkloadError
from hush.evaluation import ColumnChances

NAMES = tuple(f"c{i}" for i in range(14))
MANY = tuple(f"c{i}" for i in range(48))


def test_the_laws_have_their_masses() -> None:
    assert ColumnChances.uniform([*"abcd"]).masses == (0.25,) * 4
    assert ColumnChances.zipf([*"abc"]).masses == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    assert ColumnChances.geometric([*"abc"]).masses == pytest.approx(np.array([16, 12, 9]) / 37)
    assert ColumnChances.given({"a": 3, "b": 1}).masses == (0.75, 0.25)
    shuffled = ColumnChances.zipf(NAMES, seed=3)
    assert set(shuffled.columns) == set(NAMES)
    assert shuffled.columns != NAMES
    history = ColumnChances.of_history("abc", [(("a", "b"), 2.0), (("a",), 1.0)])
    assert history.masses == pytest.approx(np.array([3.5, 2.5, 0.5]) / 6.5)


def test_drift_keeps_the_masses_and_their_ends() -> None:
    chances = ColumnChances.geometric(NAMES, seed=5)
    assert chances.drifted(0.0, seed=1) == chances
    turned = chances.drifted(1.0, seed=1)
    ranks = sorted(range(14), key=lambda i: -chances.masses[i])
    assert [turned.masses[i] for i in ranks] == pytest.approx(sorted(chances.masses))
    for gamma in (0.1, 0.5, 0.9):
        assert sorted(chances.drifted(gamma, seed=2).masses) == pytest.approx(sorted(chances.masses))
    assert ColumnChances.uniform([*"a"]).drifted(0.5).masses == (1.0,)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (NAMES, {0.05: 0.012, 0.1: 0.073, 0.2: 0.211, 0.3: 0.354, 0.4: 0.461, 0.5: 0.538, 0.75: 0.723, 1.0: 0.764}),
        (MANY, {0.05: 0.134, 0.1: 0.273, 0.2: 0.480, 0.5: 0.856, 0.75: 0.991, 1.0: 0.998}),
    ],
)
def test_the_mean_total_variation_of_a_drift(columns, expected) -> None:
    """100 seeds: the standard error of a mean is below 0.012, and the draws are the same every time."""
    chances = ColumnChances.geometric(columns)
    for gamma, distance in expected.items():
        means = [chances.distance(chances.drifted(gamma, seed=seed)) for seed in range(100)]
        assert np.mean(means) == pytest.approx(distance, abs=0.04)


@pytest.mark.parametrize(("law", "size"), [("product", 2), ("product", 3), ("successive", 2)])
def test_sets_have_their_probabilities(law, size) -> None:
    """Chi-square over all sets of 5 columns with fixed seeds; 6 standard deviations above its mean."""
    chances = ColumnChances.given({"a": 8, "b": 4, "c": 2, "d": 1, "e": 1})
    p = dict(zip(chances.columns, chances.masses, strict=True))
    sets = list(itertools.combinations("abcde", size))
    if law == "product":
        weights = np.array([math.prod(p[name] for name in each) for each in sets])
    else:
        weights = np.array([p[a] * p[b] / (1 - p[a]) + p[b] * p[a] / (1 - p[b]) for a, b in sets])
    drawn = Counter(chances.sets(size, 4_000, seed=7, law=law))
    expected = 4_000 * weights / weights.sum()
    statistic = sum((drawn[each] - e) ** 2 / e for each, e in zip(sets, expected, strict=True))
    freedom = len(sets) - 1
    assert statistic < freedom + 6 * math.sqrt(2 * freedom)
    if law == "successive":  # the control: it is not the product law
        product = np.array([p[a] * p[b] for a, b in sets])
        other = 4_000 * product / product.sum()
        wrong = sum((drawn[each] - e) ** 2 / e for each, e in zip(sets, other, strict=True))
        assert wrong > freedom + 6 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("listed", [200_000, 0])
def test_different_sets_are_drawn_once(listed, monkeypatch) -> None:
    """The first of three is drawn by the law of one, whichever way different ones are found."""
    monkeypatch.setattr("hush.evaluation.column_chances.MOST_LISTED", listed)
    chances = ColumnChances.given({"a": 8, "b": 4, "c": 2, "d": 1})
    firsts = Counter(chances.sets(2, 3, seed=seed, different=True)[0] for seed in range(1000))
    for seed in range(20):
        assert len(set(chances.sets(2, 6, seed=seed, different=True))) == 6
    weights = {pair: math.prod(dict(zip("abcd", (8, 4, 2, 1), strict=True))[n] for n in pair) for pair in firsts}
    total = sum(math.prod(pair) for pair in itertools.combinations((8, 4, 2, 1), 2))
    for pair, weight in weights.items():
        assert firsts[pair] / 1000 == pytest.approx(weight / total, abs=0.08)  # 5 standard deviations of a half


def test_many_columns_need_no_list_of_sets() -> None:
    wide = ColumnChances.zipf([f"c{i}" for i in range(1000)])
    drawn = wide.sets(4, 50, seed=1)
    assert all(len(set(each)) == 4 for each in drawn)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ColumnChances.given({}), "0 masses for the columns"),
        (lambda: ColumnChances.given({"a": 0.0}), "expected finite numbers above 0"),
        (lambda: ColumnChances(("a", "a"), (1.0, 1.0)), "expected one for each"),
        (lambda: ColumnChances.uniform([*"ab"]).drifted(1.5), "drift=1.5: expected a number from 0"),
        (lambda: ColumnChances.uniform([*"ab"]).sets(3, 1), "size=3: expected a whole number from 1 to 2"),
        (
            lambda: ColumnChances.uniform([*"abc"]).sets(2, 4, different=True),
            "4 different sets of 2 of 3 columns",
        ),
        (lambda: ColumnChances.uniform([*"ab"]).sets(1, 0), "draws=0: expected a whole number of at least 1"),
        (
            lambda: ColumnChances.uniform([*"ab"]).sets(1, 1, law="x"),
            "law='x': expected one of 'product'",
        ),
        (
            lambda: ColumnChances.uniform([*"ab"]).distance(ColumnChances.uniform([*"ac"])),
            "give both over the same columns",
        ),
        (lambda: ColumnChances.zipf([*"ab"], -1), "exponent=-1: expected a number of at least 0"),
        (lambda: ColumnChances.uniform("age"), "columns='age': expected a list of names"),
        (lambda: ColumnChances.given([2.0, 1.0]), r"masses \[2.0, 1.0\]: expected one for each column"),
        (lambda: ColumnChances.of_history(["a"], [(("b",), 1.0)]), "the history asks for 'b', which is none of the"),
        (lambda: ColumnChances.zipf([*"ab"], seed=-1), "seed=-1: expected a whole number of at least 0"),
        (lambda: ColumnChances.geometric([*"ab"], 1), "chance=1: expected a number between 0 and 1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(make, message) -> None:
    with pytest.raises(WorkloadError, match=message):
        make()
