"""Catalogs to compare: what two databases say of a table, without what must differ."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg

from lockgate.endpoints.postgres.schema.definitions import TableDefinition
from lockgate.endpoints.postgres.schema.discover import describe
from lockgate.model.tables import TableName

_OWN = {"oid", "type_oid", "base_oid", "uses", "parent", "needs", "labels", "number"}
_OWN |= {"replica_identity"}  # of partitions; a table's own is compared unless told not to


def picture(definition: TableDefinition, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """A definition with names instead of the server's own numbers."""
    plain = msgspec.to_builtins(definition)
    labels = {each.id: [label for _, label in each.labels] for each in definition.types}
    whole = {**_bare(plain), "labels": labels, "identity": plain["replica_identity"]}
    return {key: value for key, value in whole.items() if key not in without}


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bare(each) for key, each in value.items() if key not in _OWN}
    if isinstance(value, list | tuple):
        return [_bare(each) for each in value]
    return value


def definition_of(connection: psycopg.Connection, name: TableName) -> TableDefinition:
    """What the database says of one table."""
    return describe(connection, [name])[name]


@contextmanager
def queries(connection: psycopg.Connection) -> Iterator[list[str]]:
    """The statements that are sent over `connection`, in order."""
    sent: list[str] = []
    real = psycopg.Cursor.execute

    def execute(self: Any, query: Any, *rest: Any, **named: Any) -> Any:
        if self.connection is connection:
            sent.append(query if isinstance(query, str) else query.as_string(None))
        return real(self, query, *rest, **named)

    psycopg.Cursor.execute = execute  # type: ignore[method-assign]
    try:
        yield sent
    finally:
        psycopg.Cursor.execute = real  # type: ignore[method-assign]
