"""Finding a column of a source by its name."""

from __future__ import annotations

import pytest

from hush.core.errors import DataError
from hush.tables.sources import find_column, gathered, raise_together


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["Age", "sex"], "the file has no column 'age'; did you mean 'Age'?"),
        ([" age ", "sex"], "the file has no column 'age'; did you mean ' age '?"),
        (["agee", "sex"], "the file has no column 'age'; did you mean 'agee'?"),
        (["zip", "sex"], "the file has no column 'age'; none of its columns is spelled alike"),
        ([], "the file has no column 'age'; none of its columns is spelled alike"),
        (["age", "age"], "the file has several columns named 'age'; rename all but one"),
    ],
)
def test_a_name_that_is_not_there_once(columns, words) -> None:
    with pytest.raises(DataError) as caught:
        find_column("age", columns, "the file")
    assert str(caught.value) == words


def test_a_label_that_may_be_a_cell_is_not_quoted() -> None:
    with pytest.raises(DataError, match=r"no column 'diagnosis'; none of its columns is spelled alike"):
        find_column("diagnosis", ["diagnosis: HIV"], "the frame", similar=False)
    with pytest.raises(DataError, match=r"no column 'diagnosis'; did you mean ' Diagnosis'\?"):
        find_column("diagnosis", [" Diagnosis"], "the frame", similar=False)


def test_a_name_that_is_there_once() -> None:
    assert find_column("age", ["Age", "age", "sex", "sex"], "the file") == 1


def _fail(message: str) -> int:
    raise DataError(message)


def test_all_failures_are_told_together() -> None:
    assert gathered([lambda: 1, lambda: 2]) == [1, 2]
    with pytest.raises(DataError, match=r"^a; mend it$"):
        gathered([lambda: 1, lambda: _fail("a; mend it"), lambda: _fail("a; mend it")])
    with pytest.raises(DataError, match=r"^the data do not fit the schema in 2 ways: \(1\) a\. \(2\) b\.$"):
        gathered([lambda: _fail("a"), lambda: 1, lambda: _fail("b")])
    raise_together([])
    with pytest.raises(DataError, match=r"^a\. Look$"):
        raise_together(["a"], "Look")
