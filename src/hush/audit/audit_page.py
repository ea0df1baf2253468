"""The result of an audit as one self-contained HTML page in the style of reports."""

from __future__ import annotations

from pathlib import Path

from hush._version import __version__
from hush.atomic_write import write_whole
from hush.audit.findings import LIMITS, Audit, Finding
from hush.markup import Markup, join, lines, tag
from hush.rational import shown_down, shown_up
from hush.report.labels import readable
from hush.report.page import page_html

LEAD = (
    "This page shows the result of a self-check of hush. It looks for faults in what protects people: the noise, the "
    "mechanism that uses it, and the records of what was spent. It read no private table and spent no budget."
)
SECTIONS = (
    (
        "Samplers",
        "Every kind of noise was drawn many times and compared with its exact law. The controls test the same draws "
        "against a law that is a little wrong; they pass if the test notices.",
    ),
    (
        "Membership",
        "An attacker who knows everybody but one person saw many releases of a generated table, with and without that "
        "person. How often the attacker is right proves that at least so much privacy was lost. That must not be more "
        "than the releases state. The control does the same to noise that is too small; it passes if the attack "
        "notices.",
    ),
    ("Ledger", "The chain of the ledger was recomputed from its first entry."),
    ("Release", "The cost of the release was computed again from the queries and the noise in its file."),
)
LONGEST = 1000


def audit_html(audit: Audit) -> str:
    """The result as the text of an HTML page."""
    body = lines(
        tag("h1", "Self-check"),
        tag("p", LEAD, class_="lead"),
        None if audit.passed else _alarm(audit.summary),
        _headline(audit),
        *(_section(name, findings) for name, findings in audit.sections.items()),
        tag("h2", "What this means"),
        tag("p", LIMITS),
        tag("p", f"Made by hush {__version__}.", class_="soft"),
    )
    return page_html(body, title="Self-check of hush")


def write_audit(audit: Audit, path: str | Path) -> None:
    """Write the page to a file, replacing any other."""
    write_whole(path, audit_html(audit).encode())


def _section(name: str, findings: list[Finding]) -> Markup:
    told = [text for start, text in SECTIONS if name.startswith(start)]
    rows = [
        tag(
            "tr",
            tag("td", tag("b", finding.verdict, style=None if finding.passed else "color: var(--alarm)")),
            tag("th", readable(finding.check, LONGEST), scope="row"),
            tag("td", readable(finding.detail, LONGEST)),
        )
        for finding in findings
    ]
    columns = (("result", "4.5rem"), ("check", "15rem"), ("what was found", None))
    heads = (tag("th", head, scope="col", style=wide and f"width: {wide}") for head, wide in columns)
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), style="width: 100%")
    return lines(tag("h2", readable(name, 200)), *(tag("p", text) for text in told), tag("div", table, class_="scroll"))


def _headline(audit: Audit) -> Markup:
    """How many checks passed; and what an attacker proved, beside what was stated."""
    passed = sum(finding.passed for finding in audit.findings)
    boxes = [(f"{passed} of {len(audit.findings)}", "checks passed")]
    for finding in audit.findings:
        facts = finding.facts
        if "lower_bound" in facts and "control" not in facts:
            boxes.append((f"{facts['unit']} ≥ {shown_down(facts['lower_bound'])}", "lost, as an attacker proved"))
            boxes.append((f"{facts['unit']} = {shown_up(facts['stated'])}", "stated by the releases"))
    return tag("div", *(tag("div", tag("b", number), tag("span", text)) for number, text in boxes), class_="headline")


def _alarm(summary: str) -> Markup:
    return tag("div", join(tag("strong", "A check failed"), summary), class_="alarm")
