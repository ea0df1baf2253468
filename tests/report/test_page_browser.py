"""The page in a real browser, on a screen and on paper; collected only where chromium is installed (see conftest)."""

import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hush.release.release import Release
from hush.report import report_html, write_report
from hush.schema import Categorical, Integer, Schema

CHROMIUM = (
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--hide-scrollbars", "--window-size=1100,3000"),
)
HOSTILE = Schema(
    [
        Categorical(name="<script>document.title='run'</script>", values=("<b>", "</svg>", "\u202ex", "'\"&")),
        Integer(name="</style><h1>", low=0, high=40),
    ]
)


def run(folder: Path, page: Path, *options: str) -> str:
    """What the browser prints when it opens a page."""
    command = [*CHROMIUM, f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def test_a_browser_reads_the_same_elements_and_runs_nothing(
    make: Callable[..., Release], read_page: Any, tmp_path: Path
) -> None:
    release = make(HOSTILE)
    page = tmp_path / "page.html"
    write_report(release, page)
    shown = run(tmp_path, page, "--dump-dom")
    written = Counter(re.findall(r"<([a-z]\w*)", report_html(release)))
    assert Counter(re.findall(r"<([a-z]\w*)", shown)) == written
    assert "<title>What this release says</title>" in shown


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_drawn(people_release: Release, tmp_path: Path, scheme: str) -> None:
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    write_report(people_release, page)
    run(tmp_path, page, f"--screenshot={picture}", f"--blink-settings=preferredColorScheme={int(scheme == 'light')}")
    image = picture.read_bytes()
    assert image.startswith(b"\x89PNG")
    assert len(image) > 100_000  # an empty page of this size takes a tenth


def test_the_page_prints_on_a_few_sheets(people_release: Release, tmp_path: Path) -> None:
    page, paper = tmp_path / "page.html", tmp_path / "page.pdf"
    write_report(people_release, page)
    run(tmp_path, page, "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    sheets = len(re.findall(rb"/Type /Page\b", paper.read_bytes()))
    assert 3 <= sheets <= 8
