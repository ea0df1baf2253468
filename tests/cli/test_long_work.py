"""What long commands say on stderr: what they do and how long it takes, and nothing that tells of private rows."""

import io
import re
import sys
import threading

import pytest

from hush.cli import long_work as lines
from hush.cli.long_work import NO_BAR, long_work


class Stderr(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


class HeldTimer(threading.Timer):
    """A timer that fires when the test says so, however busy the machine is."""

    fire = threading.Event()

    def run(self) -> None:
        self.fire.wait(60)
        if not self.finished.is_set():
            self.function()


def said(
    monkeypatch: pytest.MonkeyPatch,
    *,
    terminal: bool,
    long: bool,
    private: bool = False,
    done: float = 0.0,
    expected: str = "a minute",
) -> str:
    """All that work said that ended before, or after, the moment at which it counts as long; every time is 1 s."""
    stderr = Stderr(terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    for name in ("TERMINAL_SECONDS", "LOG_SECONDS"):
        monkeypatch.setattr(lines, name, 0.0 if long else 3600.0)
    if long:
        monkeypatch.setattr(threading, "Timer", HeldTimer)
        monkeypatch.setattr(HeldTimer, "fire", threading.Event())
    with long_work("counting", expected, private=private, after=NO_BAR) as progress:
        progress(done)
        HeldTimer.fire.set()
        for timer in threading.enumerate():
            if isinstance(timer, HeldTimer):
                timer.join(60)
    return re.sub(r"\d[\d.]* s\b", "1 s", stderr.getvalue())


@pytest.mark.parametrize("terminal", [False, True])
def test_long_work_says_what_is_done_and_how_long_it_takes_and_took(monkeypatch, terminal: bool) -> None:
    assert said(monkeypatch, terminal=terminal, long=True) == "hush: counting: a minute\nhush: counting took 1 s\n"


@pytest.mark.parametrize("terminal", [False, True])
def test_short_work_says_nothing(monkeypatch, terminal: bool) -> None:
    assert said(monkeypatch, terminal=terminal, long=False) == ""


def test_the_rest_is_predicted_from_the_fraction_done(monkeypatch) -> None:
    assert "hush: counting: 50% done, about 1 s more\n" in said(monkeypatch, terminal=False, long=True, done=0.5)


def test_a_command_that_has_said_how_long_it_takes_says_only_how_long_it_took(monkeypatch) -> None:
    assert said(monkeypatch, terminal=False, long=True, expected="") == "hush: counting took 1 s\n"


@pytest.mark.parametrize("done", [0.0, 0.5])
def test_outside_a_terminal_private_work_says_the_same_whether_short_or_long(monkeypatch, done: float) -> None:
    for long in (False, True):
        text = said(monkeypatch, terminal=False, long=long, private=True, done=done)
        assert text == "hush: counting: a minute\n"


def test_the_owner_at_a_terminal_is_told_how_long_private_work_took(monkeypatch) -> None:
    assert said(monkeypatch, terminal=True, long=False, private=True) == ""
    assert said(monkeypatch, terminal=True, long=True, private=True).endswith("hush: counting took 1 s\n")


def test_failed_work_leaves_no_line_for_later(monkeypatch) -> None:
    stderr = Stderr(terminal=False)
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(lines, "LOG_SECONDS", 3600.0)
    timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    with pytest.raises(ValueError, match="broken"), long_work("counting", "a minute", after=NO_BAR):
        raise ValueError("broken")
    left = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert [thread for thread in left if thread not in timers] == []
    assert stderr.getvalue() == ""
