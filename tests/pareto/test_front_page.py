"""The page of fronts: what it shows, that nothing in it can run, and how a browser draws it."""

import re
from collections import Counter
from pathlib import Path

import pytest

import hush
from browser import browse
from hush.core.errors import SearchError
from hush.pareto import Evaluation, Front, of_plan
from hush.pareto.front_page import front_chart, fronts_html
from hush.render.charts import CURVE_COLOURS, CURVE_DASHES


def made(name: str = "sparse vector", settings: str = "noise", worse: float = 1.0, **fields) -> Front:
    evaluations = [
        Evaluation(
            settings={settings: 1.0 + i},
            epsilon=0.05 * 2.0**i,
            errors=tuple(worse * (0.9 / (1 + i) + d) for d in (-0.03, 0, 0.04)),
        )
        for i in range(8)
    ]
    beaten = Evaluation(settings={settings: 0.5}, epsilon=1.7, errors=(0.8, 0.9))
    failed = Evaluation(settings={settings: 0.1}, epsilon=3.0, problem="1 of 1 runs failed: OSError")
    return Front(evaluations=[*evaluations, beaten, failed], reference=(10.0, 1.0), name=name, **fields)


def test_the_picture_has_a_dot_for_each_point_a_front_and_a_band() -> None:
    picture = str(front_chart([made()], 1))
    assert picture.count("<circle") == 9
    assert picture.count(f"stroke: {CURVE_COLOURS[0]}; stroke-width: 2") == 1
    assert picture.count("opacity: .13") == 1
    assert "epsilon (log scale)" in picture
    assert "8 points, from epsilon 0.05" in picture


def test_ticks_of_epsilon_are_powers_of_ten_and_within_the_picture() -> None:
    picture = str(front_chart([made()], 1))
    for text in ("0.1", "1"):
        assert re.search(rf">{re.escape(text)}</text>", picture)
    places = [float(x) for x in re.findall(r'cx="([\d.]+)"', picture)]
    assert 0 < min(places) < max(places) < 640


def test_several_fronts_have_their_own_colours_and_a_legend() -> None:
    page = fronts_html([made("SGD"), made("Adam")], title="Two ways")
    for index in range(2):
        assert page.count(f"stroke: {CURVE_COLOURS[index]}") == 2  # of the curve and of its line in the legend
    assert page.count(f"stroke-dasharray: {CURVE_DASHES[1]}") == 2
    assert "<h1>Two ways</h1>" in page


def test_the_legend_says_which_curve_covers_another() -> None:
    page = fronts_html([made("SGD"), made("Adam"), made("slow", worse=2.0), made("twin", worse=2.001)])
    assert re.findall(r"</svg>([^<]+)</li>", page) == [
        "SGD",
        "Adam (same curve as SGD)",
        "slow",
        "twin (same curve as slow)",
    ]
    assert len(set(CURVE_DASHES)) == len(CURVE_DASHES)


def test_the_page_begins_with_the_answer_and_with_what_it_was_made_from() -> None:
    front = made(measure="largest error", delta=1e-9, search={"workload": "Workload(3 marginals), 12ab", "rows": "300"})
    page = front.html(about={"Data": "public.csv"}, answers=["At epsilon 1, all is well."])
    facts = ["Data", "public.csv", "Workload", "Workload(3 marginals)", "Rows", "300", "Delta", "1e-09"]
    assert re.findall(r"<d[td]>([^<]+)</d[td]>", page) == facts
    assert page.index("<h1>") < page.index("At epsilon 1, all is well.") < page.index("<dl") < page.index("<figure")
    assert "Up to epsilon 1, the best largest error is 0.183 at epsilon 0.8 (noise=5)." in front.html()


def test_the_page_of_curves_names_the_workload_and_answers_at_epsilon_one() -> None:
    curves = of_plan("2-way", hush.datasets.people_schema(), points=3, mechanisms=["residual"])
    page = curves.html()
    assert re.search(r"<h1>.*</h1>\n<p class=\"lead\">At epsilon 1, the best RMSE is [\d.]+ \(residual\)\.</p>", page)
    assert "<dd>Workload(21 marginals" in page
    assert "of one mechanism" in page
    assert "tried" not in page


def test_every_table_and_picture_can_be_scrolled() -> None:
    page = fronts_html([made("SGD"), made("Adam")])
    assert page.count("<table") == len(re.findall(r'<div class="scroll" tabindex="0"><table', page)) == 2
    assert '<div class="scroll"><svg' in page


def test_the_page_says_what_the_front_is_made_from_and_what_failed() -> None:
    page = fronts_html([made(stamp="Made from a stand-in table")])
    assert '<div class="notice">Made from a stand-in table</div>' in page
    assert "not differentially private" in page
    assert "1 evaluations failed: 1 of 1 runs failed: OSError" in page


def test_a_point_without_epsilon_or_a_front_without_points_is_drawn_all_the_same() -> None:
    zero = Front(evaluations=[Evaluation(settings={}, epsilon=0.0, errors=(0.5,))], reference=(1.0, 1.0))
    empty = Front(evaluations=[], reference=(1.0, 1.0))
    assert "<svg" in fronts_html([zero])
    assert "has no points" in fronts_html([empty])
    with pytest.raises(SearchError, match="no front to draw"):
        fronts_html([])


@pytest.mark.browser
def test_a_browser_draws_it_and_reads_the_same_elements(tmp_path: Path) -> None:
    page, image = tmp_path / "page.html", tmp_path / "page.png"
    hostile = "<script>document.title='run'</script>\u202e"
    fronts = [made(hostile, hostile, stamp=hostile), made("Adam")]
    page.write_text(fronts_html(fronts, about={hostile: hostile}, answers=[hostile]), encoding="utf-8")
    shown = browse(tmp_path, page, "--dump-dom").stdout
    assert Counter(re.findall(r"<([a-z]\w*)", shown)) == Counter(re.findall(r"<([a-z]\w*)", page.read_text()))
    assert "<title>Privacy and error</title>" in shown
    browse(tmp_path, page, f"--screenshot={image}")
    assert len(image.read_bytes()) > 30_000  # an empty page of this size takes a third
