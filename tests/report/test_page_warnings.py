"""What a page says loudly: no privacy, an interrupted release, estimates below zero, errors that nobody knows."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hush.datasets import people, people_schema
from hush.planning import plan
from hush.privacy.budget import Budget
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.release.release import Release
from hush.report import report_html
from hush.schema import Boolean, Categorical, Integer, Schema, Unit
from hush.tables import read
from hush.workloads import Workload

SMALL = Schema(
    [Categorical(name="team", values=("a", "b", "c")), Integer(name="age", low=0, high=9), Boolean(name="in")]
)


def test_a_release_with_seeded_noise_has_a_loud_banner(read_page: Any) -> None:
    schema = people_schema()
    workload = Workload.marginals(schema.domain, [("sex", "region")])
    seeded = plan(workload, Budget(rho=1.0)).release(
        read(people(200, seed=1), schema), entropy=NotPrivateEntropy(seed=2)
    )
    page = read_page(report_html(seeded))
    (banner,) = page.texts("p", "alarm")
    assert banner.startswith("NOT PRIVATE")
    assert page.texts("h2")[0] == "No privacy promise"
    assert "This release is not private, and so neither is this page." in page.texts("li")


def test_an_interrupted_release_says_so(make: Callable[..., Release], read_page: Any) -> None:
    (notice,) = read_page(report_html(make(SMALL, complete=False))).texts("p", "notice")
    assert notice.startswith("The release was interrupted before every table was measured.")


def test_the_unit_that_is_protected_is_named(make: Callable[..., Release], read_page: Any) -> None:
    page = read_page(report_html(make(SMALL, unit=Unit(column="patient", max_rows=4))))
    assert "hardly depend on the rows of any one patient, and" in page.texts("p", "lead")[0]


def test_estimates_below_zero_are_drawn_below_zero_and_explained(make: Callable[..., Release], read_page: Any) -> None:
    counts = {("team",): [50.0, -7.0, 80.0], ("age",): [-3.0, 2, 5, 9, 12, 14, 10, 6, 3, -1.5]}
    html = report_html(make(SMALL, order=1, counts=counts))
    page = read_page(html)
    assert "small counts may come out negative" in " ".join(page.texts("p"))
    assert html.count('class="bar below"') == 3
    captions = page.texts("figcaption")
    assert [text for text in captions if text.endswith(" of the truth in 19 of 20 cases. 1 estimate below zero.")]
    assert [text for text in captions if text.endswith(" of the truth in 19 of 20 cases. 2 estimates below zero.")]
    # the bar of team b lies left of the zero line and has its own length
    picture = next(part for part in html.split("<svg") if ">b: -7 (" in part)
    zero = float(re.search(r'<line x1="([\d.]+)"[^>]*class="zero"', picture).group(1))  # type: ignore[union-attr]
    bar = re.search(r'x="([\d.]+)"[^>]*width="([\d.]+)"[^>]*class="bar below"', picture)
    assert bar is not None
    start, width = map(float, bar.groups())
    assert start + width == pytest.approx(zero, abs=0.11)
    assert width > 5


def test_cells_whose_interval_reaches_zero_are_hatched(make: Callable[..., Release], read_page: Any) -> None:
    table = np.full((3, 2), 500.0)
    table[0, 0] = 19.0  # 19 - 1.96 * 10 < 0
    table[1, 1] = 20.0
    counts = {("team", "in"): table, ("team",): table.sum(axis=1), ("in",): table.sum(axis=0), (): table.sum()}
    schema = Schema([SMALL["team"], SMALL["in"]])
    html = report_html(make(schema, counts=counts))
    descriptions = [text for text in read_page(html).texts("desc") if "hatched" in text]
    assert len(descriptions) == 1
    assert "1 of 6 cells are hatched" in descriptions[0]
    hatch = re.findall(r'<path d="([^"]*)" class="hatch"', html)
    assert len(hatch) == 2  # the cell, and the legend
    assert "interval reaches zero" in html


def test_unknown_errors_are_not_invented(make: Callable[..., Release], read_page: Any) -> None:
    html = report_html(make(SMALL, variance=float("nan")))
    page = read_page(html)
    assert 'class="whisker"' not in html
    assert "nan" not in " ".join(text for tag, _, text in page.elements if tag not in {"style", "main", "body", "html"})
    assert "No standard error is known for the tables of this release beforehand." in page.texts("p")
    assert "each comes with the error" not in html
    assert not [text for text in page.texts("li") if "unbiased" in text]
    assert [text for text in page.texts("li") if text.startswith("The estimates come from a model")]
