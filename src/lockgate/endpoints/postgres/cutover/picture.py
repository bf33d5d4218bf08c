"""Whether tables are still what they were when they were blocked.

A guard keeps rows as they are, not tables: somebody may still alter or drop one, and what comes
after the position of the block does not come to the other side any more. So the block takes down
what the tables look like, with the numbers of the files that their rows are in (a rewrite may
change every value and leave the definition as it is), and how far the log of schema changes is,
where there is one. Both are taken under the locks that keep such changes away.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from lockgate.endpoints.postgres.cutover.relations import Relation
from lockgate.endpoints.postgres.schema.discover import describe
from lockgate.endpoints.postgres.sink.rows import Cursor

__all__ = ["ddl_seen", "logged_since", "picture"]

_FILES: Final = """
SELECT o.oid::int8, pg_relation_filenode(o.oid)::int8 FROM unnest(%s::oid[]) AS o(oid) ORDER BY 1
"""

_HAS_LOG: Final = """
SELECT has_table_privilege(c.oid, 'SELECT') FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'lockgate' AND c.relname = 'ddl_log'
"""

_LOGGED: Final = """
SELECT EXISTS (
    SELECT FROM lockgate.ddl_log l
    WHERE l.id > %s AND (l.tag = 'failed' OR EXISTS (
        SELECT FROM jsonb_array_elements(l.objects -> 'tables') AS e(entry)
        WHERE (e.entry -> 'before' ->> 'oid')::int8 = ANY (%s)
           OR (e.entry -> 'after' ->> 'oid')::int8 = ANY (%s))))
"""
"""A change that could not be written down may have been of any table."""


def picture(cursor: Cursor, relations: Sequence[Relation]) -> str:
    """The same as long as the tables are the same ones, and look the same."""
    roots = list(dict.fromkeys(each.root for each in relations))
    described = [
        msgspec.structs.replace(definition, owner="")  # who owns it is nothing to the other side
        for definition in describe(cursor.connection, roots).values()
    ]
    files = cursor.execute(_FILES, ([each.oid for each in relations],)).fetchall()
    whole = msgspec.json.encode((sorted(described, key=lambda one: one.oid), files))
    return hashlib.blake2b(whole, digest_size=16).hexdigest()


def ddl_seen(cursor: Cursor) -> int | None:
    """The number that the log of schema changes gave out last; None where there is none to read.

    Not the last row: who logs a change of a table has its lock by then, so whatever comes after
    ours has a greater number than any that was ever given out before.
    """
    if cursor.execute(_HAS_LOG).fetchone() != (True,):
        return None
    found = cursor.execute(
        "SELECT last_value - (NOT is_called)::int FROM lockgate.ddl_log_id_seq"
    ).fetchone()
    return None if found is None else found[0]


def logged_since(cursor: Cursor, relations: Sequence[Relation], seen: int | None) -> bool:
    """True when the log tells of a change of these tables after `seen`."""
    if seen is None or cursor.execute(_HAS_LOG).fetchone() != (True,):
        return False
    oids = [each.oid for each in relations]
    return cursor.execute(_LOGGED, (seen, oids, oids)).fetchone() == (True,)
