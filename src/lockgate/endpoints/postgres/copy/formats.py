"""May rows travel in binary form? Only where both sides mean the same bytes.

Every column is described, on each side, by the types that its binary form is made of: domains are
their base type, arrays, ranges and composites are opened up. Rows go in binary form when the two
descriptions are equal for every column, or the target's says more, and nothing in them is one of
these:

- a type without binary input or output;
- a type whose binary form names objects by numbers of its own database (regclass and its kin);
- xml, whose binary form carries a declaration of its encoding that the text form does not;
- tsquery, int2vector, oidvector, which send an empty one in a form that they do not take back;
- a base type out of an extension, which may be of two versions.

Enums travel as their labels. Arrays and composites name the types of their elements by number,
but since PostgreSQL 14 only built-in types are held to that, and those have one number everywhere.

An interval can be infinite since PostgreSQL 17. A server that does not know it reads those bytes as
a finite one, of 178,956,970 years, and the text not at all: so it is given the text.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import psycopg

from lockgate.endpoints.postgres.faults import faults
from lockgate.model.tables import TableName

__all__ = ["Forms", "binary_forms", "same_forms"]

Forms = Mapping[str, str | None]
"""Columns, and what their binary form is made of; None when it is not to be used."""

_INFINITE: Final = "±infinity"
"""Marks an interval that can be infinite."""

_FORMS: Final = """
WITH RECURSIVE parts(no, col, oid, path) AS (
    SELECT w.no, a.attname, a.atttypid, ARRAY[]::int4[]
    FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS w(schema, name, no)
    JOIN pg_namespace n ON n.nspname = w.schema
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT parts.no, parts.col, below.oid,
           CASE WHEN t.typtype = 'd' THEN parts.path ELSE parts.path || below.step END
    FROM parts
    JOIN pg_type t ON t.oid = parts.oid
    CROSS JOIN LATERAL (
        SELECT t.typbasetype, 0 WHERE t.typtype = 'd'
        UNION ALL SELECT t.typelem, 0 WHERE t.typtype = 'b' AND t.typcategory = 'A'
        UNION ALL SELECT r.rngsubtype, 0 FROM pg_range r WHERE r.rngtypid = t.oid
        UNION ALL SELECT r.rngtypid, 0 FROM pg_range r WHERE r.rngmultitypid = t.oid
        UNION ALL SELECT a.atttypid, a.attnum::int4 FROM pg_attribute a
            WHERE t.typtype = 'c' AND a.attrelid = t.typrelid
              AND a.attnum > 0 AND NOT a.attisdropped
    ) AS below(oid, step)
)
SELECT parts.no, parts.col,
       string_agg(array_to_string(parts.path, '.') || ':' || t.typtype::text || ':' ||
                  CASE WHEN t.oid < 16384 THEN t.typname ELSE tn.nspname || '.' || t.typname END ||
                  CASE WHEN t.oid = 'interval'::regtype
                            AND current_setting('server_version_num')::int >= 170000
                       THEN %s ELSE '' END,
                  ' ' ORDER BY parts.path) FILTER (WHERE t.typtype <> 'd'),
       bool_and(t.typtype = 'd' OR (
           t.typsend <> 0 AND t.typreceive <> 0
           AND NOT (t.oid < 16384 AND (t.typname ~ '^reg'
                OR t.typname IN ('xml', 'tsquery', 'int2vector', 'oidvector')))
           AND NOT (t.oid >= 16384 AND t.typtype = 'b' AND t.typcategory <> 'A')))
FROM parts
JOIN pg_type t ON t.oid = parts.oid
JOIN pg_namespace tn ON tn.oid = t.typnamespace
GROUP BY parts.no, parts.col
"""


def binary_forms(
    connection: psycopg.Connection, tables: Sequence[TableName]
) -> dict[TableName, Forms]:
    """The binary forms of all columns of these tables, as far as they exist."""
    asked = [table.schema for table in tables], [table.name for table in tables], _INFINITE
    found: dict[TableName, dict[str, str | None]] = {table: {} for table in tables}
    info = connection.info
    label = f"{info.host}:{info.port}/{info.dbname}"
    with faults(object_=label, operation="read the catalog"):
        for number, column, form, usable in connection.execute(_FORMS, asked):
            found[tables[number - 1]][column] = form if usable else None
    return dict(found)


_TEXT: Final = ":b:text"
"""The form of what a mask puts in a value's place."""


def same_forms(
    source: Forms, target: Forms, columns: Sequence[str], masked: Sequence[str] = ()
) -> bool:
    """True when all these columns may travel in binary form."""
    forms = [_TEXT if name in masked else source.get(name) for name in columns]
    return all(
        form is not None and _takes(target.get(name), form)
        for name, form in zip(columns, forms, strict=True)
    )


def _takes(target: str | None, form: str) -> bool:
    """True when the target's form holds all values of the other."""
    return target is not None and form in (target, target.replace(_INFINITE, ""))
