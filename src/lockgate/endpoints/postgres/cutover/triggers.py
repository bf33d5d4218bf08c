"""Guards as triggers: what is on a table, and how it is put there, disarmed and taken away.

A guard is a trigger `lockgate_guard` of the table and of each of its partitions, before every
statement that writes. What it says and until when it holds are *arguments of the trigger*: they are
in the catalog, which every statement reads as it is now, also one of a transaction whose snapshot
is older, and also one that was planned before.

    CREATE TRIGGER …   waits for who writes, and for nobody who reads (SHARE ROW EXCLUSIVE)
    DROP TRIGGER       waits for who reads, too, with everybody else behind it (ACCESS EXCLUSIVE)

So a table is opened by putting a guard in the place of the guard whose time is over, and the
trigger is dropped when nobody minds.

They fire for sessions that play a replica as well (ENABLE ALWAYS). Lockgate's own writers say so in
a setting, `lockgate.applies`, and pass: guards protect from accidents, not from malice.
"""

import enum
from collections.abc import Iterable, Sequence
from typing import Final

from psycopg import sql

from lockgate.endpoints.postgres.cutover.relations import Relation
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.model.tables import TableName
from lockgate.model.value import Value

__all__ = [
    "FUNCTIONS",
    "TRIGGER",
    "Guard",
    "GuardKind",
    "Standing",
    "disarm",
    "drop",
    "message",
    "put",
    "standing",
    "standing_anywhere",
]

TRIGGER: Final = "lockgate_guard"

_GUARD: Final = """
CREATE FUNCTION lockgate.guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $lockgate$
BEGIN
    IF current_setting('lockgate.applies', true) = 'on' OR (
        tg_argv[3] <> '' AND extract(epoch FROM clock_timestamp()) * 1000000 >= tg_argv[3]::numeric)
    THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION USING MESSAGE = tg_argv[4],
        ERRCODE = CASE tg_argv[0] WHEN 'moved' THEN 'LK001' WHEN 'moving' THEN 'LK002'
                                  ELSE 'LK003' END,
        HINT = CASE tg_argv[0] WHEN 'moving' THEN 'try again in a moment: it is open here again, '
                                                  'or has moved there'
                               ELSE 'write to it there' END;
END
$lockgate$
"""
"""Its arguments: the kind, the move, its birth, the deadline in microseconds or nothing, the
message."""

# By its name the log of schema changes (`ddl/triggers`) knows that there is nothing to log. It does
# not look at every table then, which would take longer than everything else about a guard.
_ALWAYS: Final = """
CREATE FUNCTION lockgate.guard_always(relations oid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $lockgate$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT n.nspname, c.relname FROM unnest(relations) AS r(oid)
        JOIN pg_class c ON c.oid = r.oid JOIN pg_namespace n ON n.oid = c.relnamespace
    LOOP
        -- ONLY: each is told by itself, and below it may be one that is not locked.
        EXECUTE format('ALTER TABLE ONLY %I.%I ENABLE ALWAYS TRIGGER lockgate_guard',
                       one.nspname, one.relname);
    END LOOP;
END
$lockgate$
"""

FUNCTIONS: Final = {"guard": _GUARD, "guard_always": _ALWAYS}
"""By name."""


class GuardKind(enum.Enum):
    """Why nobody may write."""

    MOVED = "moved"
    """SQLSTATE LK001: the traffic is at the other side, for good."""
    MOVING = "moving"
    """SQLSTATE LK002: a flip is under way. The one kind that has a deadline."""
    NOT_OPEN = "not-open"
    """SQLSTATE LK003: the traffic has never been here."""


class Guard(Value, frozen=True):
    """What is on a table."""

    kind: GuardKind
    move: str
    birth: int
    until_us: int | None = None
    """By the server's clock, in microseconds since 1970; None: for good. 0 holds nobody up."""
    other: str = ""
    """Where the table is, or is moving to."""

    @property
    def is_armed(self) -> bool:
        """It may hold somebody up: only a guard that was disarmed never does."""
        return self.until_us != 0


def message(guard: Guard, table: TableName) -> str:
    """What writers are told."""
    what = {
        GuardKind.MOVED: f"has moved to {guard.other}",
        GuardKind.MOVING: f"is moving to {guard.other}",
        GuardKind.NOT_OPEN: f"is not open here yet: it is at {guard.other}",
    }[guard.kind]
    return f"LOCKGATE: table {table} {what}"


class Standing(Value, frozen=True):
    """A guard that is on a relation now."""

    relation: TableName
    oid: int
    guard: Guard
    always: bool
    """It fires for sessions that play a replica, too."""


def put(cursor: Cursor, relations: Sequence[Relation], guard: Guard) -> None:
    """Have this guard on the relations, in the place of any other. They are locked."""
    _execute(cursor, (_create(each, guard) for each in relations))
    cursor.execute("SELECT lockgate.guard_always(%s)", ([each.oid for each in relations],))


def disarm(cursor: Cursor, relations: Sequence[Relation], guard: Guard) -> None:
    """Have a guard there that holds up nobody. They are locked, readers are not in the way."""
    over = Guard(GuardKind.MOVING, guard.move, guard.birth, 0, guard.other)
    _execute(cursor, (_create(each, over) for each in relations))


def drop(cursor: Cursor, relations: Iterable[TableName]) -> None:
    """Take guards away. Waits for everybody who uses the relations at all."""
    statement = sql.SQL("DROP TRIGGER IF EXISTS {} ON {}")
    _execute(
        cursor, (statement.format(sql.Identifier(TRIGGER), identifier(each)) for each in relations)
    )


def _create(relation: Relation, guard: Guard) -> sql.Composed:
    until = "" if guard.until_us is None else str(guard.until_us)
    said = message(guard, relation.root)
    arguments = (guard.kind.value, guard.move, str(guard.birth), until, said)
    return sql.SQL(
        "CREATE OR REPLACE TRIGGER {} BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {} "
        "FOR EACH STATEMENT EXECUTE FUNCTION lockgate.guard({})"
    ).format(
        sql.Identifier(TRIGGER),
        identifier(relation.table),
        sql.SQL(", ").join(sql.Literal(each) for each in arguments),
    )


def _execute(cursor: Cursor, statements: Iterable[sql.Composed]) -> None:
    """All in one go: a round trip for each is time in which nobody can write."""
    if whole := list(statements):
        cursor.execute(sql.SQL("; ").join(whole))


_STANDING: Final = """
SELECT n.nspname::text, c.relname::text, c.oid, g.tgargs, g.tgenabled::text
FROM pg_trigger g
JOIN pg_class c ON c.oid = g.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_proc p ON p.oid = g.tgfoid AND p.proname = 'guard'
JOIN pg_namespace pn ON pn.oid = p.pronamespace AND pn.nspname = 'lockgate'
WHERE g.tgname = 'lockgate_guard'
"""


def standing(cursor: Cursor, relations: Sequence[Relation]) -> dict[int, Standing]:
    """The guards on these relations, by oid."""
    found = cursor.execute(
        f"{_STANDING} AND g.tgrelid = ANY (%s)", ([each.oid for each in relations],)
    )
    return {row[2]: _standing(*row) for row in found}


def standing_anywhere(cursor: Cursor) -> list[Standing]:
    """All guards of the database, whatever their tables are called now."""
    return [_standing(*row) for row in cursor.execute(f"{_STANDING} ORDER BY 1, 2")]


def _standing(schema: str, name: str, oid: int, arguments: bytes, enabled: str) -> Standing:
    # Everything but the message is ASCII, in whatever encoding the database is.
    words = [word.decode("ascii", "replace") for word in bytes(arguments).split(b"\0")]
    kind, move, birth, until = words[:4]
    guard = Guard(GuardKind(kind), move, int(birth), int(until) if until else None)
    return Standing(TableName(schema, name), oid, guard, enabled == "A")
