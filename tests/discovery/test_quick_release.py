"""Quick release: drafts guessed from public facts, and one budget for discovery and release."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hush
from hush.core.errors import BudgetError, DataError, HushError, InterruptedRelease, SchemaError
from hush.discovery.guessed_draft import guessed_draft
from hush.discovery.quick_release import answerable, evidence_of, quick_release
from hush.schema import Boolean, Categorical, Integer, Unit
from hush.schema.discovery_draft import Draft, OpenColumn

BUDGETS = [
    hush.Budget(epsilon=2.0, delta=1e-9),
    hush.Budget(epsilon=2.0),
    hush.Budget(rho=0.1),
    hush.Budget(mu=0.5),
]


def table(rows: int = 3000) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "age": rng.integers(18, 90, rows),
            "wage": np.exp(rng.normal(10, 0.5, rows)),
            "smokes": pa.array(rng.random(rows) < 0.2),
        }
    )


def test_a_draft_is_guessed_from_names_and_types_alone() -> None:
    frame = pa.table(
        {
            "person_id": [1],
            "age": [31],
            "wage": [1.5],
            "sex": ["canary"],
            "born": [dt.date(1999, 1, 1)],
            "seen": [dt.datetime(2020, 1, 1)],
            "smokes": [True],
            "blob": [b"x"],
        }
    )
    guess = guessed_draft(
        frame, bounds={"age": (0, 120)}, schema={"sex": {"kind": "categorical", "values": ["f", "m"]}}
    )
    kinds = {column.name: column.open if isinstance(column, OpenColumn) else () for column in guess.draft}
    assert kinds == {
        "age": ("bins",),
        "wage": ("bounds", "bins"),
        "sex": (),
        "born": ("bounds", "granularity"),
        "seen": ("bounds", "granularity"),
        "smokes": (),
    }
    assert guess.left_out == ("person_id", "blob")
    assert "age: integer, as its type says, 0 to 120 as given; cells may be missing" in guess.assumed
    assert "canary" not in repr(guess)
    # the same for other rows of the same types
    assert guessed_draft(frame.slice(0, 0)).assumed == guessed_draft(frame).assumed


def test_types_of_frames_say_whether_cells_can_be_missing_and_which_levels_are_declared() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": pd.array([1, None], "Int64"), "c": [True, False], "d": [0.5, 1.5]})
    missing = {
        column.name: column.given["missing"] if isinstance(column, OpenColumn) else getattr(column, "missing", None)
        for column in guessed_draft(frame).draft
    }
    assert missing == {"a": False, "b": True, "c": False, "d": True}
    # pandas takes categories from the rows; an Enum of polars is declared
    private = pd.DataFrame({"city": pd.Categorical(["Rome", "Oslo"])})
    assert isinstance(guessed_draft(private).draft.columns[0], OpenColumn)
    declared = pl.DataFrame({"city": pl.Series(["Rome"], dtype=pl.Enum(["Rome", "Oslo", "Bern"]))})
    city = guessed_draft(declared).draft.columns[0]
    assert isinstance(city, Categorical)
    assert city.values == ("Rome", "Oslo", "Bern")


def test_unknown_names_and_contradictions_are_refused() -> None:
    with pytest.raises(SchemaError, match="no column 'agee'; did you mean 'age'"):
        guessed_draft(table(), bounds={"agee": (0, 9)})
    with pytest.raises(SchemaError, match="expected two values"):
        guessed_draft(table(), bounds={"age": (0, 9, 10)})
    with pytest.raises(SchemaError, match="keep one"):
        guessed_draft(table(), bounds={"age": (0, 9)}, schema={"age": {"kind": "boolean"}})
    with pytest.raises(SchemaError, match="its type makes the column .* have no bounds"):
        guessed_draft(table(), bounds={"smokes": (0, 1)})
    assert [c.name for c in guessed_draft(table(), unit=Unit(column="age")).draft] == ["wage", "smokes"]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_both_parts_keep_one_budget(budget: hush.Budget, tmp_path: Path) -> None:
    ledger = tmp_path / "budget.db"
    done = quick_release(table(), budget, workload="1-way", goal="answers", ledger=ledger)
    assert done.release.complete
    assert done.release.statement.private
    assert done.schema.discovery is not None
    assert len(done.discovered) == 2
    assert done.budgets[0].limit + done.budgets[1].limit <= budget.limit
    assert float(done.budgets[1].limit / budget.limit) == pytest.approx(0.75, rel=1e-2)
    book = hush.Ledger.open(ledger)
    assert book.budget == budget
    assert book.remaining < budget.limit / 100
    with pytest.raises(BudgetError):
        quick_release(table(), budget, workload="1-way", goal="answers", ledger=ledger)


def test_a_draft_with_nothing_open_takes_nothing_from_the_release() -> None:
    done = quick_release(
        table().select(["smokes"]),
        hush.Budget(rho=0.5),
        schema={"smokes": Boolean(name="smokes", missing=True)},
        workload="1-way",
        goal="answers",
    )
    assert done.budgets[1] == hush.Budget(rho=0.5)
    assert done.discovered == ()
    assert done.schema.discovery is None


def test_the_unit_of_a_schema_is_protected() -> None:
    rows = pa.table({"patient": [f"p{i // 3}" for i in range(3000)], "smokes": [i % 2 == 0 for i in range(3000)]})
    schema = hush.Schema([Boolean(name="smokes")], unit=Unit(column="patient", max_rows=3))
    done = quick_release(rows, hush.Budget(rho=0.5), schema=schema, workload="1-way", goal="answers")
    assert done.schema.unit == done.release.statement.unit == schema.unit
    assert [column.name for column in done.schema] == ["smokes"]
    assert "all rows of one patient" in done.assumed[-1]
    with pytest.raises(SchemaError, match="keep one"):
        guessed_draft(rows, schema=schema, unit=Unit(column="patient", max_rows=1))


def test_narrow_noise_takes_no_more_than_its_part() -> None:
    """Alone, narrow noise may cost more in Gaussian DP than its budget says; after a discovery that did not fit."""
    draft = {"age": {"kind": "integer", "bounds": "discover"}, "employed": {"kind": "boolean"}}
    rows = hush.datasets.people(1500, seed=1).select(["age", "employed"])
    done = quick_release(rows, hush.Budget(epsilon=3.0, delta=1e-9), draft=draft, mechanism="direct")
    assert done.release.complete


def test_shares_are_read_as_stated_and_bad_ones_refused() -> None:
    budget = hush.Budget(rho=1.0)
    assert budget.part(Fraction(1, 4)) == hush.Budget(rho=0.25)
    for share in (Fraction(0), Fraction(3, 2)):
        with pytest.raises(BudgetError, match="share="):
            budget.part(share)


def test_noisy_counts_of_the_discovery_are_evidence_for_the_release() -> None:
    done = quick_release(table(), hush.Budget(epsilon=2.0, delta=1e-9), goal="rows")
    draft = guessed_draft(table()).draft
    found = {measurement.clique: measurement for measurement in evidence_of(done.schema, draft)}
    assert found
    for (name,), measurement in found.items():
        kept = done.schema[name].discovered
        assert kept is not None
        assert measurement.values.tolist() == list(map(float, kept.rows))
        assert min(kept.stddev) <= measurement.stddev <= max(kept.stddev)
    assert not found.keys() & {("smokes",)}
    # what an earlier discovery found may be of other rows
    assert evidence_of(done.schema, guessed_draft(table(), schema=done.schema).draft) == ()


def test_refusals_say_what_to_write_and_quote_no_rows() -> None:
    with pytest.raises(DataError, match="data of type list: expected a pandas or polars DataFrame") as refused:
        guessed_draft(["secret"])
    assert "secret" not in str(refused.value)
    days = pa.table({"day": pa.array([dt.date(2023, 5, 1)])})
    with pytest.raises(SchemaError, match=r"expected days, such as \('2020-01-01'"):
        guessed_draft(days, bounds={"day": ("2023", "2024")})
    told = guessed_draft(days, bounds={"day": (dt.date(2023, 1, 1), dt.date(2023, 12, 31))}, unit=Unit(column="id"))
    assert "2023-01-01 to 2023-12-31 as given" in told.assumed[0]
    assert told.assumed[-1] == "Protected: all rows of one id."


def test_an_error_in_a_draft_names_its_file(tmp_path: Path) -> None:
    draft = tmp_path / "draft.toml"
    draft.write_text('hush_schema = 1\n[columns.age]\nkind = "integer"\n')
    with pytest.raises(SchemaError, match=r"draft\.toml: column 'age': low is missing"):
        Draft.load(draft)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_ledger_without_room_for_the_whole_pays_for_no_discovery(budget: hush.Budget, tmp_path: Path) -> None:
    ledger = hush.Ledger.create(tmp_path / "budget.db", budget.part(Fraction(1, 2)))
    with pytest.raises(BudgetError):
        quick_release(table(), budget, workload="1-way", goal="answers", ledger=ledger)
    assert ledger.remaining == ledger.limit


def test_texts_whose_name_says_days_are_days_and_others_are_refused_unpaid(tmp_path: Path) -> None:
    days = [(dt.date(2023, 1, 1) + dt.timedelta(days=i % 300)).isoformat() for i in range(3000)]
    frame = pa.table({"admission_date": days, "smokes": [i % 3 == 0 for i in range(3000)]})
    guess = guessed_draft(frame)
    assert [column.kind for column in guess.draft.columns] == ["date", "boolean"]
    assert "date, judged by its name" in guess.assumed[0]
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(rho=0.5))
    wrong = frame.set_column(0, "admission_date", pa.array(["unknown"] * 3000))
    with pytest.raises(DataError, match="admission_date"):
        quick_release(wrong, hush.Budget(rho=0.5), workload="1-way", goal="answers", ledger=ledger)
    assert ledger.remaining == ledger.limit


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"workload": "agge", "goal": "answers"}, "did you mean 'age'"),
        ({"workload": hush.Workload.kway(hush.Domain({"age": 3}), 1), "goal": "answers"}, "give a text"),
        ({"workload": "sum(agge)", "goal": "answers"}, "did you mean 'age'"),
        ({"workload": "sum(smokes)", "goal": "answers"}, "cannot be added up"),
        ({"label": "smoke"}, "did you mean 'smokes'"),
        ({"mechanism": "scuot"}, "scout"),
        ({"schema": {"smokes": Boolean(name="smokes", from_private_data=True)}}, "drafted from private data"),
        ({"workload": "median(age)", "goal": "answers"}, "not in the domain"),
        ({"workload": "mean(wages)", "goal": "answers"}, "did you mean 'wage'"),
        ({"goal": "row"}, "expected one of 'answers', 'rows'"),
        ({"output": "missing/people.hush"}, "cannot write"),
        ({"partial": "missing/people.partial"}, "cannot write"),
    ],
    ids=[
        "workload",
        "object",
        "no such sum",
        "no number",
        "label",
        "mechanism",
        "drafted",
        "no query",
        "no column",
        "goal",
        "output",
        "partial",
    ],
)
def test_what_the_release_would_refuse_pays_for_no_discovery(asked: Any, message: str, tmp_path: Path) -> None:
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(rho=0.5))
    with pytest.raises(HushError, match=message):
        quick_release(table(), hush.Budget(rho=0.5), ledger=ledger, **asked)
    assert ledger.remaining == ledger.limit


def test_a_schema_that_was_paid_for_is_kept_where_the_release_cannot_be_planned() -> None:
    """AIM has nothing to choose if the workload asks for the total alone, which planning finds out."""
    asked: dict[str, Any] = {"workload": "0-way", "mechanism": "aim", "goal": "answers"}
    with pytest.raises(InterruptedRelease, match="the total alone.*the discovery is paid for") as caught:
        quick_release(table().select(["age", "smokes"]), BUDGETS[0], **asked)
    assert [column.name for column in caught.value.release] == ["age", "smokes"]


def test_a_release_of_known_columns_takes_the_noise_for_which_its_ledger_has_room(tmp_path: Path) -> None:
    """Laplace noise has less error for this workload, but does not add up with the Gaussian noise before it."""
    known = hush.Schema([Boolean(name="smokes"), Integer(name="age", low=0, high=120)])
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(epsilon=2.0, delta=1e-6))
    for mechanism in ("residual", "auto"):
        budget = hush.Budget(epsilon=1.0, delta=5e-7)
        asked: dict[str, Any] = {"workload": "smokes", "goal": "answers", "mechanism": mechanism}
        done = quick_release(table().select(["age", "smokes"]), budget, schema=known, ledger=ledger, **asked)
        assert done.release.complete
    assert 0 <= ledger.remaining < ledger.limit


def test_sums_of_columns_that_are_to_be_found_are_taken() -> None:
    done = quick_release(table(), hush.Budget(rho=0.5), workload="sum(age) by smokes", goal="answers")
    assert done.release.complete


def test_a_terminal_sees_what_is_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: dict[str, list[float]] = {}

    @contextmanager
    def bar(label: str, *, after: float) -> Iterator[Callable[[float], None]]:
        assert after > 0  # short work shows none
        yield shown.setdefault(label, []).append

    monkeypatch.setattr("hush.discovery.quick_release.progress_bar", bar)
    quick_release(table(), BUDGETS[0])
    assert list(shown) == ["finding levels", "measuring"]
    assert all(shares and max(shares) > 0.9 for shares in shown.values())


IDS = table().append_column("ticket", pa.array([f"t{k}" for k in range(3000)]))


@pytest.mark.parametrize(
    ("asked", "kept", "dropped"),
    [
        ("age,ticket", "1-way", ["age,ticket"]),
        ("2-way", "1-way", ["2-way"]),
        ("<=1-way + 3*age; ticket", "<=1-way + 3*age", ["ticket"]),
        ("sum(age) by ticket + age:prefix", "age:prefix", ["sum(age) by ticket"]),
        ('age; "tick;et"; 1-of age,ticket', "age", ['"tick;et"', "1-of age,ticket"]),
    ],
)
def test_what_needs_a_column_that_was_left_out_is_not_asked_and_the_rest_is(
    asked: str, kept: str, dropped: list[str]
) -> None:
    text, said = answerable(asked, hush.Schema([Integer(name="age", low=0, high=9)]))
    assert text == kept
    assert [line.removesuffix(": not asked, since some of its columns were left out") for line in said] == dropped


def test_a_release_goes_on_with_what_was_found() -> None:
    budget = hush.Budget(epsilon=2.0, delta=1e-9)
    done = quick_release(IDS.select(["age", "ticket"]), budget, workload="2-way + age", goal="answers")
    assert [column.name for column in done.schema] == ["age"]
    assert done.discovered[-1] == "2-way: not asked, since some of its columns were left out"
    assert done.release.complete


def test_a_refused_budget_makes_no_ledger(tmp_path: Path) -> None:
    """A new ledger would have the refused budget as its cap, and then refuse a larger one."""
    for epsilon in (1e-9, 1e-5):
        with pytest.raises(BudgetError, match=rf"^epsilon={epsilon}, .*too small to find anything in 3 columns"):
            quick_release(IDS, hush.Budget(epsilon=epsilon, delta=1e-9), ledger=tmp_path / "budget.db")
    with pytest.raises(BudgetError, match=r"^finding the values of 'ticket' .*this one is epsilon=1;"):
        quick_release(IDS, hush.Budget(epsilon=1.0), ledger=tmp_path / "budget.db")
    assert not (tmp_path / "budget.db").exists()
