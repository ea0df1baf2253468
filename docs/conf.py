"""The documentation site: `make docs` builds it; the reference pages are written from the code at every build."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from hush import __version__

project, author, copyright = "hush", "the hush developers", "the hush developers"
version = release = __version__
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "notebooks/*"]
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
nitpicky = True
html_theme = "furo"
html_static_path, html_css_files = ["static"], ["site.css"]
html_title = f"hush {__version__}"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5c96", "color-brand-content": "#1f5c96"},
    "dark_css_variables": {"color-brand-primary": "#6aa9e6", "color-brand-content": "#6aa9e6"},
}
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # a browser does not let a page on disk read the other pages
smartquotes = False  # "--ledger" is no dash


def setup(app: Any) -> None:
    """Write the generated pages before Sphinx looks for pages."""
    from generated_pages import write_pages

    write_pages(Path(app.srcdir))
