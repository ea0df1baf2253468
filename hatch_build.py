"""The description on a package index: the README without its picture, and with names in place of links to files.

An index shows no files of the repository, so links to them would be broken there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def index_text(readme: str) -> str:
    """The README with pictures left out, and links to files replaced by their text.

    >>> index_text("![Bars](docs/bars.png)\\n\\nSee [the page](docs/page.md) and [R](https://cran.r-project.org).")
    'See the page (docs/page.md) and [R](https://cran.r-project.org).'
    """
    text = re.sub(r"^!\[[^\]]*\]\((?!https?:)[^)]+\)\n\n?", "", readme, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)", named, text)


def named(link: re.Match[str]) -> str:
    """The text of a link, with the name of the file if the text is not that name."""
    return link[1] if link[1] == link[2] else f"{link[1]} ({link[2]})"


class ReadmeHook(MetadataHookInterface):
    """Sets the readme of the package."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling when the package is built."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": index_text(text)}
