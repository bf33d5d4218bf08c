"""What a move makes at its two sides and must not leave there when it is over.

What stays on purpose: `lockgate.moves` with rows that say `over`, tombstones of feeds, empty tables
of Lockgate's own (`cutover/clean.py` says why).
"""

from typing import Final

import psycopg

__all__ = ["left_at", "leftovers"]

_ALWAYS: Final = {
    "slot": "SELECT slot_name::text FROM pg_replication_slots WHERE database = current_database()",
    "publication": "SELECT pubname::text FROM pg_publication",
    "trigger": "SELECT tgrelid::regclass || '.' || tgname FROM pg_trigger "
    "WHERE tgname LIKE '%lockgate%' AND NOT tgisinternal",
    "event trigger": "SELECT evtname::text FROM pg_event_trigger WHERE evtname LIKE '%lockgate%'",
}
_IN_SCHEMA: Final = {
    "moves": (
        "row of a move",
        "SELECT move || ', ' || state FROM lockgate.moves WHERE state <> 'over'",
    ),
    "progress": ("row of progress", "SELECT feed || '/' || span FROM lockgate.progress"),
    "parts": ("part of a batch", "SELECT feed || '/' || span FROM lockgate.parts"),
    "chunks": ("chunk of a copy", "SELECT feed || '/' || span FROM lockgate.chunks"),
    "feeds": ("row of a feed", "SELECT feed FROM lockgate.feeds WHERE NOT closed"),
    "ddl_captures": ("capture of schema changes", "SELECT publication FROM lockgate.ddl_captures"),
}


def left_at(url: str) -> list[str]:
    """All of it at one side, in words."""
    found: list[str] = []
    with psycopg.connect(url) as connection:
        for what, query in _ALWAYS.items():
            found += [f"{what} {name}" for (name,) in connection.execute(query)]
        tables = connection.execute(
            "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = 'lockgate' AND c.relkind = 'r'"
        ).fetchall()
        for (table,) in tables:
            if table in _IN_SCHEMA:
                what, query = _IN_SCHEMA[table]
                found += [f"{what} {name}" for (name,) in connection.execute(query)]
    return found


def leftovers(source: str, target: str) -> list[str]:
    """At both sides."""
    return [
        f"{side}: {one}"
        for side, url in (("source", source), ("target", target))
        for one in left_at(url)
    ]
