"""Sum terms: what a workload with sums asks for, in Python, as a text and in files."""

import numpy as np
import pytest

from hush.core.domain import Domain
from hush.core.errors import WorkloadError
from hush.files.codec import pack
from hush.schema import Categorical, Integer, Numeric, Schema, TimeOfDay
from hush.workloads import Workload
from hush.workloads.sum_term import OWN_BINS_WEIGHT, SumTerm, grid_fault
from hush.workloads.workload_files import WorkloadFile
from hush.workloads.workload_text import parse_workload

SCHEMA = Schema(
    [
        Categorical(name="sex", values=("f", "m")),
        Categorical(name="Pick up", values=("a", "b")),
        Numeric(name="fare", edges=(0.0, 10.0, 50.0), missing=True),
        Integer(name="age", low=0, high=99),
    ]
)


def texts(workload: Workload) -> list[tuple[str, float]]:
    return [(term.text, term.weight) for term in workload.sum_terms]


def test_sums_come_with_the_counts_that_make_means_of_them() -> None:
    fares = Workload.sums(SCHEMA, "fare", by=["sex"])
    assert texts(fares) == [("sum(fare) by sex", 1.0), ("sum(fare) by fare", OWN_BINS_WEIGHT)]
    assert fares.cliques == (("sex",), ("fare",), ("sex", "fare"))  # the last tells how many fares are missing
    ages = Workload.sums(SCHEMA, "age", by="sex", variance=True)
    assert texts(ages) == [("sum(age) by sex", 1.0), ("sum of squares(age) by sex", 1.0)]
    assert ages.cliques == (("sex",),)


def test_integers_are_added_up_as_they_are_and_others_in_fine_steps() -> None:
    (ages,) = Workload.sums(SCHEMA, "age").sum_terms
    assert (ages.grid.steps, ages.grid.units, ages.grid.centres, ages.grid.exact) == (99, (0.5,), (49.5,), True)
    fares, bins = Workload.sums(SCHEMA, "fare").sum_terms
    assert fares.grid.centres == (25.0,)
    assert fares.grid.units == (25.0 / 2**24,)
    assert not fares.grid.exact
    assert bins.grid.centres == (5.0, 30.0)
    assert bins.grid.units == (5.0 / 2**24, 20.0 / 2**24)
    assert bins.grid.missing == fares.grid.missing == 2


@pytest.mark.parametrize("column", ["age", "fare"])
def test_no_value_within_the_bounds_leaves_the_grid(column: str) -> None:
    for term in Workload.sums(SCHEMA, column, by=["sex"], variance=True).sum_terms:
        low, high = float(SCHEMA[column].low), float(SCHEMA[column].high)
        values = np.linspace(low, high, 997)
        values = np.floor(values) if column == "age" else values
        codes = np.array([SCHEMA[column].code_of(value) for value in values])
        u = term.grid.integers(values, codes)
        place = codes if term.grid.by_level else np.zeros(len(codes), dtype=int)
        unit, centre = np.array(term.grid.units)[place], np.array(term.grid.centres)[place]
        f = values if term.grid.power == 1 else (values - term.grid.origin) ** 2
        np.testing.assert_allclose(unit * u + centre, f, atol=float(unit.max()) * 0.501 + 1e-9)
        assert np.abs(u).max() <= term.grid.steps


def test_texts_ask_for_sums_beside_counts() -> None:
    workload = parse_workload(SCHEMA, 'sex,age + 2*sum(fare) by sex, "Pick up"; mean(age) + variance( age ) by sex')
    assert dict(texts(workload)) == {
        "sum(fare) by sex, Pick up": 2.0,
        "sum(fare) by fare": 2 * OWN_BINS_WEIGHT,
        "sum(age)": 2.0,
        "sum(age) by sex": 1.0,
        "sum of squares(age) by sex": 1.0,
    }
    assert ("sex", "age") in workload.cliques
    assert () in workload.cliques
    assert parse_workload(SCHEMA, "sum(fare)") == Workload.sums(SCHEMA, "fare")
    assert texts(parse_workload(SCHEMA, 'sum("fare") by sex')) == texts(Workload.sums(SCHEMA, "fare", by=["sex"]))


def test_sums_add_up_and_scale_with_the_workload() -> None:
    one, two = Workload.sums(SCHEMA, "age", by=["sex"]), Workload.sums(SCHEMA, "age", by=["sex"])
    assert texts(one + two) == [("sum(age) by sex", 2.0)]
    assert texts(3 * one) == [("sum(age) by sex", 3.0)]
    assert one == two
    assert hash(one) == hash(two)
    assert one != Workload.marginals(SCHEMA, [("sex",)])


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("sum(sex)", "cannot be added up"),
        ("sum(fares) by sex", "fares"),
        ("sum(fare) by sexes", "sexes"),
        ("sum(age) by age", "follow from counts"),
        ("variance(fare) by fare", "says nothing"),
        ("sum() by sex", "cannot read"),
        ("total(fare)", "not in the domain"),
    ],
)
def test_what_cannot_be_added_up_is_refused(text: str, rule: str) -> None:
    with pytest.raises(Exception, match=rule):
        parse_workload(SCHEMA, text)


def test_a_domain_has_no_values_to_add_up() -> None:
    with pytest.raises(WorkloadError, match="schema"):
        parse_workload(Domain({"age": 3}), "sum(age)")
    with pytest.raises(WorkloadError, match="schema"):
        Workload.sums(Domain({"age": 3}), "age")


def test_files_keep_sums() -> None:
    workload = parse_workload(SCHEMA, "sex + 3*sum(fare) by sex + variance(age)")
    stored = WorkloadFile.of(workload)
    pack(stored)
    assert stored.build(SCHEMA.domain) == workload


def test_a_grid_of_another_schema_is_noticed() -> None:
    wider = Schema([*SCHEMA.columns[:3], Integer(name="age", low=0, high=120)])
    (term,) = Workload.sums(SCHEMA, "age", by=["sex"]).sum_terms
    assert grid_fault(term, SCHEMA) is None
    assert "not that of its schema" in str(grid_fault(term, wider))


def test_weights_must_be_positive() -> None:
    (term,) = Workload.sums(SCHEMA, "age").sum_terms
    with pytest.raises(WorkloadError, match="weight=0.0: expected a number above 0"):
        Workload(SCHEMA.domain, Workload.kway(SCHEMA, 1), [SumTerm((), term.grid, 0.0)])


def test_parts_of_times_are_not_added_up() -> None:
    schema = Schema([TimeOfDay(name="opens"), Categorical(name="sex", values=("f", "m"))])
    with pytest.raises(WorkloadError, match="'opens.hour' is a part of the times in 'opens', which are not added up"):
        Workload.sums(schema, "opens.hour", by="sex")
