"""What a feed takes of each table: which columns travel, what is masked, where it goes.

    plan_for(config, table, columns, key)   of one table, whenever its columns may have changed
    selections(config, shapes)              of the tables that there are, while a feed runs
    check_selection(config, shapes, …)      of all tables at once, before a feed is made

A column that identifies rows always travels as it is. Left out or masked with one text, rows
could not be told apart. Hashed, they could; but the copy asks the source about changed rows by
their keys, which then nobody knows any more, and rows of other tables that refer to the key
would refer to nothing. So no mask is allowed there, not even a hash.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from lockgate.model.errors import UsageError
from lockgate.model.feed_config import FeedConfig, Mask
from lockgate.model.patterns import parse_pattern, reserved, selected, split_name, unmatched
from lockgate.model.tables import TableName, TableShape, quoted
from lockgate.model.value import Value

__all__ = [
    "ROW_FILTERS_SINCE",
    "TableSelection",
    "check_selection",
    "plan_for",
    "selections",
    "sources_of",
    "target_of",
]

ROW_FILTERS_SINCE = 15
"""The first PostgreSQL whose publications filter rows. Filtering after the fact would be wrong:
an update that moves a row into the filter must arrive as an insert."""


class TableSelection(Value, frozen=True):
    """What a feed takes of one table."""

    table: TableName
    target: TableName
    columns: tuple[str, ...]
    """Those that travel, in the source's order."""
    left_out: frozenset[str] = frozenset()
    masks: dict[str, Mask] = msgspec.field(default_factory=dict)
    """By the column's name."""
    row_filter: str = ""
    """A condition in the source's SQL; empty for every row."""

    def shape(self, whole: TableShape) -> TableShape:
        """The table's shape without what is left out."""
        columns = tuple(column for column in whole.columns if column.name not in self.left_out)
        return msgspec.structs.replace(whole, columns=columns)


def target_of(config: FeedConfig, table: TableName) -> TableName:
    """Where a table's rows go. A rename of the table goes before one of its schema."""
    renames = {split_name(here): split_name(there) for here, there in config.rename.items()}
    if there := renames.get((table.schema, table.name)):
        return TableName(*there)
    if there := renames.get((table.schema,)):
        return TableName(there[0], table.name)
    return table


def sources_of(config: FeedConfig, target: TableName) -> list[TableName]:
    """What the feed would take if it were there, and bring to this table."""
    found = {target}
    for here, there in config.rename.items():
        old, new = split_name(here), split_name(there)
        if new == (target.schema, target.name):
            found.add(TableName(*old))
        elif new == (target.schema,):
            found.add(TableName(old[0], target.name))
    return [each for each in selected(config.tables, found) if target_of(config, each) == target]


def plan_for(
    config: FeedConfig, table: TableName, columns: Iterable[str], key: Sequence[str]
) -> TableSelection | None:
    """What the feed takes of a table with these columns and this key; None for nothing.

    Raises UsageError when it would hide a column of the key, or hide one in two ways.
    """
    if not selected(config.tables, [table]):
        return None
    names = tuple(columns)
    left_out = frozenset(
        name for name in names if any(_column(p, table, name) for p in config.leave_out)
    )
    masks: dict[str, Mask] = {}
    for pattern, mask in config.masks_by_pattern().items():
        for name in names:
            if not _column(pattern, table, name):
                continue
            if name in left_out or masks.get(name, mask) != mask:
                raise _unfit(
                    "a column is hidden in two ways",
                    _full(table, name),
                    f'leave one of them away; one is masks."{pattern}"',
                )
            masks[name] = mask
    for name in key:
        if name in left_out or name in masks:
            raise _unfit(
                "a column that identifies rows is left out or masked",
                _full(table, name),
                "let it travel as it is, or give the table another replica identity",
            )
    if len(left_out) == len(names):
        raise _unfit(
            "every column of a table is left out",
            table.id,
            f'leave the table out instead: tables = [… "!{table.id}"]',
        )
    return TableSelection(
        table=table,
        target=target_of(config, table),
        columns=tuple(name for name in names if name not in left_out),
        left_out=left_out,
        masks=masks,
        row_filter=_row_filter(config, table),
    )


def selections(config: FeedConfig, shapes: Iterable[TableShape]) -> list[TableSelection]:
    """What the feed takes of these tables; a setting that fits none of them is no mistake here."""
    plans = (
        plan_for(config, shape.table, [each.name for each in shape.columns], shape.key)
        for shape in shapes
    )
    return [plan for plan in plans if plan is not None]


def check_selection(
    config: FeedConfig, shapes: Iterable[TableShape], *, server_major: int
) -> list[TableSelection]:
    """What the feed takes of every table that there is; UsageError for whatever cannot be.

    `shapes` are all tables of the source with all their columns that could travel,
    `server_major` its version.
    """
    known = {shape.table: shape for shape in shapes}
    if idle := [text for text in unmatched(config.tables, known) if not text.startswith("!")]:
        raise _unfit(
            f"no table matches {', '.join(idle)}",
            "tables",
            "see the spelling, upper and lower case included; or leave the pattern away",
        )
    if config.rows and server_major < ROW_FILTERS_SINCE:
        raise _unfit(
            f"PostgreSQL {server_major} cannot filter rows",
            "rows",
            f"row filters need {ROW_FILTERS_SINCE} or newer at the source",
        )
    plans = selections(config, known.values())
    if not plans:
        raise _unfit("no table is left of the selection", "tables", "see the patterns with !")
    chosen = {plan.table: known[plan.table] for plan in plans}
    _check_used(config, chosen)
    _check_targets(plans)
    return plans


def _check_used(config: FeedConfig, chosen: Mapping[TableName, TableShape]) -> None:
    """A column to be hidden that does not exist is a misspelling, and shows what it should hide."""
    for where, patterns in (("leave_out", config.leave_out), ("masks", config.masks)):
        for pattern in patterns:
            if not any(
                _column(pattern, table, column.name)
                for table, shape in chosen.items()
                for column in shape.columns
            ):
                raise _unfit(f"no chosen table has a column {pattern}", where, "see the spelling")
    for pattern in config.rows:
        if not any(parse_pattern(pattern).matches(t.schema, t.name) for t in chosen):
            raise _unfit(f"no chosen table is called {pattern}", "rows", "see the spelling")
    for text in config.rename:
        name = split_name(text)
        if not any(name in {(t.schema,), (t.schema, t.name)} for t in chosen):
            raise _unfit(f"nothing that is chosen is called {text}", "rename", "see the spelling")


def _check_targets(plans: Iterable[TableSelection]) -> None:
    taken: dict[TableName, TableName] = {}
    for plan in plans:
        if reserved(plan.target.schema):
            raise _unfit("nothing is replicated there", plan.target.id, "choose another schema")
        if plan.target in taken:
            raise _unfit(
                f"{taken[plan.target]} and {plan.table} would both be {plan.target} at the target",
                "rename",
                "give each a name of its own",
            )
        taken[plan.target] = plan.table


def _row_filter(config: FeedConfig, table: TableName) -> str:
    found = {
        condition
        for pattern, condition in config.rows.items()
        if parse_pattern(pattern).matches(table.schema, table.name)
    }
    if len(found) > 1:
        raise _unfit("a table has two row filters", table.id, "join them with AND in one")
    return found.pop() if found else ""


def _column(pattern: str, table: TableName, column: str) -> bool:
    return parse_pattern(pattern, 3).matches(table.schema, table.name, column)


def _full(table: TableName, column: str) -> str:
    return f"{table.id}.{quoted(column)}"


def _unfit(what: str, object_: str, hint: str) -> UsageError:
    return UsageError(what, object_=object_, hint=hint, operation="choose tables and columns")
