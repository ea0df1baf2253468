"""The page of simulated errors: its charts, its figures, and what is refused."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from hush.cli.main import main
from hush.errors import DataError
from hush.hybrid.simulate_page import Line, SimulateOptions, _ticks, line_chart, simulate_html

OPTIONS = SimulateOptions(people=20_000, share=0.3, log_people=40_000)  # a list is found at four epsilons


@pytest.fixture(scope="module")
def page() -> str:
    return simulate_html(OPTIONS)


def test_the_page_has_three_charts_and_a_table(page: str) -> None:
    assert page.count("<svg") == 3
    assert page.count("<path") == 9
    assert "everybody as a client" in page
    assert "gain on better" in page
    assert "<script" not in page
    assert "NaN" not in page
    assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)


def test_points_stand_where_their_logarithms_say() -> None:
    chart = line_chart("t", "x", "y", [Line("a", [1, 10, 100], [1, 10, 100])], 1)
    places = [tuple(map(float, pair)) for pair in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', chart)]
    assert places[1][0] == pytest.approx((places[0][0] + places[2][0]) / 2, abs=0.2)
    assert places[1][1] == pytest.approx((places[0][1] + places[2][1]) / 2, abs=0.2)
    assert places[0][1] > places[2][1]


def test_ticks_are_round_and_inside() -> None:
    assert _ticks(0.9, 11) == [1, 2, 5, 10]
    assert _ticks(1e-4, 1) == pytest.approx([1e-4, 1e-3, 1e-2, 0.1, 1])
    assert _ticks(1.1, 1.2) == [1.1, 1.2]


def test_a_chart_without_points_is_refused() -> None:
    with pytest.raises(DataError, match="without points"):
        line_chart("t", "x", "y", [Line("a", [], [])], 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stddev": 0.6}, "have at most half of that"),
        ({"share": 0.0}, "a share between 0 and 1"),
        ({"epsilon": 40.0}, "epsilon from 0 to 32"),
        ({"people": 5}, "100 to 10\\^9 people"),
    ],
)
def test_options_out_of_range_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        SimulateOptions(**change)  # type: ignore[arg-type]


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    words = ["hybrid", "simulate", "--people", "20000", "--share", "0.1", "--searchers", "20000", "-o", str(path)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert path.read_text().startswith("<!DOCTYPE html>")
    again = CliRunner().invoke(main, words)
    assert again.exit_code == 2
    assert "exists already" in again.output


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium")
def test_a_browser_reads_the_same_elements_and_draws_them(page: str, tmp_path: Path) -> None:
    path, picture = tmp_path / "page.html", tmp_path / "page.png"
    path.write_text(page)
    chromium = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    dumped = subprocess.run(
        [*chromium, "--dump-dom", path.as_uri()], check=True, capture_output=True, text=True, timeout=120
    ).stdout
    for element in ("svg", "path", "circle", "table", "figure"):
        assert dumped.count(f"<{element}") == page.count(f"<{element}")
    subprocess.run(
        [*chromium, "--window-size=900,2600", f"--screenshot={picture}", path.as_uri()],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    assert picture.stat().st_size > 20_000
