"""Discovery in the studio: what nobody knows is found with a budget of its own, and becomes part of the columns."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from starlette.datastructures import FormData

import hush
from hush.discovery.discovery_job import DiscoveryJob
from hush.mechanisms.release_job import partial_file
from hush.privacy.ledger.ledger_chain import CHARGE
from hush.studio.column_draft import discovery_draft, open_column, without_provenance
from hush.studio.columns_page import changed
from hush.studio.owner import OwnerStudio
from hush.studio.project import ColumnDraft
from studio_visitor import Visitor, running


@pytest.fixture
def studio(tmp_path: Path) -> OwnerStudio:
    drawn = np.random.default_rng(3)
    rows = [
        f"{age},{'fm'[i % 2]},{('north', 'south', 'west')[i % 3]}"
        for i, age in enumerate(drawn.integers(20, 60, 20_000))
    ]
    (tmp_path / "people.csv").write_text("\n".join(["age,sex,region", *rows]) + "\n")
    studio = OwnerStudio(tmp_path)
    studio.choose("people.csv")
    return studio


@pytest.fixture
def owner(studio: OwnerStudio) -> Iterator[Visitor]:
    """A visitor who has marked two columns, and described the third."""
    with running(studio) as visitor:
        visitor.enter()
        changes: dict[str, str | list[str] | None] = {"c0-discover": "yes", "c2-discover": "yes", "c1-values": "f, m"}
        assert visitor.fill("/columns", changes | {"action": "next"}).location == "/people"
        assert visitor.fill("/people", {"rows": "20000"}).location == "/discovery"
        yield visitor


def shown(owner: Visitor) -> dict[str, str]:
    """The form that spends."""
    page = owner.get("/discovery?epsilon=2&delta=1e-9&cap=5").page
    return dict(next(form for form in page.forms if form.action == "/discovery" and form.method == "post").fields)


def charges(folder: Path) -> set[str]:
    return {e.release for e in hush.Ledger.open(folder / "budget.db").entries() if e.action == CHARGE}


def test_what_is_found_becomes_part_of_the_columns(owner: Visitor, studio: OwnerStudio, tmp_path: Path) -> None:
    text = owner.get("/discovery?epsilon=2&delta=1e-9&cap=5").page.text
    assert "You will spend epsilon 2 at delta 1e-09, once and for good" in text
    assert not (tmp_path / "budget.db").exists()
    fields = shown(owner)
    first = owner.post("/discovery", fields)
    assert owner.post("/discovery", fields).location == first.location  # a double click
    assert '"state": "done"' in owner.get(first.location.replace("/progress", "/events")).body.decode()
    assert "The discovery is complete" in owner.get(first.location).page.text
    assert charges(tmp_path) == {"people-columns-1.toml"}
    assert hush.Ledger.open(tmp_path / "budget.db").budget == hush.Budget(epsilon=5.0, delta=1e-9)
    # The columns are those of the schema that was found, and a release goes on with them.
    found = hush.Schema.load(tmp_path / "people-columns-1.toml")
    assert 0 <= found["age"].low < 25  # type: ignore[attr-defined]
    assert set(found["region"].texts) == {"north", "south", "west"}  # type: ignore[attr-defined]
    path = tmp_path / "schema.toml"
    path.write_bytes(owner.get("/columns/schema.toml").body)
    assert hush.Schema.load(path).to_toml() == found.to_toml()
    owner.fill("/questions", {"order": "1", "action": "next"})
    owner.fill("/budget", {"way": "epsilon", "epsilon": "1"})
    # The discovery had epsilon 2, so together they are right in e^3 / (1 + e^3) of all cases.
    assert (
        "and the discovery of its columns they are right in at most 96 of 100" in owner.get("/budget/effect").page.text
    )
    page = owner.get("/confirm").page
    assert page.alerts == []
    form = next(form for form in page.forms if form.action == "/spend")
    address = owner.post("/spend", form.fields).location
    assert '"state": "done"' in owner.get(address.replace("/progress", "/events")).body.decode()
    assert charges(tmp_path) == {"people-columns-1.toml", "people-1.hush"}
    assert owner.get("/releases").page.text.count("complete") == 2
    # The ledger had room for Gaussian noise alone, which the same work elsewhere names.
    entry, release = studio.release("people-1.hush")
    assert f"--mechanism {release.mechanism}" in entry.commands
    assert f"mechanism={release.mechanism!r}" in entry.script
    # An edit by hand makes the column the owner's own again.
    assert "discovered" in studio.state.columns[0].more
    owner.fill("/columns", {"c0-low": "0", "c0-high": "99", "c0-bins": "10", "action": "save"})
    assert "discovered" not in studio.state.columns[0].more


def test_an_interrupted_discovery_goes_on_without_a_second_charge(
    owner: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = DiscoveryJob._count

    def broken(job: DiscoveryJob, opened: object, account: object, grid: str, *rest: object, **more: object) -> None:
        count(job, opened, account, grid, *rest, **more)  # type: ignore[arg-type]
        if grid == "wide":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DiscoveryJob, "_count", broken)
        address = owner.post("/discovery", shown(owner)).location
        assert '"state": "interrupted"' in owner.get(address.replace("/progress", "/events")).body.decode()
    assert partial_file(tmp_path / "people-columns-1.toml").exists()
    before = len(hush.Ledger.open(tmp_path / "budget.db").events())
    assert "pays for nothing twice" in owner.get(address).page.alerts[0]
    assert owner.post(address.replace("/progress", "/resume"), {}).status == 303
    assert '"state": "done"' in owner.get(address.replace("/progress", "/events")).body.decode()
    ledger = hush.Ledger.open(tmp_path / "budget.db")
    assert len(ledger.events()) == before + 1  # the finer grids alone
    whole = hush.Ledger.create(tmp_path / "other.db", hush.Budget(epsilon=2.0, delta=1e-9))
    for event in ledger.events():
        whole.charge(event)


def test_a_budget_that_finds_nothing_costs_nothing(owner: Visitor, tmp_path: Path) -> None:
    page = owner.get("/discovery?epsilon=0.0001&delta=1e-9").page
    fields = next(form for form in page.forms if form.method == "post").fields
    address = owner.post("/discovery", fields).location
    assert '"state": "failed"' in owner.get(address.replace("/progress", "/events")).body.decode()
    assert "too small" in owner.get(address).page.alerts[0]
    assert "Nothing was charged" in owner.get(address).page.alerts[0]
    assert charges(tmp_path) == set()


def test_what_is_typed_stays_and_the_rest_is_open(studio: OwnerStudio) -> None:
    typed = ColumnDraft(name="c", kind="integer", texts={"low": "0", "high": "99"}, discover=True)
    assert open_column(typed).open == ("bins",)  # type: ignore[union-attr]
    bounds = ColumnDraft(name="c", kind="numeric", texts={"bins": "20"}, discover=True)
    assert open_column(bounds).open == ("bounds",)  # type: ignore[union-attr]
    month = ColumnDraft(name="c", kind="date", texts={"granularity": "month"}, discover=True)
    assert open_column(month).open == ("bounds",)  # type: ignore[union-attr]
    flag = ColumnDraft(name="c", kind="boolean", discover=True)
    assert discovery_draft(studio.state.replaced(columns=[flag])).open_columns == ()
    assert without_provenance('points = [0]\ndiscovered = {note = "x"}') == "points = [0]"


def test_an_edit_of_many_columns_removes_what_a_discovery_found(studio: OwnerStudio) -> None:
    found = ColumnDraft(
        name="age", kind="integer", texts={"low": "20", "high": "59"}, more='discovered = {note = "20 to 59"}'
    )
    assert changed(found, FormData({"bulk-high": "99"})).more == ""
    assert changed(found, FormData({"bulk-action": "leave"})).more == found.more


def test_a_discovery_leaves_room_for_a_release(owner: Visitor, tmp_path: Path) -> None:
    assert "with a cap of epsilon 1 at" in owner.get("/discovery").page.text
    for cap in ("", "0.5"):
        page = owner.get(f"/discovery?epsilon=0.5&delta=1e-9&cap={cap}").page
        assert "would use up the cap" in page.alerts[0]
        assert "post" not in [form.method for form in page.forms if form.action == "/discovery"]
