"""The page of simulated errors: its charts, its figures, and what is refused."""

import html
import json
import re
from pathlib import Path

import pytest

from browser import browse
from hush.core.errors import DataError
from hush.hybrid.simulate_page import line_chart, simulate_html
from hush.hybrid.simulated_errors import Line, SimulateOptions, simulate_errors

OPTIONS = SimulateOptions(people=20_000, share=0.3, log_people=40_000)  # a list is found at four epsilons


@pytest.fixture(scope="module")
def page() -> str:
    return simulate_html(simulate_errors(OPTIONS))


def test_the_page_has_three_charts_and_two_tables(page: str) -> None:
    assert page.count("<table") == 2
    assert page.count("<svg") == 3
    assert page.count("<path") == 9
    assert "everybody as a client" in page
    assert "gain on better" in page
    assert "<script" not in page
    assert "NaN" not in page
    assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)


def test_the_page_says_that_hush_adds_no_gaussian_noise_to_means(page: str) -> None:
    """The epsilons of the second table hold for noise that hush does not add, so none of them is a promise."""
    _, heading, rest = page.partition("If both groups added Gaussian noise")
    assert heading
    assert "hush adds other noise to means" in rest[: rest.index("<table")]


def test_tables_scroll_where_a_screen_is_too_narrow(page: str) -> None:
    assert page.count('<div class="scroll"><table') == page.count("<table")
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
