"""Errors before anybody is asked: as the closed forms say, told in words and numbers, and what is refused."""

import html
import json
import math
import re
from pathlib import Path

import pytest

from browser import browse
from hush.core.errors import DataError
from hush.hybrid.mean_errors import MeanSetting, client_noise
from hush.hybrid.simulated_errors import (
    LIST_EPSILONS,
    Line,
    SimulatedErrors,
    SimulateOptions,
    line_chart,
    simulate_errors,
    simulate_html,
    two_digits,
)

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
    assert set(body) == {"options", "mean", "mean by epsilon", "mean by share", "maps", "head list by epsilon"}
    assert len(body["maps"]["gain"]["gain"]) == len(body["maps"]["gain"]["share"])


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


# The page


PAGE_OPTIONS = SimulateOptions(people=20_000, share=0.3, log_people=40_000)  # a list is found at four epsilons


@pytest.fixture(scope="module")
def page() -> str:
    return simulate_html(simulate_errors(PAGE_OPTIONS))


def test_the_page_has_three_charts_two_maps_and_two_tables(page: str) -> None:
    assert page.count("<table") == 2
    assert page.count("<svg") == 5
    assert page.count('class="cell"') == 6 * 5 + 6 * 6
    assert page.count("<path") == 9
    assert "everybody as a client" in page
    assert "gain on better" in page
    assert "<script" not in page
    assert "NaN" not in page
    assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)


def test_the_page_says_against_whom_gaussian_noise_gives_less_epsilon(page: str) -> None:
    _, heading, rest = page.partition("If both groups add Gaussian noise")
    assert heading
    words = rest[: rest.index("<table")]
    assert "against someone who sees only the published mean" in words
    assert "against everybody else, the promise is the epsilon above" in words


def test_tables_scroll_where_a_screen_is_too_narrow(page: str) -> None:
    assert page.count('<div class="scroll" tabindex="0"><table') == page.count("<table")
    assert ".scroll { overflow-x: auto;" in page


def test_points_stand_where_their_logarithms_say() -> None:
    chart = line_chart("t", "x", "y", [Line("a", [1, 10, 100], [1, 10, 100])], 1)
    places = [tuple(map(float, pair)) for pair in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', chart)]
    assert places[1][0] == pytest.approx((places[0][0] + places[2][0]) / 2, abs=0.2)
    assert places[1][1] == pytest.approx((places[0][1] + places[2][1]) / 2, abs=0.2)
    assert places[0][1] > places[2][1]


def test_a_chart_without_points_is_refused() -> None:
    with pytest.raises(DataError, match="without points"):
        line_chart("t", "x", "y", [Line("a", [], [])], 1)


@pytest.mark.browser
def test_a_browser_reads_the_same_elements_and_draws_them(page: str, tmp_path: Path) -> None:
    path, picture = tmp_path / "page.html", tmp_path / "page.png"
    path.write_text(page)
    dumped = browse(tmp_path, path, "--dump-dom").stdout
    for element in ("svg", "path", "circle", "table", "figure"):
        assert dumped.count(f"<{element}") == page.count(f"<{element}")
    browse(tmp_path, path, "--window-size=900,2600", f"--screenshot={picture}")
    assert picture.stat().st_size > 20_000


NARROW = """<!DOCTYPE html><meta charset="utf-8"><iframe id="frame" src="page.html" style="width: 400px; border: 0">
</iframe><script>
frame.onload = () => {
  const page = frame.contentDocument;
  const wide = [...page.querySelectorAll("table, svg, p, h1, h2, h3")];
  document.body.dataset.found = JSON.stringify([page.documentElement.scrollWidth,
    wide.length, wide.filter(part => part.getBoundingClientRect().right > 400).map(part => part.tagName)]);
};
</script>"""


@pytest.mark.browser
def test_nothing_is_cut_on_a_screen_of_400_pixels(page: str, tmp_path: Path) -> None:
    """Tables fit without scrolling: a phone shows no scroll bar, so a column beyond the edge would be missed."""
    (tmp_path / "page.html").write_text(page)
    (tmp_path / "outer.html").write_text(NARROW)
    options = ("--allow-file-access-from-files", "--window-size=800,2600", "--dump-dom")
    shown = browse(tmp_path, tmp_path / "outer.html", *options).stdout
    found = re.search(r'data-found="([^"]*)"', shown)
    assert found is not None
    width, parts, beyond = json.loads(html.unescape(found.group(1)))
    assert width <= 400
    assert parts > 10
    assert beyond == []
