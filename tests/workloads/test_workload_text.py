import functools
import operator

import pytest

from hush import Domain, Workload, queries
from hush.core.errors import HushError, SizeError, WorkloadError
from hush.workloads.workload_text import parse_workload

DOMAIN = Domain({"age": 100, "sex": 2, "race": 5, "income>50K": 2, 'odd "name"; a+b': 3})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2-way", Workload.kway(DOMAIN, 2)),
        ("2way", Workload.kway(DOMAIN, 2)),
        ("<=2-way", Workload.upto(DOMAIN, 2)),
        ("upto 2-way", Workload.upto(DOMAIN, 2)),
        ("small 10", Workload.small(DOMAIN, 10)),
        ("target income>50K 2-way", Workload.target(DOMAIN, "income>50K", 2)),
        ("predict income>50K", Workload.predict(DOMAIN, "income>50K")),
        ('2-way + 2*predict "sex"', Workload.kway(DOMAIN, 2) + 2.0 * Workload.predict(DOMAIN, "sex")),
        ("age,sex; race", Workload.marginals(DOMAIN, [("age", "sex"), ("race",)])),
        (" race , age ", Workload.marginals(DOMAIN, [("age", "race")])),
        ("age:prefix,sex", Workload.product(DOMAIN, {"age": queries.prefix, "sex": queries.identity})),
        ("age:range", Workload.product(DOMAIN, {"age": queries.ranges})),
        ("age:levels,sex", Workload.product(DOMAIN, {"age": queries.levels_and_total, "sex": queries.identity})),
        ("age:width10", Workload.product(DOMAIN, {"age": queries.width(10)})),
        ("1-way + 2.5*age,sex", Workload.kway(DOMAIN, 1) + 2.5 * Workload.marginals(DOMAIN, [("age", "sex")])),
        ("2-of-3", Workload.thresholds(DOMAIN, 3, 2)),
        ("3 - of - 3", Workload.kway(DOMAIN, 3)),
        (
            "1-of sex,age; 2-of sex,race",
            Workload.thresholds(DOMAIN, 2, 1, [("age", "sex")]) + Workload.marginals(DOMAIN, [("sex", "race")]),
        ),
        ("1-way + 2*1-of age,sex", Workload.kway(DOMAIN, 1) + 2 * Workload.thresholds(DOMAIN, 2, 1, [("age", "sex")])),
        ("3*2-way", 3.0 * Workload.kway(DOMAIN, 2)),
        (r'"odd \"name\"; a+b",sex', Workload.marginals(DOMAIN, [("sex", 'odd "name"; a+b')])),
    ],
)
def test_texts_describe_workloads(text: str, expected: Workload) -> None:
    assert parse_workload(DOMAIN, text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("  + ", "empty"),
        ("9-way", "order=9"),
        ("predict agee", "did you mean 'age'"),
        ("agee,sex", "did you mean 'age'"),
        ("age,,sex", "cannot read"),
        ("age:median", "expected prefix"),
        ("age:levels3", "expected prefix"),
        ("age; age", "twice"),
        ("age,age", "twice"),
        ("1e*age", "weight '1e'"),
        ("0*age", "weight in the workload=0.0: expected a number above 0"),
        ("2-way +", "cannot read"),
        ("4-of-3", "at least 4 of 3 attributes: expected a whole number from 1 to 3"),
        ("2-of-9", "order=9"),
        ("3-of age,sex", "at least 3 of 2 attributes: expected a whole number from 1 to 2"),
        ("1-of age,age", "twice"),
        ("1-of age,sex; 1-of sex,age", "the threshold .* is listed twice"),
        ("1-of age:prefix,sex", "a threshold is over levels alone; leave out what follows the colons"),
        ("1-of", "'1-of' is not in the domain"),
        ("age,sex; 2-of-3", r"'2-of-3' in the workload stands among names of columns; put a \+ before it"),
        ("age,sex; <=2-way", r"'<=2-way' in the workload .* as in age,sex \+ <=2-way"),
    ],
)
def test_texts_that_say_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(HushError, match=message):
        parse_workload(DOMAIN, text)


def test_skewed_workloads_are_named_by_their_seed() -> None:
    domain = Domain(dict.fromkeys("abcdef", 3))
    assert parse_workload(domain, "skewed 7") == Workload.skewed(domain, 3, 256, seed=7)
    assert parse_workload(domain, "skewed 7") != parse_workload(domain, "skewed 8")
    with pytest.raises(HushError, match="cannot read"):
        parse_workload(domain, "skewed -1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9" * 5000 + "-way", "is a number of 5000 digits; expected 18 at most"),
        ("small " + "9" * 19, "is a number of 19 digits; expected 18 at most"),
        ("target age " + "1" * 5000 + "-way", "is a number of 5000 digits"),
        ("age:width" + "9" * 5000, "is a number of 5000 digits"),
        ("x" * (2**20 + 1), "a text of 1,048,577 characters: at most 1,048,576 are possible"),
        ('"' + '\\"' * 50_000 + "\\", "cannot read"),
        ("3" + " " * 50_000 + "wa", "cannot read"),
    ],
)
def test_long_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        parse_workload(DOMAIN, text)


def test_any_number_of_weights_multiply() -> None:
    assert parse_workload(DOMAIN, "1*" * 5000 + "2 * 3*age").weights == (6.0,)
    with pytest.raises(WorkloadError, match="weight '1.2.3' in the workload: expected a number such as 2.5"):
        parse_workload(DOMAIN, "2*1.2.3*age")


def test_unions_are_those_of_adding_one_by_one() -> None:
    pieces = ["<=2-way", "2*age", "age,sex", "3*sex:prefix", "age"]
    added = functools.reduce(operator.add, (parse_workload(DOMAIN, piece) for piece in pieces))
    assert parse_workload(DOMAIN, " + ".join(pieces)) == added


def test_too_many_marginals_are_refused_before_any_is_made() -> None:
    wide = Domain({f"a{k}": 2 + k % 3 for k in range(40)})
    with pytest.raises(SizeError, match="1099511627776 marginals of at most 40 attributes; lower the order"):
        Workload.upto(wide, 40)
    with pytest.raises(SizeError, match="more than 5000000 marginals have at most 10000000 cells; lower the limit"):
        Workload.small(wide, 10**7)


@pytest.mark.parametrize("cells", [1, 2, 5, 6, 24, 10**6])
def test_small_marginals_are_counted_as_they_are_listed(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    domain = Domain({"a": 2, "b": 3, "c": 2, "d": 4})
    listed = Workload.small(domain, cells)
    assert all(domain.size(clique) <= cells for clique in listed.cliques)
    monkeypatch.setattr("hush.workloads.workload.LARGEST_TERMS", len(listed))
    assert Workload.small(domain, cells) == listed
    monkeypatch.setattr("hush.workloads.workload.LARGEST_TERMS", len(listed) - 1)
    with pytest.raises(SizeError, match=f"have at most {cells} cells"):
        Workload.small(domain, cells)


def test_summands_that_list_too_much_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hush.workloads.workload_text.MOST_LISTED", 20)
    assert len(parse_workload(DOMAIN, " + ".join(["2-way"] * 1000))) == 10
    with pytest.raises(SizeError, match="the summands list more than 20 marginals; leave some out"):
        parse_workload(DOMAIN, "2-way + 3-way + 1-way")
