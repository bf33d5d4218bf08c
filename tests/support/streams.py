"""What a real server sends as pgoutput, by both ways of asking for it."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import make_conninfo

from lockgate.endpoints.postgres.pgoutput.decoder import Decoded, Decoder
from lockgate.endpoints.postgres.pgoutput.frames import find_frames
from lockgate.endpoints.postgres.pgoutput.relations import Mask, Relation, TablePlan
from lockgate.endpoints.postgres.pgoutput.sources import CopyRows
from lockgate.model.tables import Column, Identity, TableName, TableShape

DDL_TABLE = TableName("lockgate", "ddl")
SETTINGS = (
    "-c TimeZone=UTC -c DateStyle=ISO,YMD -c IntervalStyle=postgres -c extra_float_digits=3 "
    "-c bytea_output=hex -c client_encoding=UTF8 -c lc_monetary=C"
)


def framed(payload: bytes) -> bytes:
    """The payload in a data frame."""
    return b"d" + struct.pack(">I", len(payload) + 4) + payload


class Stream:
    """A database with a publication of all its tables, and a slot that has seen nothing yet."""

    def __init__(self, url: str, connection: psycopg.Connection[Any]) -> None:
        self.url = url
        self.connection = connection
        self.execute("CREATE SCHEMA lockgate")
        self.execute("CREATE TABLE lockgate.ddl (id bigserial PRIMARY KEY, statement text)")
        self.execute("CREATE PUBLICATION pub FOR ALL TABLES")

    def execute(self, query: str, *parameters: Any) -> None:
        """Run SQL."""
        self.connection.execute(query.encode(), parameters or None)

    def rows(self, query: str, *parameters: Any) -> list[Any]:
        """The answer to a query."""
        return self.connection.execute(query.encode(), parameters or None).fetchall()

    def slot(self, name: str = "slot") -> None:
        """From here on, changes are kept for the slot."""
        database = self.connection.info.dbname
        self.execute(f"SELECT pg_create_logical_replication_slot('{database}_{name}', 'pgoutput')")

    def copied(self, name: str = "slot") -> bytes:
        """The frames of a binary COPY of the slot's changes. The slot stands still."""
        query = sql.SQL(
            "COPY (SELECT data FROM pg_logical_slot_peek_binary_changes({}, NULL, NULL, "
            "'proto_version', '1', 'publication_names', 'pub')) TO STDOUT (FORMAT binary)"
        ).format(f"{self.connection.info.dbname}_{name}")
        with self.connection.cursor() as cursor, cursor.copy(query) as copy:
            return b"".join(framed(bytes(payload)) for payload in copy)

    def messages(self, name: str = "slot") -> list[bytes]:
        """The slot's messages, by COPY."""
        frames = self.copied(name)
        found = find_frames(frames)
        assert found.consumed == len(frames)
        rows = CopyRows()
        starts, ends = rows.messages(frames, found.starts, found.ends)
        assert rows.ended
        return [frames[start:end] for start, end in zip(starts, ends, strict=True)]

    def streamed(self, commits: int, name: str = "slot") -> bytes:
        """The frames that the replication protocol sends, up to so many commits."""
        info = make_conninfo(self.url, replication="database", options=SETTINGS)
        connection = pq.PGconn.connect(info.encode())
        assert connection.status == pq.ConnStatus.OK, connection.get_error_message()
        try:
            slot = f"{self.connection.info.dbname}_{name}"
            result = connection.exec_(
                f"START_REPLICATION SLOT {slot} LOGICAL 0/0 "
                "(proto_version '1', publication_names 'pub')".encode()
            )
            assert result.status == pq.ExecStatus.COPY_BOTH, connection.get_error_message()
            out = []
            while commits:
                _, payload = connection.get_copy_data(0)
                commits -= bytes(payload[:1]) == b"w" and bytes(payload[25:26]) == b"C"
                out.append(framed(bytes(payload)))
            return b"".join(out)
        finally:
            connection.finish()

    # --- decoding ---------------------------------------------------------------------------------

    def plan(self, relation: Relation, masks: dict[str, Mask] | None = None) -> TablePlan:
        """All columns travel; domains as their base types."""
        bases = dict(
            self.rows(
                "WITH RECURSIVE t AS (SELECT oid, oid AS base FROM pg_type UNION ALL "
                "SELECT t.oid, p.typbasetype FROM t JOIN pg_type p ON p.oid = t.base "
                "WHERE p.typtype = 'd') SELECT t.oid, base FROM t JOIN pg_type p "
                "ON p.oid = t.base WHERE p.typtype <> 'd'"
            )
        )
        columns = tuple(
            Column(column.name, "", bases[column.type_id]) for column in relation.columns
        )
        full = relation.identity == "f"
        key = tuple(column.name for column in relation.columns if column.key)
        shape = TableShape(
            relation.table,
            columns,
            () if full else key,
            Identity.FULL if full else Identity.KEY,
        )
        return TablePlan(shape, masks or {})

    def decoded(self) -> Decoded:
        """Everything that the slot has, with all columns of all tables."""
        frames = self.copied()
        found = find_frames(frames)
        starts, ends = CopyRows().messages(frames, found.starts, found.ends)
        return Decoder(DDL_TABLE, self.plan, 1).decode(frames, starts, ends)


@contextmanager
def stream_of(url: str) -> Iterator[Stream]:
    """A stream of the database."""
    with psycopg.connect(url, autocommit=True, options=SETTINGS) as connection:
        yield Stream(url, connection)
