import itertools
import math
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush import queries
from hush.core.domain import Domain
from hush.core.errors import DataError, DomainError, HushError, SizeError, WorkloadError
from hush.linops import Dense, Identity, Kronecker, LinearOperator, Prefix, Total
from hush.privacy.measurement import Measurement

DOMAIN = Domain({"a": 2, "b": 3, "c": 4, "one": 1})
CLIQUES = [order for k in range(4) for order in itertools.permutations("abc", k)]


def truth(clique: tuple[str, ...]) -> np.ndarray[Any, Any]:
    """A marginal of one table over the whole domain, in the clique's order."""
    full = np.random.default_rng(5).normal(size=DOMAIN.shape)
    ordered = DOMAIN.clique(clique)
    kept = full.sum(axis=tuple(i for i, name in enumerate(DOMAIN) if name not in clique))
    return kept.transpose([ordered.index(name) for name in clique])


@given(st.sampled_from(CLIQUES), st.booleans())
def test_tables_come_in_domain_order(clique: tuple[str, ...], flat: bool) -> None:
    values = truth(clique)
    found = Measurement(clique, values.ravel() if flat else values, 0.5, noise="laplace").on(DOMAIN)
    assert found.clique == DOMAIN.clique(clique)
    assert (found.query, found.stddev, found.noise) == (None, 0.5, "laplace")
    np.testing.assert_array_equal(found.values, truth(found.clique))
    assert found.values.flags.c_contiguous
    np.testing.assert_array_equal(found.on(DOMAIN).values, found.values)


BLOCKS = [queries.identity, queries.prefix, queries.total, queries.ranges]


@given(st.sampled_from(CLIQUES[1:]), st.data(), st.booleans())
def test_products_of_blocks_move_with_their_attributes(
    clique: tuple[str, ...], data: st.DataObject, ready: bool
) -> None:
    blocks = {name: data.draw(st.sampled_from(BLOCKS)) for name in clique}
    made = {name: block(DOMAIN[name]) for name, block in blocks.items()}
    product = Kronecker([made[name] for name in clique])
    answers = product @ truth(clique).ravel()
    query: Any = data.draw(st.sampled_from([blocks, made, product])) if ready else blocks
    check_misfit_is_zero(Measurement(clique, answers, 1.0, query))


@given(st.sampled_from(CLIQUES), st.integers(0, 99))
def test_any_operator_on_a_permuted_clique(clique: tuple[str, ...], seed: int) -> None:
    operator = Dense(np.random.default_rng(seed).normal(size=(5, DOMAIN.size(clique))))
    check_misfit_is_zero(Measurement(clique, operator @ truth(clique).ravel(), 1.0, operator))


def check_misfit_is_zero(measurement: Measurement) -> None:
    found = measurement.on(DOMAIN)
    assert found.clique == DOMAIN.clique(found.clique)
    assert set(found.clique) <= set(measurement.clique)
    own = truth(found.clique).ravel()
    answers = found.query @ own if isinstance(found.query, LinearOperator) else own
    np.testing.assert_allclose(answers, found.values.ravel(), atol=1e-12)


@pytest.mark.parametrize("query", [Identity(6), {"b": queries.identity, "a": queries.identity}])
def test_all_cells_are_a_table(query: Any) -> None:
    found = Measurement(("b", "a"), np.arange(6.0), 1.0, query).on(DOMAIN)
    assert found.query is None
    assert found.values.tolist() == [[0, 2, 4], [1, 3, 5]]


@pytest.mark.parametrize("query", [Total(6), {"b": Total(3), "a": queries.total}])
def test_what_is_summed_out_is_left_out(query: Any) -> None:
    found = Measurement(("b", "a"), [7.0], 1.0, query).on(DOMAIN)
    assert (found.clique, found.query, found.values.tolist()) == ((), None, 7.0)
    partly = Measurement(("b", "a"), [7.0, 8.0], 1.0, {"b": queries.total, "a": queries.prefix}).on(DOMAIN)
    assert partly.clique == ("a",)


def test_is_a_value_of_its_own() -> None:
    given = np.array([1.0, 2.0])
    made = Measurement(["a"], given, Fraction(1, 2))
    given[0] = 9
    assert made.clique == ("a",)
    assert made.values.tolist() == [1.0, 2.0]
    assert (made.stddev, made.variance, made.numbers) == (0.5, 0.25, 2)
    assert repr(made) == "Measurement(('a',), 2 numbers, stddev=0.5, gaussian)"
    assert repr(Measurement(("a",), [1], 1.0, Total(2))).endswith("gaussian, with a query)")
    with pytest.raises(ValueError, match="read-only"):
        made.values[0] = 3
    with pytest.raises(FrozenInstanceError):
        made.stddev = 2.0  # type: ignore[misc]
    assert made != Measurement(("a",), [1.0, 2.0], 0.5)  # both are evidence
    again = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own bytes
    assert (repr(again), again.values.tolist()) == (repr(made), [1.0, 2.0])


TWO = [1.0, 2.0]
REFUSED: list[tuple[Callable[[], object], type[HushError], str]] = [
    (lambda: Measurement("ab", TWO, 1.0), DomainError, r"clique 'ab': expected a tuple of names, such as \('ab',\)"),
    (lambda: Measurement(3, TWO, 1.0), DomainError, "clique 3: expected a tuple of attribute names"),  # type: ignore[arg-type]
    (lambda: Measurement((1,), TWO, 1.0), DomainError, r"clique \(1,\): expected a tuple of attribute names"),  # type: ignore[arg-type]
    (lambda: Measurement(("a", "a"), TWO, 1.0), DomainError, "names an attribute twice; give each name once"),
    (lambda: Measurement(("a",), [1.0, np.nan], 1.0), DataError, "hold NaN or infinite numbers: expected finite ones"),
    (lambda: Measurement(("a",), [1.0, np.inf], 1.0), DataError, r"values of the measurement of \('a',\) hold NaN"),
    (lambda: Measurement(("a",), [], 1.0), DataError, "are empty: expected at least one number; leave the measurement"),
    (lambda: Measurement(("a",), [1j, 2], 1.0), DataError, "are of type complex128: expected real numbers"),
    (lambda: Measurement(("a",), [True, False], 1.0), DataError, "are of type bool: expected real numbers"),
    (lambda: Measurement(("a",), [None, 1], 1.0), DataError, "are of type object: expected real numbers"),
    (lambda: Measurement(("a",), ["1", "2"], 1.0), DataError, "are of type <U1: expected real numbers"),
    (lambda: Measurement(("a",), [[1, 2], [3]], 1.0), DataError, "are not an array: expected real numbers, every row"),
    (lambda: Measurement(("a",), [1e99, 0], 1.0), DataError, r"exceed 1e\+60 in absolute value; rescale values"),
    (lambda: Measurement(("a",), TWO, 0), DataError, "measurement of .*: stddev=0: expected a number from 1e-60"),
    (lambda: Measurement(("a",), TWO, -2.0), DataError, r"stddev=-2\.0: .* without noise give a small one"),
    (lambda: Measurement(("a",), TWO, math.inf), DataError, "stddev=inf: expected a finite number from 1e-60"),
    (lambda: Measurement(("a",), TWO, math.nan), DataError, "stddev=nan: expected a finite number from 1e-60"),
    (lambda: Measurement(("a",), TWO, 1e-99), DataError, r"stddev=1e-99: expected a number from 1e-60 to 1e60"),
    (lambda: Measurement(("a",), TWO, True), DataError, "stddev=True: expected a number from 1e-60"),
    (lambda: Measurement(("a",), TWO, [1.0, 1.0]), DataError, "number from 1e-60 to 1e60, the standard deviation"),  # type: ignore[arg-type]
    (lambda: Measurement(("a",), TWO, 1.0, noise="cauchy"), DataError, "noise='cauchy': .* 'gaussian', 'laplace'"),  # type: ignore[arg-type]
    (lambda: Measurement(("a",), TWO, 1.0, np.eye(2)), WorkloadError, "wrap a matrix as hush.linops.Dense"),  # type: ignore[arg-type]
    (lambda: Measurement(("a",), TWO, 1.0, Total(2)), DataError, r"2 values of .* \('a',\): expected 1"),
    (lambda: Measurement(("a", "b"), TWO, 1.0, {"a": Total(2)}), WorkloadError, "queries.total for attributes that"),
    (lambda: Measurement(("x",), TWO, 1.0).on(DOMAIN), DomainError, "attribute 'x' is not in the domain"),
    (lambda: Measurement(("b",), TWO, 1.0).on(DOMAIN), DataError, r"have shape \(2,\): expected \(3,\), one axis"),
    (lambda: Measurement(("b", "a"), np.ones((2, 3)), 1.0).on(DOMAIN), DataError, r"\(2, 3\): expected \(3, 2\)"),
    (lambda: Measurement(("b",), TWO, 1.0, Prefix(2)).on(DOMAIN), WorkloadError, "has 2 columns: expected 3, one for"),
    (lambda: Measurement(("a",), TWO, 1.0, {"a": Prefix(3)}).on(DOMAIN), WorkloadError, "has 2 levels, its block"),
    (lambda: Measurement(("a",), TWO, 1.0, {"a": 3}).on(DOMAIN), WorkloadError, "is 3: expected one of hush.queries"),  # type: ignore[dict-item]
    (lambda: Measurement(("a",), TWO, 1.0, {"a": queries.ranges}).on(DOMAIN), DataError, "expected 3, one per query"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(call: Callable[[], object], error: type[HushError], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


FRAMES: dict[str, Callable[[], Any]] = {
    "pandas DataFrame": lambda: pd.DataFrame([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], index=["m", "f"]),
    "pandas Series": lambda: pd.Series([1.0, 2.0], index=["m", "f"]),
    "list of Series": lambda: [pd.Series([1.0, 2.0, 3.0]), pd.Series([4.0, 5.0, 6.0])],
    "polars DataFrame": lambda: pl.DataFrame({"x": [1.0, 2.0]}),
    "polars Series": lambda: pl.Series([1.0, 2.0]),
    "Arrow table": lambda: pa.table({"x": [1.0, 2.0]}),
    "Arrow array": lambda: pa.array([1.0, 2.0]),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_values_with_labels_are_refused_since_these_are_not_read(kind: str) -> None:
    with pytest.raises(DataError, match=r"labels hush does not read: give a plain array, such as \.to_numpy\(\)"):
        Measurement(("a", "b"), FRAMES[kind](), 1.0)


def test_names_in_one_text_are_taken_apart_in_the_refusal() -> None:
    with pytest.raises(DomainError, match=r"such as \('age', 'sex'\)"):
        Measurement("age, sex", [1.0], 1.0)  # type: ignore[arg-type]


WIDE = Domain({"a": 2, **{f"s{i}": 2 for i in range(70)}, "b": 3})


def test_attributes_that_are_summed_out_need_no_axes() -> None:
    blocks = {name: queries.identity if name in "ab" else queries.total for name in reversed(WIDE.attributes)}
    values = np.arange(6.0).reshape(3, 2)  # b, then a
    for last in (queries.identity, queries.prefix):
        found = Measurement(tuple(blocks), values.ravel(), 1.0, {**blocks, "a": last}).on(WIDE)
        assert found.clique == ("a", "b")
        assert found.values.ravel().tolist() == values.T.ravel().tolist()


def test_more_attributes_than_arrays_have_axes_are_refused() -> None:
    domain = Domain({"a": 2, **{f"one{i}": 1 for i in range(70)}})
    names = tuple(domain)
    listed: list[Any] = [None, Dense(np.eye(2)), Identity(2), dict.fromkeys(names, queries.identity)]
    for query in listed:
        with pytest.raises(SizeError, match="71 attributes: expected 63 at most; leave out those of one level"):
            Measurement(names[::-1], [1.0, 2.0], 1.0, query).on(domain)


def test_masked_values_are_refused() -> None:
    masked = np.ma.masked_array([1.0, 2.0], mask=[True, False])
    for values in (masked, [masked, masked]):
        with pytest.raises(DataError, match="hold masked values"):
            Measurement(("a",), values, 1.0)
    assert Measurement(("a",), np.ma.masked_array([1.0, 2.0]), 1.0).values.tolist() == [1.0, 2.0]
