"""User-defined types that columns are of: made at the target before the tables, once.

A type keeps its name and schema at the target, whatever the tables are renamed to: expressions
and other types name it, and two types of one name are one type or an error. What is there
already is compared: an enum may have more labels than the source's, nothing else may differ.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.schema.catalog import DESCRIBE_TYPES
from lockgate.endpoints.postgres.schema.definitions import ColumnDefinition, TypeDefinition
from lockgate.endpoints.postgres.schema.errors import TypeDiffers, TypeMissing
from lockgate.endpoints.postgres.schema.identifiers import collate, deparsed

__all__ = ["compose_type", "missing_types", "type_differences", "types_of"]

_TYPE: Final = msgspec.json.Decoder(TypeDefinition)


def types_of(
    columns: Iterable[ColumnDefinition], types: Iterable[TypeDefinition]
) -> list[TypeDefinition]:
    """The types that these columns need, each after those it is made of."""
    by_oid = {each.oid: each for each in types}
    done: dict[int, TypeDefinition] = {}

    def visit(oid: int, above: tuple[int, ...]) -> None:
        found = by_oid.get(oid)
        if found is None or oid in done or oid in above:
            return
        for needed in found.needs:
            visit(needed, (*above, oid))
        done[oid] = found

    for column in columns:
        visit(column.uses, ())
    return list(done.values())


def missing_types(
    connection: psycopg.Connection, types: Sequence[TypeDefinition]
) -> list[TypeDefinition]:
    """Those that the database does not have yet; inside `bare_names`.

    Raises when one is there and differs, or is missing and cannot be made.
    """
    names = [each.schema for each in types], [each.name for each in types]
    there = {
        (found.schema, found.name): found
        for row in connection.execute(DESCRIBE_TYPES, names)
        for found in [_TYPE.decode(row[0])]
    }
    missing: list[TypeDefinition] = []
    for each in types:
        found = there.get((each.schema, each.name))
        if found is None:
            compose_type(each)
            missing.append(each)
        elif differences := type_differences(each, found):
            raise TypeDiffers(
                f"a type of this name is at the target and differs: {'; '.join(differences)}",
                object_=each.id,
                hint="make it the source's type, or drop it where nothing uses it",
                operation="make types",
            )
    return missing


def type_differences(source: TypeDefinition, target: TypeDefinition) -> list[str]:
    """How values of the one would not be values of the other."""
    if source.kind != target.kind:
        return [f"it is of kind {_KINDS.get(target.kind, target.kind)} there"]
    found: list[str] = []
    labels = {label for _, label in target.labels}
    if lacking := [label for _, label in source.labels if label not in labels]:
        found.append(f"the labels {', '.join(lacking)} are missing there")
    if source.base != target.base:
        found.append(f"it is over {target.base} there and over {source.base} at the source")
    if target.not_null and not source.not_null:
        found.append("it is NOT NULL there")
    if source.attributes != target.attributes and not source.of_table:
        found.append("its attributes are others there")
    texts = {check for _, check in source.checks}
    if extra := [name for name, check in target.checks if check not in texts]:
        found.append(f"the checks {', '.join(extra)} are not at the source")
    return found


_KINDS: Final = {"e": "enum", "d": "domain", "c": "composite", "r": "range", "b": "base type"}


def compose_type(definition: TypeDefinition) -> sql.Composed:
    """The statement that makes the type. Raises for one that comes with something else."""
    name = sql.Identifier(definition.schema, definition.name)
    if definition.extension is not None or definition.of_table:
        raise _comes_with(definition)
    if definition.kind == "e":
        labels = sql.SQL(", ").join(sql.Literal(label) for _, label in definition.labels)
        return sql.SQL("CREATE TYPE {} AS ENUM ({})").format(name, labels)
    if definition.kind == "c":
        attributes = sql.SQL(", ").join(
            sql.SQL(" ").join([sql.Identifier(attribute), deparsed(type_), *collate(collation)])
            for attribute, type_, collation in definition.attributes
        )
        return sql.SQL("CREATE TYPE {} AS ({})").format(name, attributes)
    if definition.kind == "d":
        return _domain(name, definition)
    if definition.kind == "r":
        return _range(name, definition)
    raise _comes_with(definition)


def _domain(name: sql.Identifier, definition: TypeDefinition) -> sql.Composed:
    parts: list[sql.Composable] = [
        sql.SQL("CREATE DOMAIN {} AS {}").format(name, deparsed(definition.base or "")),
        *collate(definition.collation),
    ]
    if definition.default is not None:
        parts.append(sql.SQL("DEFAULT {}").format(deparsed(definition.default)))
    if definition.not_null:
        parts.append(sql.SQL("NOT NULL"))
    parts += [
        sql.SQL("CONSTRAINT {} {}").format(sql.Identifier(check), deparsed(text))
        for check, text in definition.checks
    ]
    return sql.SQL(" ").join(parts)


def _range(name: sql.Identifier, definition: TypeDefinition) -> sql.Composed:
    options = [sql.SQL("SUBTYPE = {}").format(deparsed(definition.base or ""))]
    if definition.collation is not None:
        options.append(sql.SQL("COLLATION = {}").format(sql.Identifier(*definition.collation)))
    if definition.multirange is not None:
        multirange = sql.Identifier(definition.schema, definition.multirange)
        options.append(sql.SQL("MULTIRANGE_TYPE_NAME = {}").format(multirange))
    return sql.SQL("CREATE TYPE {} AS RANGE ({})").format(name, sql.SQL(", ").join(options))


def _comes_with(definition: TypeDefinition) -> TypeMissing:
    if definition.extension is not None:
        what = f"this type of the extension {definition.extension} is not at the target"
        hint = f'CREATE EXTENSION "{definition.extension}" at the target, or leave the column out'
    elif definition.of_table:
        what = "this row type of a table is not at the target"
        hint = "make that table at the target first, or leave the column out"
    else:
        what = "this base type is not at the target"
        hint = "make the type at the target first, or leave the column out"
    return TypeMissing(what, object_=definition.id, hint=hint, operation="make types")
