"""The page on notation lists every work that the source cites, and nothing else."""

import re
from pathlib import Path

import hush

PAGE = (Path(__file__).parent.parent / "docs" / "notation.md").read_text(encoding="utf-8")
LISTED = set(re.findall(r"^\| (.+?) \|", PAGE.split("## References")[1], re.MULTILINE)) - {"key", "---"}
AUTHORS = r"[A-Z][\w-]+(?:(?:, [A-Z][\w-]+)* and [A-Z][\w-]+| et al\.)?"
CITATION = re.compile(rf"\[({AUTHORS} (?:19|20)\d\d[a-z]?)\b")


def cited(text: str) -> set[str]:
    """The keys of the works that a text cites by author and year."""
    return set(CITATION.findall(" ".join(text.split())))


def test_citations_are_found() -> None:
    assert cited("[Li 2013, Sec. 2.3]; [Mironov,\nTalwar and Zhang 2019], [Wang et al. 2017]; [ALARM]") == {
        "Li 2013",
        "Mironov, Talwar and Zhang 2019",
        "Wang et al. 2017",
    }


def test_every_cited_work_is_listed() -> None:
    sources = {path.name: path.read_text(encoding="utf-8") for path in Path(hush.__file__).parent.rglob("*.py")}
    missing = {(key, name) for name, text in sources.items() for key in cited(text) - LISTED}
    assert missing == set()
