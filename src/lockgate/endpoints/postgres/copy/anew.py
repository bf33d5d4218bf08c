"""A copy of a table without a key that broke off: it can only begin anew.

What was copied is of one snapshot and the rest would be of another. A change in between belongs to
one of the two, and which one, only the place of its row could tell; the stream does not name it.
So what has landed is removed, in the transaction that says so.
"""

import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.copy.items import CopyTable
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.endpoints.postgres.sink.apply import quieten
from lockgate.endpoints.postgres.sink.chunks import unland_chunks
from lockgate.endpoints.postgres.sink.rows import pass_turnstile
from lockgate.endpoints.postgres.sink.session import open_session
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.ids import FeedId, SpanId, Token

__all__ = ["begin_anew"]


def begin_anew(
    target: PostgresUrl, feed: FeedId, span: SpanId, token: Token, table: CopyTable
) -> None:
    """Remove what was copied of the table and have all of it copied again; Refused if not ours."""
    about = f"{table.target}, {target.label}"
    with (
        open_session(target, feed, span) as connection,
        faults(object_=about, operation="begin the copy anew"),
        connection.cursor() as cursor,
    ):
        pass_turnstile(cursor, feed, span)
        unland_chunks(cursor, feed, span, token)
        try:
            with connection.transaction():
                cursor.execute(sql.SQL("TRUNCATE {}").format(identifier(table.target)))
        except psycopg.errors.InsufficientPrivilege:
            quieten(connection)
            cursor.execute(sql.SQL("DELETE FROM {}").format(identifier(table.target)))
        connection.commit()
