"""Recompute the printed tables of the five documents, each number beside the printed one; makes docs/papers.md.

Run: python -m benchmarks papers [--document 004 ...] [--quick] [--data FOLDER] [--output docs/papers.md] [--list]

Every line has the printed number, the number recomputed apart from hush where the document prints none or a wrong one,
and ours. A mark says that ours is more than 1 % from both; a note says why. Tables that need data which is not here are
made on generated stand-ins, and say so. FOLDER holds what benchmarks/README.md describes; without it, tables that need
it are left out. The long tables of HDMM and Eigen-Design are made by benchmarks of their own.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from benchmarks import printed_aim, printed_hdmm, printed_hybrid, printed_matrix, printed_residual, printed_synthetic
from benchmarks.printed import DOCUMENTS, Options, PrintedTable, differs, number

TABLES: tuple[PrintedTable, ...] = (
    *printed_hdmm.TABLES,
    *printed_synthetic.TABLES,
    *printed_aim.TABLES,
    *printed_matrix.TABLES,
    *printed_hybrid.TABLES,
    *printed_residual.TABLES,
)
SHOWN_SECONDS = 0.05
RANDOM_DIGITS = 3  # of a number that differs from run to run
OTHERS = {  # benchmarks that print further tables of a document beside ours
    "000": (
        ("one_dimension", "Tables 3.2 and 3.3", "5 minutes; --large half an hour"),
        ("many_dimensions", "Tables 3.4 and 3.5, Examples 2 and 4", "half an hour"),
        ("selection_speed", "Figure 3.3 and the seconds of OPT_0", "10 minutes"),
        ("plug_in", "Figure 4.1, HDMM with least squares and with a graphical model", "minutes for each table"),
        ("graphical --scale", "Figure 4.2", "10 minutes"),
    ),
    "001": (
        ("synthetic", "Figures 2 and 3, section 6.4", "hours"),
        ("bounds", "section 6.6, error bounds", "minutes"),
        ("aim_speed", "section 6.9, seconds", "minutes"),
    ),
    "002": (
        ("eigen_design", "Tables 4.1 and 5.2 at full size", "20 minutes"),
        ("partitions", "Table 6.1, Figures 6.4 and 6.5", "10 minutes"),
        ("histograms", "Table 6.2 with the errors of published implementations", "minutes"),
    ),
    "003": (
        ("rap", "Figures 4.1 to 4.9", "hours"),
        ("hybrid", "chapter 2", "20 minutes"),
        ("pareto", "chapter 3", "20 minutes"),
        ("accounting", "calibration of noise", "minutes"),
    ),
    "004": (("residual", "Tables 1 and 2 up to 100 columns", "minutes"),),
}


def show(table: PrintedTable, options: Options, out: TextIO) -> None:
    """One table in Markdown."""
    start = time.process_time()
    rows = list(table.rows(options))
    seconds = time.process_time() - start
    spent = f"Made in {seconds:.1f} s" if seconds >= SHOWN_SECONDS else ""
    words = " ".join([*(f"{part}." for part in (table.unit, spent) if part), table.note]).strip()
    print(f"\n### {table.place}: {table.title}\n" + (f"\n{words}\n" if words else ""), file=out)
    print("| case | printed | recomputed | ours | |\n| --- | ---: | ---: | ---: | --- |", file=out)
    for row in rows:
        mark = "**differs**" if differs(row, table) else ""
        ours = number(row.ours, RANDOM_DIGITS if table.random else 5)
        cells = (row.name, number(row.printed), number(row.recomputed), ours, mark)
        print(f"| {' | '.join(cells)} |", file=out)
    out.flush()


def able(table: PrintedTable, options: Options) -> bool:
    """Whether the options allow a table."""
    return not (options.quick and table.quick_seconds is None) and not (table.needs_data and options.data is None)


def page(documents: Sequence[str], options: Options, out: TextIO) -> None:
    """All tables of some documents."""
    print("# Printed tables of the papers, next to hush's\n", file=out)
    words = (" --quick" if options.quick else "") + (" --data FOLDER" if options.data else "")
    command = f"python -m benchmarks papers{words}"
    print(
        f"Made by `{command}`. Printed numbers are in the documents. Recomputed numbers follow from the\n"
        "documents' formulas, computed without hush; they appear where a document prints no number, or a wrong one.\n"
        "Our number, from hush, is marked if it differs by more than 1 % from both, or breaks a printed relation such\n"
        "as `< 1`; the note above the table says why. Random runs have no marks, and differ from time to time.",
        file=out,
    )
    for document in documents:
        print(f"\n## {document}: {DOCUMENTS[document]}", file=out)
        for table in TABLES:
            if table.document == document and able(table, options):
                show(table, options, out)
        print("\nFurther tables have benchmarks of their own:\n", file=out)
        for command, what, duration in OTHERS[document]:
            print(f"- `python -m benchmarks.{command}`: {what} ({duration})", file=out)


def listing(documents: Sequence[str]) -> str:
    """What would be made, and how long it takes."""
    lines = []
    for table in TABLES:
        if table.document in documents:
            quick = "not in --quick" if table.quick_seconds is None else f"--quick {table.quick_seconds:g} s"
            data = ", needs --data" if table.needs_data else ""
            lines.append(f"{table.document}  {table.place}: {table.title} ({table.seconds:g} s, {quick}{data})")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, or write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks papers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--document", nargs="*", choices=list(DOCUMENTS), default=list(DOCUMENTS))
    parser.add_argument("--quick", action="store_true", help="closed forms and small sizes: about five minutes in all")
    parser.add_argument("--data", type=Path, help="a folder of tables and histograms")
    parser.add_argument("--output", type=Path, help="write the page to a file")
    parser.add_argument("--list", action="store_true", help="list the tables and how long they take")
    options = parser.parse_args(arguments)
    if options.list:
        print(listing(options.document))
        return
    chosen = Options(quick=options.quick, data=options.data)
    if options.output is None:
        page(options.document, chosen, sys.stdout)
        return
    with options.output.open("w", encoding="utf-8") as file:
        page(options.document, chosen, file)


if __name__ == "__main__":
    main()
