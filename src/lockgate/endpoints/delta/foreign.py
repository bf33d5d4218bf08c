"""Commits of somebody else in a table of ours: told from our own, and judged.

Every commit of ours carries its own number. Where the table's version is another, programs that we
do not know have written since. Most of that is harmless: a property was set, files were put
together (`OPTIMIZE`), or what was done has been undone (`RESTORE`). What has brought or taken rows
is not: the table would say something else than its source, and the next drain would build on it.
Such a table takes no more commits, and is read as it was before, until somebody has decided.

A commit with nothing in it is nobody's. A disk that lost power, or a hand, has left its name: Delta
takes it for one that did nothing, and what it said is gone, position and all. What others have done
since because it said so, nobody knows: rows may be drained that are pruned already. Such a table
takes no owner either, so that the file can be put back, and is not read.
"""

from typing import Any, Final

import msgspec
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from lockgate.endpoints.delta.commit_files import commit_name
from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.files import live_files
from lockgate.endpoints.delta.marks import VERSION
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import Conflict

__all__ = [
    "CommitLost",
    "ForeignCommit",
    "commit_lost",
    "first_foreign",
    "first_lost",
    "foreign_commit",
]

_QUIET: Final = {"commitInfo", "txn", "domainMetadata"}
"""What a commit may hold that says nothing of rows."""


class ForeignCommit(Conflict):
    """Another program has changed rows of the table."""

    code = "foreign-commit"


class CommitLost(FileCorrupt):
    """A commit of the table is there by its name only."""


def commit_lost(place: Place, version: int) -> CommitLost:
    return CommitLost(
        "a commit of the table is empty: what it said is lost",
        object_=f"{place.label}/{commit_name(version)}",
        hint="put the file back from a copy of the storage, or copy the table anew: "
        "`lockgate feed resync FEED TABLE`. Until then it takes nothing, and is not read",
        operation="read",
    )


def foreign_commit(place: Place, version: int) -> ForeignCommit:
    return ForeignCommit(
        f"another program has changed rows of the table, first in version {version}",
        object_=place.label,
        hint=f"restore it to version {version - 1} with a Delta tool and it goes on, or copy the "
        "table anew: `lockgate feed resync FEED TABLE`. Until then it is read as it was before",
        operation="commit",
    )


def first_foreign(place: Place, handle: DeltaTable, sound: int) -> int:
    """The first version after `sound` from which on rows are not ours any more; 0 for none."""
    schema = _schema(handle)
    for version in range(sound + 1, handle.version() + 1):
        if not _harmless(place, version, schema):
            return 0 if _undone(place, handle, sound) else version
    return 0


def first_lost(place: Place, sound: int, newest: int) -> int:
    """The first version after `sound` whose commit is empty; 0 for none. No program writes such."""
    versions = range(sound + 1, newest + 1)
    return next((version for version in versions if _actions(place, version) == []), 0)


def _harmless(place: Place, version: int, schema: str) -> bool:
    actions = _actions(place, version)
    if not actions:
        return False
    if any(one.get("txn", {}).get("appId") == VERSION for one in actions):
        return True
    return all(_quiet(kind, said, schema) for one in actions for kind, said in one.items())


def _actions(place: Place, version: int) -> list[dict[str, Any]] | None:
    """What a commit says; None when it cannot be read."""
    files, base = place.filesystem()
    try:
        with files.open_input_file(f"{base}/{commit_name(version)}") as source:
            lines = source.read().splitlines()
        return [msgspec.json.decode(line, type=dict[str, Any]) for line in lines if line]
    except (OSError, msgspec.DecodeError):
        return None


def _quiet(kind: str, said: Any, schema: str) -> bool:
    if kind in _QUIET:
        return True
    if kind in ("add", "remove"):
        return not said.get("dataChange", True) and not said.get("deletionVector")
    if kind == "metaData":
        return bool(said.get("schemaString") == schema and not said.get("partitionColumns"))
    return False


def _undone(place: Place, handle: DeltaTable, sound: int) -> bool:
    """Whether the table has again exactly the files of that version."""
    try:
        then = DeltaTable(place.url, version=sound, storage_options=place.options)
    except DeltaError:
        return False
    return _schema(then) == _schema(handle) and _paths(then) == _paths(handle)


def _schema(handle: DeltaTable) -> str:
    return str(handle.schema().to_json())


def _paths(handle: DeltaTable) -> set[str]:
    return {file.path for file in live_files(handle)}
