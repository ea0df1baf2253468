"""Training on synthetic rows: the split, the workloads and the report, all without scikit-learn."""

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.utility import KEY, Line

from benchmarks import learning
from hush.core.domain import Domain


@pytest.mark.parametrize(("name", "label"), [("titanic", "Survived"), ("nlswork", "union")])
def test_rows_without_a_label_are_left_out_and_the_others_split_once(tmp_path: Path, name: str, label: str) -> None:
    rows = [(row, row % 3) for row in range(900)]
    (tmp_path / f"{name}.csv").write_text(f"Row,{label}\n" + "".join(f"{row},{code}\n" for row, code in rows))
    (tmp_path / f"{name}-domain.json").write_text(json.dumps({label: 3, "Row": 900}))
    table = learning.make_table(name, tmp_path)
    assert table.label == label
    assert {column: table.domain[column] for column in table.domain} == {label: 2, "Row": 900}
    assert (len(table.train["Row"]), len(table.test["Row"])) == (400, 200)
    together = np.concatenate([table.train["Row"], table.test["Row"]])
    assert sorted(together) == [row for row, code in rows if code < 2]
    assert (table.train["Row"] % 3 == table.train[label]).all()
    assert learning.make_table(name, tmp_path).test["Row"].tolist() == table.test["Row"].tolist()


@pytest.mark.parametrize(
    ("name", "rows"), [("effects", 20_000), ("additive", 10_000), ("crossed", 30_000), ("few", 600), ("few-2", 600)]
)
def test_generated_tables_have_a_balanced_label(name: str, rows: int) -> None:
    table = learning.make_table(name, None)
    assert len(table.train["label"]) == rows
    assert len(table.test["label"]) == rows // 2
    assert table.train["label"].mean() == pytest.approx(0.5, abs=0.1)
    assert all(values.max() < table.domain[column] for column, values in table.train.items())


def test_a_number_draws_another_table_of_its_kind() -> None:
    first, second = (learning.make_table(name, None) for name in ("few", "few-2"))
    assert [*first.domain] == [*second.domain]
    assert first.domain != second.domain


def test_no_column_of_crossed_says_much_alone() -> None:
    table = learning.make_table("crossed", None)
    label, strongest = table.train["label"], {}
    for column in set(table.domain) - {"label"}:
        shares = [label[table.train[column] == level].mean() for level in range(table.domain[column])]
        strongest[column] = max(shares) - min(shares)
    assert np.median(list(strongest.values())) < 0.2


def test_only_tables_with_a_label_are_listed(tmp_path: Path) -> None:
    for name in ("adult", "adult-coarse", "nltcs", "wachurn"):
        (tmp_path / f"{name}.csv").touch()
        (tmp_path / f"{name}-domain.json").touch()
    generated = ["effects", "additive", "crossed", "few"]
    assert learning.table_names(tmp_path) == ["adult", "adult-coarse", "wachurn", *generated]
    assert learning.table_names(None) == generated


def test_the_label_workload_adds_the_triples_that_hold_the_label() -> None:
    domain = Domain({"a": 2, "b": 3, "y": 2, "c": 4, "constant": 1})
    pairs = set(learning.workload_of("2-way", domain, "y").cliques)
    both = set(learning.workload_of("label", domain, "y").cliques)
    assert len(pairs) == 6
    assert {frozenset(clique) for clique in both - pairs} == {frozenset("aby"), frozenset("acy"), frozenset("bcy")}


def line(mechanism: str, run: int, logistic: float, trees: float, **more: object) -> Line:
    setting = (None, None, None) if mechanism == learning.REAL else ("2-way", 1.0, 1e-9)
    key = dict(zip(KEY, ("adult", mechanism, *setting, run), strict=True))
    return {**key, "logistic": logistic, "trees": trees, **more}


def test_gaps_are_real_minus_synthetic(capsys: pytest.CaptureFixture[str]) -> None:
    """Synthetic runs .86 and .90 have a standard error of .02 around .88; real runs agree here."""
    failed = {**line("rap", 0, 0.0, 0.0), "failure": "DataError: none"}
    real = [line(learning.REAL, run, 0.9, 0.92) for run in range(2)]
    synthetic = [line("mst", 0, 0.86, 0.9, seconds=2.0), line("mst", 1, 0.9, 0.9, seconds=4.0)]
    learning.report([*real, *synthetic, failed])
    shown = capsys.readouterr().out
    assert "2-way workload, epsilon 1, delta 1e-09" in shown
    cells = next(text for text in shown.splitlines() if "mst" in text).split()
    assert cells == ["adult", "mst", "2", "0.8800", "0.0200", "0.0200", "0.9000", "0.0200", "0.0000", "3.0"]
    assert "adult, rap: 1 x DataError: none" in shown


def test_finished_runs_are_not_repeated_and_failed_runs_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, int]] = []

    def run_job(job: Line, _table: learning.LabelledTable) -> Line:
        ran.append((job["mechanism"], job["run"]))
        if job["mechanism"] == "mst" and len(ran) <= 4:
            raise ValueError("first try")
        return {"logistic": 0.8, "trees": 0.8}

    monkeypatch.setattr(learning, "run_job", run_job)
    out = tmp_path / "learning.jsonl"
    shared = {"epsilon": [1.0], "delta": 1e-9, "workload": "2-way", "data": None, "tables": ["effects"]}
    options = learning.argparse.Namespace(**shared, runs=2, mechanisms=["mst"], out=out)
    for _ in range(3):
        learning.run_all(options)
    assert ran == [("real rows", 0), ("real rows", 1), ("mst", 0), ("mst", 1), ("mst", 0), ("mst", 1)]
    assert not any("failure" in result for result in learning.results_of(out).values())
