"""A partition that comes to a closed table is closed like it, in the same transaction.

A table of a move has a guard at the side that is closed (`cutover/triggers`), and so has each of
its partitions: PostgreSQL makes no triggers of statements for those that come, and one without a
guard would take writes by its own name. Nobody puts up or takes away a guard of what it is a
partition of while it is being made, under the locks of either. So what is found here is still so
when the partition can be seen.
"""

from typing import Final

from psycopg import sql

from lockgate.model.tables import TableName

__all__ = ["closed_like_its_table"]

# The guard as the server writes it down, put on another table: its message may be in any words. One
# whose time is over (`0`) holds up nobody. What has the name may be no partition at all.
_BODY: Final = r"""
DECLARE
    guard text;
    part oid;
BEGIN
    SELECT p.oid, overlay(d.said PLACING format(' ON %I.%I FOR ', pn.nspname, p.relname)
                          FROM position(d.here IN d.said) FOR length(d.here))
    INTO part, guard
    FROM pg_class p JOIN pg_namespace pn ON pn.oid = p.relnamespace
    JOIN pg_inherits i ON i.inhrelid = p.oid
    JOIN pg_class r ON r.oid = i.inhparent JOIN pg_namespace rn ON rn.oid = r.relnamespace
    JOIN pg_trigger g ON g.tgrelid = r.oid AND g.tgname = 'lockgate_guard'
    CROSS JOIN LATERAL (SELECT pg_get_triggerdef(g.oid) AS said,
                               format(' ON %I.%I FOR ', rn.nspname, r.relname) AS here) AS d
    WHERE p.oid = to_regclass({partition}) AND p.relispartition
      AND split_part(encode(g.tgargs, 'escape'), '\000', 4) <> '0'
      AND NOT EXISTS (
        SELECT FROM pg_trigger o WHERE o.tgrelid = p.oid AND o.tgname = g.tgname);
    IF FOUND THEN
        EXECUTE guard;
        PERFORM lockgate.guard_always(ARRAY[part]);
    END IF;
END
"""


def closed_like_its_table(partition: TableName) -> sql.Composed:
    """The partition has the guard of its table, if that has one."""
    body = sql.SQL(_BODY).format(partition=sql.Literal(partition.id))
    return sql.SQL("DO {}").format(sql.Literal(body.as_string(None)))
