"""Schema files: the format is told by the ending, and what cannot be read is said in one line."""

from pathlib import Path

import pytest

import hush
from hush.core.errors import SchemaError
from hush.schema import Boolean, Categorical, Schema
from hush.schema import schema_files as files


def test_each_ending_has_its_reader(tmp_path: Path) -> None:
    texts = {
        "a.toml": 'hush_schema = 1\n[columns.x]\nkind = "integer"\nlow = 0\nhigh = 1\n',
        "b.json": '{"x": 2}',
        "c.yaml": "x: {possible_values: [a]}",
        "d.YML": "x: {possible_values: [a]}",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert [hush.Schema.load(tmp_path / name).domain for name in texts] == [hush.Domain({"x": 2})] * 4


def test_save_and_load(tmp_path: Path) -> None:
    schema = Schema([Categorical(name="naïve \r\n 😀", values=("a\r\nb", "a\u2028"))])
    schema.save(tmp_path / "s.toml")
    assert Schema.load(str(tmp_path / "s.toml")) == schema


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xef\xbb\xbf" + Schema([Boolean(name="x")]).to_toml().replace("\n", "\r\n").encode())
    assert Schema.load(path) == Schema([Boolean(name="x")])


@pytest.mark.parametrize("name", ["s.toml", "s.json", "s.yaml"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b" \n\t\n", "the file is empty"),
        (b"\xff\xfeh\x00", "not UTF-8 text; save the file as UTF-8"),
        (b"\x00\x01\x02", "not valid"),
    ],
)
def test_content_that_is_no_text(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SchemaError, match=message) as caught:
        Schema.load(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name))


def test_a_file_that_is_too_large_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_FILE", 2**20)
    (tmp_path / "s.toml").write_bytes(b"x" * (2**20 + 1))
    with pytest.raises(SchemaError, match="larger than 1 MB; is this a schema, or the table itself?"):
        Schema.load(tmp_path / "s.toml")


def test_a_schema_that_could_not_be_read_again_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema([Boolean(name="x")])
    schema.save(tmp_path / "s.toml")
    before = (tmp_path / "s.toml").read_bytes()
    monkeypatch.setattr(files, "LARGEST_FILE", len(before))
    schema.save(tmp_path / "s.toml", overwrite=True)
    with pytest.raises(SchemaError, match="a schema of more than 0 MB could not be read again; use fewer levels"):
        Schema([Boolean(name="xx")]).save(tmp_path / "s.toml", overwrite=True)
    assert (tmp_path / "s.toml").read_bytes() == before


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="no such file; check the path"):
        Schema.load(tmp_path / "none.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(SchemaError, match="cannot be read: Is a directory"):
        Schema.load(tmp_path / "folder.toml")
    with pytest.raises(SchemaError, match="cannot be read: .*null"):
        Schema.load("a\0b.toml")


@pytest.mark.parametrize("name", ["data.csv", "schema", "schema.toml.bak"])
def test_endings_that_say_no_format(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("secret,cells\n")
    with pytest.raises(SchemaError, match=r"expected .toml \(hush\), .json \(mbi\) or .yaml \(dpsynth\)") as caught:
        Schema.load(tmp_path / name)
    assert "secret" not in str(caught.value)


def test_saving_elsewhere_than_toml_or_where_nothing_can_be(tmp_path: Path) -> None:
    schema = Schema([Boolean(name="x")])
    with pytest.raises(SchemaError, match="give a name that ends in .toml"):
        schema.save(tmp_path / "s.json")
    with pytest.raises(SchemaError, match=r"cannot write .*: No such file or directory; choose another place"):
        schema.save(tmp_path / "none" / "s.toml")
