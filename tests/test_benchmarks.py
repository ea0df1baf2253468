"""Benchmarks can be found and asked for help, and go on without the packages that they compare hush with."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(ROOT))
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        del sys.modules[name]


def run(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    return importlib.import_module(name).main()


def test_help_lists_every_benchmark_and_runs_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("a benchmark was started"))
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "benchmarks.__main__", "--help")
    assert ended.value.code == 0
    shown = capsys.readouterr().out.splitlines()
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    known = importlib.import_module("benchmarks.__main__").lines()
    assert len(known) > 20
    for name, line in known.items():
        assert len(line) > 20
        assert any(text.split(maxsplit=1) == [name, line] for text in shown)
        assert f"python -m benchmarks.{name}" in page or f"`{name}`" in page


@pytest.mark.parametrize("name", ["kronecker", "quick_plans", "noise", "graphical", "synthetic"])
def test_help_does_no_work(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, f"benchmarks.{name}", "--help")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: ")


def test_every_benchmark_reads_its_options_with_argparse(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in importlib.import_module("benchmarks.__main__").lines():
        assert "parse_args(" in (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8"), name


def test_a_missing_peer_is_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    run(monkeypatch, "benchmarks.noise", "--cells", "100", "--peer-cells", "10")
    shown = capsys.readouterr().out
    assert "opendp is not installed: pip install 'hush[bench]'; its row is left out" in shown
    assert "hush discrete Gaussian" in shown
    assert "opendp vector Gaussian" not in shown


def test_one_benchmark_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = []

    class Ended:
        def __init__(self, command: list[str], **_: object) -> None:
            started.append(command[2])
            self.returncode = int(command[2] == "benchmarks.counting")

    monkeypatch.setattr("subprocess.run", Ended)
    with pytest.raises(SystemExit, match="failed: counting"):
        run(monkeypatch, "benchmarks.__main__")
    assert started[0] == "benchmarks.noise"
    assert started[-1] == "benchmarks.hybrid"
    assert len(started) == 9


def test_synthetic_takes_rap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tiny.csv").write_text("a,b,c\n" + "".join(f"{i % 2},{i % 3},{i % 2}\n" for i in range(300)))
    (tmp_path / "tiny-domain.json").write_text('{"a": 2, "b": 3, "c": 2}')
    synthetic = importlib.import_module("benchmarks.synthetic")
    job = {"folder": str(tmp_path), "table": "tiny", "workload": "all", "mechanism": "rap"}
    found = synthetic.measure({**job, "epsilon": 10.0, "max_size_mb": 16.0})
    assert 0 <= found["error"] < 0.5
