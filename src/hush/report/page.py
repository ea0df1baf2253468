"""The report: a release as one self-contained HTML page, for a screen or for paper.

The page has no scripts and loads nothing; the same release and heading give the same page, byte for byte.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hush.files.atomic_write import write_whole
from hush.render.markup import Markup, lines, tag
from hush.report.adaptive_section import bounds_section, rounds_section
from hush.report.appendix import statement_section, terms_section
from hush.report.buckets_section import buckets_section
from hush.report.figures import bar_figures, bars_section, folded_figures, map_figures, maps_section
from hush.report.heading import Heading, opening
from hush.report.means_section import means_section
from hush.report.precision import by_order, by_table, comparison_section
from hush.report.quality import quality
from hush.report.questions import examples, questions_section
from hush.report.ranking import rank_columns, rank_pairs
from hush.report.sample_rows import sample_section
from hush.report.summary import caveats_section, headline

if TYPE_CHECKING:
    from hush.release.release import Release

STYLE = """
:root {
  --paper: #ffffff; --ink: #1c2127; --soft: #59626d; --rule: #d5dae0; --panel: #f5f7f9;
  --bar: #2f74b5; --below: #b45309; --heat: #06356b; --alarm: #b3261e; --on-alarm: #ffffff; --naive: #8a949f;
  --pale: #000000; --deep: #ffffff; --shade: rgba(28, 33, 39, .32);
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #161a1f; --ink: #e6eaee; --soft: #a3aeb9; --rule: #37404a; --panel: #1e242b;
    --bar: #5b9fdc; --below: #f0a35e; --heat: #6aa9e6; --alarm: #ffb4a9; --on-alarm: #2d0502; --naive: #77828d;
    --pale: #ffffff; --deep: #000000; --shade: rgba(230, 234, 238, .4);
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "DejaVu Sans", sans-serif;
  overflow-wrap: anywhere;
}
table, pre { overflow-wrap: break-word; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .75rem; letter-spacing: -.01em; }
h2 { font-size: 1.35rem; line-height: 1.3; margin: 3rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .35rem; }
figure h3 { margin-top: 0; }
p { margin: .5rem 0; max-width: 46rem; }
ul { margin: .5rem 0; padding-left: 1.25rem; max-width: 46rem; }
li { margin: .3rem 0; }
a { color: var(--bar); }
.lead { font-size: 1.1rem; }
.soft, figcaption, .note { color: var(--soft); font-size: .875rem; }
nav { margin: 1.5rem 0 0; font-size: .875rem; }
nav a { margin-right: 1.1rem; white-space: nowrap; }
code, pre { font: .875rem/1.5 ui-monospace, "SF Mono", Consolas, "DejaVu Sans Mono", monospace; }
pre { margin: .5rem 0; padding: .6rem .8rem; background: var(--panel); border-radius: 6px; white-space: pre-wrap; }
.alarm {
  max-width: none; margin: 1.25rem 0; padding: 1rem 1.25rem; border-radius: 6px;
  background: var(--alarm); color: var(--on-alarm); font-weight: 600;
}
.alarm strong { display: block; font-size: 1.5rem; line-height: 1.2; letter-spacing: .04em; }
.notice { max-width: none; margin: 1.25rem 0; padding: .75rem 1rem; border-left: 4px solid var(--below);
  background: var(--panel); }
.subtitle { color: var(--soft); font-size: 1.1rem; margin-top: -.5rem; }
dl.byline { display: flex; flex-wrap: wrap; gap: .25rem 2rem; margin: .5rem 0 1rem; font-size: .875rem; }
dl.byline dt, dl.byline dd { display: inline; margin: 0 .3rem 0 0; }
dl.byline dt { color: var(--soft); }
dl.terms { margin: .5rem 0; max-width: 46rem; }
dl.terms dt { font-weight: 600; margin-top: .6rem; }
dl.terms dd { margin: 0; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.25rem; margin: 1rem 0;
  padding: 1rem 1.25rem; background: var(--panel); border-radius: 6px; }
dl.facts dt { color: var(--soft); }
dl.facts dd { margin: 0; }
.headline { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0 1.5rem; }
.headline div { flex: 1 1 10.5rem; padding: .9rem 1.1rem; background: var(--panel); border-radius: 6px; }
.headline b { display: block; font-size: 1.6rem; line-height: 1.25; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.headline span { color: var(--soft); font-size: .875rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(25rem, 100%), 1fr)); gap: 2.25rem 3rem;
  align-items: start; margin: 1.5rem 0; }
figure { margin: 0; min-width: 0; }
figure.single { max-width: 40rem; margin: 1.5rem 0; }
figcaption { margin-top: .35rem; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-size: 12px; fill: var(--ink); font-family: inherit; font-variant-numeric: tabular-nums; }
svg .mark { font-size: 11px; fill: var(--soft); }
svg .mid { text-anchor: middle; }
svg .end { text-anchor: end; }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .zero, svg .tick { stroke: var(--soft); stroke-width: 1; }
svg .bar { fill: var(--bar); }
svg .below { fill: var(--below); }
svg .naive { fill: var(--naive); }
svg .whisker { fill: none; stroke: var(--ink); stroke-width: 1.1; }
svg .cell { fill: var(--heat); stroke: var(--rule); stroke-width: .5; }
svg .hatch { fill: none; stroke: var(--soft); stroke-width: .8; opacity: .75; }
svg .pale, svg .deep { font-size: 11px; pointer-events: none; }
svg .pale { fill: var(--pale); }
svg .deep { fill: var(--deep); }
table.findings { width: 100%; }
.findings thead th:first-child { width: 4.5rem; }
.findings thead th:nth-child(2) { width: 15rem; }
.findings td:last-child { max-width: none; }
.findings .failed { color: var(--alarm); }
.example { margin-bottom: 1.75rem; }
details { margin-top: .35rem; font-size: .875rem; }
summary { color: var(--soft); cursor: pointer; }
details.column { font-size: 1rem; border-top: 1px solid var(--rule); padding: .4rem 0; margin: 0; max-width: 30rem; }
details.column > summary { color: var(--ink); list-style-position: outside; margin-left: 1.1rem; }
details.column figure { margin: .75rem 0; }
details.column figure > h3 { display: none; }
.on-paper { display: none; }
ul.tables { max-width: none; columns: 13rem; }
/* a shadow at the side where more can be scrolled into sight; the first two layers cover it at either end */
.scroll { overflow-x: auto; background:
  linear-gradient(to right, var(--paper) 40%, transparent) 0 0 / 2rem 100% no-repeat local,
  linear-gradient(to left, var(--paper) 40%, transparent) 100% 0 / 2rem 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) 0 0 / .8rem 100% no-repeat scroll,
  linear-gradient(to left, var(--shade), transparent) 100% 0 / .8rem 100% no-repeat scroll; }
.scroll svg { min-width: 34rem; }
table { border-collapse: collapse; margin: .5rem 0 1rem; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .25rem; }
th, td { max-width: 18rem; padding: .25rem .9rem .25rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--rule); }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
tbody th { font-weight: 400; min-width: 7rem; }
td:not(.number) { min-width: 6rem; }
th.number, td.number { text-align: right; white-space: nowrap; padding-left: .6rem; }
thead th.number { white-space: normal; }
figure tbody th { min-width: 4.5rem; }
figure th, figure td { padding-right: .5rem; }
@media screen and (max-width: 34rem) {
  body { padding: 1.5rem 1rem 3rem; }
  h1 { font-size: 1.6rem; }
  dl.facts { grid-template-columns: 1fr; gap: 0; padding: .75rem 1rem; }
  dl.facts dd { margin-bottom: .5rem; }
  .headline { gap: .6rem; }
  .headline div { flex-basis: 9rem; padding: .6rem .75rem; }
  .headline b { font-size: 1.3rem; }
  table { font-size: .8rem; }
  tbody th, td:not(.number) { min-width: 4rem; }
  th, td { padding-right: .35rem; }
  th.number, td.number { padding-left: .25rem; }
  table.findings, .findings tbody, .findings tr, .findings th, .findings td { display: block; max-width: none; }
  .findings thead { display: none; }
  .findings tr { padding: .4rem 0; border-bottom: 1px solid var(--rule); }
  .findings tbody th, .findings tbody td { padding: 0; border: 0; }
  .findings tbody th { font-weight: 600; }
}
@page { margin: 15mm 16mm; }
@media print {
  :root { --ink: #000000; --soft: #333333; --rule: #bbbbbb; --panel: #ffffff; }
  html { font-size: 10pt; }
  body { padding: 0; max-width: none; line-height: 1.4; }
  nav, summary, .on-screen { display: none; }
  .on-paper { display: block; }
  details:not([open]) { display: none; }
  h1 { font-size: 20pt; }
  h2 { font-size: 14pt; margin-top: 1.4rem; padding-top: .6rem; break-after: avoid; }
  h3, h2 + p, h2 + p + p.soft { break-after: avoid; }
  p, ul { max-width: none; }
  p, li { orphans: 3; widows: 3; }
  figure, table.short, .example, .alarm, .notice, dl.facts, .headline, tr { break-inside: avoid; }
  thead { display: table-header-group; }
  .figures { grid-template-columns: 1fr 1fr; gap: 1.25rem 2rem; }
  ul.tables { columns: 3; }
  .scroll svg { min-width: 0; }
  dl.facts, .headline div, pre { border: 1px solid var(--rule); }
  .alarm { background: #ffffff; color: #b3261e; border: 3px solid #b3261e; }
  .scroll { overflow: visible; background: none; }
}
"""


Progress: TypeAlias = Callable[[float], None]
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
ROWS = ("rows", "Some of its rows")
SECTIONS = (
    ("glance", "At a glance"),
    ("columns", "One column"),
    ("pairs", "Two columns"),
    ("buckets", "Buckets"),
    ("means", "Means"),
    ("questions", "What can be asked"),
    ("caveats", "How to read it"),
    ("appendix", "Appendix"),
)


def report_html(
    release: Release,
    *,
    dataset: str | None = None,
    owner: str | None = None,
    date: dt.date | None = None,
    file_name: str | None = None,
    progress: Progress | None = None,
) -> str:
    """The report as the text of an HTML page; `progress` is called with the fraction done.

    The name of the dataset, its owner, the date of the report and the name of the released file go into the heading;
    what is not given is left out.

    Privacy: post-processing of the release; no private data is read.
    """
    release.record.require_tables()
    heading = Heading(dataset=dataset, owner=owner, date=date, file_name=file_name)
    done = progress or (lambda _: None)
    columns = rank_columns(release.estimates)
    done(0.05)
    pairs = rank_pairs(release.estimates, columns)
    done(0.15)
    bars, folded, maps = (
        bar_figures(release, columns),
        folded_figures(release, columns),
        map_figures(release, pairs),
    )
    done(0.3)
    found = quality(release, progress=lambda fraction: done(0.3 + 0.3 * fraction))
    rows = sample_section(release) if release.bounded else None
    done(0.8)
    known = all(figure.known for figure in (*bars, *maps))
    means = means_section(release)
    buckets = buckets_section(release, 1000)
    absent = {key for key, section in (("means", means), ("buckets", buckets)) if section is None}
    listed = [(key, text) for key, text in SECTIONS if key not in absent]
    sections = (("privacy", "Privacy"), *((ROWS,) if rows else ()), *listed)
    body = lines(
        opening(release, heading, sections, known=known),
        rows,
        headline(release, found),
        bars_section(release, bars, folded, 1, known=all(figure.known for figure in (*bars, *folded))),
        maps_section(maps, 1 + len(bars) + len(folded), len(columns)),
        buckets,
        means,
        questions_section(release, examples(release, columns, pairs), file_name),
        caveats_section(release, known=known),
        statement_section(release),
        _errors(release, 1 + len(bars) + len(folded) + len(maps)),
        terms_section(),
    )
    done(1.0)
    return page_html(body, title=heading.title)


def _errors(release: Release, number: int) -> Markup:
    """Predicted errors; for an adaptive release, bounds and how it was made."""
    if release.bounded:
        return lines(bounds_section(release), rounds_section(release))
    return comparison_section(release, by_table(release) or by_order(release), number)


def write_report(
    release: Release,
    path: str | Path,
    *,
    dataset: str | None = None,
    owner: str | None = None,
    date: dt.date | None = None,
    file_name: str | None = None,
    progress: Progress | None = None,
) -> None:
    """Write the report to a file, replacing any other; see `report_html`."""
    page = report_html(release, dataset=dataset, owner=owner, date=date, file_name=file_name, progress=progress)
    write_whole(path, page.encode())


def page_html(body: Markup, *, title: str) -> str:
    """A whole page in the style of reports."""
    head = lines(
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    page = tag("html", "\n", tag("head", head), "\n", tag("body", tag("main", body)), "\n", lang="en")
    return f"<!DOCTYPE html>\n{page}\n"
