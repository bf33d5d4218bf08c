"""Statements that look before they act, as blocks that run at the server.

A schema change is composed before its transaction begins and without asking the target. What
depends on what is there is decided where it runs.
"""

from psycopg import sql

from lockgate.model.tables import TableName

__all__ = ["attempted", "schema_made", "unless", "unless_there", "when"]

_LACKING = " OR ".join(
    (
        *("undefined_function", "undefined_object", "undefined_table", "undefined_column"),
        *("invalid_schema_name", "insufficient_privilege", "duplicate_table", "duplicate_object"),
    )
)


def unless(condition: sql.Composable, statement: sql.Composable) -> sql.Composed:
    """Do it where the condition does not hold."""
    return when(sql.SQL("NOT ({})").format(condition), statement)


def when(condition: sql.Composable, statement: sql.Composable) -> sql.Composed:
    """Do it where the condition holds."""
    body = sql.SQL("BEGIN IF {} THEN EXECUTE {}; END IF; END").format(
        condition, sql.Literal(statement.as_string(None))
    )
    return _block(body)


def unless_there(name: TableName, statement: sql.Composable) -> sql.Composed:
    """Do it where no table, index or sequence has this name."""
    return unless(sql.SQL("to_regclass({}) IS NOT NULL").format(sql.Literal(name.id)), statement)


def schema_made(name: str) -> sql.Composed:
    """The schema is there. Asked first: CREATE SCHEMA wants a privilege even for nothing."""
    quoted = sql.Identifier(name)
    there = sql.SQL("to_regnamespace({}) IS NOT NULL").format(sql.Literal(quoted.as_string(None)))
    return unless(there, sql.SQL("CREATE SCHEMA {}").format(quoted))


def attempted(statement: sql.Composable) -> sql.Composed:
    """Do it if the target has what it takes; a table can do without."""
    body = sql.SQL(
        "BEGIN EXECUTE {}; EXCEPTION WHEN {} THEN RAISE NOTICE '%', SQLERRM; END"
    ).format(sql.Literal(statement.as_string(None)), sql.SQL(_LACKING))
    return _block(body)


def _block(body: sql.Composable) -> sql.Composed:
    return sql.SQL("DO {}").format(sql.Literal(body.as_string(None)))
