"""Kernels reach numba when they are called, with those that they call, whichever thread comes first."""

from __future__ import annotations

import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

SOURCE = """
from hush.core.compiled import njit

@njit(nogil=True)
def outer(x):
    return inner(x) + 1

@njit(nogil=True)
def inner(x):
    return 2 * x
"""


@pytest.fixture
def kernels(tmp_path: Path) -> types.ModuleType:
    module = types.ModuleType("kernels_of_a_test")
    exec(compile(SOURCE, str(tmp_path / "kernels.py"), "exec"), module.__dict__)
    return module


def test_a_kernel_calls_those_written_after_it(kernels: types.ModuleType) -> None:
    outer, inner = kernels.outer, kernels.inner
    assert outer(3) == 7
    assert inner(3) == 6
    assert kernels.outer(4) == 9
    assert kernels.inner is inner.dispatcher()
    assert inner.function(3) == 6


def test_threads_may_call_at_once(kernels: types.ModuleType) -> None:
    outer = kernels.outer
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(outer, range(32))) == [2 * x + 1 for x in range(32)]


def test_numba_is_loaded_by_the_first_call(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(SOURCE)
    code = "import sys, kernels; print('numba' in sys.modules, kernels.outer(1), 'numba' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "3", "True"]
