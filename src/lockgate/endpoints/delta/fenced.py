"""A Delta table that only its newest owner commits to, and nobody once it is dead.

Delta's own numbers of applications do not fence: whoever opens the table anew may commit a lower
one. What holds: look, compare, and commit *from the handle that was looked at*. Every commit
carries the same numbers, so two from the same state clash, and Delta lets one of them through. The
other looks and compares again.

    claim   a newer token is written before its owner does anything: whoever had the table before
            finds it with the next commit, however long it slept
    commit  files come and go, the position moves, all in one
    evolve  columns are added
    kill    the last commit there is

Where another program has changed rows (`foreign`), only a claim and a kill still land, so that the
table has an owner and can be got rid of; they keep in mind what was found. Where a commit is lost,
only a kill.

**What a look tells is on the disk.** Others go by it: a batch that has landed is told to its feed,
which the change log is shortened after; what is drained is pruned. So whoever commits flushes his
commit before he answers, and whoever looks flushes the newest, which may be that of somebody who
has not come to it: a power failure takes no commit that another one, anywhere, was made after.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Self

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from msgspec.structs import replace
from pyarrow import fs

from lockgate.endpoints.delta.commit_files import (
    COMMITTING,
    commit_name,
    flush_commit,
    flush_own,
    holds,
    landed,
)
from lockgate.endpoints.delta.death import TableDead, layer_faults, table_dead
from lockgate.endpoints.delta.faults import faults
from lockgate.endpoints.delta.foreign import (
    commit_lost,
    first_foreign,
    first_lost,
    foreign_commit,
)
from lockgate.endpoints.delta.marks import (
    Marks,
    marks_in,
    marks_of,
    transactions,
    written_at,
)
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.schemas import new_fields
from lockgate.model.errors import EndpointBusy, NotFound, ObjectMissing, StaleOwner
from lockgate.model.ids import Token
from lockgate.model.positions import Position

__all__ = ["Action", "FencedTable", "TableDead"]

Action = AddAction | RemoveAction
Write = Callable[[CommitProperties], None]
"""Commits from the handle that was looked at."""

_ATTEMPTS: Final = 50
"""Commits that clash in a row before it is said that somebody is in the way."""
_COMMIT: Final = "lockgate.commit"
"""What a commit is known by to who made it."""
_BY_HAND: Final = "deleted by hand? Copy the table anew: `lockgate feed resync FEED TABLE`"


class FencedTable:
    """One table, through one handle; for one thread at a time."""

    def __init__(self, place: Place, handle: DeltaTable) -> None:
        self._place = place
        self._handle = handle
        self._marks: Marks | None = None
        """As of the last look."""
        self.sound_at: int | None = None
        """The version by which what others have done since is judged, as of the last look; the
        newest, mostly. None: it has never been ours."""
        self._flushed = -1
        """The version that is known to be on the disk, and all before it."""

    @classmethod
    def create(
        cls,
        place: Place,
        schema: pa.Schema,
        token: Token,
        position: Position = 0,
        notes: Mapping[str, str] | None = None,
        settled: Position = 0,
    ) -> Self:
        """Make it, owned by the token from its first commit; or open it when it is there.

        `notes` are kept with it.
        """
        with layer_faults("create", place):
            try:
                handle = DeltaTable.create(
                    place.url,
                    schema,
                    storage_options=place.options,
                    commit_properties=_properties(Marks(0, token, position, settled=settled)),
                    configuration={"delta.checkpointInterval": "50", **(notes or {})},
                    raise_if_key_not_exists=False,
                )
            except DeltaError:
                # Somebody else made it meanwhile, or nothing can be made here.
                if not DeltaTable.is_deltatable(place.url, place.options):
                    raise
                there = cls.open(place)
                there.look()
                return there
            flush_commit(place, 0)
        return cls(place, handle)

    @classmethod
    def open(cls, place: Place) -> Self:
        """NotFound when there is none; TableDead when there was one, and its files are going."""
        with layer_faults("open", place):
            try:
                return cls(place, DeltaTable(place.url, storage_options=place.options))
            except TableNotFoundError as error:
                raise NotFound(
                    "there is no such table",
                    object_=place.label,
                    hint=_BY_HAND,
                    operation="open",
                    cause=error,
                ) from error

    @property
    def handle(self) -> DeltaTable:
        """As of the last look."""
        return self._handle

    @property
    def notes(self) -> Mapping[str, str | None]:
        return self._handle.metadata().configuration

    @property
    def schema(self) -> pa.Schema:
        """As of the last look."""
        return pa.schema(self._handle.schema())

    @property
    def place(self) -> Place:
        return self._place

    def look(self) -> Marks:
        """The newest state."""
        before = self._handle.version()
        with layer_faults("read", self._place):
            self._handle.update_incremental()
            version = self._handle.version()
            if version == before:
                self._still_there(before)
            if version != self._flushed:
                flush_commit(self._place, version)
                self._flushed = version
            if self._marks is None or self._marks.version != version:
                self._marks = self._marks_at(version)
            return self._marks

    def sound(self, marks: Marks) -> DeltaTable:
        """The state that was looked at; that before somebody else's rows when there are any.
        CommitLost when nobody can tell what the state is."""
        self.refuse_lost(marks)
        if not marks.foreign:
            return self._handle
        with faults("read", self._place):
            return DeltaTable(
                self._place.url, version=marks.foreign - 1, storage_options=self._place.options
            )

    def claim(self, token: Token) -> Marks:
        """Make the token the table's own. StaleOwner when a newer one has it; CommitLost. That it
        is dead comes before what else is wrong with it: a kill lands on a lost commit."""
        marks = self.look()
        if marks.dead:
            raise table_dead(self._place, "claim")
        self.refuse_lost(marks)
        if marks.token == token:
            return marks
        return self._land(token, self._exchange(lambda _: ()), claiming=True)

    def commit(
        self,
        token: Token | None,
        actions: Callable[[Marks], Sequence[Action] | None],
        *,
        position: Position | None = None,
        settled: Position = 0,
        pruned: Position = 0,
    ) -> Marks:
        """Land what `actions` answers for the state it is asked about, with the position.

        It is asked again after a clash, for another state; what it raises ends the commit. When it
        answers None there is nothing to do, the position included. Without a token it is done in
        the owner's name, whoever that is: for what is right whoever owns the table.
        """
        return self._land(
            token, self._exchange(actions), position=position, settled=settled, pruned=pruned
        )

    def evolve(
        self, token: Token | None, schema: pa.Schema, position: Position | None = None
    ) -> Marks:
        """Give it the columns that it lacks, with the position. There before: nothing.

        NeedsNewIncarnation when columns were to go, or to become others. Without a token it is done
        in the owner's name, whoever that is: for who has stopped the owner at this position.
        """

        def write(marks: Marks) -> Write | None:
            if position is not None and marks.position >= position:
                return None  # told again: it may have got more columns since
            fields = new_fields(self.schema, schema, self._place.label)
            if fields:
                return lambda properties: self._handle.alter.add_columns(
                    fields, commit_properties=properties
                )
            return None if position is None else self._exchange(lambda _: ())(marks)

        return self._land(token, write, position=position)

    def note(self, token: Token | None, notes: Mapping[str, str]) -> None:
        """Keep these notes with it from now on. Without a token: see `evolve`."""

        def write(_: Marks) -> Write | None:
            if self._has(notes):
                return None
            return lambda properties: self._handle.alter.set_table_properties(
                dict(notes), raise_if_not_exists=False, commit_properties=properties
            )

        if not self._has(notes):
            self._land(token, write)

    def _has(self, notes: Mapping[str, str]) -> bool:
        return notes.items() <= self.notes.items()

    def kill(self, token: Token, *, dropped: bool = False) -> Marks:
        """Let nobody commit any more. A table that is dead already stays so, as it died."""
        nothing = self._exchange(lambda _: ())
        try:
            return self._land(token, nothing, claiming=True, dead=True, dropped=dropped)
        except TableDead:
            return self.look()

    def kill_whoever(self) -> Marks:
        """The same, whoever owns it: for what goes down with a table that is dead itself."""
        while True:
            marks = self.look()
            if marks.dead:
                return marks
            try:
                return self.kill(marks.token)
            except StaleOwner:
                continue

    def _exchange(
        self, actions: Callable[[Marks], Sequence[Action] | None]
    ) -> Callable[[Marks], Write | None]:
        def write(marks: Marks) -> Write | None:
            wanted = actions(marks)
            if wanted is None:
                return None
            return lambda properties: self._handle.create_write_transaction(
                list(wanted), "append", self.schema, commit_properties=properties
            )

        return write

    def _land(
        self,
        token: Token | None,
        step: Callable[[Marks], Write | None],
        *,
        position: Position | None = None,
        settled: Position = 0,
        pruned: Position = 0,
        claiming: bool = False,
        dead: bool = False,
        dropped: bool = False,
    ) -> Marks:
        for _ in range(_ATTEMPTS):
            marks = self.look()
            self.admit(marks.token if token is None else token, marks, claiming=claiming)
            write = step(marks)
            if write is None:
                return marks
            wanted = replace(
                marks,
                version=marks.version + 1,
                token=marks.token if token is None else token,
                # What has landed stays landed.
                position=max(marks.position, position or 0),
                settled=max(marks.settled, settled),
                pruned=max(marks.pruned, pruned),
                dead=dead,
                dropped=dropped,
            )
            mine = secrets.token_hex(8)
            with layer_faults(COMMITTING, self._place):
                try:
                    write(_properties(wanted, mine))
                except (DeltaError, OSError) as error:
                    # A checkpoint comes after the commit, and may find the disk full. And a store
                    # that is asked twice for one commit says the second time that it clashes.
                    if not holds(self._place, wanted.version, mine):
                        if isinstance(error, CommitFailedError):
                            continue
                        raise
            with landed(self._place, wanted.version):
                with layer_faults(COMMITTING, self._place):
                    flush_own(self._place, wanted.version)
                self._flushed = wanted.version
                return self.look()
        raise EndpointBusy(
            f"{_ATTEMPTS} commits in a row met one of somebody else",
            object_=self._place.label,
            hint="see that no other program writes to this table",
            operation="commit",
        )

    def admit(self, token: Token, marks: Marks, *, claiming: bool = False) -> None:
        """Raise what a commit under the token would meet: TableDead, StaleOwner, ForeignCommit,
        CommitLost."""
        if marks.dead:
            raise table_dead(self._place, "commit")
        mine = token >= marks.token if claiming else token == marks.token
        if not mine:
            raise StaleOwner(
                f"{marks.token} owns the table now, not {token}",
                object_=self._place.label,
                hint="nothing: the newer owner goes on",
                operation="commit",
            )
        if not claiming:
            self.refuse_foreign(marks)

    def refuse_lost(self, marks: Marks) -> None:
        """CommitLost where one is."""
        if marks.lost:
            raise commit_lost(self._place, marks.lost)

    def refuse_foreign(self, marks: Marks) -> None:
        """ForeignCommit where another program has changed rows; and see `refuse_lost`."""
        self.refuse_lost(marks)
        if marks.foreign:
            raise foreign_commit(self._place, marks.foreign)

    def _marks_at(self, version: int) -> Marks:
        said = marks_in(self._place, version)
        if said is not None and not said.foreign:
            self.sound_at = version
            return said
        return self._judge(marks_of(self._handle))

    def _judge(self, marks: Marks) -> Marks:
        """With what somebody else has done to it."""
        sound = marks.foreign - 1 if marks.foreign else written_at(self._handle)
        self.sound_at = sound
        if sound is None or sound == marks.version:
            return marks
        foreign = first_foreign(self._place, self._handle, sound)
        lost = first_lost(self._place, sound, marks.version)
        return replace(marks, foreign=foreign or lost, lost=lost)

    def _still_there(self, version: int) -> None:
        """Delta says of a log that is gone that nothing has happened."""
        files, base = self._place.filesystem()
        info = files.get_file_info(f"{base}/{commit_name(version)}")
        if info.type is fs.FileType.NotFound:
            raise ObjectMissing(
                "the table's log is gone",
                object_=self._place.label,
                hint=_BY_HAND,
                operation="read",
            )


def _properties(marks: Marks, commit: str = "") -> CommitProperties:
    # No retries of Delta's own: between two of them it would not compare the tokens, and the commit
    # would not be the version that it says it is.
    return CommitProperties(
        custom_metadata={_COMMIT: commit},
        app_transactions=transactions(marks),
        max_commit_retries=0,
    )
