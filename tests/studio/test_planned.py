"""Planned: the budget for an accuracy, the text of a workload, and the effect in words."""

from dataclasses import replace
from pathlib import Path

import pytest

import hush
from hush.core.errors import HushError, WorkloadError
from hush.schema import Boolean, Categorical, Integer, Schema, Unit
from hush.studio.column_draft import drafts_of
from hush.studio.planned import (
    MOST_PLANS,
    Planned,
    Planner,
    budget_for_margin,
    typical_margin,
    workload_name,
    workload_text,
)
from hush.studio.project import AskedQuestions, ProjectFile, ProtectedPeople, TypedBudget
from hush.workloads.workload_text import parse_workload

SCHEMA = Schema(
    [
        Integer.equal_width(name="age", low=0, high=99, bins=10),
        Categorical(name="sex", values=("f", "m")),
        Boolean(name='a "b", c+d'),
    ]
)


def project(**parts: object) -> ProjectFile:
    return ProjectFile(columns=drafts_of(SCHEMA), people=ProtectedPeople(rows="5,000")).replaced(**parts)


@pytest.mark.parametrize("target", [2.0, 45.0, 700.0])
@pytest.mark.parametrize("delta", [1e-9, 0.0])
def test_the_budget_for_an_accuracy_is_the_least(target: float, delta: float) -> None:
    base = hush.plan("<=2-way", hush.Budget(epsilon=1.0, delta=delta), schema=SCHEMA)
    budget = budget_for_margin(base, target, delta)
    reached = typical_margin(base.with_budget(budget))
    less = typical_margin(base.with_budget(hush.Budget(epsilon=0.995 * (budget.epsilon or 0.0), delta=delta)))
    assert reached is not None
    assert less is not None
    assert reached <= target < less
    assert len(f"{budget.epsilon:g}".replace(".", "").strip("0")) <= 4


def test_hardly_any_noise_at_all_can_be_asked_for() -> None:
    base = hush.plan("1-way", hush.Budget(epsilon=1.0, delta=1e-9), schema=SCHEMA)
    budget = budget_for_margin(base, 1e-5, 1e-9)
    assert (typical_margin(base.with_budget(budget)) or 0.0) <= 1e-5
    assert (budget.epsilon or 0.0) > 10


def test_the_plan_that_is_shown_has_the_stated_budget_and_is_optimised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    planner, plan = Planner(), hush.plan

    def counted(*arguments: object, **options: object) -> object:
        made.append("plan")
        return plan(*arguments, **options)

    monkeypatch.setattr("hush.studio.planned.plan", counted)
    for epsilon in ("0.5", "1", "4"):
        planned = planner.planned(project(budget=TypedBudget(way="epsilon", epsilon=epsilon)))
        assert planned.plan.budget == hush.Budget(epsilon=float(epsilon), delta=1e-9)
        assert planned.plan.affordable
    by_accuracy = planner.planned(project(budget=TypedBudget(way="accuracy", accuracy="45")))
    assert by_accuracy.headline.startswith("± 4")
    assert "people on a count of 500, 19 times in 20" in by_accuracy.headline
    assert made == ["plan"]
    for number in range(MOST_PLANS + 2):
        planner.planned(project(questions=AskedQuestions(more="sex" * (number == 0) or f"{number}*sex")))
    assert len(planner._kept) == MOST_PLANS


def test_the_effect_of_every_table_is_that_of_the_plan() -> None:
    planned = Planner().planned(project(budget=TypedBudget(way="epsilon", epsilon="1")))
    by_cells = {effect.cells: effect for effect in planned.effects}
    pair = by_cells[20]
    assert pair.margin == pytest.approx(1.959964 * (planned.plan.variance(("age", "sex")) or 0.0) ** 0.5)
    assert pair.typical_count == 250
    rows = Planner().planned(project(questions=AskedQuestions(goal="rows")))
    assert rows.plan.mechanism == "scout"
    assert rows.headline.startswith("at best ±")
    assert {effect.margin for effect in rows.effects} == {None}


def test_rows_from_which_a_column_will_be_predicted_measure_what_that_needs() -> None:
    planner, asked = Planner(), AskedQuestions(goal="rows", order="2", label="sex")
    predicted, plain = (
        planner.planned(project(questions=questions)).plan
        for questions in (asked, AskedQuestions(goal="rows", order="2"))
    )
    assert predicted.workload == plain.workload + hush.Workload.predict(SCHEMA.domain, "sex")
    answers = planner.planned(project(questions=AskedQuestions(order="2", label="sex")))
    assert (answers.label, answers.plan.workload) == (None, plain.workload)


def test_a_plan_takes_the_noise_that_the_ledger_has_room_for(tmp_path: Path) -> None:
    budget = TypedBudget(way="epsilon", epsilon="8")
    planner, state = Planner(), project(questions=AskedQuestions(order="1"), budget=budget)
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(epsilon=8.05, delta=1e-9))
    alone = planner.planned(state)
    empty = planner.planned(state, ledger=ledger)
    assert (empty.plan.rmse, empty.headline) == (alone.plan.rmse, alone.headline)
    # Beside an earlier charge there is no room for Laplace noise, nor for the least Gaussian noise.
    small = hush.Budget(epsilon=0.05, delta=1e-9)
    ledger.charge(hush.plan("1-way", small, "residual", schema=SCHEMA).event)
    assert alone.plan.epsilon is not None
    gaussian = hush.plan("<=1-way", alone.plan.budget, "residual", schema=SCHEMA)
    assert not alone.plan.payable(ledger)
    assert not gaussian.payable(ledger)
    fitted = planner.planned(state, ledger=ledger)
    assert fitted.plan.payable(ledger)
    assert fitted.plan.within(alone.plan.budget)
    assert (fitted.plan.rmse or 0.0) > (gaussian.rmse or 0.0)
    assert [effect.margin for effect in fitted.effects] != [effect.margin for effect in alone.effects]
    assert "the ledger has no room for less noise" in fitted.headline


def test_the_promise_holds_together_with_every_discovery_and_for_the_same_people_alone() -> None:
    rows = hush.datasets.people(1500, seed=1).select(["age"])
    open_age = {"kind": "integer", "bounds": "discover"}
    first = Schema.discover(rows, {"age": open_age}, hush.Budget(epsilon=2.0, delta=1e-9))
    twice = rows.append_column("size", rows["age"])
    both = Schema.discover(twice, {"age": first["age"], "size": open_age}, hush.Budget(epsilon=1.0, delta=1e-9))

    def promised(schema: Schema) -> tuple[float, float] | None:
        plan = hush.plan("age", hush.Budget(epsilon=0.5, delta=1e-9), "residual", schema=schema)
        return Planned(schema, "age", "answers", None, plan, None).promised

    assert promised(first) == pytest.approx((2.5, 2e-9), rel=0.05)
    found = promised(both)
    assert found is not None
    assert 2.6 < found[0] <= 3.5  # of all three, and not of the last two
    assert promised(SCHEMA.select("age")) == (0.5, 1e-9)
    # of a person's rows one counts, and one row more may take its place
    people = Schema(first.columns, discovery=replace(first.discovery, unit="person"))
    assert promised(people) is None
    assert promised(people.with_unit(Unit(column="person"))) is not None


def test_tables_that_were_picked_are_listed_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hush.studio.planned.MOST_LISTED_EFFECTS", 3)
    asked = AskedQuestions(order="2", tables=[["sex", "age"]])
    planned = Planner().planned(project(questions=asked))
    names = [effect.name.replace("<bdi>", "").replace("</bdi>", "") for effect in planned.effects]
    assert names == ["age × sex", "the total", "3 tables of 1 column", "2 tables of 2 columns"]
    # The RMSE of the plan is that of the groups together.
    tables, margins = [1, 1, 3, 2], [effect.margin or 0.0 for effect in planned.effects]
    queries = [n * effect.cells for n, effect in zip(tables, planned.effects, strict=True)]
    squares = sum(n * margin**2 for n, margin in zip(queries, margins, strict=True))
    assert (squares / sum(queries)) ** 0.5 == pytest.approx(1.959964 * (planned.plan.rmse or 0.0), rel=0.02)


def test_the_effect_of_an_average_is_in_the_unit_of_its_column() -> None:
    asked = AskedQuestions(order="1", averages=[["age", "sex"]])
    (average,) = Planner().planned(project(questions=asked)).averages
    (total,) = Planner().planned(project(questions=asked, people=ProtectedPeople())).averages
    assert (average.name, total.name) == (
        "average <bdi>age</bdi> by <bdi>sex</bdi>",
        "sum of <bdi>age</bdi> by <bdi>sex</bdi>",
    )
    assert (average.cells, average.typical_count, total.typical_count) == (2, 2500, None)
    assert average.margin == pytest.approx((total.margin or 0.0) / 2500)


def test_a_useless_budget_and_a_large_delta_are_warnings() -> None:
    for budget, words in (
        (TypedBudget(way="epsilon", epsilon="0.0001"), "too small for 5,000 rows"),
        (TypedBudget(way="epsilon", delta="0.01"), "above 1/5,000"),
    ):
        (warning,) = Planner().planned(project(budget=budget)).warnings
        assert words in warning


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (AskedQuestions(order="1"), "<=1-way"),
        (AskedQuestions(order="0", tables=[["age", "sex"], ["sex", "age"]]), "sex, age"),
        (AskedQuestions(order="2", tables=[["age", "sex"]]), "<=2-way"),
        (AskedQuestions(order="1", averages=[["age", "sex"]]), "<=1-way + sum(age) by sex"),
        (AskedQuestions(order="0", tables=[['a "b", c+d']]), '"a \\"b\\", c+d"'),
        (AskedQuestions(goal="rows", order="0"), "2-way"),
        (AskedQuestions(order="0", more="2-of-3"), "2-of-3"),
    ],
)
def test_questions_as_a_workload(asked: AskedQuestions, text: str) -> None:
    assert workload_text(asked, SCHEMA) == text
    assert parse_workload(SCHEMA, text).terms


@pytest.mark.parametrize("name", ["3-way", "2*a", "small", "sum(a)", "a b", "-", "a:b", "é", "*", "0.5", "a;b", "x\\y"])
def test_any_name_of_a_column_is_read_as_that_column(name: str) -> None:
    schema = Schema([Boolean(name=name), Boolean(name="other")])
    (term,) = parse_workload(schema, f"{workload_name(name)}, other").terms
    assert term.clique == (name, "other")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"questions": AskedQuestions(order="0")}, "nothing is asked yet"),
        ({"questions": AskedQuestions(averages=[["sex"]])}, "holds no numbers"),
        ({"questions": AskedQuestions(more="nobody")}, "nobody"),
        ({"questions": AskedQuestions(goal="rows", label="income")}, "the column to predict, 'income', is no longer"),
        ({"budget": TypedBudget(way="epsilon", epsilon="much")}, "epsilon: 'much'"),
        ({"budget": TypedBudget(way="epsilon", epsilon="nan")}, "epsilon: 'nan'"),
        ({"budget": TypedBudget(way="epsilon", epsilon="0")}, "epsilon"),
        ({"budget": TypedBudget(delta="-1")}, "delta: '-1'"),
        ({"budget": TypedBudget(accuracy="0")}, "above 0"),
        ({"people": ProtectedPeople(rows="many")}, "about how many rows"),
    ],
)
def test_what_is_wrong_is_said(parts: dict[str, object], words: str) -> None:
    with pytest.raises((HushError, WorkloadError), match=words):
        Planner().planned(project(**parts))


def test_the_words_of_a_readme_are_the_names_of_files() -> None:
    room = Path(hush.__file__).parent / "studio"
    page = (room / "README.md").read_text()
    assert {path.name for path in room.glob("*.py")} - {"__init__.py"} <= {
        word for line in page.splitlines() for word in line.split("`")
    }
