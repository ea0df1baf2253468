"""ReleaseJob: one object that checks, charges, shows progress, keeps a partial file, stops and resumes."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import hush
from hush.core.errors import BudgetError, DataError, InterruptedRelease
from hush.mechanisms.release_job import JobStatus, ReleaseJob, partial_file
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.testing import TinyTable

DOMAIN = hush.Domain({"a": 2, "b": 3, "c": 2})
BUDGET = hush.Budget(rho=0.5)


def table(rows: int = 200) -> object:
    codes = {
        "a": [i % 2 for i in range(rows)],
        "b": [i % 3 for i in range(rows)],
        "c": [i % 4 // 2 for i in range(rows)],
    }
    return hush.read(pa.table(codes), hush.Schema.from_domain(DOMAIN))


def aim() -> hush.mechanisms.plan.Plan:
    workload = hush.Workload.kway(DOMAIN, 2)
    return hush.plan(workload, BUDGET, mechanism=hush.mechanisms.AIM(preset="fast"))


@pytest.mark.parametrize("mechanism", ["residual", "aim"])
def test_a_job_saves_its_release_and_says_that_it_is_done(tmp_path: Path, mechanism: str) -> None:
    output, book = tmp_path / "out.hush", tmp_path / "budget.db"
    job = ReleaseJob(hush.plan(hush.Workload.kway(DOMAIN, 2), BUDGET, mechanism), output=output, ledger=book)
    shares: list[float] = []
    release = job.run(table(), progress=shares.append)
    assert (job.status.state, job.status.spent) == ("done", 1.0)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert hush.load(output).counts(("a",)).tolist() == release.counts(("a",)).tolist()
    assert not partial_file(output).exists()
    assert [entry.release for entry in hush.Ledger.open(book).entries() if entry.release] != []
    assert json.loads(json.dumps(job.status.to_dict()))["state"] == "done"


def test_a_job_that_another_thread_stops_keeps_what_it_paid_for_and_goes_on_from_its_file(tmp_path: Path) -> None:
    output, book = tmp_path / "out.hush", tmp_path / "budget.db"
    job = ReleaseJob(aim(), output=output, ledger=book)
    with pytest.raises(InterruptedRelease) as stopped:
        job.run(table(), on_round=lambda played, share: threading.Thread(target=job.stop).run())
    assert job.status.state == "interrupted"
    assert 0 < job.status.spent < 1
    assert job.status.rounds == 1
    kept = hush.load(output)
    assert not kept.complete
    assert len(kept.noisy_tables) == len(stopped.value.release.noisy_tables) > 0

    again = ReleaseJob.resumed(hush.load(output), output=tmp_path / "whole.hush", ledger=book)
    release = again.run(table())
    assert release.complete
    assert again.status.rounds == len(release.rounds) > 1
    first = [measurement.raw.tolist() for measurement in kept.noisy_tables]
    assert [measurement.raw.tolist() for measurement in release.noisy_tables][: len(first)] == first
    assert hush.Ledger.open(book).remaining < BUDGET.limit / 1000


def test_the_partial_file_is_there_before_a_round_is_announced(tmp_path: Path) -> None:
    output = tmp_path / "out.hush"
    job = ReleaseJob(aim(), output=output)
    tables: list[int] = []

    def on_round(played: object, share: float) -> None:
        assert job.status.kept
        tables.append(len(hush.load(partial_file(output)).noisy_tables))

    release = job.run(table(), on_round=on_round)
    assert tables[-1] == len(release.noisy_tables)


@pytest.mark.parametrize("mechanism", ["residual", "aim"])
def test_seeded_noise_is_stated_in_the_file(tmp_path: Path, mechanism: str) -> None:
    plan = hush.plan(hush.Workload.kway(DOMAIN, 1), BUDGET, mechanism)
    for name, entropy in (("private", None), ("seeded", NotPrivateEntropy(1))):
        ReleaseJob(plan, output=tmp_path / name, entropy=entropy).run(table())
        assert hush.load(tmp_path / name).statement.seeded == (entropy is not None)


class Changing(TinyTable):
    """A table that others change, unless its state is held."""

    held = False

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        self.held = True
        yield
        self.held = False

    def check(self, most_rows: int = 0) -> None:
        assert self.held

    def counts(self, cliques: object) -> object:
        assert self.held
        return super().counts(cliques)


@pytest.mark.parametrize("mechanism", ["residual", "aim"])
def test_a_job_sees_one_state_of_the_rows_from_its_first_check_to_its_last_count(mechanism: str) -> None:
    changing = Changing(DOMAIN, [(0, 1, 0), (1, 2, 1)])
    ReleaseJob(hush.plan(hush.Workload.kway(DOMAIN, 1), BUDGET, mechanism)).run(changing)
    assert changing.reads > 0
    assert not changing.held


def test_a_job_runs_once() -> None:
    job = ReleaseJob(aim())
    job.run(table())
    with pytest.raises(BudgetError, match="this job is done; a job runs once, make another"):
        job.run(table())


def test_what_is_refused_costs_nothing_and_leaves_the_job_ready(tmp_path: Path) -> None:
    book = tmp_path / "budget.db"
    other = hush.read(pa.table({"z": [0, 1]}), hush.Schema.from_domain(hush.Domain({"z": 2})))
    job = ReleaseJob(aim(), output=tmp_path / "out.hush", ledger=book)
    started: list[bool] = []
    with pytest.raises(DataError, match="the plan has the attribute 'a', the table's schema has not"):
        job.run(other, on_start=lambda: started.append(True))
    assert job.status == JobStatus()
    assert started == []
    assert list(tmp_path.iterdir()) == []
    job.run(table())
    assert job.status.state == "done"


def test_a_release_that_cannot_be_written_is_rescued(tmp_path: Path) -> None:
    missing = tmp_path / "gone" / "out.hush"
    missing.parent.mkdir()
    job = ReleaseJob(hush.plan(hush.Workload.kway(DOMAIN, 1), BUDGET, "residual"), output=missing)
    with pytest.raises(hush.HushError, match="the budget is spent, and the release is kept in (.*)$") as failed:
        job.run(table(), on_start=missing.parent.rmdir)
    rescued = Path(str(failed.value).rsplit(" kept in ", 1)[1])
    assert hush.load(rescued).complete
    assert job.status.state == "failed"


@pytest.mark.parametrize(("mechanism", "words"), [("aim", "is complete"), ("residual", "cannot be resumed")])
def test_what_cannot_go_on_is_refused(mechanism: str, words: str) -> None:
    release = hush.plan(hush.Workload.kway(DOMAIN, 1), BUDGET, mechanism).release(table())
    with pytest.raises(BudgetError, match=words):
        ReleaseJob.resumed(release)


@pytest.mark.parametrize("mechanism", ["residual", "aim"])
def test_a_job_that_is_stopped_before_it_runs_spends_nothing(tmp_path: Path, mechanism: str) -> None:
    book = tmp_path / "budget.db"
    job = ReleaseJob(hush.plan(hush.Workload.kway(DOMAIN, 2), BUDGET, mechanism), ledger=book)
    job.stop()
    with pytest.raises(InterruptedRelease, match="nothing was spent"):
        job.run(table())
    assert hush.Ledger.open(book).remaining == BUDGET.limit


def test_a_stopped_strategy_keeps_the_answer_that_was_just_taken() -> None:
    job = ReleaseJob(hush.plan(hush.Workload.kway(DOMAIN, 2), BUDGET, "residual"))
    with pytest.raises(InterruptedRelease) as stopped:
        job.run(table(), progress=lambda share: job.stop())
    assert stopped.value.release.record.tables == 1


def test_a_job_does_not_start_twice_at_once() -> None:
    job = ReleaseJob(aim())
    with pytest.raises(BudgetError, match="this job is running"):
        job.run(table(), on_start=lambda: job.run(table()))
    assert job.status.state == "ready"


def test_a_partial_file_of_an_earlier_run_is_overwritten_only_by_force(tmp_path: Path) -> None:
    output, book = tmp_path / "out.hush", tmp_path / "budget.db"
    partial_file(output).write_bytes(b"paid for")
    with pytest.raises(hush.HushError, match="holds the noisy tables of an interrupted release, and they are paid for"):
        ReleaseJob(aim(), output=output, ledger=book).run(table())
    assert partial_file(output).read_bytes() == b"paid for"
    assert not book.exists()
    assert ReleaseJob(aim(), output=output, ledger=book, force=True).run(table()).complete
