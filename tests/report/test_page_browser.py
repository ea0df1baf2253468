"""The page in a real browser, on a screen and on paper."""

import datetime as dt
import html
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import browse
from hush.audit import Audit, Finding
from hush.release.release import Release
from hush.report import report_html, write_report
from hush.schema import Categorical, Integer, Numeric, Schema, Unit
from hush.workloads import Workload

pytestmark = pytest.mark.browser

HOSTILE = Schema(
    [
        Categorical(name="<script>document.title='run'</script>", values=("<b>", "</svg>", "\u202ex", "'\"&")),
        Integer(name="</style><h1>", low=0, high=40),
    ]
)


# opens a page of a given width, unfolds it, and notes what reaches beyond its right edge; tables scroll by themselves
OUTER = """<!DOCTYPE html><meta charset="utf-8"><iframe id="frame" src="page.html" style="width: {width}px; border: 0">
</iframe><script>
frame.onload = () => {{
  const page = frame.contentDocument;
  page.querySelectorAll("details").forEach(part => part.open = true);
  const beyond = [...page.querySelectorAll("body *")].filter(
    part => !part.closest(".scroll") && part.getBoundingClientRect().right > {width} + 1);
  document.body.dataset.found = JSON.stringify({{
    width: frame.contentWindow.innerWidth, needed: page.documentElement.scrollWidth,
    details: page.querySelectorAll("details").length,
    beyond: beyond.map(part => `${{part.tagName}} ${{part.textContent.slice(0, 60)}}`),
    cards: [...page.querySelectorAll(".headline b")].map(part => [part.textContent,
      Math.round(part.getBoundingClientRect().height), part.scrollWidth <= part.clientWidth])}});
}};
</script>"""
CONSOLE = re.compile(r"INFO:CONSOLE.*")
LONG = "x" * 110
WIDE = Schema(
    [
        Categorical(name=LONG, values=(LONG, "b", "c " * 50), other=True, missing=True),
        Numeric(name="fare", edges=(0, 0.01, 5, 20, 600), missing=True),
        Integer(name="gain", low=0, high=99_999),
        *(Categorical(name=f"column_{i}", values=tuple(f"level {j} of many" for j in range(30))) for i in range(9)),
    ]
)


# connected columns, so that their pair is drawn
PAIRS = {(LONG, "fare"): 500.0 * np.eye(5)}


def measured(folder: Path, width: int) -> dict[str, Any]:
    """How `page.html` in a folder fits into a width."""
    outer = folder / f"outer-{width}.html"
    outer.write_text(OUTER.format(width=width), encoding="utf-8")
    shown = browse(folder, outer, "--allow-file-access-from-files", "--dump-dom").stdout
    found = re.search(r'data-found="([^"]*)"', shown)
    assert found is not None
    made: dict[str, Any] = json.loads(html.unescape(found.group(1)))
    assert made["width"] == width
    return made


def test_a_browser_reads_the_same_elements_and_runs_nothing(
    make: Callable[..., Release], read_page: Any, tmp_path: Path
) -> None:
    release = make(HOSTILE)
    page = tmp_path / "page.html"
    write_report(release, page)
    shown = browse(tmp_path, page, "--dump-dom").stdout
    written = Counter(re.findall(r"<([a-z]\w*)", report_html(release)))
    assert Counter(re.findall(r"<([a-z]\w*)", shown)) == written
    assert "<title>What this release says</title>" in shown


@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_reaches_beyond_the_page(make: Callable[..., Release], tmp_path: Path, width: int) -> None:
    workload = Workload.marginals(WIDE.domain, [(LONG, "fare"), ("fare", "gain"), ("column_1", "column_2")])
    release = make(WIDE, unit=Unit(column=LONG, max_rows=3), workload=workload, counts=PAIRS)
    write_report(
        release, tmp_path / "page.html", dataset=LONG, owner=LONG, date=dt.date(2026, 1, 31), file_name=LONG + ".hush"
    )
    assert 'class="cell"' in (tmp_path / "page.html").read_text(encoding="utf-8")
    found = measured(tmp_path, width)
    assert found["beyond"] == []
    assert found["needed"] == width
    assert found["details"] >= len(WIDE)


@pytest.mark.parametrize("width", [400, 700, 1200])
def test_no_number_of_a_card_is_broken_or_cut(make: Callable[..., Release], tmp_path: Path, width: int) -> None:
    """Cards with totals from 5 to 10 digits: each number is on one line and within its card."""
    heights = set()
    for total in (26_475.0, 2_647_508.0, 9_264_750_812.0):
        write_report(make(WIDE, counts={(): total}), tmp_path / "page.html")
        found = measured(tmp_path, width)
        assert f"{total:,.0f}" in [text for text, *_ in found["cards"]]
        assert all(fits for *_, fits in found["cards"])
        heights |= {height for _, height, _ in found["cards"]}
        assert found["beyond"] == []
    assert len(heights) == 1  # that of one line


def test_the_page_of_an_audit_fits_a_phone(tmp_path: Path) -> None:
    facts = {"unit": "rho", "lower_bound": 0.123456, "stated": 0.5}
    findings = tuple(
        Finding(section=section, check=f"check {LONG}", passed=True, detail=f"{LONG} " * 3, facts=facts)
        for section in ("Samplers", "Membership audit on a generated table", f"Release {LONG}")
    )
    (tmp_path / "page.html").write_text(Audit(findings=findings).html(), encoding="utf-8")
    found = measured(tmp_path, 400)
    assert found["beyond"] == []
    assert found["needed"] == 400


def test_a_page_that_is_too_wide_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<body><p style='width: 500px'>too wide</p>")
    found = measured(tmp_path, 400)
    assert found["beyond"] == ["P too wide"]
    assert found["needed"] > 400


def test_the_console_stays_silent(people_release: Release, tmp_path: Path) -> None:
    page, noisy = tmp_path / "page.html", tmp_path / "noisy.html"
    write_report(people_release, page)
    assert CONSOLE.findall(browse(tmp_path, page, "--enable-logging=stderr", "--dump-dom").stderr) == []
    noisy.write_text(page.read_text(encoding="utf-8").replace("<main>", "<main><script>x()</script>"), encoding="utf-8")
    (refused,) = CONSOLE.findall(browse(tmp_path, noisy, "--enable-logging=stderr", "--dump-dom").stderr)
    assert "Content Security Policy" in refused


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_drawn(people_release: Release, tmp_path: Path, scheme: str) -> None:
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    write_report(people_release, page)
    browse(tmp_path, page, f"--screenshot={picture}", f"--blink-settings=preferredColorScheme={int(scheme == 'light')}")
    image = picture.read_bytes()
    assert image.startswith(b"\x89PNG")
    assert len(image) > 100_000  # an empty page of this size takes a tenth


def test_the_page_prints_on_a_few_sheets(people_release: Release, tmp_path: Path) -> None:
    page, paper = tmp_path / "page.html", tmp_path / "page.pdf"
    write_report(people_release, page)
    browse(tmp_path, page, "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    sheets = len(re.findall(rb"/Type /Page\b", paper.read_bytes()))
    assert 3 <= sheets <= 8
