"""What is in the way of a move, found out before anything is done; each with what to do about it.

    create_findings     can these tables be moved, and moved back
    flip_findings       can the traffic change hands now
    complete_findings   can the tables that are left be disposed of as asked
    followed_findings   does a feed of others follow tables that go
    closed_findings     does a guard keep others out, whoever's move that is

A move needs of *both* sides what a feed needs of its source and of its target, because the way back
is a feed like the way there. Everything that is looked at becomes a finding; errors refuse. Nothing
is changed, nothing is left behind, and nothing is raised for what a server says.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from psycopg import sql

from lockgate.endpoints.postgres.check import error, ok, same_database, warning
from lockgate.endpoints.postgres.check_source import check_source
from lockgate.endpoints.postgres.check_target import check_target
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.cutover import looks
from lockgate.endpoints.postgres.cutover.check_sequences import (
    carried,
    near_their_end,
)
from lockgate.endpoints.postgres.cutover.delays import delaying
from lockgate.endpoints.postgres.cutover.relations import relations
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import LockgateError
from lockgate.model.findings import Finding, from_error
from lockgate.model.ids import FeedId
from lockgate.model.moves import Disposal
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName

__all__ = [
    "closed_findings",
    "complete_findings",
    "create_findings",
    "flip_findings",
    "followed_findings",
]

Url = PostgresUrl | str | Secret


def create_findings(
    source: Url,
    target: Url,
    tables: Sequence[TableName],
    *,
    made: Collection[TableName] = (),
) -> list[Finding]:
    """Whether tables can be moved. `made`: those at the target that this very move has made."""
    try:
        if same_database(PostgresUrl.parse(source), PostgresUrl.parse(target)):
            hint = "name another database as the target"
            what = "source and target are one database, and the tables are there"
            return [error("same-database", what, PostgresUrl.parse(source).label, hint)]
    except LockgateError as failed:
        return [from_error(failed)]
    found = [
        *check_source(source, tables=[table.id for table in tables]),
        *check_target(target, targets=tables),
        # The way back.
        *check_source(target),
        *check_target(source, targets=tables),
        *_look(source, lambda cursor: _source(cursor, tables)),
        *_look(target, lambda cursor: _target(cursor, tables, made)),
        *near_their_end(source, tables),
    ]
    return _distinct(found)


def _source(cursor: Cursor, tables: Sequence[TableName]) -> Iterator[Finding]:
    found = relations(cursor, tables, skip_missing=True)
    yield from looks.owned(cursor, found)
    yield from looks.renamable(cursor, tables)
    yield from looks.old_names(cursor, tables)
    yield from looks.closed(cursor, found)
    yield from looks.subscribed(cursor, found)
    yield from looks.heirs(cursor, found)
    yield from looks.fed(cursor, tables)
    yield from looks.foreign_keys(cursor, found)


def _target(
    cursor: Cursor, tables: Sequence[TableName], made: Collection[TableName]
) -> Iterator[Finding]:
    found = relations(cursor, tables, skip_missing=True)
    yield from looks.owned(cursor, found)
    strange = [each for each in found if each.root not in made]
    yield from looks.closed(cursor, strange)
    yield from looks.subscribed(cursor, found)
    yield from looks.fed(cursor, {each.root for each in strange})
    for table in dict.fromkeys(each.root for each in strange):
        readable = cursor.execute(
            "SELECT has_table_privilege(oid, 'SELECT') FROM pg_class WHERE oid = %s",
            (next(each.oid for each in strange if each.table == table),),
        ).fetchone()
        if readable != (True,):
            continue  # it is a finding already that it is not ours
        query = sql.SQL("SELECT EXISTS (SELECT FROM {})").format(identifier(table))
        if cursor.execute(query).fetchone() == (True,):
            hint = f"empty or drop it: TRUNCATE {table}"
            what = "the table is there at the target and has rows, which this move did not copy"
            yield error("target-not-empty", what, str(table), hint)


def flip_findings(
    giving: Url,
    taking: Url,
    tables: Sequence[TableName],
    *,
    own: Collection[FeedId] = (),
    within_s: float = 30.0,
) -> list[Finding]:
    """Whether the traffic can go from one side to the other now. `own`: feeds of this very move;
    `within_s`: how long writers may be held up."""

    def at_giving(cursor: Cursor) -> Iterator[Finding]:
        found = relations(cursor, tables, skip_missing=True)
        yield from looks.missing(tables, found)
        yield from looks.owned(cursor, found)
        yield from looks.closed(cursor, found)
        yield from looks.subscribed(cursor, found)
        yield from looks.heirs(cursor, found)
        yield from looks.fed(cursor, tables, own)
        yield from looks.held(cursor, found)

    def at_taking(cursor: Cursor) -> Iterator[Finding]:
        found = relations(cursor, tables, skip_missing=True)
        yield from looks.missing(tables, found)
        yield from looks.owned(cursor, found)
        yield from looks.not_guarded(cursor, found)
        yield from looks.subscribed(cursor, found)
        yield from looks.fed(cursor, tables, own)
        yield from delaying(cursor, PostgresUrl.parse(taking).label, within_s)

    found = [
        *check_target(taking, targets=tables),
        # The feed that will run the other way.
        *check_source(taking),
        *check_target(giving, targets=tables),
        *_look(giving, at_giving),
        *_look(taking, at_taking),
        *carried(giving, taking, tables),
    ]
    return _distinct(found)


def complete_findings(
    source: Url,
    tables: Sequence[TableName],
    disposal: Disposal,
    *,
    own: Collection[FeedId] = (),
) -> list[Finding]:
    """Whether the tables that are left at the source can be renamed, dropped or kept. `own`: feeds
    of this very move."""

    def look(cursor: Cursor) -> Iterator[Finding]:
        found = relations(cursor, tables, skip_missing=True)
        for finding in looks.missing(tables, found):
            yield warning(finding.code, finding.what, finding.object, "it is left out")
        yield from looks.not_guarded(cursor, found)
        yield from looks.fed(cursor, tables, own)
        if disposal is Disposal.KEEP:
            yield ok("keep", "the tables stay, closed: their guards stay with them", label)
            return
        yield from looks.owned(cursor, found)
        yield from looks.held(cursor, found)
        users = looks.dependents(cursor, found)
        if disposal is Disposal.RENAME:
            yield from looks.renamable(cursor, tables)
            yield from looks.old_names(cursor, tables)
            for user in users:
                what = f"{user} uses a table that is renamed, and follows it under its new name"
                yield warning("dependent", what, label, "drop or change it if that is not meant")
        else:
            for user in users:
                what = f"{user} uses a table that is to be dropped, which is refused because of it"
                yield error("dependent", what, label, "drop it first, or complete with --rename")

    label = PostgresUrl.parse(source).label
    return _distinct(_look(source, look))


def followed_findings(
    url: Url, tables: Sequence[TableName], own: Collection[str] = (), *, stays: bool = False
) -> list[Finding]:
    """Whether others than our `own` publications carry tables that are disposed of. One that
    `stays` is kept as it is, and does not change any more. Raises what a server says: it is asked
    in the middle of a command, too, where that is not a refusal."""

    def look(cursor: Cursor) -> Iterator[Finding]:
        found = relations(cursor, tables, skip_missing=True)
        return looks.followed(cursor, found, own, stays=stays)

    return _looked(url, look)


def closed_findings(url: Url, tables: Sequence[TableName]) -> list[Finding]:
    """Tables that a guard stands on now. One that is not there has none. Raises what a server says:
    who is not told of a guard goes on."""
    return _looked(
        url, lambda cursor: looks.closed(cursor, relations(cursor, tables, skip_missing=True))
    )


def _look(url: Url, look: Callable[[Cursor], Iterable[Finding]]) -> list[Finding]:
    """What a look answers, or the server instead."""
    try:
        return _looked(url, look)
    except LockgateError as failed:
        return [from_error(failed)]


def _looked(url: Url, look: Callable[[Cursor], Iterable[Finding]]) -> list[Finding]:
    """What a look answers, on a connection of its own."""
    url = PostgresUrl.parse(url)
    with (
        connect(url, purpose="move test", autocommit=True) as connection,
        faults(object_=url.label, operation="test"),
    ):
        return list(look(connection.cursor()))


def _distinct(found: Iterable[Finding]) -> list[Finding]:
    """Both sides are asked for much of the same, and one of them for some of it twice.

    Of a table that the role does not own, the warning of a feed gives way to the error of a move.
    """
    known = list(dict.fromkeys(found))
    worse = {(each.code, each.object) for each in known if each.severity.value == "error"}
    return [
        each
        for each in known
        if each.severity.value != "warning" or (each.code, each.object) not in worse
    ]
