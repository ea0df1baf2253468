"""Only `atomic_write` writes files: no other module opens one for writing, or renames, links, copies or makes one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import hush

SOURCE = Path(hush.__file__).parent
# calls that create a file, or write to one, whatever they are called on
WRITING = {
    *("write_text", "write_bytes", "touch", "rename", "renames", "symlink_to", "hardlink_to", "link"),
    *("symlink", "copy2", "copyfile", "copytree", "copyfileobj", "move", "mkstemp", "NamedTemporaryFile", "mknod"),
    *("tofile", "savez", "savez_compressed", "savetxt", "memmap", "to_csv", "to_parquet", "to_json"),
    *("write_csv", "write_parquet", "write_table", "write_feather", "write_dataset", "CSVWriter", "ParquetWriter"),
    *("OSFile", "OutputStream", "FileHandler", "truncate", "TemporaryFile"),
}
OF_OS = {"open", "replace", "rename", "fdopen", "link", "truncate", "write"}
OPENING = {"open", "ZipFile", "GzipFile", "FileIO"}  # with a mode
NO_MODE = {"Ledger.open", "hush.Ledger.open", "self._zip.open"}  # their first argument is what they read
CONNECTING = {"sqlite3", "duckdb"}
ALLOWED = {
    "files/atomic_write.py": {"os.open", "os.fdopen", "os.replace"},
    "files/archive.py": {"zipfile.ZipFile"},  # to the file that atomic_write gives
    "privacy/ledger/ledger_file.py": {
        "os.link",
        "sqlite3.connect",
        "os.open",
    },  # whole by its journal; opened to lock it
    "tables/dialects/duckdb.py": {"duckdb.connect"},  # in memory
    "tables/formats/database_files.py": {"sqlite3.connect"},  # opened for reading
    "tables/formats/file_sources.py": {"tempfile.NamedTemporaryFile", "os.fdopen"},  # gone when it was read
    "cli/demo.py": {"duckdb.connect"},  # in memory
    "files/csv_cells.py": {
        "csv.CSVWriter",
        "writer.write_table",
        "self._writer.write_table",
    },  # to a file that is given
    # to the file that atomic_write gives; standard output is pointed at the null device if nobody reads it
    "cli/synth_command.py": {"ParquetWriter", "writer.write_table", "gzip.GzipFile", "os.open"},
    "testing/mechanism_contract.py": {"paths[-1].write_text"},  # a table in a temporary folder
    "cli/studio_command.py": {"webbrowser.open"},  # opens a page
    "studio/explore.py": {"write_table"},  # to memory
    "studio/layout.py": {"link"},  # a link of a page
    "studio/owner_app.py": {"os.open", "os.fdopen"},  # a new file that only the owner's browser reads, with no data
}


def mode_of(call: ast.Call) -> object:
    """The mode that a call of a kind of `open` states, "r" if it states none; an unknown one is no text."""
    stated = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    positions = call.args[:1] if isinstance(call.func, ast.Attribute) and not _of_module(call) else call.args[1:2]
    for node in stated or positions:
        return node.value if isinstance(node, ast.Constant) else None
    return "r"


def _of_module(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in (
        "io",
        "gzip",
        "zipfile",
        "builtins",
    )


def writes(text: str) -> Iterator[str]:
    """The calls in a source text that write a file, or may."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = node.value.split()
            if words[:1] in (["COPY"], ["EXPORT"], ["ATTACH"]) and len(words) > 1:
                yield words[0]
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        *owner, last = name.split(".")
        mode = mode_of(node)
        if (
            last in WRITING
            or (owner == ["os"] and last in OF_OS)
            or (last == "connect" and owner[-1:] and owner[-1] in CONNECTING)
            or (
                last in OPENING
                and owner != ["os"]
                and name not in NO_MODE
                and (not isinstance(mode, str) or bool(set(mode) & set("wax+")))
            )
            or (last == "save" and owner[-1:] in (["np"], ["numpy"]))
        ):
            yield name


def test_no_other_module_writes_files() -> None:
    found = {
        str(path.relative_to(SOURCE)): calls
        for path in SOURCE.rglob("*.py")
        if (calls := set(writes(path.read_text())))
    }
    assert found == ALLOWED


@pytest.mark.parametrize(
    "text",
    [
        'open("x", "w")',
        'open("x", mode="ab")',
        "open(path, mode)",
        'io.open(path, "r+b")',
        'path.open("wb")',
        'path.open(mode="x")',
        'gzip.open(path, "wt")',
        'zipfile.ZipFile(path, "w")',
        'path.write_text("x")',
        "output.write_bytes(content)",
        "os.replace(a, b)",
        "os.open(path, flags)",
        "path.rename(other)",
        "shutil.move(a, b)",
        "shutil.copy2(a, b)",
        "np.save(path, array)",
        "numpy.savez(path, a=array)",
        "array.tofile(path)",
        "frame.to_csv(path)",
        "pyarrow.csv.write_csv(table, path)",
        "pq.write_table(table, path)",
        "pa.OSFile(path, 'wb')",
        "tempfile.NamedTemporaryFile()",
        "connection.execute(\"COPY t TO 'x.csv'\")",
        "sqlite3.connect(path)",
    ],
)
def test_the_check_sees_a_write(text: str) -> None:
    assert len(list(writes(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        'open("x")',
        'open("x", "rb")',
        'path.open("rb")',
        "path.open()",
        'text.replace("a", "b")',
        "replace(entry, hash=text)",
        "zipfile.ZipFile(path)",
        "Ledger.open(path, dataset=name)",
        "model.save(path)",
        "os.stat(path)",
    ],
)
def test_the_check_lets_reading_pass(text: str) -> None:
    assert list(writes(text)) == []
