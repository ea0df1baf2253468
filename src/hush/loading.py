"""`hush.load`: a release, a plan or a model from its file; each kind imports only what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hush.core.domain import Domain
from hush.core.errors import ArchiveError, HushError, SchemaError, SizeError, WorkloadError, shown
from hush.files.archive import VERSIONS, ArchiveReader
from hush.files.codec import unpack
from hush.release.release import Release
from hush.schema import Schema
from hush.schema.schema_toml import read_toml

if TYPE_CHECKING:
    from hush.mechanisms.plan import Plan
    from hush.release.model import Model

# TOML is slow to parse, so a schema of more characters than this is accepted only up to a multiple of the file's size.
_LARGE_SCHEMA, _SCHEMA_TO_FILE_RATIO = 2**18, 20


def load(path: str | Path) -> Release | Plan | Model:
    """The release, plan or model that `save` wrote; reads no private data and runs no code from the file.

    >>> import hush, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "plan.hush")
    >>> hush.plan(hush.Workload.kway(hush.Domain({"age": 85, "sex": 2}), 1), hush.Budget(rho=0.5)).save(path)
    >>> load(path)
    Plan(residual, 2 tables, rho=0.5)
    """
    with _opened(path, *VERSIONS) as archive:
        return _MAKERS[archive.kind](path, archive)


def load_release(path: str | Path) -> Release:
    """The release in a file; a plan is refused."""
    with _opened(path, "release") as archive:
        return _release(path, archive)


def load_release_or_model(path: str | Path) -> Release | Model:
    """The release or model in a file; a plan is refused."""
    with _opened(path, "release", "model") as archive:
        return _release(path, archive) if archive.kind == "release" else _model(path, archive)


@contextmanager
def _opened(path: str | Path, *kinds: str) -> Iterator[ArchiveReader]:
    """The open file; any error that its contents cause becomes an ArchiveError, since a file may hold anything.

    Checks refuse numbers beyond the range of floats, so numpy's warnings about them are silenced.
    """
    with ArchiveReader(path, versions={kind: VERSIONS[kind] for kind in kinds}) as archive, np.errstate(all="ignore"):
        try:
            yield archive
        except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError):
            raise ArchiveError(f"{path} is damaged: its parts do not fit together; copy it again") from None
        except (ArchiveError, SizeError):
            raise
        except HushError as error:
            raise ArchiveError(f"{path} is damaged: {error}") from None


def _release(path: str | Path, archive: ArchiveReader) -> Release:
    release = Release.unpack(archive, _schema(path, archive))
    problem = release.inconsistency()
    if problem is not None:
        raise ArchiveError(f"{path} is damaged: {problem}; get the release again")
    return release


def _plan(path: str | Path, archive: ArchiveReader) -> Plan:
    from hush.mechanisms.plan import Plan
    from hush.mechanisms.registry import mechanism_class

    name = archive.text("mechanism")
    try:
        mechanism = mechanism_class(name)
    except WorkloadError as error:
        raise ArchiveError(
            f"{path} is a plan of the mechanism {shown(name)}, which cannot be used here; install the package that "
            f"it comes from, or upgrade hush ({error})"
        ) from None
    plan = Plan.unpack(archive, mechanism)
    problem = plan.inconsistency()
    if problem is None and not plan.affordable:
        problem = "the plan costs more than its budget"
    if problem is not None:
        raise ArchiveError(f"{path} is damaged: {problem}; make the plan anew")
    return plan


def _model(path: str | Path, archive: ArchiveReader) -> Model:
    from hush.release.model import Model

    return Model.unpack(archive, schema=_schema(path, archive))


def _schema(path: str | Path, archive: ArchiveReader) -> Schema:
    """The schema, checked against the domain that the file states."""
    domain: Domain = unpack(Domain, archive.manifest.get("domain"), None, "domain")
    text = archive.text("schema")
    if len(text) > max(_LARGE_SCHEMA, _SCHEMA_TO_FILE_RATIO * archive.size):
        raise ArchiveError(
            f"{path} is damaged: its schema has {len(text):,} characters, more than a file of {archive.size:,} bytes "
            f"can hold; get the {archive.kind} again"
        )
    try:
        schema = read_toml(text)
    except SchemaError:
        raise ArchiveError(f"{path} is damaged: its schema cannot be read; get the {archive.kind} again") from None
    if schema.domain != domain:
        raise ArchiveError(f"{path} is damaged: its schema and its domain differ; get the {archive.kind} again")
    return schema


_MAKERS: dict[str, Callable[[str | Path, ArchiveReader], Release | Plan | Model]] = {
    "release": _release,
    "plan": _plan,
    "model": _model,
}
