"""The one query that describes tables: for each a JSON document, as `definitions.py` reads it.

Discovery runs it for thousands of tables at once. The log of schema changes has it as the body
of a function at the source, so that what a trigger writes down of a changed table is word for
word what discovery would say. It runs on PostgreSQL 14 to 18, and it must run with an empty
search path: the server then writes every name in full.
"""

from typing import Final

__all__ = ["DESCRIBE", "DESCRIBE_TYPES"]

# Objects below oid 16384 are in every database.

# Names of columns by their numbers, in the order of the numbers.
_NAMES: Final = """(
    SELECT coalesce(jsonb_agg(na.attname ORDER BY nk.ord), '[]')
    FROM unnest({numbers}) WITH ORDINALITY AS nk(attnum, ord)
    JOIN pg_attribute na ON na.attrelid = {table} AND na.attnum = nk.attnum
)"""

_COLLATION: Final = """(
    SELECT jsonb_build_array(cn.nspname, co.collname)
    FROM pg_collation co JOIN pg_namespace cn ON cn.oid = co.collnamespace
    WHERE co.oid = {collation} AND co.oid <> {own}
)"""

_SEQUENCE: Final = """(
    SELECT jsonb_build_object(
        'oid', s.seqrelid::int8, 'schema', sn.nspname, 'name', sc.relname,
        'type', format_type(s.seqtypid, NULL), 'start', s.seqstart,
        'increment', s.seqincrement, 'minimum', s.seqmin, 'maximum', s.seqmax,
        'cache', s.seqcache, 'cycle', s.seqcycle,
        'owned', EXISTS (
            SELECT FROM pg_depend o
            WHERE o.classid = 'pg_class'::regclass AND o.objid = s.seqrelid
              AND o.refclassid = 'pg_class'::regclass AND o.refobjid = a.attrelid
              AND o.refobjsubid = a.attnum AND o.deptype IN ('a', 'i')))
    FROM pg_sequence s
    JOIN pg_class sc ON sc.oid = s.seqrelid
    JOIN pg_namespace sn ON sn.oid = sc.relnamespace
    WHERE s.seqrelid = (
        SELECT min(of.seq) FROM (
            SELECT d.objid AS seq FROM pg_depend d
            WHERE a.attidentity <> '' AND d.refclassid = 'pg_class'::regclass
              AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum
              AND d.classid = 'pg_class'::regclass AND d.deptype = 'i'
            UNION ALL
            SELECT d.refobjid FROM pg_depend d
            JOIN pg_class ds ON ds.oid = d.refobjid AND ds.relkind = 'S'
            WHERE d.classid = 'pg_attrdef'::regclass AND d.objid = ad.oid
              AND d.refclassid = 'pg_class'::regclass
        ) of)
)"""

_BASE: Final = """CASE WHEN t.typtype <> 'd' THEN t.oid ELSE (
    WITH RECURSIVE below(oid, kind, base) AS (
        SELECT t.oid, t.typtype, t.typbasetype
        UNION ALL
        SELECT b.oid, b.typtype, b.typbasetype
        FROM below JOIN pg_type b ON b.oid = below.base WHERE below.kind = 'd')
    SELECT below.oid FROM below WHERE below.kind <> 'd') END"""

# Below arrays and multiranges, which come with their element's or range's type.
_USES: Final = """(
    SELECT CASE WHEN e.oid < 16384 THEN 0
                WHEN e.typtype = 'm' THEN (
                    SELECT r.rngtypid::int8 FROM pg_range r WHERE r.rngmultitypid = e.oid)
                ELSE e.oid::int8 END
    FROM pg_type e
    WHERE e.oid = CASE WHEN {type}.typelem <> 0 AND {type}.typcategory = 'A'
                       THEN {type}.typelem ELSE {type}.oid END
)"""

_COLUMNS: Final = f"""(
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'number', a.attnum, 'name', a.attname,
        'type', format_type(a.atttypid, a.atttypmod),
        'type_oid', a.atttypid::int8, 'base_oid', ({_BASE})::int8,
        'uses', {_USES.format(type="t")},
        'not_null', a.attnotnull AND NOT EXISTS (
            SELECT FROM pg_constraint nn
            WHERE nn.conrelid = a.attrelid AND nn.contype = 'n' AND NOT nn.convalidated
              AND nn.conkey = ARRAY[a.attnum]),
        'identity', a.attidentity, 'generated', a.attgenerated,
        'default', pg_get_expr(ad.adbin, ad.adrelid),
        'collation', {_COLLATION.format(collation="a.attcollation", own="t.typcollation")},
        'sequence', CASE WHEN a.attidentity <> '' OR ad.oid IS NOT NULL THEN {_SEQUENCE} END
    ) ORDER BY a.attnum), '[]')
    FROM pg_attribute a
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_attrdef ad ON ad.adrelid = a.attrelid AND ad.adnum = a.attnum
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
)"""

# pg_get_indexdef writes `CREATE [UNIQUE] INDEX name ON [ONLY] table USING …`: the part before
# USING is written once more, to know where it ends whatever the names contain. What such functions
# say is of now, all else is of the statement's snapshot: NULL where the two do not fit together.
_INDEXES: Final = f"""(
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'oid', i.indexrelid::int8, 'name', ic.relname,
        'unique', i.indisunique, 'primary', i.indisprimary, 'replica', i.indisreplident,
        'identifies', i.indisunique AND i.indimmediate AND i.indpred IS NULL
            AND i.indexprs IS NULL AND NOT EXISTS (
                SELECT FROM pg_attribute ka
                WHERE ka.attrelid = i.indrelid AND NOT ka.attnotnull
                  AND ka.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])),
        'constraint', EXISTS (
            SELECT FROM pg_constraint ck
            WHERE ck.conindid = i.indexrelid AND ck.contype IN ('p', 'u', 'x')),
        'key', CASE WHEN i.indexprs IS NULL THEN
            {
    _NAMES.format(numbers="(i.indkey::int2[])[0:i.indnkeyatts - 1]", table="i.indrelid")
} ELSE '[]' END,
        'columns', (
            SELECT coalesce(jsonb_agg(la.attname ORDER BY la.attnum), '[]')
            FROM pg_attribute la
            WHERE la.attrelid = i.indrelid AND la.attnum > 0
              AND (la.attnum = ANY (i.indkey::int2[]) OR EXISTS (
                SELECT FROM pg_depend d
                WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                  AND d.refclassid = 'pg_class'::regclass
                  AND d.refobjid = i.indrelid AND d.refobjsubid = la.attnum))),
        'tail', CASE WHEN starts_with(d.whole, d.head)
            THEN substr(d.whole, 1 + length(d.head)) END
    ) ORDER BY ic.relname), '[]')
    FROM pg_index i JOIN pg_class ic ON ic.oid = i.indexrelid
    CROSS JOIN LATERAL (SELECT pg_get_indexdef(i.indexrelid) AS whole,
        CASE WHEN i.indisunique THEN 'CREATE UNIQUE INDEX ' ELSE 'CREATE INDEX ' END
        || quote_ident(ic.relname)
        || CASE WHEN ic.relkind = 'I' THEN ' ON ONLY ' ELSE ' ON ' END
        || quote_ident(n.nspname) || '.' || quote_ident(c.relname) || ' ' AS head) d
    WHERE i.indrelid = c.oid AND i.indislive AND i.indisvalid
)"""

# A foreign key's text is cut in two around the referenced table, whose name may be another one
# at the target.
_CONSTRAINTS: Final = f"""(
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'oid', k.oid::int8, 'name', k.conname, 'kind', k.contype,
        'columns', {_NAMES.format(numbers="k.conkey", table="k.conrelid")},
        'validated', k.convalidated,
        'definition', CASE WHEN k.contype = 'f'
            THEN left(d.whole, d.at - 1) ELSE d.whole END,
        'references', CASE WHEN k.contype = 'f' THEN jsonb_build_array(fn.nspname, fc.relname) END,
        'tail', CASE WHEN k.contype = 'f'
            THEN regexp_replace(substr(d.whole, d.at + length(d.middle)), ' NOT VALID$', '')
            ELSE '' END,
        'referenced_columns', {_NAMES.format(numbers="k.confkey", table="k.confrelid")}
    ) ORDER BY k.conname), '[]')
    FROM pg_constraint k
    LEFT JOIN pg_class fc ON fc.oid = k.confrelid
    LEFT JOIN pg_namespace fn ON fn.oid = fc.relnamespace
    CROSS JOIN LATERAL (SELECT pg_get_constraintdef(k.oid) AS whole,
        ' REFERENCES ' || quote_ident(fn.nspname) || '.' || quote_ident(fc.relname) AS middle) w
    CROSS JOIN LATERAL (SELECT w.*, nullif(strpos(w.whole, w.middle), 0) AS at) d
    WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u', 'c', 'x', 'f') AND k.conparentid = 0
)"""

_PARTITIONS: Final = """CASE WHEN c.relkind <> 'p' THEN '[]' ELSE (
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'oid', p.relid::oid::int8, 'schema', pn.nspname, 'name', pc.relname,
        'parent', p.parentrelid::oid::int8, 'kind', pc.relkind,
        'bound', pg_get_expr(pc.relpartbound, pc.oid),
        'key', pg_get_partkeydef(pc.oid), 'replica_identity', pc.relreplident,
        'has_primary_key', EXISTS (
            SELECT FROM pg_index pi
            WHERE pi.indrelid = pc.oid AND pi.indisprimary AND pi.indimmediate AND pi.indisvalid)
    ) ORDER BY p.level, pn.nspname, pc.relname), '[]')
    FROM pg_partition_tree(c.oid) p
    JOIN pg_class pc ON pc.oid = p.relid
    JOIN pg_namespace pn ON pn.oid = pc.relnamespace
    WHERE p.level > 0) END"""

_TYPE: Final = f"""jsonb_build_object(
        'oid', t.oid::int8, 'schema', tn.nspname, 'name', t.typname, 'kind', t.typtype,
        'needs', (
            SELECT coalesce(jsonb_agg(DISTINCT u.uses ORDER BY u.uses), '[]')
            FROM (
                SELECT {_USES.format(type="b")} AS uses
                FROM pg_type b WHERE b.oid = t.typbasetype OR b.oid = (
                    SELECT r.rngsubtype FROM pg_range r WHERE r.rngtypid = t.oid)
                UNION
                SELECT {_USES.format(type="b")} FROM pg_attribute a
                JOIN pg_type b ON b.oid = a.atttypid
                WHERE t.typtype = 'c' AND a.attrelid = t.typrelid
                  AND a.attnum > 0 AND NOT a.attisdropped
            ) u WHERE u.uses <> 0),
        'extension', (
            SELECT e.extname FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
            WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid
              AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'),
        'of_table', t.typtype = 'c' AND EXISTS (
            SELECT FROM pg_class rc WHERE rc.oid = t.typrelid AND rc.relkind <> 'c'),
        'labels', (
            SELECT coalesce(jsonb_agg(
                jsonb_build_array(l.oid::int8, l.enumlabel) ORDER BY l.enumsortorder), '[]')
            FROM pg_enum l WHERE l.enumtypid = t.oid),
        'base', CASE t.typtype WHEN 'd' THEN format_type(t.typbasetype, t.typtypmod)
            WHEN 'r' THEN (SELECT format_type(r.rngsubtype, NULL)
                           FROM pg_range r WHERE r.rngtypid = t.oid) END,
        'not_null', t.typnotnull,
        'default', CASE WHEN t.typtype = 'd' THEN pg_get_expr(t.typdefaultbin, 0) END,
        'collation', CASE t.typtype
            WHEN 'd' THEN (
                SELECT {_COLLATION.format(collation="t.typcollation", own="b.typcollation")}
                FROM pg_type b WHERE b.oid = t.typbasetype)
            WHEN 'r' THEN (
                SELECT {_COLLATION.format(collation="r.rngcollation", own="b.typcollation")}
                FROM pg_range r JOIN pg_type b ON b.oid = r.rngsubtype
                WHERE r.rngtypid = t.oid) END,
        'checks', (
            SELECT coalesce(jsonb_agg(jsonb_build_array(
                k.conname, pg_get_constraintdef(k.oid)) ORDER BY k.conname), '[]')
            FROM pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c'),
        'attributes', (
            SELECT coalesce(jsonb_agg(jsonb_build_array(
                a.attname, format_type(a.atttypid, a.atttypmod),
                {_COLLATION.format(collation="a.attcollation", own="at.typcollation")}
            ) ORDER BY a.attnum), '[]')
            FROM pg_attribute a JOIN pg_type at ON at.oid = a.atttypid
            WHERE t.typtype = 'c' AND a.attrelid = t.typrelid
              AND a.attnum > 0 AND NOT a.attisdropped),
        'multirange', (SELECT m.typname FROM pg_range r JOIN pg_type m ON m.oid = r.rngmultitypid
                       WHERE r.rngtypid = t.oid)
    )"""

_TYPES: Final = f"""(
    WITH RECURSIVE used(oid) AS (
        SELECT a.atttypid FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
        UNION
        SELECT edge.oid FROM used
        JOIN pg_type t ON t.oid = used.oid
        CROSS JOIN LATERAL (
            SELECT t.typbasetype WHERE t.typtype = 'd'
            UNION ALL SELECT t.typelem WHERE t.typtype = 'b' AND t.typcategory = 'A'
            UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE r.rngtypid = t.oid
            UNION ALL SELECT r.rngtypid FROM pg_range r WHERE r.rngmultitypid = t.oid
            UNION ALL SELECT a.atttypid FROM pg_attribute a
                WHERE t.typtype = 'c' AND a.attrelid = t.typrelid
                  AND a.attnum > 0 AND NOT a.attisdropped
        ) AS edge(oid)
        WHERE edge.oid >= 16384)
    SELECT coalesce(jsonb_agg({_TYPE} ORDER BY tn.nspname, t.typname), '[]')
    FROM used
    JOIN pg_type t ON t.oid = used.oid
    JOIN pg_namespace tn ON tn.oid = t.typnamespace
    WHERE t.typtype <> 'm' AND NOT (t.typelem <> 0 AND t.typcategory = 'A')
)"""

DESCRIBE_TYPES: Final = f"""
SELECT {_TYPE}::text
FROM unnest(%s::text[], %s::text[]) AS w(schema, name)
JOIN pg_namespace tn ON tn.nspname = w.schema
JOIN pg_type t ON t.typnamespace = tn.oid AND t.typname = w.name
"""
"""The types of these schemas and names, as far as they exist."""

DESCRIBE: Final = f"""
SELECT jsonb_build_object(
    'oid', c.oid::int8, 'schema', n.nspname, 'name', c.relname, 'kind', c.relkind,
    'persistence', c.relpersistence, 'owner', pg_get_userbyid(c.relowner),
    'replica_identity', c.relreplident, 'row_security', c.relrowsecurity,
    'inherits', (
        SELECT coalesce(jsonb_agg(jsonb_build_array(pn.nspname, pc.relname) ORDER BY h.inhseqno),
                        '[]')
        FROM pg_inherits h
        JOIN pg_class pc ON pc.oid = h.inhparent
        JOIN pg_namespace pn ON pn.oid = pc.relnamespace
        WHERE h.inhrelid = c.oid AND NOT c.relispartition),
    'has_children', c.relkind = 'r' AND EXISTS (
        SELECT FROM pg_inherits h WHERE h.inhparent = c.oid),
    'partition_of', CASE WHEN c.relispartition THEN (
        SELECT jsonb_build_array(pn.nspname, pc.relname)
        FROM pg_class pc JOIN pg_namespace pn ON pn.oid = pc.relnamespace
        WHERE pc.oid = pg_partition_root(c.oid)) END,
    'partition_key', pg_get_partkeydef(c.oid),
    'columns', {_COLUMNS},
    'indexes', {_INDEXES},
    'constraints', {_CONSTRAINTS},
    'partitions', {_PARTITIONS},
    'types', {_TYPES}) AS description
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (:oids)
ORDER BY n.nspname, c.relname
"""
"""Put the tables' oids (an `oid[]`) in the place of `:oids`."""
