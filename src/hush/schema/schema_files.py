"""Schema files: which format a file is in, and reading and writing it with one clear line when that fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hush.errors import SchemaError
from hush.schema.foreign_formats import read_dpsynth, read_mbi
from hush.schema.schema import Schema
from hush.schema.schema_toml import read_toml, write_toml

LARGEST_FILE = 16 * 2**20
READERS: dict[str, Callable[[str], Schema]] = {
    ".toml": read_toml,
    ".json": read_mbi,
    ".yaml": read_dpsynth,
    ".yml": read_dpsynth,
}


def read_schema(path: Path) -> Schema:
    """The schema in a file: hush's .toml, mbi's domain.json or dpsynth's domain.yaml."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise SchemaError(
            f"{path}: cannot tell the format of a schema from {path.suffix or 'a name without ending'!r}; "
            "expected .toml (hush), .json (mbi) or .yaml (dpsynth)"
        )
    text = _read_text(path)
    if not text.strip():
        raise SchemaError(f"{path}: the file is empty; `hush schema draft DATA` writes a schema to start from")
    try:
        return reader(text)
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None


def save_schema(schema: Schema, path: Path) -> None:
    """Write the schema as TOML."""
    if path.suffix.lower() != ".toml":
        raise SchemaError(f"{path}: a schema is written as TOML; give a name that ends in .toml")
    try:
        path.write_bytes(write_toml(schema).encode())
    except OSError as error:
        raise SchemaError(f"{path}: cannot be written: {error.strerror}") from None


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise SchemaError(f"{path}: there is no such file; check the path of the schema") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        raise SchemaError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > LARGEST_FILE:
        raise SchemaError(f"{path}: larger than {LARGEST_FILE >> 20} MB; is this a schema, or the table itself?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SchemaError(f"{path}: not UTF-8 text; save the file as UTF-8") from None
