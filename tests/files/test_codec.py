"""The codec: a type that is declared anywhere goes through a file, and whatever it does not declare is refused."""

from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from msgspec import Meta

from hush import Domain
from hush.core.errors import ArchiveError
from hush.files.archive import ArchiveReader, write_archive
from hush.files.codec import (
    BoolVector,
    CliqueTable,
    Finite,
    FloatVector,
    IntTable,
    IntVector,
    Stored,
    finite,
    joined,
    pack,
    tables_of,
    unpack,
)

DOMAIN = Domain({"a": 2, "b": 3, "c": 4})


class Colour(Enum):
    RED = "red"


class Round(Stored, tag_field="kind", tag="round"):
    radius: Annotated[float, Meta(gt=0, le=10)]


class Square(Stored, tag_field="kind", tag="square"):
    side: Annotated[int, Meta(ge=1)]
    cells: IntTable


class Drawing(Stored):
    """A content that the codec has never heard of."""

    domain: Domain
    cliques: CliqueTable
    colour: Colour
    cost: Fraction
    shapes: list[Round | Square]
    weights: FloatVector
    order: IntVector
    used: BoolVector
    note: str | None
    settings: dict[str, Any]
    level: Finite = 0.5


def drawing() -> Drawing:
    return Drawing(
        domain=DOMAIN,
        cliques=CliqueTable.of(DOMAIN, [("a", "c"), (), ("b",)]),
        colour=Colour.RED,
        cost=Fraction(2, 3),
        shapes=[Round(radius=2.0), Square(side=2**70, cells=np.arange(6).reshape(2, 3))],
        weights=np.array([1.0, np.inf]),
        order=np.array([3, -700]),
        used=np.array([True, False]),
        note=None,
        settings={"rounds": 3, "of": ["x", 1.5]},
    )


def restored(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], Any] = lambda m, a: None) -> Drawing:
    manifest, arrays = pack(drawing(), "drawing")
    change(manifest, arrays)
    write_archive(folder / "x", kind="plan", version=1, manifest={"drawing": manifest}, arrays=arrays)
    with ArchiveReader(folder / "x", versions={"plan": 1}) as archive:
        content: Drawing = unpack(Drawing, archive.content["drawing"], archive, "drawing")
        return content


def test_a_declared_type_comes_back_as_it_was(tmp_path: Path) -> None:
    before, after = drawing(), restored(tmp_path)
    assert after.domain == DOMAIN
    assert after.cliques.build(DOMAIN, "drawing") == [("a", "c"), (), ("b",)]
    plain = ("colour", "cost", "note", "settings", "level")
    assert [getattr(after, name) for name in plain] == [getattr(before, name) for name in plain]
    assert after.shapes[0] == Round(radius=2.0)
    assert isinstance(after.shapes[1], Square)
    assert after.shapes[1].side == 2**70
    np.testing.assert_array_equal(after.shapes[1].cells, np.arange(6).reshape(2, 3))
    for name in ("weights", "order", "used"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))


def test_integers_are_stored_in_the_smallest_type_and_named_by_their_fields() -> None:
    manifest, arrays = pack(drawing(), "drawing")
    kinds = {name: array.dtype.name for name, array in arrays.items()}
    assert kinds == {
        "drawing_cliques_members": "int8",
        "drawing_cliques_lengths": "int8",
        "drawing_shapes_1_cells": "int8",
        "drawing_weights": "float64",
        "drawing_order": "int16",
        "drawing_used": "bool",
    }
    assert manifest["cost"] == "2/3"
    assert manifest["domain"] == [["a", 2], ["b", 3], ["c", 4]]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m, a: m.update(more=1), "unknown field `more`"),
        (lambda m, a: m["shapes"][0].update(more=1), r"unknown field `more` - at `\$.shapes\[0\]`"),
        (lambda m, a: m.pop("cost"), "missing required field `cost`"),
        (lambda m, a: m.update(colour="blue"), "Invalid enum value 'blue'"),
        (lambda m, a: m.update(cost="4/6"), r"lowest terms, such as '1/3' - at `\$.cost`"),
        (lambda m, a: m.update(cost="-1/3"), "expected a rational >= 0"),
        (lambda m, a: m.update(cost=0.5), "expected a rational >= 0"),
        (lambda m, a: m.update(cost="1" * 5000 + "/1"), "at most 4096 characters"),
        (lambda m, a: m.update(domain=[["a", 2], ["a", 3]]), "Expected every attribute once"),
        (lambda m, a: m.update(domain=[["a", 0]]), "expected a whole number of at least 1"),
        (lambda m, a: m.update(domain=[["a", True]]), "Expected `int`, got `bool`"),
        (lambda m, a: m["shapes"][0].update(kind="oval"), "Invalid value 'oval'"),
        (lambda m, a: m["shapes"][0].update(radius=0.0), "Expected `float` > 0.0"),
        (lambda m, a: m["shapes"][0].update(radius=11), "Expected `float` <= 10.0"),
        (lambda m, a: m["shapes"][0].update(radius="2"), "Expected `float`, got `str`"),
        (lambda m, a: m["shapes"][1].update(side=1.5), "Expected `int`, got `float`"),
        (lambda m, a: m.update(level=1e301), "Expected `float` <= 1e.300"),
        (lambda m, a: m.update(level=10**400), "Number out of range"),
        (lambda m, a: m.update(note=7), r"Expected `str \| null`, got `int`"),
        (lambda m, a: m.update(weights=3), "Expected the name of an array"),
        (lambda m, a: m.update(weights="absent"), "array 'absent' is missing"),
        (lambda m, a: m.update(weights="../x"), "is missing"),
        (lambda m, a: m.update(weights="drawing_order"), "`drawing_order` of another type of numbers"),
        (lambda m, a: a.update(drawing_order=np.array([1, 2], dtype=np.uint8)), "another type of numbers"),
        (lambda m, a: a.update(drawing_used=np.array([1, 0])), "another type of numbers"),
        (lambda m, a: a.update(drawing_order=np.array([[1, 2]])), "in 1 dimensions"),
        (lambda m, a: a.pop("drawing_order"), "is missing"),
    ],
)
def test_what_is_not_declared_is_refused(tmp_path: Path, change: Callable[..., Any], text: str) -> None:
    with pytest.raises(ArchiveError, match=text):
        restored(tmp_path, change)


def test_refusals_print_as_one_short_line(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError) as refused:
        restored(tmp_path, lambda m, a: m.update({"\x1b[31m\n" + "x" * 10_000: 1}))
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 500


def test_an_array_that_is_named_often_is_read_once(tmp_path: Path) -> None:
    """A small file cannot fill memory by naming a large array many times."""
    manifest, arrays = pack({"all": [np.zeros(1000)] * 2})
    entry = {"all": [manifest["all"][0]] * 10_000}
    write_archive(tmp_path / "x", kind="plan", version=1, manifest=entry, arrays=arrays)
    with ArchiveReader(tmp_path / "x", versions={"plan": 1}) as archive:
        content: list[Any] = unpack(list[FloatVector], archive.content["all"], archive, "list")
        assert len({id(array) for array in content}) == 1


@pytest.mark.parametrize(
    ("members", "lengths", "text"),
    [
        ([0, 1], [3], "do not fit together"),
        ([0, 1], [3, -1], "do not fit together"),
        ([3], [1], "name attributes it does not have"),
        ([-1], [1], "name attributes it does not have"),
    ],
)
def test_cliques_that_are_none_are_refused(members: list[int], lengths: list[int], text: str) -> None:
    with pytest.raises(ArchiveError, match=f"the file's drawing {text}"):
        CliqueTable(members=np.array(members), lengths=np.array(lengths)).build(DOMAIN, "drawing")


def test_lengths_in_a_narrow_type_add_up_beyond_it() -> None:
    cliques = [("a", "b")] * 200
    table = CliqueTable.of(DOMAIN, cliques)
    narrow = CliqueTable(members=table.members.astype(np.int8), lengths=table.lengths.astype(np.int8))
    assert narrow.build(DOMAIN, "drawing") == cliques


def test_tables_lie_one_after_the_other() -> None:
    cliques = [("a", "c"), (), ("b",)]
    tables = [np.arange(8.0).reshape(2, 4), np.array(8.0), np.arange(9.0, 12.0)]
    flat = joined(tables, np.float64)
    np.testing.assert_array_equal(flat, np.arange(12))
    for table, again in zip(tables, tables_of(DOMAIN, cliques, flat), strict=True):
        np.testing.assert_array_equal(again, table)
    assert joined([], np.bool_).dtype == np.bool_


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e61])
def test_numbers_that_cannot_be_computed_with_are_refused(bad: float) -> None:
    with pytest.raises(ArchiveError, match="hold NaN, or numbers beyond"):
        finite(np.array([1.0, bad]), 2, "tables")
    with pytest.raises(ArchiveError, match="tables are of another size"):
        finite(np.array([1.0]), 2, "tables")


def test_fields_are_taken_from_attributes() -> None:
    class Point(Stored):
        real: float
        imag: float
        name: str

    assert Point.from_attributes(1 + 2j, name="p") == Point(real=1.0, imag=2.0, name="p")


def test_a_small_file_lists_only_so_many_integers(tmp_path: Path) -> None:
    """A few bytes pack a million equal integers, and each would become an object."""

    def lengthen(count: int) -> Callable[..., None]:
        return lambda manifest, arrays: arrays.update({manifest["order"]: np.zeros(count, dtype=np.int8)})

    assert restored(tmp_path, lengthen(2**18)).order.size == 2**18
    with pytest.raises(ArchiveError, match=r"of fewer integers in a file of [0-9]+ bytes - at `\$.order`"):
        restored(tmp_path, lengthen(2**20))
