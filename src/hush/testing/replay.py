"""Record and replay: anything that depends on private data other than through the gate is a leak.

A computation runs on a table while everything that passes the gate is recorded, then again on a neighbouring table with
every noisy output frozen to the recorded one. Whatever still differs (a request, a charge, the result, a file, a log
line, an exception) depends on the data in a way that no noise protects; and the exact inputs at each passage must be
within the sensitivity that was declared and charged. Before that, the computation is replayed on the same table until
nothing changes, so that caches which it fills on first use are filled on both sides of the comparison.

Reference: [Cebere et al. 2026].
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import io
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from hush.core.arrays import Integers
from hush.core.errors import ReplayError
from hush.privacy.events import Event
from hush.privacy.gate import DiscoveryLaw, Request, Scorer, watch
from hush.privacy.sensitivity import Sensitivity

MOST_PASSES = 8  # over the same table, until its caches are filled


@dataclass
class Passage:
    """One thing that passed the gate: what was public of it, the exact input, and the output."""

    kind: str
    public: Any
    exact: Any
    output: Any


@dataclass
class Recorder:
    """Watches a gate and keeps every passage."""

    passages: list[Passage] = field(default_factory=list)

    def charged(self, event: Event) -> None:
        self.passages.append(Passage("charge", fingerprint(event), None, None))

    def measured(self, request: Request, bound: Sensitivity, exact: Integers, draw: Callable[[], Integers]) -> Integers:
        output = draw()
        self.passages.append(Passage("measure", fingerprint((request, bound)), exact.copy(), output.copy()))
        return output

    def selected(self, scorer: Scorer[Any], law: Any, scores: Any, draw: Callable[[], Any]) -> Any:
        output = draw()
        self.passages.append(Passage("select", _public(scorer, law, scores), copy.deepcopy(scores), output))
        return output

    def discovered(
        self, law: DiscoveryLaw, keys: int, exact: Mapping[Any, int], draw: Callable[[], tuple[Any, ...]]
    ) -> tuple[Any, ...]:
        output = draw()
        self.passages.append(Passage("discovery", fingerprint((law, keys)), dict(exact), output))
        return output


@dataclass
class Replayer:
    """Watches a gate on a neighbour: hands out the recorded outputs and compares everything else.

    On the table itself, `settling`, it takes what is public as it is now instead of comparing it.
    """

    passages: list[Passage]
    settling: bool = False
    position: int = 0
    changed: bool = False  # whether something public was not as recorded, while settling

    def charged(self, event: Event) -> None:
        """The same charge must come at the same point."""
        self._next("charge", fingerprint(event))

    def measured(self, request: Request, bound: Sensitivity, exact: Integers, draw: Callable[[], Integers]) -> Integers:
        """The same request must come, with an input no further away than its sensitivity."""
        recorded = self._next("measure", fingerprint((request, bound)))
        if exact.shape != recorded.exact.shape:
            raise ReplayError("the shape of a measured answer depends on the data")
        gap = (exact - recorded.exact).ravel().astype(object)
        if sum(abs(value) for value in gap) > bound.l1 or sum(value * value for value in gap) > bound.l2_squared:
            raise ReplayError("a measured answer moves further between neighbours than its declared sensitivity")
        return recorded.output.copy()  # type: ignore[no-any-return]

    def selected(self, scorer: Scorer[Any], law: Any, scores: Any, draw: Callable[[], Any]) -> Any:
        """The same selection must come, with scores no further away than their sensitivity."""
        recorded = self._next("select", _public(scorer, law, scores))
        if scores.distance(recorded.exact) > Fraction(scores.sensitivity) + 2 * Fraction(scores.error):
            raise ReplayError("a score moves further between neighbours than its declared sensitivity")
        return recorded.output

    def discovered(
        self, law: DiscoveryLaw, keys: int, exact: Mapping[Any, int], draw: Callable[[], tuple[Any, ...]]
    ) -> tuple[Any, ...]:
        """The same discovery must come, with at most `keys` counts that differ, by one each."""
        recorded = self._next("discovery", fingerprint((law, keys)))
        gaps = [abs(exact.get(key, 0) - recorded.exact.get(key, 0)) for key in {*exact, *recorded.exact}]
        if max(gaps, default=0) > 1 or sum(gaps) > keys:
            raise ReplayError("the counts of keys move further between neighbours than declared")
        return recorded.output  # type: ignore[no-any-return]

    def _next(self, kind: str, public: Any) -> Passage:
        if self.position == len(self.passages):
            raise ReplayError(f"a {kind} happens on a neighbour that did not happen on the table")
        recorded = self.passages[self.position]
        self.position += 1
        if recorded.kind != kind:
            raise ReplayError(f"a {kind} happens on a neighbour where the table had a {recorded.kind}")
        if self.settling:
            self.changed |= recorded.public != public
            recorded.public = public
        if recorded.public != public:
            raise ReplayError(f"what is public of a {kind} depends on the data")
        return recorded

    def finish(self) -> None:
        """Nothing recorded may be left over."""
        if self.position != len(self.passages):
            raise ReplayError(f"a {self.passages[self.position].kind} did not happen on a neighbour")


def _public(scorer: Scorer[Any], law: Any, scores: Any) -> Any:
    """What is public of a selection."""
    bounds = scores.sensitivity, scores.error, getattr(scores, "own", None)
    return fingerprint((law, scorer.cliques, scorer.candidates, scorer.row_norms, bounds))


def check_replay(run: Callable[[Any], Any], table: Any, neighbours: Iterable[Any], *, measures: bool = True) -> int:
    """Run on a table and replay on neighbours; raises ReplayError at the first leak, returns how many were replayed.

    `run(table)` must reach the noise through the gate only; its result, printed and logged text, warnings and
    exceptions are compared. A path in the result stands for the contents of that file. With `measures=False` it is a
    leak if anything is charged or passes the gate at all; otherwise something must.
    """
    recorder = Recorder()
    expected = _observe(run, table, recorder)
    if not measures and recorder.passages:
        raise ReplayError("something is charged or passes the gate, and nothing was to be measured")
    if measures and not any(passage.kind != "charge" for passage in recorder.passages):
        raise ReplayError("nothing passed the gate; there is nothing to replay")
    expected = _settled(run, table, recorder.passages, expected)
    replayed = 0
    for neighbour in neighbours:
        replayer = Replayer(recorder.passages)
        seen = _observe(run, neighbour, replayer)
        replayer.finish()
        for what, before, after in zip(("result", "text", "log", "warnings"), expected, seen, strict=True):
            if before != after:
                raise ReplayError(f"the {what} depends on the data beyond what passed the gate")
        replayed += 1
    if replayed == 0:
        raise ReplayError("no neighbours were given; nothing was checked")
    return replayed


def _settled(run: Callable[[Any], Any], table: Any, passages: list[Passage], before: Any) -> Any:
    """The output of runs on one table, once two runs in a row agree."""
    for _ in range(MOST_PASSES):
        settling = Replayer(passages, settling=True)
        after = _observe(run, table, settling)
        settling.finish()
        if after == before and not settling.changed:
            return after
        before = after
    raise ReplayError(f"runs on one table with the same noise still differ after {MOST_PASSES} runs; make them agree")


def _observe(run: Callable[[Any], Any], table: Any, watcher: Any) -> tuple[Any, str, list[str], list[str]]:
    text, lines = io.StringIO(), _Lines()
    logger = logging.getLogger()
    logger.addHandler(lines)
    try:
        with (
            watch(watcher),
            contextlib.redirect_stdout(text),
            contextlib.redirect_stderr(text),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            try:
                result = fingerprint(run(table))
            except ReplayError:
                raise
            except Exception as error:  # noqa: BLE001 - an exception is an output like any other
                result = ("raised", type(error).__name__, str(error))
    finally:
        logger.removeHandler(lines)
    return result, text.getvalue(), lines.seen, [str(warning.message) for warning in caught]


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(f"{record.levelname} {record.getMessage()}")


def fingerprint(value: Any) -> Any:
    """A value as nested tuples that compare by content; arrays by dtype, shape and bytes, paths by file contents."""
    match value:
        case None | bool() | int() | float() | complex() | str() | bytes() | Fraction():
            return (type(value).__name__, repr(value))
        case Enum():
            return (type(value).__qualname__, value.name)
        case type():
            return ("type", value.__module__, value.__qualname__)
        case np.ndarray() | np.generic():
            array = np.asarray(value)
            return ("array", str(array.dtype), array.shape, array.tobytes())
        case pa.Table():
            return ("table", str(value.schema), tuple(fingerprint(column) for column in value.to_pydict().values()))
        case Path():
            return ("file", value.read_bytes())
        case Mapping():
            return ("mapping", tuple((fingerprint(key), fingerprint(item)) for key, item in value.items()))
        case list() | tuple():
            return ("sequence", tuple(fingerprint(item) for item in value))
        case set() | frozenset():
            return ("set", tuple(sorted(repr(fingerprint(item)) for item in value)))
    if isinstance(value, msgspec.Struct):
        return (type(value).__qualname__, fingerprint(msgspec.structs.asdict(value)))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        values = [getattr(value, item.name) for item in dataclasses.fields(value)]
        return (type(value).__qualname__, tuple(fingerprint(item) for item in values))
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if name != "__dict__"]
    if slots or hasattr(value, "__dict__"):
        held = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})
        return (type(value).__qualname__, fingerprint(held))
    raise ReplayError(f"a result of type {type(value).__qualname__} cannot be compared; return plain values")
