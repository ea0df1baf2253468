"""DuckDB's failures in our own words, and nothing of them besides."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from hush.errors import DataError, DomainError, SizeError
from hush.tables import engine

SECRET = "hunter2"


def fail(error):
    def call():
        raise error

    return call


@pytest.mark.parametrize(
    "error",
    [
        duckdb.ConversionException(SECRET),
        duckdb.InternalException(SECRET),
        pa.ArrowInvalid(SECRET),
        OSError(SECRET),
        RuntimeError(SECRET),
        EOFError(SECRET),
        UnicodeDecodeError("utf-8", SECRET.encode(), 0, 1, SECRET),
        pl.exceptions.ComputeError(SECRET),
        pl.exceptions.InvalidOperationError(SECRET),
        pl.exceptions.PanicException(SECRET),
        KeyError(SECRET),
        AttributeError(SECRET),
        StopIteration(SECRET),
    ],
)
def test_an_error_of_the_engine_leaves_nothing_behind(error) -> None:
    with pytest.raises(DataError, match="^it failed; try again$") as caught:
        engine.attempt(fail(error), "it failed; try again")
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "error", [duckdb.OutOfMemoryException(SECRET), MemoryError(SECRET), pa.ArrowMemoryError(SECRET)]
)
def test_too_little_memory_is_a_matter_of_size(error) -> None:
    with pytest.raises(SizeError, match="more memory than memory_limit allows; raise it") as caught:
        engine.attempt(fail(error), "it failed")
    assert caught.value.__context__ is None


def test_our_own_errors_and_the_wish_to_stop_pass() -> None:
    with pytest.raises(DomainError, match="known"):
        engine.attempt(fail(DomainError("known")), "it failed")
    for wish in (KeyboardInterrupt, SystemExit, GeneratorExit):
        with pytest.raises(wish):
            engine.attempt(fail(wish()), "it failed")


def test_the_words_may_depend_on_the_kind_of_trouble() -> None:
    with pytest.raises(DataError, match="a quote"):
        engine.attempt(fail(duckdb.Error("unterminated")), lambda text: "a quote" if "unter" in text else "unknown")


def test_numbers_of_an_arrow_slice() -> None:
    sliced = pa.array([1, 2, 3, 4], pa.uint16()).slice(1, 2)
    assert engine.as_numpy(sliced).tolist() == [2, 3]
    assert engine.as_numpy(sliced).dtype == np.uint16
    assert engine.as_numpy(pa.array([], pa.uint8())).tolist() == []


def test_streams_of_a_closed_session_fail_in_our_words() -> None:
    session = engine.open_session(engine.connect(2**28), {})
    assert sum(batch.num_rows for batch in engine.stream(session, "FROM range(3000)", 1000, "no")) == 3000
    assert 0 <= engine.fraction_done(session) <= 1
    session.close()
    with pytest.raises(DataError, match="^no$"):
        list(engine.stream(session, "FROM range(3)", 1000, "no"))
    assert engine.fraction_done(session) == 0.0


def test_memory_of_the_engine_is_limited() -> None:
    session = engine.open_session(engine.connect(2**27), {})
    session.execute("SET temp_directory = ''")
    heavy = "SELECT * FROM range(30000000) AS r(i) ORDER BY hash(i)"
    with pytest.raises(SizeError, match="more memory than memory_limit allows"):
        list(engine.stream(session, heavy, 10**6, "no"))
