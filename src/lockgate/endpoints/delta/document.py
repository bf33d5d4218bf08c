"""A small document in the lake that many may change, one at a time: compare and set, for any store.

It is a Delta table of one row. Who changes it looks, works out the next state, and commits from
what he looked at: Delta lets one of two through, and the other looks again. So all rows that a feed
has at a lake change together or not at all, on a directory and in an object store alike.

A state that was replaced is deleted at once: nobody asks for it, except one who has just looked,
and he looks again. So is one whose commit has failed. What is left of those who were killed, or did
not hear of their commit, goes later (`_sweep`).

Only a document that nobody has written yet says nothing. Where one that was written cannot be read,
it is damaged, and says so: taken for a new one, it would forget owners and epochs.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

import msgspec
import pyarrow as pa

from lockgate.endpoints.delta.commit_files import taking_back
from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.files import (
    DataFile,
    added,
    delete_file,
    live_files,
    read_file,
    removed,
    write_file,
)
from lockgate.endpoints.delta.foreign import ForeignCommit
from lockgate.endpoints.delta.log_archive import flush_checkpoint
from lockgate.endpoints.delta.marks import Marks
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.store_time import delete_all, files_in
from lockgate.model.errors import LockgateError, NotFound, ObjectMissing
from lockgate.model.ids import NO_TOKEN

__all__ = ["Document"]

T = TypeVar("T")
R = TypeVar("R")

_SCHEMA: Final = pa.schema([pa.field("state", pa.binary(), nullable=False)])
_TIDY_EVERY: Final = 100
"""Changes after which the log of changes is shortened, and left over files are looked for; those
also with the first change of whoever makes one."""
_GRACE_S: Final = 86_400.0
"""How long one may lie about: by far longer than anybody takes from it to its commit."""
_DATA: Final = ".parquet"
_KEPT: Final = {"delta.logRetentionDuration": "interval 1 hours"}


class Document(Generic[T]):
    """One document, through one handle; for one thread at a time."""

    def __init__(
        self, place: Place, kind: type[T], empty: T, remedy: str = "nothing helps"
    ) -> None:
        """`empty` is what it says before anybody wrote it. `remedy` is what helps when it is
        damaged and there is no copy of it."""
        self._place = place
        self._remedy = remedy
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._empty = empty
        self._table: FencedTable | None = None
        self._read: tuple[str, T] | None = None
        """The file that was read last, and what it says."""
        self._swept = False

    def read(self) -> T:
        """What it says now. FileCorrupt when nobody can tell."""
        with self._damage():
            table = self._open()
            if table is None:
                return self._empty

            def read() -> T:
                table.refuse_foreign(table.look())
                return self._state(table)

            return self._again_if_replaced(table, read)

    def change(self, step: Callable[[T], T]) -> T:
        """Let it say what `step` makes of what it says; what `step` raises, leaves it as it is.

        `step` is asked again when somebody else was faster. What it answers is the new state; the
        same one again means that nothing is written.
        """
        try:
            with self._damage():
                return self._change(step)
        except _OfStep as raised:
            error = raised.error
        raise error

    def _change(self, step: Callable[[T], T]) -> T:
        table = self._open() or self._create()
        written: list[DataFile] = []
        replaced: list[DataFile] = []
        state = self._empty

        def actions(_: Marks) -> list[Any] | None:
            nonlocal state
            live = live_files(table.handle)
            there = {file.path for file in live}
            if any(file.path in there for file in written):
                return None  # it was our own commit that this one clashed with
            for file in written:  # for a state that was not to be
                delete_file(self._place, file.path)
            written.clear()
            replaced[:] = live
            before = self._state(table)
            try:
                state = step(before)
            except Exception as error:
                raise _OfStep(error) from error
            if state is before:
                raise _AsItWas
            rows = pa.table({"state": [msgspec.msgpack.encode(state)]}, schema=_SCHEMA)
            written.append(write_file(self._place, rows, []))
            return [*map(removed, replaced), *map(added, written)]

        try:
            with taking_back(self._place, written):
                marks = self._again_if_replaced(table, lambda: table.commit(NO_TOKEN, actions))
        except _AsItWas:
            return state
        self._read = (written[0].path, state)
        self._tidy(table, replaced, marks, written[0])
        return state

    def _again_if_replaced(self, table: FencedTable, work: Callable[[], R]) -> R:
        """Whoever replaces a state deletes it, and somebody may be about to read it."""
        while True:
            try:
                return work()
            except ObjectMissing:
                seen = _only(live_files(table.handle))
                table.look()
                if _only(live_files(table.handle)) == seen:
                    raise

    @contextlib.contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except (FileCorrupt, ForeignCommit, ObjectMissing) as error:
            self._table = None  # as it is put back, it is to be opened
            raise FileCorrupt(
                "a document of the lake is damaged",
                object_=error.object,
                hint=f"put {self._place.label} back from a copy of the storage, all of it as it "
                f"was last. Without one: {self._remedy}",
                operation=error.operation,
                cause=error.what,
            ) from error

    def _state(self, table: FencedTable) -> T:
        file = _only(live_files(table.handle))
        if file is None:
            if table.handle.version():
                raise FileCorrupt(
                    "it was written, and says nothing", object_=self._place.label, hint=""
                )
            return self._empty
        if self._read is None or self._read[0] != file.path:
            found = read_file(self._place, file.path)["state"][0].as_py()
            self._read = (file.path, self._decoder.decode(found))
        return self._read[1]

    def _open(self) -> FencedTable | None:
        if self._table is None:
            with contextlib.suppress(NotFound):
                self._table = FencedTable.open(self._place)
        return self._table

    def _create(self) -> FencedTable:
        self._table = FencedTable.create(self._place, _SCHEMA, NO_TOKEN, notes=_KEPT)
        return self._table

    def _tidy(
        self, table: FencedTable, replaced: list[DataFile], marks: Marks, written: DataFile
    ) -> None:
        """Nothing depends on it: what is left behind now goes the next time."""
        with contextlib.suppress(LockgateError, OSError):
            for file in replaced:
                delete_file(self._place, file.path)
        if marks.version % _TIDY_EVERY == 0:
            with contextlib.suppress(Exception):  # delta-rs raises what it likes here
                table.handle.create_checkpoint()
                flush_checkpoint(self._place, table.handle.version())
                table.handle.cleanup_metadata()
        # A document that is changed rarely would never come to it: so does each who changes it.
        if not self._swept or marks.version % _TIDY_EVERY == 0:
            self._swept = True
            with contextlib.suppress(LockgateError, OSError):
                self._sweep(table, written)

    def _sweep(self, table: FencedTable, written: DataFile) -> None:
        """Delete what was written long before this change, and is not what it says.

        Whoever may still commit such a file looked before this change, and will find that he has to
        look again. How old a file is tells the one just written, by the store's own clock.
        """
        lying = {one.name: one for one in files_in(self._place)}
        if written.path not in lying:
            return  # somebody has replaced it: he, or the next, comes to it
        now_s = min(lying[written.path].changed_s, time.time())
        old = [one.name for one in lying.values() if now_s - one.changed_s > _GRACE_S]
        table.look()
        live = {file.path for file in live_files(table.handle)}
        delete_all(self._place, [name for name in old if name.endswith(_DATA) and name not in live])


class _AsItWas(Exception):
    """The state is to stay what it is."""


class _OfStep(Exception):
    """What a step has raised. It may be about a table of the lake: that one is lost or damaged is
    neither damage of the document, nor does it say that somebody has replaced a state."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def _only(files: list[DataFile]) -> DataFile | None:
    return files[0] if files else None
