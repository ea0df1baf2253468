"""Draw the pictures of the pages and of the README: `python docs/pictures.py`. Screens of pages need Chromium."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib
from PIL import Image

import hush

FOLDER = Path(__file__).parent / "pictures"
CHROMIUM = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,720")


def save(axes: Any, name: str) -> None:
    """A small PNG that is sharp on dense screens."""
    axes.figure.set_facecolor("white")
    file = FOLDER / f"{name}.png"
    axes.figure.savefig(file, dpi=130)
    Image.open(file).convert("RGB").quantize(64).save(file, optimize=True)


def draw() -> None:
    """Draw every picture from invented people."""
    matplotlib.use("Agg")
    rows, schema = hush.datasets.people(5000, seed=1), hush.datasets.people_schema()
    with tempfile.TemporaryDirectory() as folder:
        ledger = hush.Ledger.create(Path(folder, "budget.db"), hush.Budget(epsilon=3.0, delta=1e-9))
        levels = {"sex": ["female", "male"]}
        save(hush.count(rows, "sex", "employed", epsilon=0.5, levels=levels, ledger=ledger).plot(), "count")
        plan = hush.plan("<=2-way", hush.Budget(epsilon=1.0, delta=1e-9), schema=schema)
        save(plan.plot(), "plan")
        release = plan.release(hush.read(rows, schema), ledger=ledger)
        save(release.plot("education", "sex"), "release")
        save(release.plot("age"), "ages")
        save(release.plot("region", "education", kind="shades"), "shades")
        regions = hush.plan("region; region,sex", hush.Budget(epsilon=0.5, delta=1e-9), schema=schema)
        save(regions.release(hush.read(rows, schema)).plot("region", "sex"), "regions")
        release.save(Path(folder, "people.hush"))
        screens(schema, Path(folder))


def screens(schema: hush.Schema, folder: Path) -> None:
    """Draw the first screen of a report, a front and an audit."""
    schema.save(folder / "people.toml")
    commands = {
        "report": ["report", "people.hush"],
        "front": ["pareto", "people.toml", "--workload", "age,sex"],
        "audit": ["audit", "--release", "people.hush", "--ledger", "budget.db"],
    }
    for name, words in commands.items():
        page = folder / f"{name}.html"
        subprocess.run([sys.executable, "-m", "hush", *words, "-o", page.name], cwd=folder, check=True)
        screen = [*CHROMIUM, f"--user-data-dir={folder / 'profile'}", f"--screenshot={FOLDER / name}.png"]
        subprocess.run([*screen, page.as_uri()], check=True, capture_output=True)
        picture = Image.open(FOLDER / f"{name}.png").convert("RGB").quantize(64)
        picture.save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    draw()
