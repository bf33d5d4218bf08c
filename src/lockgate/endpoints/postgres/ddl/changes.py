"""From the log of schema changes to what they mean for one feed.

    rows of one run ──► stories, one per table ──► does the feed have it, before and after?

    before   after    meaning
    no       yes      new: made at the target, if it has no rows yet
    yes      yes      altered, maybe renamed
    yes      gone     dropped
    yes      no       renamed out of the selection: unsupported
    no       no       none of the feed's business

Rows that were in a table before the feed had it are not in the stream: a table that comes into
the selection with rows is unsupported, and so is one made by CREATE TABLE … AS.
"""

from collections.abc import Callable, Sequence

import msgspec

from lockgate.endpoints.postgres.ddl.diff import differences
from lockgate.endpoints.postgres.ddl.entries import LogRow, Story, stories
from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.definitions import TableDefinition
from lockgate.model.errors import UsageError
from lockgate.model.feed_config import FeedConfig
from lockgate.model.ids import FeedId
from lockgate.model.schema_changes import (
    NOTHING,
    CreateTable,
    DropTable,
    RenameTable,
    SchemaChange,
    SchemaStep,
    TableChange,
    Unsupported,
)
from lockgate.model.selection import plan_for
from lockgate.model.tables import Identity, TableName, TableShape

__all__ = ["Chooser", "chooser", "interpret"]

Chooser = Callable[[TableDefinition], TablePlan | None]
"""What a feed takes of a table; None for nothing. Raises UsageError for what cannot be."""


def chooser(config: FeedConfig) -> Chooser:
    """What this configuration takes."""

    def choose(definition: TableDefinition) -> TablePlan | None:
        columns = [column.name for column in definition.columns]
        selection = plan_for(config, definition.table, columns, definition.key)
        return None if selection is None else TablePlan.of(definition, selection)

    return choose


def interpret(rows: Sequence[LogRow], choose: Chooser, *, feed: FeedId = "") -> SchemaStep | None:
    """What a run of log rows means for a feed; None when it does not concern it."""
    told = stories(rows)
    tables = [change for story in told if (change := _table(story, choose)) is not None]
    statements = [row.statement for row in rows if _concerns(row, feed, tables)]
    failures = [_failure(row) for row in rows if row.failed and row.objects.feed in (None, feed)]
    if not tables and not failures:
        return None
    forms = next((row.objects.forms for row in reversed(rows) if row.objects.forms), {})
    return SchemaStep(
        "; ".join(dict.fromkeys(statements)), (*tables, *failures), forms, bool(failures)
    )


def _concerns(row: LogRow, feed: FeedId, tables: Sequence[TableChange]) -> bool:
    if row.failed:
        return row.objects.feed in (None, feed)
    names = {name for change in tables for name in (change.was, change.now)}
    return any(
        definition.table in names
        for entry in row.objects.tables
        for definition in (entry.before, entry.after)
        if definition is not None
    )


def _failure(row: LogRow) -> TableChange:
    why = f"it could not be logged at the source: {row.objects.error}"
    hint = "see the error, then copy the tables that it concerns anew"
    # It concerns nobody knows which tables; the log itself stands for them.
    name = TableName("lockgate", "ddl_log")
    return TableChange(name, name, (Unsupported(why, hint),))


def _table(story: Story, choose: Chooser) -> TableChange | None:
    try:
        was = None if story.before is None else choose(story.before)
        now = None if story.after is None else choose(story.after)
    except UsageError as error:
        definition = story.after or story.before
        assert definition is not None
        unfit = Unsupported(f"{error.what} ({error.object})", error.hint)
        return TableChange(definition.table, definition.table, (unfit,))
    if was is None and now is None:
        return None
    changes = tuple(_changes(story, was, now))
    shape = None if now is None else shape_of(now)
    old = None if was is None else shape_of(was)
    if old == shape and not changes:
        return None
    return TableChange(
        None if was is None else was.source.table,
        None if now is None else now.source.table,
        changes,
        _raw(was),
        _raw(now),
        None if old == shape else shape,
    )


def shape_of(plan: TablePlan) -> TableShape:
    """The shape of the table's rows, as far as the feed takes them."""
    return plan.source.shape(plan.left_out)


def _changes(story: Story, was: TablePlan | None, now: TablePlan | None) -> Sequence[SchemaChange]:
    if was is None:
        assert now is not None
        return [_new(story, now)]
    if now is None:
        if story.after is None:
            return [DropTable()]
        return [
            Unsupported(
                f"it is called {story.after.table} now, which the feed does not choose",
                "rename it back, or create the feed anew without it",
            )
        ]
    renamed = was.source.table != now.source.table
    return [*([RenameTable()] if renamed else []), *differences(story, was, now)]


def _new(story: Story, now: TablePlan) -> SchemaChange:
    if story.filled:
        how = "is new to the feed" if story.before is None else "came into the feed by a rename"
        return Unsupported(
            f"the table {how} and may have rows already, which are not in the stream",
            "copy it: lockgate feed resync; or make it empty first, then fill it",
        )
    if now.source.identity is Identity.NOTHING:
        return Unsupported(
            "the new table does not tell which row is updated or deleted",
            "give it a primary key, or ALTER TABLE … REPLICA IDENTITY FULL",
        )
    return CreateTable()


def _raw(plan: TablePlan | None) -> msgspec.Raw:
    return NOTHING if plan is None else msgspec.Raw(msgspec.json.encode(plan.source))
