"""Stand-in tables: a file that a ledger protects is refused, under whatever name."""

from pathlib import Path

import pytest

import hush
from hush.cli.stand_in_table import check_not_protected
from hush.core.errors import SearchError


def test_a_ledger_beside_a_file_protects_it(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("age\n1\n")
    check_not_protected(tmp_path / "people.csv")
    hush.Ledger.create(tmp_path / "budget.db", hush.Budget(rho=1.0))
    with pytest.raises(SearchError, match=r"the ledger budget\.db is in the folder of .* or do so") as caught:
        check_not_protected(tmp_path / "people.csv", otherwise=", or do so")
    assert "\n" not in str(caught.value)


def test_no_name_of_a_file_hides_its_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private, public = tmp_path / "private", tmp_path / "public"
    for folder in (private, public):
        folder.mkdir()
        (folder / "people.csv").write_text("age\n1\n")
        (folder / "people.parquet").write_bytes(b"")
    hush.Ledger.create(private / "budget.db", hush.Budget(rho=1.0))
    (tmp_path / "linked").symlink_to(private, target_is_directory=True)
    (public / "link.csv").symlink_to(private / "people.csv")
    (public / "relative.csv").symlink_to(Path("..", "private", "people.csv"))
    (public / "second.csv").symlink_to(public / "link.csv")
    (private / "outward.csv").symlink_to(public / "people.csv")
    (public / "back.csv").symlink_to(private / "outward.csv")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(private)
    names = ("link.csv", "relative.csv", "second.csv", "back.csv", "../private/people.csv", "../linked/people.csv")
    patterns = ("../priv*/people.csv", "li*.csv", "../**/people.csv", "../private", "../linked", "..")
    for way in (*(public / name for name in (*names, *patterns)), Path("~/private/people.csv"), Path("people.csv")):
        with pytest.raises(SearchError, match=r"the ledger budget\.db is in the folder"):
            check_not_protected(way)
    for way in (public / "people.csv", Path("../public/people.csv"), public / "pe*.csv", public, "-"):
        check_not_protected(way)


def test_a_file_of_several_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("age\n1\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "people.csv").hardlink_to(tmp_path / "people.csv")
    with pytest.raises(SearchError, match=r"people\.csv has other names \(hard links\).*such as a copy"):
        check_not_protected(tmp_path / "people.csv")
