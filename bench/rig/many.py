"""Many small tables, each changed about once a second: a process of its own writes.

    python -m bench.rig.many               what to do comes on stdin, what came of it goes to stdout

A transaction changes one row in each of a few tables: of ten changes six insert, three update, one
deletes. A change's clock starts when its row is written, before its COMMIT is sent: the row itself
holds that time. It stops when the target has committed the row, which the target's own record of
commit times tells (`track_commit_timestamp`): to look into hundreds of tables again and again would
be a load of its own. Both servers are on one machine, and so on one clock.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import psycopg
from psycopg import sql

from bench.rig.servers import session

PER_TRANSACTION: Final = 5
TARGET_SETTINGS: Final = {"track_commit_timestamp": "on"}
_BEFORE: Final = 200
"""Rows of each table at the start: enough to update and delete another one each time."""
_INSERT, _UPDATE, _DELETE = "insert", "update", "delete"
_KINDS: Final = (_INSERT, _INSERT, _UPDATE, _INSERT, _UPDATE, _INSERT, _INSERT, _DELETE, _INSERT,
                 _UPDATE)  # fmt: skip


class Many(msgspec.Struct, frozen=True):
    """What to write, where, and for how long."""

    source: str
    tables: int
    seconds: int


class Written(msgspec.Struct, frozen=True):
    """What was written."""

    changes: int
    took_s: float


def name(number: int) -> str:
    """The name of a table."""
    return f"t{number:04d}"


def create(url: str, tables: int) -> None:
    """The tables, each with some rows that are never measured: their `changed` is null."""
    with session(url) as connection:
        for number in range(tables):
            connection.execute(
                sql.SQL(
                    "CREATE TABLE {} (id bigint PRIMARY KEY, customer integer, name text, "
                    "amount numeric(12,2), changed timestamptz)"
                ).format(sql.Identifier(name(number)))
            )
            connection.execute(
                sql.SQL(
                    "INSERT INTO {} SELECT i, i * 7, 'name ' || i, i / 7.0 "
                    "FROM generate_series(1, {}) i"
                ).format(sql.Identifier(name(number)), sql.Literal(_BEFORE))
            )


def run(many: Many) -> Written:
    """Have it written by another process; returns when the last transaction is committed."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.rig.many"],
        cwd=Path(__file__).parents[2],
        input=msgspec.json.encode(many),
        stdout=subprocess.PIPE,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=Written)


def lags_s(target: str, tables: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Of every row that was inserted or updated: from its writing to its commit at the target."""
    found: list[float] = []
    with session(target) as connection:
        for number in range(tables):
            rows = connection.execute(
                sql.SQL(
                    "SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin) - changed)::float8 "
                    "FROM {} WHERE changed IS NOT NULL"
                ).format(sql.Identifier(name(number)))
            ).fetchall()
            found += [row[0] for row in rows]
    return np.array(found)


def same_rows(source: str, target: str, tables: int) -> int:
    """How many rows both hold in all tables. Raises when a table differs."""
    count = 0
    with session(source) as ours, session(target) as theirs:
        for number in range(tables):
            digest = sql.SQL(
                "SELECT count(*), md5(string_agg(t::text, ';' ORDER BY id)) FROM {} t"
            ).format(sql.Identifier(name(number)))
            here, there = ours.execute(digest).fetchone(), theirs.execute(digest).fetchone()
            if here is None or here != there:
                raise RuntimeError(f"the rows of {name(number)} differ: {here}, {there}")
            count += here[0]
    return count


# --- in the other process -------------------------------------------------------------------------

_STATEMENTS: Final = {
    _INSERT: "INSERT INTO {} VALUES (%(id)s, 1, 'new', 1.5, clock_timestamp())",
    _UPDATE: "UPDATE {} SET amount = amount + 1, changed = clock_timestamp() WHERE id = %(id)s",
    _DELETE: "DELETE FROM {} WHERE id = %(id)s",
}


def _write(many: Many) -> Written:
    """One transaction after the other, each when it is due."""
    statements = {
        (kind, number): sql.SQL(text).format(sql.Identifier(name(number))).as_string()
        for kind, text in _STATEMENTS.items()
        for number in range(many.tables)
    }
    every_s = PER_TRANSACTION / many.tables
    count = int(many.seconds / every_s)
    began = time.monotonic()
    with psycopg.connect(many.source) as connection:
        # A plan for each of so many statements would fill the server's memory.
        connection.prepare_threshold = None
        for number in range(count):
            time.sleep(max(0.0, began + number * every_s - time.monotonic()))
            with connection.pipeline():
                for nth in range(number * PER_TRANSACTION, (number + 1) * PER_TRANSACTION):
                    visit, table = divmod(nth, many.tables)
                    kind = _KINDS[(visit + table) % len(_KINDS)]
                    # Each visit of a table meets a row of its own, whatever it does to it.
                    id_ = _BEFORE + visit + 1 if kind == _INSERT else visit % _BEFORE + 1
                    connection.execute(statements[kind, table].encode(), {"id": id_})
                connection.commit()
    return Written(count * PER_TRANSACTION, time.monotonic() - began)


def main() -> None:
    """Be the other process."""
    many = msgspec.json.decode(sys.stdin.buffer.read(), type=Many)
    sys.stdout.buffer.write(msgspec.json.encode(_write(many)))


if __name__ == "__main__":
    main()
