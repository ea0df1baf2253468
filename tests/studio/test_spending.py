"""Spending: what was shown is what is charged, once; stopped and killed releases go on without a second charge."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from msgspec import structs

import hush
from hush.core.errors import HushError
from hush.mechanisms.plan import Plan
from hush.mechanisms.release_job import ReleaseJob, partial_file
from hush.privacy.events import ComposedEvent, SelectionEvent
from hush.privacy.ledger.ledger_chain import CHARGE
from hush.studio.owner import OwnerStudio
from hush.studio.progress_page import MEASURED_KEPT, ended_words, show_progress
from hush.studio.project import ReleaseEntry, process_name
from hush.studio.spending import Running
from studio_visitor import PageReader, Visitor, describe_people, running, write_people

SECONDS = 60.0  # until a release of the tests must have ended


@pytest.fixture
def studio(tmp_path: Path) -> OwnerStudio:
    studio = OwnerStudio(tmp_path)
    studio.choose(str(write_people(tmp_path / "people.csv")))
    return studio


@pytest.fixture
def owner(studio: OwnerStudio) -> Iterator[Visitor]:
    """A visitor who has gone through all steps up to the confirmation."""
    with running(studio) as visitor:
        describe_people(visitor.enter())
        yield visitor


def token_of(visitor: Visitor) -> str:
    """The token of the confirmation page."""
    form = next(form for form in visitor.get("/confirm").page.forms if form.action == "/spend")
    return dict(form.fields)["token"]


def charges(folder: Path) -> list[str]:
    """The release of every charge in the ledger."""
    return [entry.release for entry in hush.Ledger.open(folder / "budget.db").entries() if entry.action == CHARGE]


def ended(visitor: Visitor, address: str) -> str:
    """The last event of a release, once it has ended."""
    events = visitor.get(address.replace("/progress", "/events")).body.decode()
    return re.findall(r'"state": "(\w+)"', events)[-1]


def test_what_is_confirmed_is_what_is_charged(owner: Visitor, tmp_path: Path) -> None:
    words = owner.get("/confirm").page.text
    assert "You will spend epsilon 2 at delta 1e-09, once and for good" in words
    assert not (tmp_path / "budget.db").exists()
    reply = owner.post("/spend", {"token": token_of(owner)})
    assert (reply.status, ended(owner, reply.location)) == (303, "done")
    assert charges(tmp_path) == ["people-1.hush"]
    ledger = hush.Ledger.open(tmp_path / "budget.db")
    assert ledger.budget == hush.Budget(epsilon=9.0, delta=1e-9)
    release = hush.load(tmp_path / "people-1.hush")
    assert isinstance(release, hush.Release)
    assert release.statement.budget == hush.Budget(epsilon=2.0, delta=1e-9)
    assert release.statement.unit.column == "person_id"
    assert [term.clique for term in release.workload if len(term.clique) == 2] == [("age", "sex")]


def test_a_double_click_charges_once(owner: Visitor, tmp_path: Path) -> None:
    token, replies = token_of(owner), []
    clicks = [threading.Thread(target=lambda: replies.append(owner.post("/spend", {"token": token}))) for _ in range(4)]
    for click in clicks:
        click.start()
    for click in clicks:
        click.join()
    assert {(reply.status, reply.location) for reply in replies} == {(303, "/releases/people-1.hush/progress")}
    assert ended(owner, replies[0].location) == "done"
    assert owner.post("/spend", {"token": token}).location == replies[0].location
    assert charges(tmp_path) == ["people-1.hush"]


def test_a_plan_that_changed_in_another_tab_is_not_charged(owner: Visitor, tmp_path: Path) -> None:
    token = token_of(owner)
    owner.fill("/budget", {"epsilon": "5"})
    reply = owner.post("/spend", {"token": token})
    assert reply.status == 400
    assert "The project changed after this was shown" in reply.page.alerts[0]
    assert "You will spend epsilon 5" in reply.page.text
    assert not (tmp_path / "budget.db").exists()


def test_a_second_tab_must_be_shown_what_the_first_one_spent(owner: Visitor, tmp_path: Path) -> None:
    first, second = token_of(owner), token_of(owner)
    assert ended(owner, owner.post("/spend", {"token": first}).location) == "done"
    reply = owner.post("/spend", {"token": second})
    assert reply.status == 400
    assert "in the meantime" in reply.page.alerts[0]
    assert charges(tmp_path) == ["people-1.hush"]
    assert owner.post("/spend", {"token": token_of(owner)}).location == "/releases/people-2.hush/progress"


@pytest.mark.parametrize("token", ["", "guess", "x" * 5000])
def test_a_token_that_was_never_shown_spends_nothing(owner: Visitor, tmp_path: Path, token: str) -> None:
    reply = owner.post("/spend", {"token": token})
    assert reply.status == 400
    assert "nothing was spent" in reply.page.alerts[0]
    assert not (tmp_path / "budget.db").exists()


def test_a_form_that_is_older_than_the_project_changes_nothing(owner: Visitor, studio: OwnerStudio) -> None:
    old = next(form for form in owner.get("/people").page.forms if form.action == "/people")
    assert owner.fill("/people", {"rows": "777"}).status == 303
    reply = owner.post("/people", old.fields)
    assert reply.status == 400
    assert "another tab" in reply.page.alerts[0]
    assert studio.state.people.rows == "777"


def test_more_than_the_ledger_has_left_is_refused_before_the_confirmation(owner: Visitor, tmp_path: Path) -> None:
    hush.Ledger.create(tmp_path / "budget.db", hush.Budget(epsilon=1.0, delta=1e-9))
    page = owner.get("/confirm").page
    assert "The ledger has less than that left" in page.text
    assert "/spend" not in [form.action for form in page.forms]
    assert charges(tmp_path) == []


def test_more_noise_for_the_ledger_is_shown_charged_and_written_into_the_script(
    owner: Visitor, studio: OwnerStudio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.fill("/budget", {"epsilon": "8"})
    (tmp_path / "schema.toml").write_bytes(owner.get("/columns/schema.toml").body)
    schema = hush.Schema.load(tmp_path / "schema.toml")
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(epsilon=8.05, delta=1e-9))
    ledger.charge(hush.plan("1-way", hush.Budget(epsilon=0.05, delta=1e-9), "residual", schema=schema).event)
    page = owner.get("/confirm").page
    planned = studio.planner.planned(studio.state, ledger=ledger)
    assert planned.headline in page.text
    assert "the ledger has no room for less noise" in planned.headline
    (shown,) = studio.spending._shown.values()
    made: dict[str, Plan] = {}
    monkeypatch.chdir(tmp_path)
    exec(shown.script[: shown.script.index("print(plan)")], made)
    assert made["plan"].payable(ledger)
    assert made["plan"].rmse == pytest.approx(planned.plan.rmse, rel=1e-4)
    (form,) = (form for form in page.forms if form.action == "/spend")
    assert ended(owner, owner.post("/spend", form.fields).location) == "done"
    charged = ledger.events()[-1]
    assert isinstance(charged, ComposedEvent)
    assert dict(charged.parts) == dict(planned.plan.event.parts)


def test_rows_that_do_not_fit_cost_nothing(owner: Visitor, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text(people.read_text() + "9999,secretvalue,f,north,2024-01-01\n")
    reply = owner.post("/spend", {"token": token_of(owner)})
    assert ended(owner, reply.location) == "failed"
    page = owner.get(reply.location).page
    assert "Nothing was charged" in page.alerts[0]
    assert "age" in page.alerts[0]
    assert 'tick "clamp"' in page.alerts[0]
    assert "owner's check" in page.alerts[0]
    assert "secretvalue" not in page.text
    assert charges(tmp_path) == []


def started(folder: Path) -> tuple[subprocess.Popen[str], Visitor]:
    """`hush studio` as a process of its own, and a visitor who has entered."""
    command = [sys.executable, "-m", "hush", "studio", "people.csv", "--no-browser"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)/#(\S+)", process.stdout.readline())
    assert found is not None
    return process, Visitor(int(found[1])).enter(found[2])


def wait_for(path: Path) -> None:
    end = time.monotonic() + SECONDS
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert path.exists()


def test_a_server_that_is_killed_in_the_middle_goes_on_without_a_second_charge(tmp_path: Path) -> None:
    """Killed once it has measured something: everything that was paid for is kept, and only the rest is spent."""
    write_people(tmp_path / "people.csv", rows=2000)
    process, visitor = started(tmp_path)
    try:
        describe_people(visitor, goal="rows", epsilon="3")
        address = visitor.post("/spend", {"token": token_of(visitor)}).location
        wait_for(partial_file(tmp_path / "people-1.hush"))
    finally:
        process.kill()
        outputs = process.communicate()
    assert outputs[1] == "hush: starting the studio: usually a second or two\n"
    kept = hush.load(partial_file(tmp_path / "people-1.hush"))
    assert isinstance(kept, hush.Release)
    before = charges(tmp_path)

    process, visitor = started(tmp_path)
    try:
        page = visitor.get(address).page
        assert "was interrupted" in page.alerts[0]
        assert "paid for and kept" in page.alerts[0]
        assert charges(tmp_path) == before  # nothing starts by itself
        assert visitor.post(address.replace("/progress", "/resume"), {}).status == 303
        assert ended(visitor, address) == "done"
        process.send_signal(signal.SIGINT)
        process.wait(30)
    finally:
        process.kill()
        process.communicate()
    done = hush.load(tmp_path / "people-1.hush")
    assert isinstance(done, hush.Release)
    assert done.complete
    kept_tables = [(table.clique, table.values.tolist()) for table in kept.noisy_tables]
    tables = [(table.clique, table.values.tolist()) for table in done.noisy_tables]
    assert tables[: len(kept_tables)] == kept_tables
    ledger = hush.Ledger.open(tmp_path / "budget.db")
    assert set(charges(tmp_path)) == {"people-1.hush"}
    one = hush.Ledger.create(tmp_path / "other.db", hush.Budget(epsilon=3.0, delta=1e-9))
    for event in ledger.events():  # all charges together are within what was confirmed
        one.charge(event)


def test_a_release_that_another_server_runs_is_left_alone(owner: Visitor, studio: OwnerStudio, tmp_path: Path) -> None:
    assert ended(owner, owner.post("/spend", {"token": token_of(owner)}).location) == "done"
    entry = studio.state.entry("people-1.hush")
    entry.state, entry.process = "running", process_name(os.getppid())
    studio.project.put_entry(entry)
    with pytest.raises(HushError, match="another server runs"):
        studio.spending.resume("people-1.hush")
    studio.project.end_lost_runs()
    assert studio.state.entry("people-1.hush").state == "running"
    # Another process has the number of one that ended.
    entry.process = f"{os.getppid()} 1"
    studio.project.put_entry(entry)
    studio.project.end_lost_runs()
    assert studio.state.entry("people-1.hush").state == "interrupted"
    # If it was killed between its charge and its file, the next server says what that cost.
    (tmp_path / "people-1.hush").unlink()
    restarted = OwnerStudio(tmp_path)
    restarted.choose("people.csv")
    (alert,) = PageReader(show_progress(restarted, "people-1.hush")).alerts
    spent = re.search(r"spent ([\d.]+ %)", owner.get("/ledger").page.text)
    assert spent is not None
    assert f"Before it stopped, {spent[1]} of the cap was charged, and nothing was kept" in alert


def test_the_end_of_a_release_is_told_in_whole_sentences() -> None:
    entry = ReleaseEntry("a.hush", "interrupted", "budget.db", "default", "epsilon=1", "", "")
    words = [MEASURED_KEPT, "Going on spends only the rest of its budget."]
    said = {
        "interrupted after 26 noisy tables; those are paid for and kept": (
            "The release was interrupted after 26 noisy tables; those are paid for and kept. "
            "Going on spends only the rest of its budget."
        ),
        "the server was stopped": (
            "The release was interrupted. The server was stopped. What was measured is paid for and kept. "
            "Going on spends only the rest of its budget."
        ),
    }
    for message, text in said.items():
        assert ended_words("release", entry, Running("a.hush", "interrupted", message=message), words) == text


def test_a_ledger_that_is_gone_is_never_begun_anew(owner: Visitor, tmp_path: Path) -> None:
    assert ended(owner, owner.post("/spend", {"token": token_of(owner)}).location) == "done"
    token = token_of(owner)
    ledger = (tmp_path / "budget.db").read_bytes()
    (tmp_path / "budget.db").unlink()
    reply = owner.post("/spend", {"token": token})
    assert reply.status == 400
    assert "ledger changed after this was shown" in reply.page.alerts[0]
    page = owner.get("/confirm").page
    assert "not the ledger that people-1.hush was charged to" in page.alerts[0]
    assert "/spend" not in [form.action for form in page.forms]
    assert "not the ledger" in owner.get("/budget").page.alerts[0]
    assert not (tmp_path / "budget.db").exists()
    (tmp_path / "budget.db").write_bytes(ledger)
    assert ended(owner, owner.post("/spend", {"token": token_of(owner)}).location) == "done"


def test_what_was_shown_is_refused_once_the_ledger_was_charged_elsewhere(owner: Visitor, tmp_path: Path) -> None:
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(epsilon=9.0, delta=1e-9))
    token = token_of(owner)
    ledger.charge(SelectionEvent(Fraction(1, 10)))
    reply = owner.post("/spend", {"token": token})
    assert reply.status == 400
    assert "ledger changed after this was shown" in reply.page.alerts[0]
    assert charges(tmp_path) == [""]
    assert ended(owner, owner.post("/spend", {"token": token_of(owner)}).location) == "done"


@pytest.mark.parametrize("name", [".", "people.csv"])
def test_a_file_that_is_no_ledger_can_be_put_right(owner: Visitor, name: str) -> None:
    owner.fill("/budget", {"ledger": name})
    page = owner.get("/budget").page
    assert page.alerts
    assert "/spend" not in [form.action for form in owner.get("/confirm").page.forms]
    assert owner.get("/budget/effect").status == 200
    assert owner.fill("/budget", {"ledger": ""}).location == "/confirm"
    assert "/spend" in [form.action for form in owner.get("/confirm").page.forms]


def test_a_release_that_was_measured_and_killed_before_its_end_is_finished_for_nothing(
    owner: Visitor, studio: OwnerStudio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single charge leaves its partial file behind if the process ends between the last table and the release."""
    monkeypatch.setattr(ReleaseJob, "_save", lambda job, release: None)
    address = owner.post("/spend", {"token": token_of(owner)}).location
    assert ended(owner, address) == "done"
    monkeypatch.undo()
    assert partial_file(tmp_path / "people-1.hush").exists()
    entry = studio.state.entry("people-1.hush")
    studio.project.put_entry(structs.replace(entry, state="interrupted", message="the server was stopped"))
    studio.spending.running = None
    page = owner.get(address).page
    assert "All was measured, and nothing more is charged" in page.alerts[0]
    assert owner.post(address.replace("/progress", "/resume"), {}).status == 303
    assert "The release is complete" in owner.get(address).page.text
    done = hush.load(tmp_path / "people-1.hush")
    assert isinstance(done, hush.Release)
    assert done.complete
    assert not partial_file(tmp_path / "people-1.hush").exists()
    assert charges(tmp_path) == ["people-1.hush"]
