"""The move's row at a side: the fence of everything that is done there for a move.

    lockgate.moves    one row per move and birth: whose word counts, and what this side is to it
    lockgate.guard…   what the guards call (`triggers.py`)

Every verb is a transaction that first locks the row, refuses if a later keeper was there, and else
writes its own number. So a keeper that was paused and wakes up changes nothing, and a successor
that has been told something by a side may rely on it: what the one before still had on its way was
over by then, or will be refused.

        NEW ──► GUARDED ──► OPEN ◄──► BLOCKED ──► SEALED ──► OPEN …
                  (the taking side of a flip)      (the giving side)

A row that is not needed any more is deleted together with the table, if nothing else of Lockgate's
is in the schema. Else it stays as OVER, a few bytes: a guard that is put up late, by somebody who
slept through the end of the move, would close a table that is in use.
"""

import enum
from typing import Any, Final

import msgspec
import psycopg

from lockgate.endpoints.postgres.cutover.triggers import FUNCTIONS
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.endpoints.postgres.sink.session import Limits, Sessions
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import MissingPrivilege, StaleOwner
from lockgate.model.moves import MoveId
from lockgate.model.positions import Position
from lockgate.model.secret import Secret
from lockgate.model.value import Value

__all__ = [
    "LIMITS",
    "SCHEMA_LOCK",
    "MoveMark",
    "MoveRow",
    "SideState",
    "look",
    "make",
    "may_be_made",
    "prepare",
    "read",
    "taken",
    "write",
]

LIMITS: Final = Limits(grace_s=2.0, patience_s=8.0, idle_s=5.0)
"""A keeper that is paused with locks in its hands loses them after `idle_s`, or when another one
has waited for `grace_s`."""

SCHEMA_LOCK: Final = 0x10C6_6A7E
"""Of everybody who makes the schema: sinks and metastores take the same."""

_TABLE: Final = """
CREATE TABLE lockgate.moves (
    move text COLLATE "C",
    birth bigint,
    keeper bigint NOT NULL,
    state text NOT NULL,
    block bigint NOT NULL DEFAULT 0,
    moved_to text NOT NULL DEFAULT '',
    until_us bigint,
    blocked_at bigint,
    picture text,
    ddl_seen bigint,
    disposed jsonb NOT NULL DEFAULT '{}',
    changed timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (move, birth)
)
"""


class MoveMark(Value, frozen=True):
    """Who asks: a keeper of a move."""

    move: MoveId
    birth: int
    """Tells two moves of one name apart."""
    keeper: int

    def __str__(self) -> str:
        return f"move {self.move}"


class SideState(enum.Enum):
    """What a side is to a move."""

    NEW = "new"
    """Nothing was done here yet. It may have the traffic, as a source has."""
    GUARDED = "guarded"
    """It has never had the traffic, and nobody but Lockgate writes here."""
    BLOCKED = "blocked"
    """Nobody writes here until the deadline."""
    SEALED = "sealed"
    """It has given the traffic away."""
    OPEN = "open"
    """It has the traffic."""
    OVER = "over"
    """The move is over."""

    @property
    def is_closed(self) -> bool:
        """Nobody but Lockgate writes here, for as long as the move does not open it."""
        return self in (SideState.GUARDED, SideState.SEALED)


class MoveRow(Value, frozen=True):
    """What a side knows of a move."""

    move: MoveId
    birth: int
    keeper: int
    state: SideState = SideState.NEW
    block: int = 0
    """Blocks are numbered."""
    moved_to: str = ""
    until_us: int | None = None
    """The deadline of the block, by this server's clock, in microseconds since 1970."""
    blocked_at: Position | None = None
    """Of the block; None while it is not known, and when the block can never be sealed any more."""
    picture: str | None = None
    """What the tables looked like when they were blocked."""
    ddl_seen: int | None = None
    """How far the log of schema changes was then; None where there is none."""
    disposed: dict[str, str] = msgspec.field(default_factory=dict)
    """Tables that were renamed or dropped, by name, and what they became."""


_COLUMNS: Final = ", ".join(MoveRow.__struct_fields__)
_SELECT: Final = f"SELECT {_COLUMNS} FROM lockgate.moves WHERE move = %s AND birth = %s"


def prepare(url: PostgresUrl | str | Secret) -> None:
    """Have the schema, the table and the guards' function at a side. Any number may, at once."""
    sessions = Sessions(url, LIMITS)
    with sessions.open("move prepare") as connection, connection.cursor() as cursor:
        with faults(object_=sessions.label, operation="prepare a side"):
            make(cursor, sessions.label)
        with faults(object_=sessions.label, operation="prepare a side", committing=True):
            connection.commit()


def make(cursor: Cursor, label: str) -> None:
    """The same, in the caller's transaction."""
    if _made(cursor):
        return
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))
    lacking = [
        statement
        for query, statement in (
            ("SELECT FROM pg_namespace WHERE nspname = 'lockgate'", "CREATE SCHEMA lockgate"),
            (_OURS.format(catalog="pg_class", prefix="rel", name="moves"), _TABLE),
            *(
                (_OURS.format(catalog="pg_proc", prefix="pro", name=name), statement)
                for name, statement in FUNCTIONS.items()
            ),
        )
        if cursor.execute(query).fetchone() is None
    ]
    try:
        for statement in lacking:
            cursor.execute(statement)
    except psycopg.errors.InsufficientPrivilege as error:
        raise MissingPrivilege(
            "the role may not keep the record of a move here",
            object_=label,
            hint="as an owner of the database: GRANT CREATE ON DATABASE (or USAGE, CREATE ON "
            "SCHEMA lockgate) TO the role that the URL names",
            operation="prepare a side",
            cause=error,
        ) from error


_OURS: Final = (
    "SELECT FROM {catalog} c JOIN pg_namespace n ON n.oid = c.{prefix}namespace "
    "WHERE n.nspname = 'lockgate' AND c.{prefix}name = '{name}'"
)
"""Asked of the catalog's tables: `to_regclass` may not have heard yet of what others made."""


def _made(cursor: Cursor) -> bool:
    found = cursor.execute(
        f"SELECT EXISTS ({_OURS.format(catalog='pg_class', prefix='rel', name='moves')}) "
        "AND %s <= (SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace "
        "WHERE n.nspname = 'lockgate' AND p.proname = ANY (%s))",
        (len(FUNCTIONS), list(FUNCTIONS)),
    ).fetchone()
    return found == (True,)


def look(url: PostgresUrl | str | Secret, move: MoveId, birth: int) -> MoveRow | None:
    """What the side knows of a move, whoever asks; None when that is nothing, or it is over."""
    sessions = Sessions(url, LIMITS)
    with (
        sessions.open("move look", autocommit=True) as connection,
        faults(object_=f"move {move}, {sessions.label}", operation="look at a side"),
    ):
        row = read(connection.cursor(), move, birth)
    return None if row is None or row.state is SideState.OVER else row


def read(cursor: Cursor, move: MoveId, birth: int) -> MoveRow | None:
    """The row, without a lock; None when there is none, or not even the table."""
    there = cursor.execute(_OURS.format(catalog="pg_class", prefix="rel", name="moves")).fetchone()
    if there is None:
        return None
    found = cursor.execute(_SELECT, (move, birth)).fetchone()
    return None if found is None else _decoded(found)


def may_be_made(cursor: Cursor) -> bool:
    """Somebody with this role could come to have a row here. False also where there is no schema:
    nothing was ever done here."""
    if _made(cursor):
        return True
    found = cursor.execute(
        "SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = 'lockgate'"
    ).fetchone()
    return found == (True,)


def taken(cursor: Cursor, mark: MoveMark, label: str, *, over: bool = False) -> MoveRow:
    """The row, locked, with this keeper's number in it. StaleOwner if a later one was there, or
    the move is over here; with `over` that is answered, and nothing is written."""
    make(cursor, label)
    cursor.execute(
        "INSERT INTO lockgate.moves (move, birth, keeper, state) VALUES (%s, %s, %s, %s) "
        "ON CONFLICT DO NOTHING",
        (mark.move, mark.birth, mark.keeper, SideState.NEW.value),
    )
    found = cursor.execute(f"{_SELECT} FOR UPDATE", (mark.move, mark.birth)).fetchone()
    assert found is not None, "a row that was just made can only be deleted by its move's end"
    row = _decoded(found)
    if over and row.state is SideState.OVER:
        return row
    if row.keeper > mark.keeper or row.state is SideState.OVER:
        raise StaleOwner(
            "the move is over here"
            if row.state is SideState.OVER
            else f"keeper {row.keeper} of the move was here, and this is {mark.keeper}",
            object_=f"{mark}, {label}",
            hint="nothing was changed; whoever keeps the move now goes on",
            operation="work for a move",
        )
    if row.keeper < mark.keeper:
        return write(cursor, row, keeper=mark.keeper)
    return row


def write(cursor: Cursor, row: MoveRow, **changes: Any) -> MoveRow:
    """The row with these changes, written."""
    new = msgspec.structs.replace(row, **changes)
    values = msgspec.to_builtins(new)
    values["disposed"] = msgspec.json.encode(new.disposed).decode()
    names = [name for name in MoveRow.__struct_fields__ if name not in ("move", "birth")]
    cursor.execute(
        f"UPDATE lockgate.moves SET {', '.join(f'{name} = %({name})s' for name in names)}, "
        "changed = clock_timestamp() WHERE move = %(move)s AND birth = %(birth)s",
        values,
    )
    return new


def _decoded(found: tuple[Any, ...]) -> MoveRow:
    return msgspec.convert(dict(zip(MoveRow.__struct_fields__, found, strict=True)), MoveRow)
