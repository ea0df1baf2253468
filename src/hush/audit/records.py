"""Records: verify the chain of a ledger, recompute the cost of a release, and find its charges in the ledger."""

from __future__ import annotations

from pathlib import Path

from hush.audit.findings import Finding
from hush.core.errors import HushError, printable
from hush.core.rational import float_up, shown_down, shown_up
from hush.loading import load_release
from hush.privacy.account import used_up
from hush.privacy.budget import Cost
from hush.privacy.events import price
from hush.privacy.ledger import Ledger
from hush.release.accounting import measured_event, uncharged
from hush.release.release import Release
from hush.render.text_table import counted


def check_ledger(path: str | Path, *, expected_head: str | None = None) -> list[Finding]:
    """Findings on a ledger: its chain, and what each dataset has spent of its cap. The file is only read."""
    section = f"Ledger {printable(str(path))}"
    try:
        books = Ledger.open_all(path)
        books[0].verify(expected_head)
    except HushError as error:
        return [Finding(section=section, check="chain", passed=False, detail=str(error), facts={})]
    entries = sum(len(book.entries()) for book in books)
    head = books[0].head
    known = "; it contains the expected head" if expected_head else ""
    findings = [
        Finding(
            section=section,
            check="chain",
            passed=True,
            detail=f"{counted(entries, 'entry', 'entries')}; every hash, cost and total agrees{known}; head {head}",
            facts={"entries": entries, "head": head},
        )
    ]
    for book in books:
        cap, left = book.budget, book.remaining
        spent = book.limit - left
        unit = "epsilon" if cap.pure else "rho"
        rest = "nothing" if used_up(left, cap.limit) else f"{unit}={shown_down(left)}"
        findings.append(
            Finding(
                section=section,
                check=f"dataset {printable(book.dataset)}",
                passed=left >= 0,
                detail=f"cap {cap}; spent {unit}={shown_up(spent)}; {rest} left",
                facts={"dataset": book.dataset, "spent": float_up(spent), "unit": unit, "cap": cap.to_dict()},
            )
        )
    return findings


def check_release(path: str | Path, *, ledger: str | Path | None = None) -> list[Finding]:
    """Findings on a release: its cost, recomputed from its measurements, its stamp, and its charges in a ledger."""
    section = f"Release {printable(str(path))}"
    try:
        release = load_release(path)
    except HushError as error:
        return [Finding(section=section, check="cost", passed=False, detail=str(error), facts={})]
    statement = release.statement
    measured = measured_event(statement, release.record).cost
    stated = price(statement.event)
    noise = "private: noise from the operating system's bits, no watcher"
    findings = [
        Finding(
            section=section,
            check="cost",
            passed=True,
            detail=f"the noise and the choices in the file cost {_text(measured)}; the statement says {_text(stated)}, "
            f"within {statement.budget}",
            facts={
                "measured_rho": _float(measured),
                "stated_rho": _float(stated),
                "unit": "rho" if stated.epsilon is None else "epsilon",
                "stated": _float(stated) if stated.epsilon is None else float_up(stated.epsilon),
                "budget": statement.budget.to_dict(),
            },
        ),
        Finding(
            section=section,
            check="stamp",
            passed=statement.private,
            detail="; ".join(statement.warnings) or (noise if statement.charged else "private: nothing was measured"),
            facts={"private": statement.private},
        ),
    ]
    return findings if ledger is None else [*findings, _charged(section, release, ledger)]


def _charged(section: str, release: Release, ledger: str | Path) -> Finding:
    """Whether the ledger was charged for the events of a release, up to the head that the release names."""
    head, dataset = release.statement.ledger_head, None
    if head is None:
        detail = "the release names no ledger; release with --ledger"
    else:
        try:
            books = Ledger.open_all(ledger)
            books[0].verify(head)
            charged = (book for book in books if not uncharged(release.statement, book.events(until=head)))
            dataset = next((book.dataset for book in charged), None)
            detail = "no dataset of the ledger was charged for what the release states"
        except HushError as error:
            detail = str(error)
    if dataset is not None:
        detail = f"every event of the statement was charged to the dataset {printable(dataset)}"
    return Finding(
        section=section, check="charged", passed=dataset is not None, detail=detail, facts={"dataset": dataset}
    )


def _text(cost: Cost) -> str:
    if cost.epsilon is not None and cost.rho is not None:
        return f"epsilon={shown_up(cost.epsilon)}"
    return "no bound" if cost.rho is None else f"rho={shown_up(cost.rho)}"


def _float(cost: Cost) -> float | None:
    return None if cost.rho is None else float_up(cost.rho)
