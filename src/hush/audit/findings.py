"""Findings: the result of each check of an audit, and all of them as tables, as text and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hush.render.text_table import TextColumn, TextTable

LIMITS = (
    "A pass means that a check found no fault. It proves no privacy: the proof is the mathematics behind the noise, "
    "and an audit looks for places where the program departs from it. A failure is a fault, up to the false-alarm "
    "rate of the check. How similar rows are to the real ones is not checked, for that says nothing about privacy."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found; `detail` says what was tried and `facts` holds its numbers."""

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
    """All findings of an audit; `print` it, or take `to_dict`."""

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
        failed = [finding for finding in self.findings if not finding.passed]
        if not failed:
            return f"All {len(self.findings)} checks passed."
        return f"{len(failed)} of {len(self.findings)} checks FAILED: {'; '.join(finding.check for finding in failed)}."

    def to_dict(self) -> dict[str, Any]:
        """The findings as texts, numbers and lists, for JSON."""
        return {"passed": self.passed, "findings": [asdict(finding) for finding in self.findings]}

    def __str__(self) -> str:
        tables = [finding_table(findings, title=section).text() for section, findings in self.sections.items()]
        return "\n\n".join([*tables, self.summary, LIMITS])


def finding_table(findings: Sequence[Finding], *, title: str = "") -> TextTable:
    """The checks of a section, each with its verdict and what was found."""
    columns = (TextColumn(), TextColumn(fit="fold", widest=34, style="bold"), TextColumn(fit="fold"))
    rows = [(finding.verdict, finding.check, finding.detail) for finding in findings]
    return TextTable(columns=columns, rows=rows, title=title)
