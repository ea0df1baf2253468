"""The report: a release as one self-contained HTML page, for a screen or for paper.

The page has no scripts and loads nothing; the same release gives the same page, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hush.errors import HushError
from hush.markup import Markup, lines, tag
from hush.report.adaptive_section import bounds_section, rounds_section
from hush.report.figures import bar_figures, bars_section, map_figures, maps_section
from hush.report.precision import Precision, by_order, by_table, comparison_section
from hush.report.quality import quality
from hush.report.questions import examples, questions_section
from hush.report.ranking import rank_columns, rank_pairs
from hush.report.style import STYLE
from hush.report.summary import caveats_section, headline, opening

if TYPE_CHECKING:
    from hush.release.release import Release

Progress: TypeAlias = Callable[[float], None]
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
FIRST = (("privacy", "Privacy"), ("glance", "At a glance"), ("columns", "One column"), ("pairs", "Two columns"))
PLANNED = (("precision", "Predicted error"),)
ADAPTIVE = (("bounds", "How far off"), ("made", "How it was made"))
LAST = (("questions", "What can be asked"), ("caveats", "How to read it"))


def report_html(release: Release, *, progress: Progress | None = None) -> str:
    """The report as the text of an HTML page; `progress` is called with the part that is done.

    Privacy: post-processing of the release; no private data is read.
    """
    done = progress or (lambda _: None)
    columns = rank_columns(release.estimates)
    done(0.05)
    pairs = rank_pairs(release.estimates, columns)
    done(0.15)
    bars, maps = bar_figures(release, columns), map_figures(release, pairs)
    done(0.25)
    orders = by_order(release)
    done(0.3)
    sample = quality(release, progress=lambda part: done(0.3 + 0.4 * part))
    done(0.8)
    known = all(figure.known for figure in (*bars, *maps))
    adaptive = release.bounded
    body = lines(
        opening(release, (*FIRST, *(ADAPTIVE if adaptive else PLANNED), *LAST), known=known),
        headline(release, orders, sample),
        bars_section(release, bars, 1, known=all(figure.known for figure in bars)),
        maps_section(maps, 1 + len(bars)),
        _errors(release, orders, 1 + len(bars) + len(maps)),
        questions_section(release, examples(release, columns, pairs)),
        caveats_section(release, known=known),
    )
    done(1.0)
    return _page(body)


def _errors(release: Release, orders: list[Precision], number: int) -> Markup:
    """Errors as predicted, or bounds and how the release came about where they were not known beforehand."""
    if release.bounded:
        return lines(bounds_section(release), rounds_section(release))
    return comparison_section(release, by_table(release) or orders, number)


def write_report(release: Release, path: str | Path, *, progress: Progress | None = None) -> None:
    """Write the report to a file, over whatever was there; `progress` is called with the part that is done."""
    text = report_html(release, progress=progress)
    try:
        Path(path).write_bytes(text.encode())
    except OSError as error:
        raise HushError(f"{path}: cannot be written: {error.strerror}") from None


def _page(body: Markup) -> str:
    head = lines(
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        tag("title", "What this release says"),
        tag("style", Markup(STYLE)),
    )
    page = tag("html", "\n", tag("head", head), "\n", tag("body", tag("main", body)), "\n", lang="en")
    return f"<!DOCTYPE html>\n{page}\n"
