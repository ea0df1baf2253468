"""Maps of hybrid means: the numbers of the closed forms, in their places, and what is refused."""

import pytest

from hush.core.errors import DataError
from hush.hybrid import amplification_map, amplified_epsilon, gain_map
from hush.hybrid.heat_maps import HeatMap
from hush.hybrid.mean_errors import MeanSetting


def test_gains_stand_in_the_row_of_their_share_and_the_column_of_their_epsilon() -> None:
    found = gain_map(10_000, 1 / 12, shares=[0.01, 0.1], epsilons=[0.1, 1.0, 10.0], weight="privacy")
    setting = MeanSetting.laplace(people=10_000, share=0.1, epsilon=0.1, variance=1 / 12)
    assert found.values[1][0] == pytest.approx(setting.gain(setting.privacy_weight))
    assert [len(row) for row in found.values] == [3, 3]


def test_coalitions_raise_the_epsilon_that_outsiders_see() -> None:
    found = amplification_map(10_000, 1 / 12, epsilon=1.0, delta=1e-6, shares=[0.01], coalitions=[0.0, 0.9])
    assert 0 < found.values[0][0] < found.values[0][1] <= 1.0
    setting = MeanSetting.gaussian(people=10_000, share=0.01, epsilon=1.0, delta=1e-6, variance=1 / 12)
    seen = amplified_epsilon(people=10_000, share=0.01, epsilon=1.0, delta=1e-6, weight=setting.best_weight)
    assert found.values[0][0] == seen.joint


def test_the_picture_has_a_cell_and_a_number_for_each_pair() -> None:
    found = HeatMap.of("gain", ("share", [0.1, 0.2]), ("epsilon", [1.0]), lambda share, epsilon: share * 10)
    chart = str(found.chart(1))
    assert chart.count('class="cell"') == 2
    assert ">1</text>" in chart
    assert ">2</text>" in chart
    assert 'fill-opacity="0.50"' in chart
    assert 'fill-opacity="1.00"' in chart
    assert found.to_dict() == {"share": [0.1, 0.2], "epsilon": [1.0], "gain": [[1.0], [2.0]]}


def test_bad_input_is_refused() -> None:
    with pytest.raises(DataError, match="weight='size': expected 'best' or 'privacy'"):
        gain_map(1000, 0.1, weight="size")
    with pytest.raises(DataError, match="group='all'"):
        amplification_map(1000, 0.1, epsilon=1.0, delta=1e-6, group="all")
    with pytest.raises(DataError, match="expected at least one value each"):
        gain_map(1000, 0.1, shares=[])
