"""`hush budget`: what it shows at 80 columns, which caps it sets and raises, and what it refuses in one line."""

import os
import re
import shlex
from fractions import Fraction

import pytest
from click.testing import CliRunner, Result

from hush.cli.main import main
from hush.core.errors import BudgetError
from hush.privacy.budget import Budget
from hush.privacy.events import GaussianEvent, LaplaceEvent, SelectionEvent, compose
from hush.privacy.ledger import Ledger

GAUSS = GaussianEvent(Fraction(400), Fraction(1), True)  # rho 1/800
SELECT = SelectionEvent(Fraction(1, 10))  # rho 1/800


def hush(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["budget", *map(str, arguments)], env={"COLUMNS": "80"})


def words(result: Result) -> str:
    return " ".join(result.output.split())


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "budget.db"
    ledger = Ledger(path, dataset="census", cap=Budget(epsilon=3.0, delta=1e-6))
    ledger.charge(GAUSS, note="one-way marginals", release="2026-01")
    ledger.charge(compose([GAUSS] * 12 + [SELECT] * 3), note="round 1 \x1b[2J", release="2026-01")
    ledger.charge(compose([SELECT] * 2))
    Ledger(path, dataset="clinic", cap=Budget(epsilon=2.0)).charge(LaplaceEvent(Fraction(10), Fraction(1)))
    ledger.raise_cap(Budget(epsilon=4.0, delta=1e-6), reason="decided by the board")
    return path


def test_shows_caps_charges_and_what_is_left(path):
    found = hush(path, "--entries")
    shown = words(found)
    assert found.exit_code == 0
    assert "dataset census cap 100 % epsilon=4, delta=1e-06 spent 6.5 % epsilon=" in shown
    assert re.search(r"left 93\.5 % room for 12\d more releases like the last one; alone worth epsilon=", shown)
    assert "discrete gaussian, sigma 20" in shown
    assert "12 x discrete gaussian" in shown
    assert "2 x exponential mechanism" in shown
    assert "one-way marginals" in shown
    assert "decided by the board" in shown
    assert "2026-01" in shown
    assert "dataset clinic cap epsilon 2 epsilon=2 spent epsilon 0.1 epsilon=0.1 at delta=0 (pure)" in shown
    assert "left epsilon 1.9" in shown
    assert "chain whole" in shown
    assert f"head: {Ledger.open(path, dataset='census').head}" in shown


def test_the_random_digits_of_a_first_note_are_not_shown(path):
    (first, *_) = Ledger(path, dataset="census").entries()
    assert re.fullmatch(r"new dataset [0-9a-f]{32}", first.note)
    shown = words(hush("show", path, "--dataset", "census"))
    assert "new dataset" in shown
    assert first.note.split()[-1][:10] not in shown.replace(" ", "")


def test_running_totals(path):
    lines = [line.split() for line in hush(path, "--dataset", "census", "--entries").output.splitlines()]
    costs = [line[-4:] for line in lines if len(line) > 5 and line[0] in {"2", "3", "4"}]  # not a folded note
    assert costs == [["0.4", "%", "0.4", "%"], ["5.5", "%", "5.8", "%"], ["0.8", "%", "6.5", "%"]]


def test_fits_in_80_columns_and_sends_nothing_that_steers_a_terminal(path):
    output = hush(path).output
    assert max(map(len, output.splitlines())) <= 80
    assert "\x1b" not in output
    assert "\\x1b[2J" in words(hush(path, "--entries"))


def test_charges_in_a_row_to_one_release_are_one_line(path):
    found = hush(path, "--dataset", "census")
    lines = [line.split() for line in found.output.splitlines()]
    short = next(line for line in lines if line[:1] == ["2-3"])
    assert short[3:] == ["2026-01", "2", "entries", "5.8", "%", "5.8", "%"]
    assert "one-way marginals" not in found.output
    assert "2 x exponential mechanism" in words(found)  # by itself: no release
    assert "--entries lists them all" in found.output
    assert "--entries" not in hush(path, "--dataset", "clinic").output
    assert "--entries shows" not in hush(path, "--entries").output


@pytest.mark.parametrize("parts", [1, 3])
def test_spent_is_never_shown_above_the_cap_that_it_is_within(tmp_path, parts):
    cap = Budget(rho=0.0149737)  # 0.014973 rounded down, 0.014974 up
    ledger = Ledger(tmp_path / "b.db", cap=cap)
    for _ in range(parts):
        ledger.charge(GaussianEvent(parts / (2 * cap.limit), Fraction(1), True), release="x.hush")
    shown = words(hush(tmp_path / "b.db"))
    assert "cap rho 0.014973 rho=0.0149737: epsilon=" in shown
    assert "spent rho 0.014973 epsilon=" in shown
    assert "left nothing no room for another release like the last one" in shown
    assert "0.014974" not in shown


def test_other_amounts_spent_are_rounded_up(tmp_path):
    Ledger(tmp_path / "b.db", cap=Budget(rho=1.0)).charge(GaussianEvent(Fraction(3, 2), Fraction(1), True))
    assert "spent rho 0.33334" in words(hush(tmp_path / "b.db"))


def test_showing_changes_nothing(path):
    before = path.read_bytes()
    hush(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["budget.db"]


def test_one_dataset_at_another_delta(path):
    found = hush(path, "--dataset", "census", "--delta", "1e-9")
    assert "clinic" not in found.output
    assert "at delta=1e-09" in found.output
    assert "epsilon=4, delta=1e-06: epsilon=" in found.output


def test_delta_zero_shows_that_zcdp_gives_no_epsilon(path):
    assert "epsilon=inf at delta=0" in words(hush(path, "--dataset", "census", "--delta", "0"))


def test_an_expected_head_is_looked_for(path):
    head = Ledger.open(path, dataset="census").head
    found = hush(path, "--expect-head", head)
    assert found.exit_code == 0
    assert "the expected head is in it" in words(found)
    missing = hush(path, "--expect-head", "0" * 32)
    assert missing.exit_code == 2
    assert "lacks the head" in missing.stderr


@pytest.mark.parametrize(
    ("options", "cap"),
    [
        (["--epsilon", "3", "--delta", "1e-6"], Budget(epsilon=3.0, delta=1e-6)),
        (["--epsilon", "3"], Budget(epsilon=3.0)),
        (["--rho", "0.5"], Budget(rho=0.5)),
        (["--mu", "1"], Budget(mu=1.0)),
    ],
)
def test_init_sets_a_cap(tmp_path, options, cap):
    path = tmp_path / "new.db"
    found = hush("init", path, "--dataset", "census", *options)
    ledger = Ledger.open(path, dataset="census")
    assert found.exit_code == 0
    assert f"dataset 'census': all releases together may spend {cap}." in words(found)
    assert f"--ledger {path} --dataset census" in found.output
    assert f"head: {ledger.head}" in found.output
    assert ledger.budget == cap


def test_init_adds_a_dataset_whose_name_has_a_default(path):
    assert hush("init", path, "--rho", "1").exit_code == 0
    assert Ledger.open(path).budget == Budget(rho=1.0)
    assert [ledger.dataset for ledger in Ledger.open_all(path)] == ["census", "clinic", "default"]


def test_a_file_in_the_place_of_a_command_is_shown(path):
    assert hush(path).output == hush("show", path).output
    assert hush("--entries", path).output == hush("show", path, "--entries").output
    assert "init" in hush("--help").output


def test_a_cap_is_raised_and_its_entry_stays(path):
    raised = hush("raise", path, "--dataset", "census", "--epsilon", "5", "--reason", "second survey")
    ledger = Ledger.open(path, dataset="census")
    assert raised.exit_code == 0, raised.stderr
    assert "the cap was epsilon=4, delta=1e-06 and is epsilon=5, delta=1e-06 now" in words(raised)
    assert "Everyone in the data is now promised less" in raised.output
    assert ledger.budget == Budget(epsilon=5.0, delta=1e-6)  # the delta of the cap is kept
    assert ledger.entries()[-1].note == "second survey"
    assert ledger.entries()[-1].time
    assert f"head: {ledger.head}" in raised.output
    shown = words(hush(path, "--dataset", "census"))
    assert "cap: epsilon=4, delta=1e-06 decided by the board" in shown
    assert "cap: epsilon=5, delta=1e-06 second survey" in shown


@pytest.mark.parametrize("dataset", ["default", "new people"])
@pytest.mark.parametrize(
    "cap", [Budget(epsilon=1.0, delta=1e-9), Budget(epsilon=1.0), Budget(rho=0.5), Budget(mu=0.1), Budget(mu=1.0)]
)
def test_an_exhausted_budget_names_the_command_that_raises_its_cap(tmp_path, cap, dataset):
    ledger = Ledger.create(tmp_path / "my budget.db", cap, dataset=dataset)
    charge = LaplaceEvent(1 / cap.limit, Fraction(1)) if cap.pure else GaussianEvent(1 / (2 * cap.limit), Fraction(1))
    ledger.charge(charge)
    with pytest.raises(BudgetError, match="weakens the promise to everyone in the data") as refused:
        ledger.charge(charge)
    command = shlex.split(str(refused.value).split("`")[1])
    assert command[:3] == ["hush", "budget", "raise"]
    assert hush(*command[2:-1], "second survey").exit_code == 0  # after --reason
    ledger.charge(charge)
    assert ledger.remaining < cap.limit / 1000
    assert ledger.budget.to_dict().keys() == cap.to_dict().keys()


def test_nobody_is_told_to_set_a_cap_that_promises_nothing(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db", Budget(epsilon=1.0))
    with pytest.raises(BudgetError, match=r"exceeds the 1 left; add noise or ask for less$"):
        ledger.charge(LaplaceEvent(Fraction(1, 10**7), Fraction(1)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["init", "FILE", "--dataset", "census", "--rho", "1"],
            "has a dataset 'census' already, with the cap eps",
        ),
        (["init", "FILE"], "no budget was given"),
        (["init", "FILE", "--epsilon", "-1"], "epsilon=-1.0: expected a number above 0"),
        (["init", "FILE", "--epsilon", "nan"], "epsilon=nan: expected a finite number above 0"),
        (["init", "FILE", "--epsilon", "1", "--delta", "1"], "delta=1.0: expected a number from 0 to 0.5"),
        (["init", "FILE", "--rho", "1", "--mu", "1"], "got rho and mu"),
        (["raise", "FILE", "--dataset", "census", "--epsilon", "9"], "needs a reason"),
        (["raise", "FILE", "--dataset", "census", "--epsilon", "9", "--reason", " "], "needs a reason"),
        (["raise", "FILE", "--dataset", "census", "--epsilon", "4", "--reason", "x"], "of the same kind"),
        (["raise", "FILE", "--dataset", "census", "--rho", "1e-3", "--reason", "x"], "of the same kind"),
        (
            ["raise", "FILE", "--dataset", "clinic", "--epsilon", "9", "--delta", ".1", "--reason", "x"],
            "of the same kind",
        ),
        (["raise", "FILE", "--epsilon", "9", "--reason", "x"], "hush budget init FILE"),
        (["raise", "FILE", "--dataset", "census", "--reason", "x"], "no budget was given"),
        (["rais", "FILE", "--rho", "1"], "no command 'rais', and no such file; did you mean raise?"),
        (["FILE", "--epsilon", "1"], "No such option"),
        (["FILE", "--delta", "0.6"], "delta=0.6: expected a number from 0 to 0.5"),
        (["FILE", "--json", "--delta", "0.6"], "delta=0.6: expected a number from 0 to 0.5"),
        (["FILE", "--delta", "2"], "delta=2.0: expected a number from 0 to 0.5"),
        (["FILE", "--delta", "nan"], "delta=nan: expected a finite number from 0 to 0.5"),
        (["FILE", "--dataset", "other"], "has no dataset 'other', only 'census', 'clinic'"),
        (["FILE", "--expect-head", "xyz"], "expected the 32 hex digits"),
        (["FILE", "--delta", "x"], "not a valid float"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(path, arguments, message):
    before = path.read_bytes()
    found = hush(*(path if word == "FILE" else word for word in arguments))
    assert found.exit_code == 2
    assert found.stdout == ""
    assert len(found.stderr.splitlines()) == 1
    assert message.replace("FILE", str(path)) in found.stderr
    assert path.read_bytes() == before


def test_files_that_are_no_ledger_are_refused_in_one_line(tmp_path):
    (tmp_path / "text").write_text("hello")
    for name, message in (("text", "is not a hush ledger"), ("none", "does not exist"), ("", "not a regular file")):
        found = hush(f"{tmp_path}/{name}")
        assert found.exit_code == 2
        assert message in found.stderr
        assert len(found.stderr.splitlines()) == 1


def test_a_broken_chain_is_refused(path):
    content = path.read_bytes()
    path.write_bytes(content.replace(b"one-way", b"two-way"))
    found = hush(path)
    assert found.exit_code == 2
    assert "entry 2: it does not match its hash: it was edited" in found.stderr
