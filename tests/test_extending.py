"""docs/extending.md as written: its mechanism, in a package of its own, works wherever hush takes a name."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow.csv
import pytest

import hush

PAGE = (Path(__file__).parent.parent / "docs" / "extending.md").read_text()
MODULE, CONTRACT, TERM = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
PROJECT = tomllib.loads(re.search(r"^```toml\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)[1])["project"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the package of the page as pip would leave it."""
    folder = tmp_path / "site"
    metadata = folder / "hush_pairs-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "hush_pairs.py").write_text(MODULE)
    (folder / "test_pairs.py").write_text(CONTRACT)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {PROJECT['name']}\nVersion: {PROJECT['version']}\n"
    )
    points = "\n".join(f"{name} = {value}" for name, value in PROJECT["entry-points"]["hush.mechanisms"].items())
    (metadata / "entry_points.txt").write_text(f"[hush.mechanisms]\n{points}\n")
    return folder


def run(site: Path, *arguments: object) -> str:
    """What a Python with that package prints."""
    code = f"import sys; sys.path.insert(0, {str(site)!r}); from runpy import run_module; sys.argv = sys.argv[1:]; "
    code += "run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    words = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=True, cwd=site).stdout


def test_the_mechanism_is_at_most_40_lines() -> None:
    assert 10 < len(MODULE.splitlines()) <= 40


def test_a_kind_of_query_is_at_most_40_lines() -> None:
    assert 10 < len(TERM.splitlines()) <= 40  # tests/workloads/test_term_seam.py takes it through hush


def test_it_keeps_the_contract(site: Path) -> None:
    assert "1 passed" in run(site, "pytest", "-q", "-p", "no:cacheprovider", site / "test_pairs.py")


def test_the_commands_of_the_page_work(site: Path, tmp_path: Path) -> None:
    hush.datasets.people_schema().save(tmp_path / "people.toml")
    pyarrow.csv.write_csv(hush.datasets.people(300, seed=1), tmp_path / "people.csv")
    listed = {entry["name"] for entry in json.loads(run(site, "hush", "mechanisms", "--json"))}
    assert "pairs" in listed
    release = tmp_path / "people.hush"
    asked = ("--workload", "2-way", "--mechanism", "pairs", "--epsilon", 1, "--delta", 1e-9)
    run(site, "hush", "release", tmp_path / "people.csv", "--schema", tmp_path / "people.toml", *asked, "-o", release)
    assert "female" in run(site, "hush", "query", release, "SELECT sex, COUNT(*) FROM t GROUP BY sex")
    run(site, "hush", "report", release, "-o", tmp_path / "report.html")
    assert "pairs" in (tmp_path / "report.html").read_text()
    loaded = hush.load(release)  # here the package is not installed
    assert isinstance(loaded, hush.Release)
    assert loaded.counts("sex").shape == (2,)
