import pytest

from hush import Domain, Workload, queries
from hush.errors import HushError
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
        ("age,sex; race", Workload.marginals(DOMAIN, [("age", "sex"), ("race",)])),
        (" race , age ", Workload.marginals(DOMAIN, [("age", "race")])),
        ("age:prefix,sex", Workload.product(DOMAIN, {"age": queries.prefix, "sex": queries.identity})),
        ("age:range", Workload.product(DOMAIN, {"age": queries.ranges})),
        ("age:levels,sex", Workload.product(DOMAIN, {"age": queries.levels_and_total, "sex": queries.identity})),
        ("age:width10", Workload.product(DOMAIN, {"age": queries.width(10)})),
        ("1-way + 2.5*age,sex", Workload.kway(DOMAIN, 1) + 2.5 * Workload.marginals(DOMAIN, [("age", "sex")])),
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
        ("agee,sex", "did you mean 'age'"),
        ("age,,sex", "cannot read"),
        ("age:median", "expected prefix"),
        ("age:levels3", "expected prefix"),
        ("age; age", "twice"),
        ("age,age", "twice"),
        ("1e*age", "weight '1e'"),
        ("0*age", "weight 0.0"),
        ("2-way +", "cannot read"),
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
