"""The result of an audit as one self-contained HTML page in the style of reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hush.audit.findings import LIMITS, Audit, Finding
from hush.core.rational import shown_down, shown_up
from hush.files.atomic_write import write_whole
from hush.render.html_page import made_by, page_html
from hush.render.labels import readable
from hush.render.markup import Markup, join, lines, tag

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
GENERATED = (
    "The generated table is invented and has its own budget. What was lost and stated there tests the mechanism; that "
    "says nothing about what your own releases cost."
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
        made_by(),
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
            tag("td", tag("b", finding.verdict, class_=None if finding.passed else "failed")),
            tag("th", readable(finding.check, LONGEST), scope="row"),
            tag("td", readable(finding.detail, LONGEST)),
        )
        for finding in findings
    ]
    heads = (tag("th", head, scope="col") for head in ("result", "check", "what was found"))
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="findings")
    return lines(tag("h2", readable(name, 200)), *(tag("p", text) for text in told), table)


def _headline(audit: Audit) -> Markup:
    """How many checks passed; what an attacker proved on the generated table; what the user's own files state."""
    passed = sum(finding.passed for finding in audit.findings)
    boxes = [(f"{passed} of {len(audit.findings)}", "checks passed")]
    attacked = False
    for finding in audit.findings:
        facts = finding.facts
        if "lower_bound" in facts and "control" not in facts:
            attacked = True
            boxes.append((_at_least(facts), "lost on the generated table, as an attacker proved"))
            boxes.append((_exactly(facts, "stated"), "stated by the releases of the generated table"))
        elif facts.get("stated_rho") is not None:
            boxes.append(
                (_exactly(facts, "stated"), f"stated by your {finding.section[0].lower()}{finding.section[1:]}")
            )
        elif "spent" in facts:
            boxes.append((_exactly(facts, "spent"), f"spent on your {finding.check}, by the ledger"))
    cards = (tag("div", tag("b", number), tag("span", readable(text, 200))) for number, text in boxes)
    return lines(tag("div", *cards, class_="headline"), tag("p", GENERATED) if attacked else None)


def _at_least(facts: dict[str, Any]) -> str:
    return f"{facts['unit']} ≥ {shown_down(facts['lower_bound'])}"


def _exactly(facts: dict[str, Any], key: str) -> str:
    return f"{facts['unit']} = {shown_up(facts[key])}"


def _alarm(summary: str) -> Markup:
    return tag("div", join(tag("strong", "A check failed"), summary), class_="alarm")
