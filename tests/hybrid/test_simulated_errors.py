"""Errors before anybody is asked: as the closed forms say, told in words and numbers, and what is refused."""

import json
import math

import pytest

from hush.core.errors import DataError
from hush.hybrid.mean_errors import MeanSetting, client_noise
from hush.hybrid.simulated_errors import LIST_EPSILONS, SimulatedErrors, SimulateOptions, simulate_errors, two_digits

OPTIONS = SimulateOptions(people=20_000, share=0.3, epsilon=5.0, log_people=40_000)


@pytest.fixture(scope="module")
def found() -> SimulatedErrors:
    return simulate_errors(OPTIONS)


def test_errors_of_a_mean_are_those_of_the_closed_forms(found: SimulatedErrors) -> None:
    noise = client_noise(5.0, mechanism="piecewise", variance=1 / 16, width=1.0)
    setting = MeanSetting(
        people=20_000, share=0.3, curator_noise=2 / (6000 * 5) ** 2, client_noise=noise, variance=1 / 16
    )
    assert found.mean["everybody as a client"] == pytest.approx(math.sqrt(noise / 20_000))
    assert found.mean["opt-in people alone"] == pytest.approx(math.sqrt(setting.curator_error.total))
    assert found.mean["both groups"] == pytest.approx(math.sqrt(setting.error(setting.best_weight).total))
    assert found.mean["both groups"] < min(found.mean["opt-in people alone"], found.mean["everybody as a client"])


def test_head_lists_are_simulated_at_the_epsilon_that_was_asked_for(found: SimulatedErrors) -> None:
    """9,000 opt-in people find ten queries at epsilon 5 all but surely."""
    assert 5.0 in found.head_list[0].x
    assert {line.name for line in found.head_list} == {"both groups", "opt-in people alone", "clients alone"}
    assert set(found.head_list[0].x) <= {*LIST_EPSILONS, 5.0}


def test_the_tables_say_what_was_simulated_and_every_error(found: SimulatedErrors) -> None:
    means, lists = (table.text() for table in found.tables())
    assert means.startswith("A mean of 20,000 people, 30 % of whom opt in, at epsilon 5\n")
    for name, error in found.mean.items():
        assert any(line.split() == [*name.split(), two_digits(error)] for line in means.splitlines())
    assert lists.startswith("A head list of 40,000 invented people, 30 % of whom opt in\n")
    rows = [line.split() for line in lists.splitlines()[2:-1]]
    assert rows == [
        [f"{epsilon:g}", *(two_digits(line.y[i]) for line in found.head_list)]
        for i, epsilon in enumerate(found.head_list[0].x)
    ]
    assert "e-" not in means + lists


def test_a_list_that_is_found_nowhere_is_said() -> None:
    few = simulate_errors(SimulateOptions(people=1000, share=0.01, log_people=1000))
    assert "No list of 10 queries was found at any epsilon; more people must opt in." in few.tables()[1].text()


def test_the_plain_form_has_everything(found: SimulatedErrors) -> None:
    body = json.loads(json.dumps(found.to_dict()))
    assert body["options"]["people"] == 20_000
    assert body["mean"] == found.mean
    assert len(body["mean by epsilon"]["epsilon"]) == len(body["mean by epsilon"]["errors"]["both groups"])
    assert set(body) == {"options", "mean", "mean by epsilon", "mean by share", "head list by epsilon"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stddev": 0.6}, "at most half of the range"),
        ({"share": 0.0}, "share=0.0: expected a number between 0 and 1"),
        ({"epsilon": 40.0}, "epsilon=40.0: expected a number above 0 and at most 32"),
        ({"people": 5}, "people=5: expected a whole number from 100 to 1,000,000,000"),
    ],
)
def test_options_out_of_range_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        SimulateOptions(**change)  # type: ignore[arg-type]
