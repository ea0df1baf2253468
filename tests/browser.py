"""A real browser for the tests of pages: Chromium, without a screen.

Tests that open it are marked `browser`. They are skipped where Chromium is not installed; with HUSH_BROWSER_REQUIRED
in the environment, as in CI, the run is refused instead.
"""

import subprocess
from pathlib import Path

CHROMIUM = (
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--window-size=1100,3000"),
)


def browse(folder: Path, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Open a page with a new profile in a folder; `--dump-dom` prints it, `--screenshot=FILE` draws it."""
    command = [*CHROMIUM, f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
