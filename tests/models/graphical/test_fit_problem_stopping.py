import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hush.models.graphical.fit_problem import ITERATIONS_PER_WINDOW, Remaining


def said(values: list[float]) -> float:
    remaining = Remaining()
    return [remaining.add(value) for value in values][-1]


def test_nothing_is_said_before_two_windows() -> None:
    remaining = Remaining()
    for k in range(2 * ITERATIONS_PER_WINDOW):
        assert remaining.add(-float(k)) == math.inf
    assert math.isfinite(remaining.add(-20.0))


@given(st.floats(0.2, 0.995), st.integers(21, 400), st.floats(1e-3, 1e3))
def test_geometric_losses_are_never_called_nearer_than_they_are(rate: float, k: int, scale: float) -> None:
    values = [7.0 + scale * rate**i for i in range(k + 1)]
    left = values[-1] - 7.0
    assert said(values) >= 1.9 * left - 1e-11 * scale


@given(st.floats(0.3, 3.0), st.integers(21, 3000))
def test_losses_that_shrink_as_a_power_are_never_called_much_nearer_than_they_are(power: float, k: int) -> None:
    """Equal windows alone would say as little as a sixth of what is left."""
    values = [2.0 + (i + 1.0) ** -power for i in range(k + 1)]
    assert said(values) >= 0.6 * (values[-1] - 2.0)


def test_it_does_not_go_on_for_ever() -> None:
    values = np.array([1.0 + 0.5**i for i in range(60)])
    assert said(values.tolist()) < 1e-6
    assert said([3.0] * 30) == 0.0


def test_decreases_that_grow_again_are_not_the_end() -> None:
    """A plateau left at a growing pace: the next decrease is more than the windows and quarters promise in all."""
    values = [1e6 * 0.1**i for i in range(21)] + [-(1e-5 * 2.6**i) for i in range(6)]
    assert said(values) > 50 * (values[-2] - values[-1])
