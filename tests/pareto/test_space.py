"""Search spaces: places, values, features, grids, and what is refused."""

import math
from collections import Counter

import numpy as np
import pytest

from hush.core.errors import SearchError
from hush.pareto.space import ChoiceSetting, IntegerSetting, RealSetting, Space

SPACE = Space(
    [
        RealSetting("rate", 1e-3, 1e-1, log=True),
        IntegerSetting("epochs", 1, 4),
        IntegerSetting("lot", 8, 512, log=True),
        ChoiceSetting("optimizer", ("sgd", "adam")),
    ]
)


def test_every_place_is_a_value_and_back() -> None:
    points = np.random.default_rng(1).random((200, 4))
    for settings in SPACE.settings_at(points):
        again = SPACE.settings_at(SPACE.places_of(settings)[None])[0]
        assert again["rate"] == pytest.approx(settings["rate"])
        assert {**again, "rate": 0} == {**settings, "rate": 0}


def test_ends_are_within_bounds_and_numbers_have_equal_shares() -> None:
    assert SPACE.settings_at(np.array([[0.0] * 4, [1.0] * 4])) == [
        {"rate": pytest.approx(1e-3), "epochs": 1, "lot": 8, "optimizer": "sgd"},
        {"rate": pytest.approx(1e-1), "epochs": 4, "lot": 512, "optimizer": "adam"},
    ]
    shares = Counter(IntegerSetting("n", 1, 4).values_at(np.linspace(0.001, 0.999, 4000)))
    assert all(abs(share - 1000) <= 2 for share in shares.values())


def test_features_of_equal_settings_are_equal_and_choices_have_no_order() -> None:
    points = np.array([[0.5, 0.3, 0.5, 0.1], [0.5, 0.31, 0.5, 0.4], [0.5, 0.3, 0.5, 0.9]])
    features = SPACE.features(points)
    assert features.shape == (3, 5)
    assert (features[0] == features[1]).all()
    assert features[0, 3:].tolist() == [1.0, 0.0]
    assert features[2, 3:].tolist() == [0.0, 1.0]


def test_draws_fill_every_slice_of_every_setting() -> None:
    drawn = SPACE.draw(10, np.random.default_rng(2))
    assert all(sorted((drawn[:, i] * 10).astype(int)) == list(range(10)) for i in range(4))


def test_a_grid_has_all_combinations_on_the_scale_of_each_setting() -> None:
    grid = SPACE.grid(3)
    assert len(grid) == 3 * 3 * 3 * 2
    assert sorted({round(point["rate"], 9) for point in grid}) == [0.001, 0.01, 0.1]
    assert sorted({point["lot"] for point in grid}) == [8, 64, 512]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Space([]), "the search space is empty"),
        (lambda: Space([RealSetting("a", 0, 1), RealSetting("a", 0, 1)]), "expected each name once"),
        (lambda: Space(["a"]), "expected a RealSetting"),
        (lambda: RealSetting("noise", 2, 1), "noise from 2 to 1: expected two numbers, the lower first"),
        (lambda: RealSetting("noise", 1, 1), "the lower first"),
        (lambda: RealSetting("noise", 0, 1, log=True), "above 0"),
        (lambda: RealSetting("noise", math.nan, 1), "expected two numbers"),
        (lambda: IntegerSetting("n", 1, 2.5), "whole numbers"),
        (lambda: ChoiceSetting("c", ()), "without repeats"),
        (lambda: ChoiceSetting("c", ("a", "a")), "without repeats"),
        (lambda: SPACE.places_of({"rate": 1}), "expected rate, epochs, lot, optimizer"),
        (lambda: SPACE.grid(0), "at least 1"),
        (lambda: SPACE.grid(2000), "at most 1,000,000"),
        (lambda: RealSetting("noise", 1, 2).place(3), "noise=3: expected a number from 1 to 2"),
        (lambda: ChoiceSetting("c", ("a",)).place("b"), "expected one of"),
    ],
)
def test_what_makes_no_sense_is_refused(make, says) -> None:
    with pytest.raises(SearchError, match=says):
        make()
