"""A Delta table that only its newest owner commits to, and nobody once it is dead.

Delta's own numbers of applications do not fence: whoever opens the table anew may commit a lower
one. What holds: look, compare, and commit *from the handle that was looked at*. Every commit
carries the same numbers, so two from the same state clash, and Delta lets one of them through. The
other looks and compares again.

    claim   a newer token is written before its owner does anything: whoever had the table before
            finds it with the next commit, however long it slept
    commit  files come and go, the position moves, all in one
    kill    the last commit there is
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Self

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from lockgate.endpoints.delta.faults import faults
from lockgate.endpoints.delta.marks import Marks, marks_of, transactions
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import EndpointBusy, NotFound, StaleOwner
from lockgate.model.ids import Token
from lockgate.model.positions import Position

__all__ = ["Action", "FencedTable", "TableDead"]

Action = AddAction | RemoveAction

_ATTEMPTS: Final = 50
"""Commits that clash in a row before it is said that somebody is in the way."""


class TableDead(StaleOwner):
    """The table was dropped. What is still under way for it ends here."""

    code = "table-dead"


class FencedTable:
    """One table, through one handle; for one thread at a time."""

    def __init__(self, place: Place, handle: DeltaTable) -> None:
        self._place = place
        self._handle = handle

    @classmethod
    def create(
        cls,
        place: Place,
        schema: pa.Schema,
        token: Token,
        position: Position = 0,
        notes: Mapping[str, str] | None = None,
    ) -> Self:
        """Make it, owned by the token from its first commit; or open it when it is there.

        `notes` are kept with it for ever.
        """
        with faults("create", place):
            try:
                handle = DeltaTable.create(
                    place.url,
                    schema,
                    storage_options=place.options,
                    commit_properties=_properties(token, position),
                    configuration={"delta.checkpointInterval": "50", **(notes or {})},
                    raise_if_key_not_exists=False,
                )
            except DeltaError:
                # Somebody else made it meanwhile, or nothing can be made here.
                if not DeltaTable.is_deltatable(place.url, place.options):
                    raise
                return cls.open(place)
        return cls(place, handle)

    @classmethod
    def open(cls, place: Place) -> Self:
        with faults("open", place):
            try:
                return cls(place, DeltaTable(place.url, storage_options=place.options))
            except TableNotFoundError as error:
                raise NotFound(
                    "there is no such table",
                    object_=place.label,
                    hint="`lockgate lake list` shows the tables that there are",
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

    def look(self) -> Marks:
        """The newest state."""
        with faults("read", self._place):
            self._handle.update_incremental()
            return marks_of(self._handle)

    def claim(self, token: Token) -> Marks:
        """Make the token the table's own. StaleOwner when a newer one has it."""
        marks = self.look()
        if marks.token == token and not marks.dead:
            return marks
        return self.commit(token, lambda _: (), claiming=True)

    def commit(
        self,
        token: Token,
        actions: Callable[[Marks], Sequence[Action]],
        *,
        position: Position | None = None,
        schema: pa.Schema | None = None,
        claiming: bool = False,
    ) -> Marks:
        """Land what `actions` answers for the state it is asked about, with the position.

        It is asked again after a clash, for another state; what it raises ends the commit.
        """
        return self._land(token, actions, position, schema, claiming=claiming, dead=False)

    def kill(self, token: Token) -> Marks:
        """Let nobody commit any more. A table that is dead already stays so."""
        try:
            return self._land(token, lambda _: (), None, None, claiming=True, dead=True)
        except TableDead:
            return self.look()

    def _land(
        self,
        token: Token,
        actions: Callable[[Marks], Sequence[Action]],
        position: Position | None,
        schema: pa.Schema | None,
        *,
        claiming: bool,
        dead: bool,
    ) -> Marks:
        for _ in range(_ATTEMPTS):
            marks = self.look()
            self._admit(token, marks, claiming=claiming)
            to = max(marks.position, position or 0)  # what has landed stays landed
            wanted = list(actions(marks))
            with faults("commit", self._place):
                try:
                    self._handle.create_write_transaction(
                        wanted,
                        "append",
                        schema or self.schema,
                        commit_properties=_properties(token, to, dead=dead),
                    )
                except CommitFailedError:
                    continue
            return self.look()
        raise EndpointBusy(
            f"{_ATTEMPTS} commits in a row met one of somebody else",
            object_=self._place.label,
            hint="see that no other program writes to this table",
            operation="commit",
        )

    def _admit(self, token: Token, marks: Marks, *, claiming: bool) -> None:
        if marks.dead:
            raise TableDead(
                "the table was dropped",
                object_=self._place.label,
                hint="nothing: what was under way for it ends",
                operation="commit",
            )
        mine = token >= marks.token if claiming else token == marks.token
        if not mine:
            raise StaleOwner(
                f"{marks.token} owns the table now, not {token}",
                object_=self._place.label,
                hint="nothing: the newer owner goes on",
                operation="commit",
            )


def _properties(token: Token, position: Position, *, dead: bool = False) -> CommitProperties:
    # No retries of Delta's own: between two of them it would not compare the tokens.
    return CommitProperties(
        app_transactions=transactions(token, position, dead=dead), max_commit_retries=0
    )
