"""Single looks at the tables of a move at one side, for `checks.py`. Each answers findings."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from lockgate.endpoints.postgres.check import error, warning
from lockgate.endpoints.postgres.cutover import triggers
from lockgate.endpoints.postgres.cutover.locks import NO_WRITERS, holders
from lockgate.endpoints.postgres.cutover.relations import Relation
from lockgate.endpoints.postgres.cutover.visit import clock_us
from lockgate.endpoints.postgres.schema.identifiers import set_aside
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.endpoints.postgres.source.names import PREFIX
from lockgate.model.findings import Finding
from lockgate.model.ids import FeedId
from lockgate.model.tables import TableName, quoted

__all__ = [
    "closed",
    "dependents",
    "fed",
    "followed",
    "foreign_keys",
    "heirs",
    "held",
    "missing",
    "not_guarded",
    "old_names",
    "owned",
    "renamable",
    "subscribed",
]

_LONG_S: Final = 1.0
"""A transaction of this age may still be there when its table is to be locked."""


def missing(tables: Iterable[TableName], found: Sequence[Relation]) -> Iterator[Finding]:
    """Tables that are not there."""
    there = {each.root for each in found}
    for table in tables:
        if table not in there:
            hint = "see that nobody dropped or renamed it"
            yield error("no-table", "the table is not there", str(table), hint)


_OWNED: Final = """
SELECT n.nspname::text, c.relname::text, pg_get_userbyid(c.relowner)::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (%s) AND NOT pg_has_role(c.relowner, 'USAGE') ORDER BY 1, 2
"""


def owned(cursor: Cursor, found: Sequence[Relation]) -> Iterator[Finding]:
    """Tables whose guards could be made by nobody, or be made and not be taken away."""
    for schema, name, owner in cursor.execute(_OWNED, (_oids(found),)).fetchall():
        table = TableName(schema, name)
        yield error(
            "owner",
            "the role does not own it, and only its owner can put up guards, and rename it",
            str(table),
            f"GRANT {quoted(owner)} TO the role that the URL names",
        )


def renamable(cursor: Cursor, tables: Iterable[TableName]) -> Iterator[Finding]:
    """Schemas in which nothing can be renamed."""
    schemas = sorted({table.schema for table in tables})
    rows = cursor.execute(
        "SELECT nspname::text FROM pg_namespace WHERE nspname = ANY (%s) "
        "AND NOT has_schema_privilege(oid, 'CREATE') ORDER BY 1",
        (schemas,),
    )
    for (schema,) in rows.fetchall():
        what = "the role may make nothing in the schema, and so can rename no table in it"
        hint = f"GRANT CREATE ON SCHEMA {quoted(schema)} TO the role that the URL names"
        yield error("rename", what, quoted(schema), hint)


def old_names(cursor: Cursor, tables: Iterable[TableName]) -> Iterator[Finding]:
    """Names that a complete with a rename would need, and that are in use."""
    wanted = {set_aside(table): table for table in tables}
    rows = cursor.execute(
        "SELECT n.nspname::text, c.relname::text FROM unnest(%s::text[], %s::text[]) AS w(s, t) "
        "JOIN pg_namespace n ON n.nspname = w.s "
        "JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.t ORDER BY 1, 2",
        ([each.schema for each in wanted], [each.name for each in wanted]),
    )
    for row in rows.fetchall():
        old = TableName(*row)
        yield error(
            "old-name",
            f"{old} is there already, the name that {wanted[old]} would get when the move is over",
            str(old),
            f"rename or drop it: ALTER TABLE {old} RENAME TO …",
        )


_SUBSCRIBED: Final = """
SELECT DISTINCT n.nspname::text, c.relname::text
FROM pg_subscription_rel s
JOIN pg_class c ON c.oid = s.srrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE s.srrelid = ANY (%s) ORDER BY 1, 2
"""


def subscribed(cursor: Cursor, found: Sequence[Relation]) -> Iterator[Finding]:
    """Tables that PostgreSQL's own replication writes to: it fires no triggers of statements."""
    for row in cursor.execute(_SUBSCRIBED, (_oids(found),)).fetchall():
        yield error(
            "subscription",
            "a subscription writes to it, which no guard holds up",
            str(TableName(*row)),
            "ALTER SUBSCRIPTION … DISABLE and DROP SUBSCRIPTION, or leave the table out",
        )


_HEIRS: Final = """
SELECT cn.nspname::text, c.relname::text, pn.nspname::text, p.relname::text
FROM pg_inherits h
JOIN pg_class c ON c.oid = h.inhrelid JOIN pg_namespace cn ON cn.oid = c.relnamespace
JOIN pg_class p ON p.oid = h.inhparent JOIN pg_namespace pn ON pn.oid = p.relnamespace
WHERE h.inhrelid = ANY (%(oids)s) AND h.inhparent <> ALL (%(oids)s) ORDER BY 1, 2
"""


def heirs(cursor: Cursor, found: Sequence[Relation]) -> Iterator[Finding]:
    """Tables that are written to by way of a table that stays, past their guards."""
    for row in cursor.execute(_HEIRS, {"oids": _oids(found)}).fetchall():
        child, parent = TableName(*row[:2]), TableName(*row[2:])
        yield error(
            "heir",
            f"it inherits from {parent}, which stays: an UPDATE or DELETE of that one changes rows "
            "of this one, and no guard holds it up",
            str(child),
            f"ALTER TABLE {child} NO INHERIT {parent}, or move both",
        )


_KEYS: Final = """
SELECT k.conname::text, rn.nspname::text, r.relname::text, fn.nspname::text, f.relname::text,
       k.conrelid = ANY (%(oids)s), k.confdeltype::text, k.confupdtype::text
FROM pg_constraint k
JOIN pg_class r ON r.oid = k.conrelid JOIN pg_namespace rn ON rn.oid = r.relnamespace
JOIN pg_class f ON f.oid = k.confrelid JOIN pg_namespace fn ON fn.oid = f.relnamespace
WHERE k.contype = 'f' AND k.conparentid = 0
  AND (k.conrelid = ANY (%(oids)s)) <> (k.confrelid = ANY (%(oids)s))
ORDER BY 2, 3, 1
"""


def foreign_keys(cursor: Cursor, found: Sequence[Relation]) -> Iterator[Finding]:
    """Foreign keys between a table that moves and one that stays, and what they come to."""
    for row in cursor.execute(_KEYS, {"oids": _oids(found)}).fetchall():
        name, mine, other = quoted(row[0]), TableName(*row[1:3]), TableName(*row[3:5])
        leaves, on_delete, on_update = row[5:]
        if leaves:
            acts = [
                verb
                for verb, action in (("DELETE", on_delete), ("UPDATE of the key", on_update))
                if action in "cnd"
            ]
            tail = (
                f"; and while {mine} is closed here, every {' and '.join(acts)} of {other} fails, "
                "because it would reach into it"
                if acts
                else ""
            )
            yield warning(
                "foreign-key-out",
                f"its foreign key {name} leads to {other}, which stays: it is not made at the "
                f"target, where nothing will check it{tail}",
                str(mine),
                f"move {other} too, or drop the foreign key before the switch",
            )
        else:
            yield warning(
                "foreign-key-in",
                f"the foreign key {name} of {mine}, which stays, leads to it: after the switch new "
                f"rows of {mine} are checked against the copy that is left, which follows with the "
                "lag of the way back, and after the move is over does not change any more (or is "
                "in the way of a drop)",
                str(other),
                f"move {mine} too, or drop the foreign key before the switch",
            )


_FED: Final = """
SELECT DISTINCT p.table_id, p.feed FROM lockgate.progress p JOIN lockgate.feeds f USING (feed)
WHERE NOT f.closed AND p.table_id = ANY (%s) AND p.feed <> ALL (%s) ORDER BY 1, 2
"""


def fed(
    cursor: Cursor, tables: Iterable[TableName], own: Collection[FeedId] = ()
) -> Iterator[Finding]:
    """Tables that a feed of Lockgate's ends in: its writers pass the guards, like all of ours.
    `own` are the feeds of the move itself."""
    there = cursor.execute(
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'lockgate' AND c.relname IN ('progress', 'feeds') "
        "AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')"
    ).fetchone()
    if there != (2,):
        return
    asked = ([each.id for each in tables], list(own))
    for table, feed in cursor.execute(_FED, asked).fetchall():
        yield error(
            "fed",
            f"the feed {feed} writes to it, and would go on after it has moved",
            table,
            f"lockgate feed remove {feed}, and let it end in the new place when the move is over",
        )


_FOLLOWED: Final = """
SELECT p.pubname::text, min(c.oid::regclass::text), count(*)
FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
WHERE c.oid = ANY (%s) AND p.pubname <> ALL (%s) GROUP BY 1 ORDER BY 1
"""


def followed(
    cursor: Cursor, found: Sequence[Relation], own: Collection[str], *, stays: bool
) -> Iterator[Finding]:
    """Publications, but for our `own`, with tables that are disposed of. Where a feed of ours goes,
    a table that is renamed or dropped here is renamed or dropped too; one that `stays` ceases to
    change."""
    for publication, table, count in cursor.execute(
        _FOLLOWED, (_oids(found), list(own))
    ).fetchall():
        more = f" (and {count - 1} more)" if count > 1 else ""
        if not publication.startswith(PREFIX):
            what = f"the publication {publication} has it{more}: nothing comes by it any more"
            yield warning("followed", what, table, "have its readers follow the new place")
            continue
        what = f"a feed of Lockgate follows it{more}, by the publication {publication}"
        hint = (
            "remove that feed (lockgate feed list), and let it begin at the new place; if it is "
            f"long gone: DROP PUBLICATION {quoted(publication)}"
        )
        if stays:
            yield warning("followed", f"{what}, and gets nothing more", table, hint)
        else:
            what = f"{what}, and its copy would be renamed or dropped with it"
            yield error("followed", what, table, f"{hint}; or keep the tables: --keep")


def held(cursor: Cursor, found: Sequence[Relation]) -> Iterator[Finding]:
    """Transactions that a block will have to wait for."""
    seen: set[tuple[int, TableName]] = set()
    for one in holders(cursor, found, NO_WRITERS):
        if (one.pid, one.table) in seen:
            continue
        seen.add((one.pid, one.table))
        if not one.pid:
            yield error(
                "prepared",
                "a prepared transaction holds it, and ends only when somebody ends it",
                str(one.table),
                "see pg_prepared_xacts; COMMIT PREPARED or ROLLBACK PREPARED",
            )
        elif one.age_s >= _LONG_S or one.since is None:
            yield warning(
                "held",
                f"{one}, for {one.age_s:.0f} s: it is waited for, until the time is over"
                if one.since
                else f"{one}: it is waited for, until the time is over",
                str(one.table),
                f"let it end, or SELECT pg_terminate_backend({one.pid})",
            )


def closed(cursor: Cursor, found: Sequence[Relation]) -> Iterator[Finding]:
    """Tables that a guard holds writers up at now."""
    now_us = clock_us(cursor)
    for one in triggers.standing(cursor, found).values():
        if one.guard.until_us is None or one.guard.until_us > now_us:
            yield error(
                "guarded",
                f"the guard of the move {one.guard.move} is on it: nobody can write to it",
                str(one.relation),
                "complete or cancel that move; if it is long over: DROP TRIGGER "
                f"{triggers.TRIGGER} ON {one.relation}",
            )


def not_guarded(cursor: Cursor, found: Sequence[Relation]) -> Iterator[Finding]:
    """Tables that should be closed, and that somebody could write to. A partition alone gets its
    guard when the command acts (`guards.guard`): it may only have come in an unlucky way."""
    there = triggers.standing(cursor, found)
    for each in found:
        one = there.get(each.oid)
        if one is not None and one.guard.until_us is None and one.always:
            continue
        if each.table != each.root:
            yield warning(
                "not-guarded",
                f"the partition {each.table} has no guard of its own, and gets one",
                str(each.table),
                "see who made it, or took its guard away, and whether its rows are as they should "
                "be (lockgate diff)",
            )
        else:
            yield error(
                "not-guarded",
                "it has no guard, and should have one: anybody can write to it",
                str(each.table),
                "see who made it anew, or took its guard away, and whether its rows are as they "
                "should be (lockgate diff)",
            )


_DEPENDENTS: Final = """
WITH mine(oid) AS (
    SELECT unnest(%(oids)s::oid[])
    UNION
    SELECT d.objid FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
    WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
      AND d.refobjid = ANY (%(oids)s) AND d.deptype IN ('a', 'i')
), needed(classid, oid) AS (
    SELECT 'pg_class'::regclass::oid, oid FROM mine
    UNION ALL
    SELECT 'pg_type'::regclass::oid, t.oid FROM pg_class c
    JOIN pg_type row_ ON row_.oid = c.reltype JOIN pg_type t ON t.oid IN (row_.oid, row_.typarray)
    WHERE c.oid IN (SELECT oid FROM mine)
)
SELECT DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid)
FROM needed n
JOIN pg_depend d ON d.refclassid = n.classid AND d.refobjid = n.oid AND d.deptype = 'n'
LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
LEFT JOIN pg_constraint k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid
LEFT JOIN pg_attrdef a ON d.classid = 'pg_attrdef'::regclass AND a.oid = d.objid
LEFT JOIN pg_trigger g ON d.classid = 'pg_trigger'::regclass AND g.oid = d.objid
LEFT JOIN pg_policy p ON d.classid = 'pg_policy'::regclass AND p.oid = d.objid
WHERE coalesce(w.ev_class, k.conrelid, a.adrelid, g.tgrelid, p.polrelid,
               CASE WHEN d.classid = 'pg_class'::regclass THEN d.objid END, 0)
      NOT IN (SELECT oid FROM mine)
ORDER BY 1
"""


def dependents(cursor: Cursor, found: Sequence[Relation]) -> list[str]:
    """What uses the tables and does not go with them, in the server's words."""
    return [row[0] for row in cursor.execute(_DEPENDENTS, {"oids": _oids(found)})]


def _oids(found: Sequence[Relation]) -> list[int]:
    return [each.oid for each in found]
