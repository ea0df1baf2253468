"""The numbers on a page are those of the release, with the errors of what is drawn."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dense_twins import DenseEstimates
from hush import queries
from hush.core.domain import Domain
from hush.datasets import people_schema
from hush.inference.error_law import two_sided_quantile
from hush.privacy.sensitivity import Neighbours
from hush.release.release import Release
from hush.render.labels import error_text, rounded
from hush.report import report_html
from hush.report.level_groups import group_levels, grouped, level_label
from hush.report.precision import by_order, by_table, naive_stddev, overall, spread
from hush.schema import Boolean, Categorical, Integer, Schema, Unit
from hush.workloads import Workload


@pytest.fixture(scope="module")
def page(people_release: Release, read_page: Any) -> Any:
    return read_page(report_html(people_release))


def rows_of(page: Any, heads: list[str]) -> list[list[str]]:
    """The body of the first table with these heads, from the order in which its cells are closed."""
    cells: list[tuple[str, str]] = [(tag, text) for tag, _, text in page.elements if tag in {"th", "td", "tr", "table"}]
    lines: list[list[str]] = [[]]
    tables: list[list[list[str]]] = []
    for tag, text in cells:
        if tag in {"th", "td"}:
            lines[-1].append(text)
        elif tag == "tr":
            lines.append([])
        else:
            tables.append(lines[:-1])
            lines = [[]]
    return next(table[1:] for table in tables if table[0] == heads)


def test_the_total_and_its_interval(people_release: Release, page: Any) -> None:
    total = people_release.marginal()
    assert rounded(float(total.estimate[0]), float(total.std_error[0])) in page.texts("b")
    text = next(text for text in page.texts("span") if text.startswith("rows, estimated"))
    low, high = (rounded(float(end[0]), float(total.std_error[0])) for end in (total.lower, total.upper))
    assert text == f"rows, estimated; 95\N{NO-BREAK SPACE}% interval {low} to {high}"
    assert page.texts("b")[1:3] == [f"{len(people_release.workload)}", f"{people_release.workload.queries:,}"]


@pytest.mark.parametrize("name", ["sex", "region", "education", "employed", "income", "moved"])
def test_one_way_tables_hold_the_numbers_of_the_marginal(people_release: Release, page: Any, name: str) -> None:
    answers = people_release.marginal(name)
    labels = [level_label(people_release.schema[name], row) for row in range(len(answers))]
    expected = [
        [label, rounded(value, error), error_text(error), f"{rounded(low, error)} to {rounded(high, error)}"]
        for label, value, error, low, high in zip(
            labels, answers.estimate, answers.std_error, answers.lower, answers.upper, strict=True
        )
    ]
    assert rows_of(page, [name, "estimate", "standard error", "95 % interval"]) == expected


def test_levels_that_are_drawn_together_have_the_error_of_their_sum(people_release: Release, page: Any) -> None:
    rows = rows_of(page, ["age", "estimate", "standard error", "95 % interval"])
    assert len(rows) == 50
    (answer,) = people_release.sql("SELECT COUNT(*) FROM t WHERE age BETWEEN 30 AND 31")
    found = next(row for row in rows if row[0] == "30 to 31")
    assert found[1] == rounded(answer["estimate"], answer["std_error"])
    assert found[2] == error_text(answer["std_error"])


def test_sums_over_groups_agree_with_dense_algebra() -> None:
    domain = Domain({"a": 4, "b": 3, "c": 2})
    random = np.random.default_rng(3)
    root = random.normal(size=(24, 24))
    estimates = DenseEstimates(domain, random.normal(size=24), root @ root.T)
    many = Categorical(name="a", values=("p", "q", "r", "s"))
    few = Boolean(name="c")
    groups = group_levels(many, np.array([3.0, 9.0, 1.0, 7.0]), 3)
    assert [codes.tolist() for codes in groups.members] == [[1], [3], [0, 2]]
    for sides in ((groups, group_levels(few, np.zeros(2), 9)), (group_levels(few, np.zeros(2), 9), groups)):
        sums = grouped(estimates, sides)
        for i, first in enumerate(sides[0].members):
            for j, second in enumerate(sides[1].members):
                mask = np.zeros(domain.shape)
                a, c = (first, second) if sides[0] is groups else (second, first)
                mask[np.ix_(a, range(3), c)] = 1
                ones = mask.ravel()
                assert sums.estimate[i, j] == pytest.approx(ones @ estimates.table.ravel())
                assert sums.std_error[i, j] ** 2 == pytest.approx(ones @ (root @ root.T) @ ones)
    np.testing.assert_allclose(sums.upper - sums.estimate, two_sided_quantile(0.95) * sums.std_error)


def test_predicted_errors_are_those_of_the_plan(people_release: Release, page: Any) -> None:
    entries = by_order(people_release)
    assert [entry.order for entry in entries] == [0, 1, 2]
    one = [people_release.marginal(name).std_error ** 2 for name in people_release.domain]
    assert entries[1].planned == pytest.approx(math.sqrt(np.concatenate(one).mean()))
    assert naive_stddev(people_release) == pytest.approx(math.sqrt(29 / (2 * people_release.statement.rho)))
    whole = overall(entries)
    assert whole.tables == 29
    assert whole.queries == people_release.workload.queries
    heads = ["tables over", "tables", "predicted standard error", "naive standard error", "naive / predicted"]
    rows = rows_of(page, heads)
    assert [row[0] for row in rows] == ["the total", "one column", "two columns", "all together"]
    assert rows[1][2:] == [error_text(entries[1].planned), error_text(entries[1].naive), f"{entries[1].ratio:.2f}"]


def test_a_naive_plan_answers_for_units_of_several_rows_and_for_replacement(make: Callable[..., Release]) -> None:
    schema = Schema([Categorical(name="a", values=("x", "y")), Boolean(name="b")])
    plain = naive_stddev(make(schema))
    assert plain == pytest.approx(math.sqrt(1 / (2 / 8)))
    assert naive_stddev(make(schema, unit=Unit(column="id", max_rows=3))) == pytest.approx(3 * plain)
    assert naive_stddev(make(schema, neighbours=Neighbours.REPLACE)) == pytest.approx(math.sqrt(2) * plain)


def test_errors_of_ranges_are_those_of_the_ranges(make: Callable[..., Release]) -> None:
    schema = Schema([Integer(name="age", low=0, high=3), Boolean(name="b")])
    workload = Workload.product(schema.domain, {"age": queries.prefix, "b": queries.identity})
    (entry,) = by_table(make(schema, workload=workload, variance=9.0))
    # a prefix of k levels of independent noise has k times the variance: 1 + 2 + 3 + 4 over 4
    assert entry.planned == pytest.approx(math.sqrt(9 * 2.5))
    assert entry.naive == pytest.approx(math.sqrt(4 * 2.5))
    assert entry.ratio == pytest.approx(2 / 3)


def test_few_tables_are_compared_one_by_one(make: Callable[..., Release], read_page: Any) -> None:
    schema = people_schema()
    workload = Workload.marginals(schema.domain, [("sex",), ("age", "sex")])
    page = read_page(report_html(make(schema, workload=workload)))
    heads = ["tables over", "tables", "predicted standard error", "naive standard error", "naive / predicted"]
    assert [row[0] for row in rows_of(page, heads)] == ["sex", "age × sex", "all together"]


def test_spread_keeps_the_ends() -> None:
    assert spread(0, 5) == []
    assert spread(100, 5) == [0, 24, 49, 74, 99]
