"""hush model: a release fitted once, into a file that query and synth take."""

from pathlib import Path
from typing import Any

import pytest

import hush
from command_line import run_hush as run
from hush import Budget, Domain, Ledger, Measurement, Workload
from hush.cli import model_command as fitted
from hush.core.memory import readable
from hush.datasets import people, people_schema
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.release.release import Release

SCHEMA = people_schema()
PAIRS = [("sex", "region"), ("region", "employed"), ("sex", "employed"), ("education",)]


def release_file(path: Path, *, seeded: bool = False) -> Path:
    plan = hush.plan(Workload.marginals(SCHEMA.domain, PAIRS), Budget(rho=0.5), mechanism="residual")
    table = hush.read(people(2000, seed=5), SCHEMA)
    plan.release(table, entropy=NotPrivateEntropy(seed=1) if seeded else None).save(path)
    return path


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release_file(tmp_path_factory.mktemp("release") / "people.hush")


def test_a_model_is_fitted_once_and_described(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "model.hush"
    done = run("model", release, "-o", output)
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"Wrote {output}; nothing was spent."
    assert lines[1].startswith("Model: exact, ")
    assert lines[1].endswith("fit solved.")
    assert lines[2].startswith("Largest tables fitted: 4: (")
    assert "(sex, region)" in done.stdout
    assert hush.load(output).exact  # type: ignore[union-attr]

    def fitted_again(*_: Any, **__: Any) -> None:
        raise AssertionError("fitted again")

    monkeypatch.setattr(Release, "model", fitted_again)
    assert run("synth", output, "--rows", 5, "-o", tmp_path / "rows.csv").exit_code == 0
    assert "errors are not known" in run("query", output, "SELECT education, COUNT(*) FROM t GROUP BY 1").stdout


@pytest.mark.parametrize("given", [["sex,region; region,employed"], ["sex,region", "region,employed"]])
def test_cliques_restrict_what_is_fitted(release: Path, tmp_path: Path, given: list[str]) -> None:
    options = [part for text in given for part in ("--cliques", text)]
    done = run("model", release, "-o", tmp_path / "model.hush", *options)
    assert done.exit_code == 0, done.stderr
    kept = {frozenset(text.split(",")) for text in ("sex,region", "region,employed")}
    cliques = hush.load(tmp_path / "model.hush").cliques  # type: ignore[union-attr]
    assert all(any(set(clique) <= own for own in kept) for clique in cliques)
    assert any(len(clique) == 2 for clique in cliques)


@pytest.mark.parametrize("options", [["--method", "approximate"], ["--max-size-mb", "0.0001"]])
def test_approximate_models_say_so(release: Path, tmp_path: Path, options: list[str]) -> None:
    done = run("model", release, "-o", tmp_path / "model.hush", *options)
    assert done.exit_code == 0, done.stderr
    assert "Model: approximate" in done.stdout
    assert "rows are moved close to all of them" in " ".join(done.stdout.split())
    drawn = run("synth", tmp_path / "model.hush", "--rows", 20, "-o", tmp_path / "rows.csv")
    assert "rows are moved close to all of them" in " ".join(drawn.stdout.split())


def test_long_work_is_announced_where_no_spinner_is_seen(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitted, "LONG_MB", 0.0)
    loaded = hush.load(release)
    assert isinstance(loaded, hush.Release)
    made = loaded.model()
    for command, name in (("model", "model.hush"), ("synth", "rows.csv")):
        done = run(command, release, "-o", tmp_path / name)
        assert done.stderr == f"hush: fitting a model of {readable(1e6 * made.size_mb)} ...\n"
    near = run("model", release, "--method", "approximate", "-o", tmp_path / "near.hush")
    assert near.stderr.startswith("hush: fitting an approximate model of ")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--cliques", "sex,regoin"], "did you mean 'region'?"),
        (["--cliques", "sex; income"], "nothing was measured inside ('income',); give cliques of the workload"),
        (["--cliques", ""], "the workload is empty"),
        (["--method", "guess"], "--method"),
        (["--max-size-mb", "0"], "--max-size-mb"),
        (["--method", "exact", "--max-size-mb", "0.0001"], "more than max_size_mb"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(release: Path, tmp_path: Path, options: list[str], text: str) -> None:
    done = run("model", release, "-o", tmp_path / "model.hush", *options)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.stderr
    assert text in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_files_are_not_replaced(release: Path, tmp_path: Path) -> None:
    kept, ledger, own = tmp_path / "mine.hush", tmp_path / "budget.db", tmp_path / "own.hush"
    kept.write_text("mine")
    Ledger(ledger, cap=Budget(rho=1.0))
    own.write_bytes(release.read_bytes())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert "exists already" in run("model", release, "-o", kept).stderr
    assert "is a ledger" in run("model", release, "-o", ledger, "--force").stderr
    assert "is read by this command" in run("model", own, "-o", own, "--force").stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert run("model", release, "-o", kept, "--force").exit_code == 0
    assert isinstance(hush.load(kept), hush.Model)


def test_a_model_is_not_fitted_again(tmp_path: Path) -> None:
    hush.fit(Domain({"a": 2}), [Measurement(("a",), [4.0, 5.0], 1.0)]).save(tmp_path / "model.hush")
    done = run("model", tmp_path / "model.hush", "-o", tmp_path / "again.hush")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "is a model already" in done.stderr


def test_seeded_noise_is_called_out(tmp_path: Path) -> None:
    done = run("model", release_file(tmp_path / "test.hush", seeded=True), "-o", tmp_path / "model.hush")
    assert done.exit_code == 0
    assert done.stderr.startswith("hush: NOT PRIVATE")
