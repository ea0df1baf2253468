"""How a fault is planted, and the test of the suite that must notice it.

A bug is a monkeypatch; a guard is a test of the suite, run in place. Every guard must pass without the bug and fail
with it, so that a guard which cannot fail, a bug which does nothing, or one that no longer runs, fails here.
"""

import dataclasses
import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent
Patch = pytest.MonkeyPatch
HEALTHY: set[tuple[str, str]] = set()  # guards that were seen to pass
CAUGHT = (Exception, pytest.fail.Exception)
BROKEN = (TypeError, AttributeError, NameError)  # what a fault raises that no longer fits the code it is planted in


def suite(path: str) -> ModuleType:
    """A module of the test suite, loaded by itself."""
    name = "planted_" + path.replace("/", "_").removesuffix(".py")
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, HERE / path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@dataclass(frozen=True)
class Bug:
    """A fault, and the test that must notice it."""

    plant: Callable[[Patch], None]
    guard: str  # module::function
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)

    def run_guard(self, patch: Patch, folder: Path) -> None:
        """Run the guarding test with the fixtures it asks for."""
        path, function = self.guard.split("::")
        test = getattr(suite(path), function)
        fixtures = {"monkeypatch": patch, "tmp_path": folder}
        wanted = {name: value for name, value in fixtures.items() if name in inspect.signature(test).parameters}
        test(**wanted, **self.arguments)

    def check(self, patch: Patch, folder: Path) -> None:
        """Run the guard without the fault, which it must pass, then with it, which it must not."""
        healthy = self.guard, repr(self.arguments)
        if healthy not in HEALTHY:
            (folder / "healthy").mkdir()
            self.run_guard(patch, folder / "healthy")
            HEALTHY.add(healthy)
        with patch.context() as planted:
            self.plant(planted)
            with pytest.raises(CAUGHT) as caught:
                self.run_guard(planted, folder)
        assert not isinstance(caught.value, BROKEN), f"the fault does not run as planted: {caught.value}"
