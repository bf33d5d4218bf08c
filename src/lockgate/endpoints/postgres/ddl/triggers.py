"""The event triggers at the source, and what they write down of a command.

    ddl_command_end   tables that were made or altered, themselves or by what they use
    sql_drop          tables, columns, constraints and indexes that went
    table_rewrite     which tables are written anew, and why: known before, not afterwards

All three gather numbers of tables; `ddl_record` compares each with what was known of it, and
writes one row for the command. See `functions.py` for what they owe to the source's users.
"""

from typing import Final

from lockgate.endpoints.postgres.ddl.functions import HELPERS, PATH, SETTINGS, VERSION, told

__all__ = ["FUNCTIONS", "TRIGGERS"]

# `fills`: what a new column holds in rows from before it. PostgreSQL keeps the value in the
# catalog instead of writing it into every row; of a partitioned table, its partitions have it.
# `filled`: which of the table, or of its partitions, have any pages, so may have rows.
# `detached`: former partitions that are tables of their own now.
_RECORD: Final = f"""
CREATE OR REPLACE FUNCTION lockgate.ddl_record(
    tag text, touched oid[], dropped oid[], forms jsonb) RETURNS void
LANGUAGE plpgsql {SETTINGS} AS $lockgate$
DECLARE
    known record;
    now_ jsonb;
    before jsonb;
    fills jsonb;
    filled jsonb;
    detached jsonb;
    rewritten integer;
    entries jsonb := '[]';
BEGIN
    FOR known IN
        SELECT t.oid, t.description FROM lockgate.ddl_tables t
        WHERE t.oid = ANY (dropped) AND t.root = t.oid
        ORDER BY t.oid
    LOOP
        entries := entries || jsonb_build_object('before', known.description, 'after', NULL);
    END LOOP;
    DELETE FROM lockgate.ddl_tables t WHERE t.oid = ANY (dropped) OR t.root = ANY (dropped);
    DELETE FROM lockgate.ddl_identities i WHERE i.oid = ANY (dropped);
    FOR known IN
        SELECT c.oid, n.nspname AS schema, c.relname AS name
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = ANY (touched) AND c.relpersistence = 'p' AND NOT c.relispartition
          AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'lockgate')
        ORDER BY c.oid
    LOOP
        CONTINUE WHEN NOT lockgate.ddl_publish(tag, known.oid, known.schema, known.name);
        -- Locked before it is described: a change of a type comes without a lock on the table.
        SELECT t.description INTO before FROM lockgate.ddl_tables t
        WHERE t.oid = known.oid FOR UPDATE;
        SELECT d INTO now_ FROM lockgate.ddl_describe(ARRAY[known.oid]) AS d;
        SELECT bit_or(split_part(r.entry, ':', 2)::integer) INTO rewritten
        FROM regexp_split_to_table(current_setting('lockgate.rewritten', true), ',') AS r(entry)
        WHERE split_part(r.entry, ':', 1) = known.oid::text;
        IF rewritten IS NOT NULL THEN
            PERFORM set_config('lockgate.rewritten', regexp_replace(
                current_setting('lockgate.rewritten'), '(^|,)' || known.oid || ':[0-9]+', '', 'g'
            ), true);
        END IF;
        CONTINUE WHEN before - 'owner' = now_ - 'owner' AND rewritten IS NULL;
        SELECT coalesce(jsonb_agg(h.oid), '[]') INTO filled FROM (
            SELECT (p.part ->> 'oid')::int8 AS oid
            FROM jsonb_array_elements(now_ -> 'partitions') AS p(part)
            WHERE p.part ->> 'kind' = 'r'
            UNION ALL SELECT known.oid::int8 WHERE now_ ->> 'kind' = 'r'
        ) AS h WHERE pg_relation_size(h.oid::oid) > 0;
        SELECT coalesce(jsonb_agg(p.part -> 'oid'), '[]') INTO detached
        FROM jsonb_array_elements(before -> 'partitions') AS p(part)
        JOIN pg_class c ON c.oid = (p.part ->> 'oid')::oid
        WHERE NOT now_ -> 'partitions' @> jsonb_build_array(
            jsonb_build_object('oid', p.part -> 'oid'));
        SELECT jsonb_object_agg(c.number, v.value) INTO fills
        FROM (
            SELECT n.item ->> 'number' AS number, n.item ->> 'name' AS name
            FROM jsonb_array_elements(now_ -> 'columns') AS n(item)
            WHERE before IS NOT NULL AND NOT EXISTS (
                SELECT FROM jsonb_array_elements(before -> 'columns') AS o(item)
                WHERE o.item ->> 'number' = n.item ->> 'number')
        ) AS c
        CROSS JOIN LATERAL (
            SELECT (a.attmissingval::text::text[])[1] AS value FROM pg_attribute a
            WHERE a.attname = c.name AND a.atthasmissing AND a.attrelid = coalesce(
                (filled ->> 0)::oid, known.oid)
        ) AS v;
        entries := entries || jsonb_build_object(
            'before', before, 'after', now_, 'fills', coalesce(fills, '{{}}'), 'filled', filled,
            'rewritten', coalesce(rewritten, 0), 'detached', detached);
        -- A table that became a partition of this one is none of its own any more.
        SELECT entries || coalesce(jsonb_agg(
            jsonb_build_object('before', t.description, 'after', NULL)), '[]') INTO entries
        FROM jsonb_array_elements(now_ -> 'partitions') AS p(part)
        JOIN lockgate.ddl_tables t ON t.oid = (p.part ->> 'oid')::oid AND t.root = t.oid;
        PERFORM lockgate.ddl_watch(now_);
    END LOOP;
    IF entries <> '[]' THEN
        INSERT INTO lockgate.ddl_log (tag, statement, objects)
        VALUES (tag, left(coalesce(current_query(), ''), 100000), jsonb_build_object(
            'version', {VERSION}, 'tables', entries, 'forms', forms,
            'by', nullif(current_setting('lockgate.feed', true), '')));
    END IF;
END
$lockgate$
"""

# Tables below those touched (they inherit the change), and roots of partitions, former ones too.
_ROOTS: Final = f"""
CREATE OR REPLACE FUNCTION lockgate.ddl_roots(touched oid[]) RETURNS oid[]
LANGUAGE sql STABLE {SETTINGS} AS $lockgate$
    WITH RECURSIVE below(oid) AS (
        SELECT unnest($1)
        UNION
        SELECT h.inhrelid FROM below JOIN pg_inherits h ON h.inhparent = below.oid)
    SELECT array_agg(DISTINCT found.oid) FROM (
        SELECT CASE WHEN c.relispartition THEN pg_partition_root(c.oid)::oid ELSE c.oid END AS oid
        FROM below JOIN pg_class c ON c.oid = below.oid AND c.relkind IN ('r', 'p')
        UNION
        SELECT t.root FROM lockgate.ddl_tables t WHERE t.oid = ANY ($1)
    ) AS found
$lockgate$
"""

_ON_END: Final = f"""
CREATE OR REPLACE FUNCTION lockgate.ddl_on_end() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER {PATH} AS $lockgate$
DECLARE
    touched oid[];
    stack text;
BEGIN
    -- Our own triggers, on partitions and of guards, change nothing that is described.
    GET DIAGNOSTICS stack = PG_CONTEXT;
    IF stack ~ 'PL/pgSQL function lockgate\\.(ddl_guard|guard_always)\\(oid[][]*\\) line' THEN
        RETURN;
    END IF;
    WITH commands AS MATERIALIZED (
        SELECT c.classid, c.objid FROM pg_event_trigger_ddl_commands() AS c
    )
    SELECT array_agg(DISTINCT found.oid) INTO touched FROM (
        SELECT r.oid FROM commands JOIN pg_class r ON r.oid = objid AND r.relkind IN ('r', 'p')
        WHERE classid = 'pg_class'::regclass
        UNION ALL
        SELECT i.indrelid FROM commands JOIN pg_index i ON i.indexrelid = objid
        WHERE classid = 'pg_class'::regclass
        UNION ALL
        SELECT k.conrelid FROM commands JOIN pg_constraint k ON k.oid = objid
        WHERE classid = 'pg_constraint'::regclass
        UNION ALL
        SELECT t.oid FROM commands
        LEFT JOIN pg_class r ON classid = 'pg_class'::regclass AND r.oid = objid AND r.relkind = 'c'
        JOIN lockgate.ddl_tables t ON t.description @> jsonb_build_object(
            'types', jsonb_build_array(jsonb_build_object('oid', coalesce(r.reltype, objid)::int8)))
        WHERE classid = 'pg_type'::regclass OR r.oid IS NOT NULL
        UNION ALL
        SELECT r.oid FROM commands
        JOIN pg_class r ON r.relnamespace = objid AND r.relkind IN ('r', 'p')
        WHERE classid = 'pg_namespace'::regclass
    ) AS found;
    IF touched IS NOT NULL THEN
        PERFORM lockgate.ddl_record(tg_tag, lockgate.ddl_roots(touched), '{{}}',
                                    lockgate.ddl_forms());
    END IF;
EXCEPTION WHEN OTHERS THEN{told("tg_tag")}
END
$lockgate$
"""

_ON_DROP: Final = f"""
CREATE OR REPLACE FUNCTION lockgate.ddl_on_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER {PATH} AS $lockgate$
DECLARE
    touched oid[];
    dropped oid[];
BEGIN
    WITH gone AS MATERIALIZED (
        SELECT d.classid, d.objid, d.objsubid, d.object_type
        FROM pg_event_trigger_dropped_objects() AS d
        WHERE NOT d.is_temporary
          AND d.classid IN ('pg_class'::regclass, 'pg_constraint'::regclass)
    )
    SELECT array_agg(found.oid) FILTER (WHERE found.whole),
           array_agg(found.oid) FILTER (WHERE NOT found.whole) INTO dropped, touched
    FROM (
        SELECT objid, true FROM gone
        WHERE classid = 'pg_class'::regclass AND objsubid = 0 AND object_type = 'table'
        UNION ALL
        SELECT objid, false FROM gone WHERE classid = 'pg_class'::regclass AND objsubid <> 0
        UNION ALL
        SELECT t.oid, false FROM gone JOIN lockgate.ddl_tables t
            ON t.description @> jsonb_build_object(
                CASE WHEN classid = 'pg_class'::regclass THEN 'indexes' ELSE 'constraints' END,
                jsonb_build_array(jsonb_build_object('oid', objid::int8)))
        WHERE object_type IN ('index', 'table constraint')
    ) AS found(oid, whole);
    IF dropped IS NOT NULL OR touched IS NOT NULL THEN
        PERFORM lockgate.ddl_record(
            tg_tag, lockgate.ddl_roots(touched || dropped), coalesce(dropped, '{{}}'),
            lockgate.ddl_forms());
    END IF;
EXCEPTION WHEN OTHERS THEN{told("tg_tag")}
END
$lockgate$
"""

# What is rewritten, and why, is known before it happens and not afterwards: it is kept in a
# setting of the transaction for `ddl_on_end`. A rewrite of a partition counts for its root.
_ON_REWRITE: Final = f"""
CREATE OR REPLACE FUNCTION lockgate.ddl_on_rewrite() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER {PATH} AS $lockgate$
DECLARE
    table_oid oid := pg_event_trigger_table_rewrite_oid();
BEGIN
    PERFORM set_config('lockgate.rewritten', concat_ws(',',
        nullif(current_setting('lockgate.rewritten', true), ''),
        coalesce(pg_partition_root(table_oid)::oid, table_oid)
        || ':' || pg_event_trigger_table_rewrite_reason()), true);
EXCEPTION WHEN OTHERS THEN{told("tg_tag")}
END
$lockgate$
"""

FUNCTIONS: Final = {
    **HELPERS,
    "ddl_record(text, oid[], oid[], jsonb)": _RECORD,
    "ddl_roots(oid[])": _ROOTS,
    "ddl_on_end()": _ON_END,
    "ddl_on_drop()": _ON_DROP,
    "ddl_on_rewrite()": _ON_REWRITE,
}
"""By signature, each after those it calls."""

TRIGGERS: Final = {
    "lockgate_ddl_end": """CREATE EVENT TRIGGER lockgate_ddl_end ON ddl_command_end
        WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'ALTER TABLE',
                     'CREATE INDEX', 'ALTER INDEX', 'ALTER TYPE', 'ALTER DOMAIN',
                     'CREATE SCHEMA', 'ALTER SCHEMA')
        EXECUTE FUNCTION lockgate.ddl_on_end()""",
    "lockgate_ddl_drop": """CREATE EVENT TRIGGER lockgate_ddl_drop ON sql_drop
        EXECUTE FUNCTION lockgate.ddl_on_drop()""",
    "lockgate_ddl_rewrite": """CREATE EVENT TRIGGER lockgate_ddl_rewrite ON table_rewrite
        EXECUTE FUNCTION lockgate.ddl_on_rewrite()""",
}
