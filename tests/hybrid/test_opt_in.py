"""People who opted in: how many records of a person count, and what is refused before anything is charged."""

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from hush.core.errors import DataError
from hush.hybrid.kmeans import OptInPoints
from hush.hybrid.opt_in import OptInNumbers, OptInRecords, noisy_counts, read_search_log
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.discovery import KeyDiscovery
from hush.privacy.gate import Gate
from hush.privacy.sensitivity import Neighbours
from hush.testing import check_replay

MANY = [(f"query {i}", "x") for i in range(9)]


@pytest.mark.parametrize("max_records", [1, 2, 5])
def test_a_person_counts_for_at_most_max_records_records(max_records: int) -> None:
    """Found and counted: listed records, records of a listed query, and records that are not listed, all together."""
    held = OptInRecords([MANY], max_records=max_records)
    assert sum(held.key_counts().values()) == max_records
    for listed in (MANY, [("query 0", "*")], []):
        assert held.with_list(listed).counts([("record",)])[("record",)].sum() == max_records
    first, _ = OptInRecords([MANY] * 4, max_records=max_records).split(0.5)
    assert sum(first.key_counts().values()) == 2 * max_records


def test_records_beyond_the_first_ones_are_not_always_the_ones_left_out() -> None:
    """Which record counts depends on the person's whole list: over 200 lists, each of three places has its turn."""
    lists = [[(f"{person} {i}", "x") for i in range(3)] for person in range(200)]
    kept = Counter(query[-1] for query, _ in OptInRecords(lists).key_counts())
    assert min(kept[place] for place in "012") > 30  # 67 each on average; below 30 with a chance of 1e-8


def test_one_person_of_many_records_moves_counts_by_no_more_than_was_charged() -> None:
    def run(people: OptInRecords) -> Any:
        return noisy_counts(people, Fraction(1), Allowance(Budget(epsilon=1.0)))

    def group(records: list[Any]) -> OptInRecords:
        return OptInRecords([records, MANY[:2], MANY[1:3]], max_records=2, listed=MANY)

    assert check_replay(run, group(MANY), [group(MANY[:1]), group(MANY[5:]), group([])]) == 3


@pytest.mark.parametrize(
    "record",
    ["text", ("one",), ("a", "b", "c"), ("a", 3), ["a", "b"], None],
    ids=["text", "1", "3", "int", "list", "none"],
)
def test_a_record_that_cannot_be_listed_is_refused_before_the_charge(record: Any) -> None:
    """One person's odd record would make sorting fail, after everybody's budget was spent."""
    people = OptInRecords([[("a", "b")], [record]])
    allowance = Allowance(Budget(epsilon=1.0, delta=1e-5))
    gate = Gate(people, allowance, neighbours=Neighbours.REPLACE)
    for ask in (
        lambda: gate.discover(people, KeyDiscovery(Fraction(1, 4), Fraction(1, 10**6))),
        lambda: noisy_counts(people, Fraction(1, 4), allowance),
    ):
        with pytest.raises(DataError, match="expected tuples of two texts"):
            ask()
    assert not allowance.events


@pytest.mark.parametrize("kind", [OptInNumbers, OptInPoints])
@pytest.mark.parametrize("bounds", [(1, 0), (0, 0), (-1e308, 1e308), (0, float("inf")), (float("nan"), 1)])
def test_bounds_that_make_no_grid_are_refused(kind: Any, bounds: tuple[float, float]) -> None:
    with pytest.raises(DataError, match="expected finite bounds, lower below upper"):
        kind([0.5] if kind is OptInNumbers else [[0.5]], *bounds)


def test_logs_are_read_by_the_names_of_their_columns(tmp_path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(
        "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n7\tnews \t-\t1\thttp://a.org\n7\tmail\t-\n8\tnews\t-\t1\tb.org\n"
        "9\tno click\t-\n"
    )
    assert read_search_log(path) == {"7": [("news", "http://a.org")], "8": [("news", "b.org")], "9": []}
    path.write_text("who\tquery\turl\n")
    with pytest.raises(DataError, match="no column for the person"):
        read_search_log(path)
    path.write_text("person\tquery\turl\n1\tx\t\n")
    with pytest.raises(DataError, match="holds no row"):
        read_search_log(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="cannot be read"):
        read_search_log(path)
    path.write_text(f"person\tquery\turl\n1\t{'x' * 3000}\ty\n")
    with pytest.raises(DataError, match="line 2: a cell of over 2000"):
        read_search_log(path)
