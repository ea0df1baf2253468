"""Findings: the result of each check of an audit, as tables, text, plain data, and a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hush.core.rational import shown_down, shown_up
from hush.files.atomic_write import write_whole
from hush.render.html_page import made_by, page_html
from hush.render.labels import readable
from hush.render.markup import Markup, join, lines, tag
from hush.render.text_table import TextColumn, TextTable

AUDIT_LIMITS = (
    "A pass means that a check found no fault. It proves no privacy: the proof is the mathematics behind the noise, "
    "and an audit looks for places where the program departs from it. A failure is a fault, up to the false-alarm "
    "rate of the check. How similar rows are to the real ones is not checked, for that says nothing about privacy."
)
SECTION_TEXTS = {  # by the first word of a section
    "Samplers": (
        "Every kind of noise was drawn many times and compared with its exact law. The controls test the same draws "
        "against a slightly wrong law; they pass if the test notices."
    ),
    "Membership": (
        "An attacker who knows everybody but one person saw many releases of a generated table, with and without that "
        "person. How often the attacker is right proves a lower bound on the privacy that was lost. The bound must not "
        "exceed what the releases state. The control repeats the attack on noise that is too small; it passes if the "
        "attack notices."
    ),
    "Ledger": "The chain of the ledger was recomputed from its first entry.",
    "Release": "The cost of the release was recomputed from the queries and the noise in its file.",
}
LONGEST_TEXT = 1000  # characters of a finding on the page


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check; `detail` says what was tried and `facts` holds its numbers."""

    section: str
    check: str
    passed: bool
    detail: str
    facts: dict[str, Any]

    @property
    def verdict(self) -> str:
        return "pass" if self.passed else "FAIL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """All findings of an audit: `print` it, take `to_dict`, or write a page."""

    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(finding.passed for finding in self.findings)

    @property
    def sections(self) -> dict[str, list[Finding]]:
        """The findings by section, in order."""
        sections: dict[str, list[Finding]] = {}
        for finding in self.findings:
            sections.setdefault(finding.section, []).append(finding)
        return sections

    @property
    def summary(self) -> str:
        """One sentence: how many checks passed, or which failed."""
        failed = [finding for finding in self.findings if not finding.passed]
        if not failed:
            return f"All {len(self.findings)} checks passed."
        return f"{len(failed)} of {len(self.findings)} checks FAILED: {'; '.join(finding.check for finding in failed)}."

    def to_dict(self) -> dict[str, Any]:
        """The findings as texts, numbers and lists, for JSON."""
        return {"passed": self.passed, "findings": [asdict(finding) for finding in self.findings]}

    def __str__(self) -> str:
        tables = [finding_table(findings, title=section).text() for section, findings in self.sections.items()]
        return "\n\n".join([*tables, self.summary, AUDIT_LIMITS])

    def html(self) -> str:
        """The result as the text of an HTML page."""
        lead = (
            "This page shows the result of a self-check of hush. It looks for faults in what protects people: the "
            "noise, the mechanism that uses it, and the records of what was spent. It read no private table and spent "
            "no budget."
        )
        alarm = tag("div", join(tag("strong", "A check failed"), self.summary), class_="alarm")
        body = lines(
            tag("h1", "Self-check"),
            tag("p", lead, class_="lead"),
            None if self.passed else alarm,
            _headline(self.findings),
            *(_section(name, findings) for name, findings in self.sections.items()),
            tag("h2", "What this means"),
            tag("p", AUDIT_LIMITS),
            made_by(),
        )
        return page_html(body, title="Self-check of hush")

    def write_page(self, path: str | Path) -> None:
        """Write the page of `html` to a file, replacing any other."""
        write_whole(path, self.html().encode())


def finding_table(findings: Sequence[Finding], *, title: str = "") -> TextTable:
    """The checks of a section, each with its verdict and its detail."""
    columns = (TextColumn(), TextColumn(fit="fold", widest=34, style="bold"), TextColumn(fit="fold"))
    rows = [(finding.verdict, finding.check, finding.detail) for finding in findings]
    return TextTable(columns=columns, rows=rows, title=title)


def _section(name: str, findings: list[Finding]) -> Markup:
    """A section of the page: what it is about, and a table of its checks."""
    text = SECTION_TEXTS.get(name.split()[0] if name else "")
    rows = [
        tag(
            "tr",
            tag("td", tag("b", finding.verdict, class_=None if finding.passed else "failed")),
            tag("th", readable(finding.check, LONGEST_TEXT), scope="row"),
            tag("td", readable(finding.detail, LONGEST_TEXT)),
        )
        for finding in findings
    ]
    heads = (tag("th", head, scope="col") for head in ("result", "check", "what was found"))
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="findings")
    return lines(tag("h2", readable(name, 200)), tag("p", text) if text else None, table)


def _headline(findings: Sequence[Finding]) -> Markup:
    """How many checks passed, what an attacker proved on the generated table, and what the user's own files state."""
    boxes = [(f"{sum(finding.passed for finding in findings)} of {len(findings)}", "checks passed")]
    attacked = False
    for finding in findings:
        facts, name = finding.facts, f"{finding.section[:1].lower()}{finding.section[1:]}"
        if "lower_bound" in facts and "control" not in facts:
            attacked = True
            proven = f"{facts['unit']} ≥ {shown_down(facts['lower_bound'])}"
            boxes.append((proven, "lost on the generated table, as an attacker proved"))
            boxes.append((_amount(facts, "stated"), "stated by the releases of the generated table"))
        elif facts.get("stated_rho") is not None:
            boxes.append((_amount(facts, "stated"), f"stated by your {name}"))
        elif "spent" in facts:
            boxes.append((_amount(facts, "spent"), f"spent on your {finding.check}, by the ledger"))
    cards = (tag("div", tag("b", number), tag("span", readable(text, 200))) for number, text in boxes)
    generated = (
        "The generated table is invented and has its own budget. What was lost and stated there tests the mechanism; "
        "that says nothing about what your own releases cost."
    )
    return lines(tag("div", *cards, class_="headline"), tag("p", generated) if attacked else None)


def _amount(facts: dict[str, Any], key: str) -> str:
    return f"{facts['unit']} = {shown_up(facts[key])}"
