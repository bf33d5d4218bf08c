"""A copy that cannot be taken up, or that somebody wants once more: it begins anew.

    a table without a key         what was copied is of one snapshot and the rest would be of
                                  another. A change in between belongs to one of the two, and which
                                  one, only the place of its row could tell; the stream has it not.
    a table that changed since    its chunks would be of two forms.
    a table that people resync    whatever its rows are by now, they are to be the source's again.

So what has landed is removed, in the transaction that says so.
"""

import psycopg

from lockgate.endpoints.postgres.copy.items import CopyTable
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.endpoints.postgres.sink.apply import quieten
from lockgate.endpoints.postgres.sink.chunks import unland_chunks, unplan_chunks
from lockgate.endpoints.postgres.sink.rows import pass_turnstile
from lockgate.endpoints.postgres.sink.session import open_session
from lockgate.endpoints.postgres.sink.wipe import empty
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import Terminal
from lockgate.model.ids import FeedId, SpanId, Token
from lockgate.model.tables import TableName

__all__ = ["begin_anew"]


def begin_anew(
    target: PostgresUrl,
    feed: FeedId,
    span: SpanId,
    token: Token,
    table: CopyTable,
    *,
    whole: bool = False,
) -> None:
    """Remove what was copied of the table and have all of it copied again; Refused if not ours.

    OutcomeUnknown: it may have happened, and who runs the span has to ask the sink.

    `whole`: also when its copy is over, with chunks that are cut anew.
    """
    about = f"{table.target}, {target.label}"
    with (
        open_session(target, feed, span) as connection,
        faults(object_=about, operation="begin the copy anew"),
        connection.cursor() as cursor,
    ):
        pass_turnstile(cursor, feed, span)
        (unplan_chunks if whole else unland_chunks)(cursor, feed, span, token)
        if not quieten(connection):
            _refuse_to_cascade(cursor, table.target)
        empty(connection, identifier(table.target))
        with faults(object_=about, operation="begin the copy anew", committing=True):
            connection.commit()


def _refuse_to_cascade(cursor: psycopg.Cursor, table: TableName) -> None:
    """A foreign key that acts would take rows of other tables along, which nobody copies again."""
    acting = cursor.execute(
        "SELECT conname, conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' "
        "AND confrelid = %s::regclass AND conrelid <> confrelid AND confdeltype IN ('c', 'n', 'd')",
        (table.id,),
    ).fetchone()
    if acting is not None:
        raise Terminal(
            f"rows of {acting[1]} would be changed with those of the table by {acting[0]}",
            object_=table.id,
            hint="drop the foreign key until the copy is over, or let the role set "
            "session_replication_role",
            operation="begin the copy anew",
        )
