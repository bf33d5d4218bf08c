"""What runs at the source: the functions below the event triggers, in SQL and PL/pgSQL.

Each runs inside a transaction of a user of the source, as the role that installed it, whatever
that user's settings are. Two duties follow from this:

- *No DDL of a user's fails because of us.* Whatever goes wrong in here is caught, and a row with
  the tag `failed` takes the place of the one that could not be written. It travels in the
  stream like any other, and a feed that meets it stops rather than misses something. Should even
  that fail, the user is warned and goes on; the feed then notices by the stream's own description
  of the table. A cancelled statement stays cancelled.
- *Nobody gains anything by it.* The search path is fixed, names are quoted, nobody else may call
  the functions or write the tables.

`ddl_tables` holds every watched table as it was described last. So a row of the log has *before*
and *after*, and can be understood by itself; and a command that changed nothing that is
described leaves no row. A partition has a row there too, which names its root.
"""

from typing import Final

from lockgate.endpoints.postgres.connect import TEXT_FORMS
from lockgate.endpoints.postgres.schema.catalog import DESCRIBE

__all__ = ["HELPERS", "PATH", "SETTINGS", "TABLES", "VERSION", "told"]

VERSION: Final = 1
"""Of the functions, and of what they write."""

TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS lockgate.ddl_log (
        id bigserial PRIMARY KEY,
        at timestamptz NOT NULL DEFAULT clock_timestamp(),
        tag text NOT NULL,
        statement text NOT NULL,
        objects jsonb NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS lockgate.ddl_captures (
        feed text COLLATE "C" NOT NULL,
        publication text COLLATE "C" PRIMARY KEY,
        patterns jsonb NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS lockgate.ddl_tables (
        oid oid PRIMARY KEY,
        root oid NOT NULL,
        description jsonb)""",
    "CREATE INDEX IF NOT EXISTS ddl_tables_root ON lockgate.ddl_tables (root)",
    """CREATE INDEX IF NOT EXISTS ddl_tables_description ON lockgate.ddl_tables
        USING gin (description jsonb_path_ops)""",
    """CREATE TABLE IF NOT EXISTS lockgate.ddl_identities (
        oid oid PRIMARY KEY)""",
    """CREATE TABLE IF NOT EXISTS lockgate.ddl_version (
        version integer NOT NULL,
        made_schema boolean NOT NULL)""",
)

PATH: Final = "SET search_path = pg_catalog, pg_temp"
SETTINGS: Final = f"{PATH} " + " ".join(
    f"SET {name} = '{value}'" for name, value in {**TEXT_FORMS, "jit": "off"}.items()
)
"""As on every connection of ours. Compiling a query that runs once takes longer than the query."""


def told(tag: str, feed: str = "NULL") -> str:
    """A handler's statements: have the error in the log, and fail by nothing.

    Whoever runs this may have begun before the last feed left and took the log with it, this
    very function's helpers included.
    """
    return f"""
    BEGIN
        PERFORM lockgate.ddl_failed({tag}, SQLSTATE || ' ' || SQLERRM, {feed});
    EXCEPTION WHEN OTHERS THEN
        RAISE WARNING 'Lockgate could not log this % for its feeds: %', {tag}, SQLERRM;
    END;"""


_DESCRIBE: Final = f"""
CREATE OR REPLACE FUNCTION lockgate.ddl_describe(tables oid[]) RETURNS SETOF jsonb
LANGUAGE sql STABLE {SETTINGS} AS $lockgate$
{DESCRIBE.replace(":oids", "$1")}
$lockgate$
"""

# How the user's session writes values as text: a change of type may depend on it. Called where
# nothing but the search path is set.
_FORMS: Final = f"""
CREATE OR REPLACE FUNCTION lockgate.ddl_forms() RETURNS jsonb
LANGUAGE sql STABLE {PATH} AS $lockgate$
    SELECT jsonb_object_agg(name, current_setting(name))
    FROM unnest(ARRAY['{"', '".join(TEXT_FORMS)}']) AS name
$lockgate$
"""

_MATCHES: Final = f"""
CREATE OR REPLACE FUNCTION lockgate.ddl_matches(patterns jsonb, schema text, name text)
RETURNS boolean LANGUAGE sql IMMUTABLE {SETTINGS} AS $lockgate$
    SELECT coalesce(bool_or(takes), false) AND bool_and(takes)
    FROM (
        SELECT NOT (p.pattern ->> 2)::boolean AS takes,
               $2 COLLATE "C" ~ ('^(?:' || (p.pattern ->> 0) || ')$')
               AND $3 COLLATE "C" ~ ('^(?:' || (p.pattern ->> 1) || ')$') AS hit
        FROM jsonb_array_elements($1 -> 'tables') AS p(pattern)
    ) AS each
    WHERE hit
$lockgate$
"""

_WATCH: Final = f"""
CREATE OR REPLACE FUNCTION lockgate.ddl_watch(described jsonb) RETURNS void
LANGUAGE plpgsql {SETTINGS} AS $lockgate$
DECLARE
    top oid := (described ->> 'oid')::oid;
BEGIN
    DELETE FROM lockgate.ddl_tables t WHERE t.root = top AND t.oid <> top;
    INSERT INTO lockgate.ddl_tables AS t
        SELECT top, top, described
        UNION ALL
        SELECT (p.part ->> 'oid')::oid, top, NULL
        FROM jsonb_array_elements(described -> 'partitions') AS p(part)
        ON CONFLICT (oid) DO UPDATE SET root = excluded.root, description = excluded.description;
    PERFORM lockgate.ddl_guard(top);
END
$lockgate$
"""

# A TRUNCATE of the root is in the stream, one of a partition alone is not: triggers tell of it.
_GUARD: Final = f"""
CREATE OR REPLACE FUNCTION lockgate.ddl_guard(root oid) RETURNS void
LANGUAGE plpgsql {SETTINGS} AS $lockgate$
DECLARE
    part record;
BEGIN
    FOR part IN
        SELECT c.oid, n.nspname, c.relname, w.name, w.moment
        FROM pg_partition_tree(root) AS t
        JOIN pg_class c ON c.oid = t.relid AND (t.isleaf AND c.relkind = 'r' OR c.oid = root)
        JOIN pg_namespace n ON n.oid = c.relnamespace
        CROSS JOIN (VALUES ('lockgate_truncating', 'BEFORE'), ('lockgate_truncated', 'AFTER'))
            AS w(name, moment)
        WHERE EXISTS (SELECT FROM pg_class r WHERE r.oid = root AND r.relkind = 'p')
          AND (w.moment = 'BEFORE' OR c.oid <> root)
          AND NOT EXISTS (
            SELECT FROM pg_trigger g WHERE g.tgrelid = c.oid AND g.tgname = w.name)
    LOOP
        EXECUTE format('CREATE TRIGGER %I %s TRUNCATE ON %I.%I FOR EACH STATEMENT '
                       'EXECUTE FUNCTION lockgate.ddl_on_truncate()',
                       part.name, part.moment, part.nspname, part.relname);
        EXECUTE format('ALTER TABLE %I.%I ENABLE ALWAYS TRIGGER %I',
                       part.nspname, part.relname, part.name);
    END LOOP;
END
$lockgate$
"""

# What is being truncated is kept in a setting: r for roots, l for partitions that may have rows, e
# for others. All triggers before come before all triggers after, in one command; so with the last
# of these everything is done. It must do no harm when the rest of the log is gone.
_ON_TRUNCATE: Final = f"""
CREATE OR REPLACE FUNCTION lockgate.ddl_on_truncate() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER {PATH} AS $lockgate$
DECLARE
    list text[] := string_to_array(nullif(current_setting('lockgate.truncating', true), ''), ',');
    top oid := pg_partition_root(tg_relid);
BEGIN
    IF tg_when = 'BEFORE' THEN
        list := array_append(list, CASE WHEN top = tg_relid THEN 'r'
            WHEN pg_relation_size(tg_relid) > 0 THEN 'l' ELSE 'e' END || tg_relid::text);
    ELSE
        IF 'l' || tg_relid::text = ANY (list) AND NOT 'r' || top::text = ANY (list)
           AND to_regclass('lockgate.ddl_log') IS NOT NULL
        THEN
            INSERT INTO lockgate.ddl_log (tag, statement, objects)
            SELECT 'TRUNCATE', left(coalesce(current_query(), ''), 100000), jsonb_build_object(
                'version', {VERSION}, 'by', nullif(current_setting('lockgate.feed', true), ''),
                'tables', jsonb_build_array(jsonb_build_object('before', t.description,
                    'after', t.description, 'truncated', ARRAY[tg_relid::int8])))
            FROM lockgate.ddl_tables t WHERE t.oid = top AND t.description IS NOT NULL;
        END IF;
        list := array_remove(array_remove(list, 'l' || tg_relid::text), 'e' || tg_relid::text);
        IF NOT EXISTS (SELECT FROM unnest(list) AS i(item) WHERE i.item !~ '^r') THEN
            list := NULL;
        END IF;
    END IF;
    PERFORM set_config('lockgate.truncating', coalesce(array_to_string(list, ','), ''), true);
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN{told("'TRUNCATE'")}
    RETURN NULL;
END
$lockgate$
"""

# A published table without replica identity would refuse its users' updates and deletes. So one
# that has no key, and the partitions of such a one, tell whole rows, until they have a key; which
# ones is kept in `ddl_identities`. The nested ALTER TABLE calls the triggers again: whatever it
# leads to is done when it returns.
_IDENTIFY: Final = f"""
CREATE OR REPLACE FUNCTION lockgate.ddl_identify(root oid) RETURNS void
LANGUAGE plpgsql {SETTINGS} AS $lockgate$
DECLARE
    part record;
BEGIN
    FOR part IN
        SELECT c.oid, n.nspname, c.relname, c.relreplident AS now_, k.has_key, EXISTS (
            SELECT FROM lockgate.ddl_identities i WHERE i.oid = c.oid) AS ours
        FROM (SELECT root AS oid UNION SELECT relid FROM pg_partition_tree(root)) AS t
        JOIN pg_class c ON c.oid = t.oid AND c.relkind IN ('r', 'p')
        JOIN pg_namespace n ON n.oid = c.relnamespace
        CROSS JOIN LATERAL (SELECT EXISTS (
            SELECT FROM pg_index i
            WHERE i.indrelid = c.oid AND i.indisprimary AND i.indimmediate) AS has_key) AS k
        ORDER BY c.oid <> root
    LOOP
        IF part.now_ = 'd' AND (NOT part.has_key OR EXISTS (
            SELECT FROM pg_class r WHERE r.oid = root AND r.relreplident = 'f'))
        THEN
            INSERT INTO lockgate.ddl_identities VALUES (part.oid) ON CONFLICT DO NOTHING;
            EXECUTE format('ALTER TABLE %I.%I REPLICA IDENTITY FULL', part.nspname, part.relname);
        ELSIF part.now_ = 'f' AND part.ours AND part.has_key AND (part.oid = root OR EXISTS (
            SELECT FROM pg_class r WHERE r.oid = root AND r.relreplident = 'd'))
        THEN
            DELETE FROM lockgate.ddl_identities i WHERE i.oid = part.oid;
            EXECUTE format('ALTER TABLE %I.%I REPLICA IDENTITY DEFAULT',
                           part.nspname, part.relname);
        END IF;
    END LOOP;
END
$lockgate$
"""

# Whether any feed has the table; it is added to the publications of feeds that want it.
_PUBLISH: Final = f"""
CREATE OR REPLACE FUNCTION lockgate.ddl_publish(tag text, table_oid oid, schema text, name text)
RETURNS boolean LANGUAGE plpgsql {SETTINGS} AS $lockgate$
DECLARE
    capture record;
    filter text;
    watched boolean := false;
BEGIN
    FOR capture IN
        SELECT c.feed, c.publication, c.patterns
        FROM lockgate.ddl_captures c
        WHERE lockgate.ddl_published(c.publication, table_oid)
           OR lockgate.ddl_matches(c.patterns, schema, name)
        ORDER BY c.feed, c.publication
    LOOP
        watched := true;
        BEGIN
            PERFORM lockgate.ddl_identify(table_oid);
            CONTINUE WHEN lockgate.ddl_published(capture.publication, table_oid);
            SELECT ' WHERE (' || (f.filter ->> 2) || ')' INTO filter
            FROM jsonb_array_elements(capture.patterns -> 'rows') AS f(filter)
            WHERE schema COLLATE "C" ~ ('^(?:' || (f.filter ->> 0) || ')$')
              AND name COLLATE "C" ~ ('^(?:' || (f.filter ->> 1) || ')$');
            EXECUTE format('ALTER PUBLICATION %I ADD TABLE %I.%I%s', capture.publication,
                           schema, name, coalesce(filter, ''));
        EXCEPTION WHEN OTHERS THEN{told("tag", "capture.feed")}
        END;
    END LOOP;
    RETURN watched;
END
$lockgate$
"""

_PUBLISHED: Final = f"""
CREATE OR REPLACE FUNCTION lockgate.ddl_published(publication text, table_oid oid)
RETURNS boolean LANGUAGE sql STABLE {SETTINGS} AS $lockgate$
    SELECT EXISTS (
        SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
        WHERE p.pubname = $1 AND r.prrelid = $2)
$lockgate$
"""

_FAILED: Final = f"""
CREATE OR REPLACE FUNCTION lockgate.ddl_failed(tag text, error text, feed text) RETURNS void
LANGUAGE plpgsql {SETTINGS} AS $lockgate$
BEGIN
    INSERT INTO lockgate.ddl_log (tag, statement, objects)
    VALUES ('failed', left(coalesce(current_query(), ''), 100000),
            jsonb_build_object('version', {VERSION}, 'tag', tag, 'error', error, 'feed', feed));
END
$lockgate$
"""

HELPERS: Final = {
    "ddl_describe(oid[])": _DESCRIBE,
    "ddl_forms()": _FORMS,
    "ddl_matches(jsonb, text, text)": _MATCHES,
    "ddl_failed(text, text, text)": _FAILED,
    "ddl_on_truncate()": _ON_TRUNCATE,
    "ddl_guard(oid)": _GUARD,
    "ddl_watch(jsonb)": _WATCH,
    "ddl_published(text, oid)": _PUBLISHED,
    "ddl_identify(oid)": _IDENTIFY,
    "ddl_publish(text, oid, text, text)": _PUBLISH,
}
"""By signature, each after those it calls."""
