"""The progress bar of long work: for people at a terminal, after a while, one at a time."""

import io
import sys

import pytest

import hush
from hush.render import progress_bar as bars
from hush.render.progress_bar import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """From within a test: pytest sets stderr anew after its fixtures are made."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    return screen


def test_nothing_is_shown_where_nobody_looks(capsys) -> None:
    with progress_bar("fitting") as progress:
        progress(0.5)
    assert capsys.readouterr() == ("", "")


def test_a_bar_is_shown_at_a_terminal(monkeypatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    with progress_bar("fitting") as progress:
        progress(0.5)
    assert "fitting" in terminal.getvalue()
    assert bars._bars == []


def test_a_notebook_without_widgets_shows_no_bar(monkeypatch) -> None:
    terminal = at_a_terminal(monkeypatch)  # as the streams of a notebook say
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    monkeypatch.setattr(bars, "find_spec", lambda name: None)
    with progress_bar("fitting") as progress:
        progress(0.5)
    assert terminal.getvalue() == ""
    monkeypatch.setattr(bars, "find_spec", lambda name: sys)
    with progress_bar("fitting") as progress:
        progress(0.5)
    assert "fitting" in terminal.getvalue()


def test_short_work_shows_no_bar(monkeypatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    with progress_bar("fitting", after=3600.0) as progress:
        progress(0.5)
    assert terminal.getvalue() == ""


def test_a_bar_within_a_bar_is_not_shown(monkeypatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    with progress_bar("outer") as outer:
        with progress_bar("inner") as inner:
            inner(0.5)
        outer(1.0)
    assert "inner" not in terminal.getvalue()
    assert "outer" in terminal.getvalue()


def test_releases_and_models_show_their_progress(monkeypatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    monkeypatch.setattr("hush.mechanisms.plan.SECONDS_BEFORE_BAR", 1e-9)
    monkeypatch.setattr("hush.release.fit.SECONDS_BEFORE_BAR", 1e-9)
    table = hush.read(hush.datasets.people(200, seed=1), hush.datasets.people_schema())
    workload = hush.Workload.marginals(table.domain, [("sex", "region"), ("region", "employed")])
    release = hush.plan(workload, hush.Budget(rho=0.5), "residual").release(table)
    assert "measuring" in terminal.getvalue()
    release.model()
    assert "fitting a model" in terminal.getvalue()
