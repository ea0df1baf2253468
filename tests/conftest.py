"""Settings that every test shares: a red run means a change, not bad luck.

Property tests see the same examples in every run, and noise is drawn from bits that the name of the test decides.
HUSH_EXPLORE=1 draws new examples and real bits, to find tests that pass by luck. A process that a test starts always
draws real bits.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

sys.path.append(str(Path(__file__).parent))

from postgres_server import Server, shared_server
from spark_session import local_spark

# Programs print for the terminal that the environment describes; tests do not depend on it.
os.environ["COLUMNS"] = "80"
for _name in ("LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "MPLBACKEND"):
    os.environ.pop(_name, None)

EXPLORE = "HUSH_EXPLORE" in os.environ

# examples are not timed: a busy machine is not a bug
settings.register_profile("hush", deadline=None, derandomize=not EXPLORE)
settings.load_profile("hush")

_system_bytes, _process = os.urandom, os.getpid()
_steady: list[np.random.Generator] = []


def _bytes(count: int) -> bytes:
    """Bytes of the test that runs; those of the system outside tests and in forked processes."""
    if not _steady or os.getpid() != _process:
        return _system_bytes(count)
    return _steady[-1].bytes(count)


@contextmanager
def _drawn_for(name: str) -> Iterator[None]:
    _steady.append(np.random.default_rng(list(sha256(name.encode()).digest())))
    try:
        yield
    finally:
        _steady.pop()


if not EXPLORE:
    os.urandom = _bytes  # before hush is loaded, which keeps the function

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
        with _drawn_for(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest) -> Iterator[None]:
        """What many tests share is the same whichever of them comes first."""
        with _drawn_for(f"{fixturedef.baseid} {fixturedef.argname} {request.param_index} {request.node.nodeid}"):
            return (yield)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A PostgreSQL server that all tests of the run share; it ends with the run."""
    worker = "PYTEST_XDIST_WORKER" in os.environ
    folder = tmp_path_factory.getbasetemp()
    return shared_server(folder.parent if worker else folder, os.getppid() if worker else os.getpid())


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local Spark, started when a test first needs it; it ends with the run."""
    with local_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of Spark come first, so that one worker has them all and Java starts once; pages need a browser."""
    items.sort(key=lambda item: "spark" not in getattr(item, "fixturenames", ()) and "spark" not in item.name)
    pages = [item for item in items if item.get_closest_marker("browser")]
    if pages and shutil.which("chromium") is None:
        if "HUSH_BROWSER_REQUIRED" in os.environ:
            raise pytest.UsageError(f"{len(pages)} tests of pages need chromium, which is not installed")
        for item in pages:
            item.add_marker(pytest.mark.skip(reason="chromium is not installed"))
