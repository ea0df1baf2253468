"""Run every benchmark that needs no input file, one after the other; benchmarks/README.md says what each shows.

`python -m benchmarks papers` prints the tables of the papers beside ours instead; see its --help.
The tables from the papers take half an hour at full size. Without --full each benchmark runs at its smallest size.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from pathlib import Path

ALL_SIZES = (("noise",), ("counting",), ("residual",), ("selection_speed",))
SMALL = (
    ("noise",),
    ("counting", "--rows", "1000000"),
    ("residual", "--attributes", "20"),
    ("selection_speed", "--quick"),
)
TABLES = ("one_dimension", "many_dimensions", "eigen_design", "pareto", "hybrid")


def lines() -> dict[str, str]:
    """What each benchmark does, by its name: the first line of its file, which is not imported."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        text = path.read_text(encoding="utf-8")
        if '__name__ == "__main__"' in text:
            found[path.stem] = (ast.get_docstring(ast.parse(text)) or "").splitlines()[0]
    return found


def main() -> None:
    if sys.argv[1:2] == ["papers"]:
        from benchmarks.papers import main as print_papers

        print_papers(sys.argv[2:])
        return
    known = lines()
    listed = "\n".join(f"  {name:{max(map(len, known))}}  {line}" for name, line in known.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=f"One benchmark: python -m benchmarks.NAME, where NAME is one of\n\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--full", action="store_true", help="the sizes of the papers; takes hours")
    full = parser.parse_args().full
    failed = []
    for name, *options in (
        *(ALL_SIZES if full else SMALL),
        *((name, *(() if full else ("--quick",))) for name in TABLES),
    ):
        print(f"\n== python -m {' '.join([f'benchmarks.{name}', *options])}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options], check=False).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
