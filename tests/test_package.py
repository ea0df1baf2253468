"""The package as an index shows it: a description without broken links, and archives that hold all files."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import hush

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    words = ("build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True)
    return folder


@pytest.mark.slow
def test_the_archives_pass_the_check_of_the_index(archives: Path) -> None:
    files = sorted(map(str, archives.iterdir()))
    assert len(files) == 2
    done = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_description_has_no_links_to_files(archives: Path) -> None:
    (wheel,) = archives.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
        inside = archive.namelist()
    assert LINK.findall(metadata) == []
    assert "pip install" in metadata
    assert f"Version: {hush.__version__}\n" in metadata
    assert {"hush/py.typed", "hush/render/style.css"} <= set(inside)
    assert LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))  # else the first assertion would say nothing


@pytest.mark.slow
def test_the_source_archive_has_what_its_pages_link_to(archives: Path) -> None:
    (source,) = archives.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    linked = {
        target.split("#")[0].rstrip("/") for target in LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    }
    folders = {name.rsplit("/", 1)[0] for name in names if "/" in name}
    assert linked - names - folders == set()
    assert not [name for name in names if name.startswith(("docs/_build", "docs/_generated"))]


def test_links_to_files_become_names() -> None:
    sys.path.append(str(ROOT))
    from hatch_build import index_text

    assert index_text("![Bars](docs/bars.png)\n\n[The page](docs/page.md), [R](https://r), [x.md](x.md)") == (
        "The page (docs/page.md), [R](https://r), x.md"
    )


def test_the_citation_is_of_this_version() -> None:
    assert f"version: {hush.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
