"""What creating a feed would make, found out without making anything.

The same look that a set-up begins with: what it would refuse is refused here, and what the checks
of both endpoints find comes along.
"""

from dataclasses import replace

from lockgate.endpoints.delta.check import check_lake
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.endpoints.postgres.check_source import check_source
from lockgate.endpoints.postgres.check_target import check_target
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.schema import create, discover
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import EndpointRefused
from lockgate.model.feed_config import FeedConfig
from lockgate.model.feed_status import FeedPlan, PlannedTable
from lockgate.model.findings import Finding, Severity, from_error, worst
from lockgate.model.ids import TableId
from lockgate.model.tables import TableName
from lockgate.node.feed.chosen import Chosen
from lockgate.node.feed.ends import Ends
from lockgate.node.feed.preparing import SourceLog, lake_obstacles, lake_sink
from lockgate.node.feed.setup import choose, entry_of
from lockgate.node.service.endpoints import documents_of

__all__ = ["findings_of", "obstacles", "plan", "refuse_if_unfit"]

_ROWS = """
SELECT n.nspname::text, c.relname::text, greatest(c.reltuples, 0)::bigint
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
"""


def plan(config: FeedConfig, ends: Ends, home: str, birth: int, *, new: bool = True) -> FeedPlan:
    """Everything that would be made, and all that the endpoints' checks say. `birth` is the one
    that the feed would have if it were created next; one that is not `new` has filled its tables
    itself."""
    with connect(ends.source, purpose=f"plan {config.name}", autocommit=True) as connection:
        chosen = choose(connection, config)
        with faults(object_=ends.source.label, operation="plan a feed"):
            rows = connection.execute(
                _ROWS,
                (
                    [each.definition.schema for each in chosen],
                    [each.definition.name for each in chosen],
                ),
            ).fetchall()
    estimates = {(schema, name): count for schema, name, count in rows}
    there = _there(config, ends, chosen, home)
    entry = entry_of(config, home, birth)
    findings = findings_of(config, ends, chosen, home, new=new)
    tables = tuple(
        PlannedTable(
            table=each.definition.table.id,
            target=each.selection.target.id,
            columns=each.selection.columns,
            left_out=tuple(sorted(each.selection.left_out)),
            masked=tuple(sorted(each.selection.masks)),
            key=each.shape.key,
            rows=each.selection.row_filter,
            rows_estimated=estimates.get((each.definition.schema, each.definition.name), 0),
            exists=each.selection.target in there,
        )
        for each in chosen
    )
    makes = [
        f"source: publication {entry.publication} for {len(tables)} tables",
        f"source: replication slot {entry.slot}",
        "source: schema lockgate with the log of schema changes, if the role may",
        f"target: {'_lockgate' if isinstance(ends.target, LakeUrl) else 'schema lockgate'} "
        "with the fence",
        *(f"target: table {each.target}" for each in tables if not each.exists),
    ]
    return FeedPlan(config.name, tables, tuple(makes), documents_of(findings))


def _there(config: FeedConfig, ends: Ends, chosen: list[Chosen], home: str) -> set[TableName]:
    """Which of the tables the target has already."""
    targets = [each.selection.target for each in chosen]
    if isinstance(ends.target, LakeUrl):
        lake = lake_sink(ends.target, config, home).tables.lake
        return {name for name in targets if lake.living(name.id) is not None}
    with connect(ends.target, purpose=f"plan {config.name}", autocommit=True) as connection:
        return set(discover.describe(connection, targets))


def findings_of(
    config: FeedConfig, ends: Ends, chosen: list[Chosen], home: str, *, new: bool
) -> list[Finding]:
    """What the checks of both endpoints say of this feed, and of the tables that it would fill."""
    return [*check_source(ends.source, config=config), *_at_target(config, ends, chosen, home, new)]


def _at_target(
    config: FeedConfig, ends: Ends, chosen: list[Chosen], home: str, new: bool
) -> list[Finding]:
    if isinstance(ends.target, LakeUrl):
        found = check_lake(ends.target)
        if new and worst(found) is not Severity.ERROR:
            with connect(ends.source, purpose=f"plan {config.name}", autocommit=True) as source:
                log = SourceLog.of(source)
            found += map(from_error, lake_obstacles(ends.target, config, chosen, home, log))
        return found
    found = check_target(ends.target, targets=[each.selection.target for each in chosen])
    if new and worst(found) is not Severity.ERROR:
        found += obstacles(config, ends.target, chosen)
    return found


def obstacles(config: FeedConfig, target: PostgresUrl, chosen: list[Chosen]) -> list[Finding]:
    """Tables that are there and cannot take the rows, as a set-up that has made nothing sees
    them: all of them are somebody else's."""
    plans = [replace(each.plan, with_key=True) for each in chosen]
    with connect(target, purpose=f"plan {config.name}", autocommit=True) as connection:
        found = create.obstacles(connection, plans, must_be_empty=config.copy)
    return [from_error(each) for each in found]


def refuse_if_unfit(config: FeedConfig, ends: Ends, home: str) -> list[TableId]:
    """Raise for the first thing that would make the feed fail, before anything is made. Answers the
    tables that it would fill."""
    with connect(ends.source, purpose=f"plan {config.name}", autocommit=True) as connection:
        chosen = choose(connection, config)
    found = findings_of(config, ends, chosen, home, new=True)
    wrong = [each for each in found if each.severity is Severity.ERROR]
    if wrong:
        first = wrong[0]
        more = f" (and {len(wrong) - 1} more: see --dry-run)" if len(wrong) > 1 else ""
        raise EndpointRefused(
            f"{first.what}{more}", object_=first.object, hint=first.hint, operation="create a feed"
        )
    return [each.selection.target.id for each in chosen]
