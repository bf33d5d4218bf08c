"""What creating a move would do, found out without doing anything."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from lockgate.core.move.plans import PLANS
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.cutover.checks import create_findings
from lockgate.endpoints.postgres.schema import discover
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import Conflict, EndpointRefused, LockgateError
from lockgate.model.feed_config import FeedConfig
from lockgate.model.findings import Finding, Severity, from_error
from lockgate.model.ids import TableId
from lockgate.model.move_config import MoveConfig, feed_name
from lockgate.model.move_status import MoveOutcome, PlannedStep
from lockgate.model.moves import Command, Step
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName
from lockgate.node.feed.chosen import Chosen
from lockgate.node.feed.ends import Url
from lockgate.node.feed.setup import choose
from lockgate.node.hooks import FindHook
from lockgate.node.move.feeds import refuse_if_taken
from lockgate.node.service import apart
from lockgate.node.service.contexts import Contexts
from lockgate.node.service.endpoints import documents_of
from lockgate.node.service.planning import findings_of
from lockgate.store.endpoints import EndpointEntry
from lockgate.store.feeds import FeedBook
from lockgate.store.moves import taken

__all__ = ["MovePlan", "MovePlans", "refused"]


class MovePlan(NamedTuple):
    """A move that can be created."""

    tables: tuple[TableId, ...]
    there: tuple[TableId, ...]
    """Those that the target has already."""
    between: tuple[EndpointEntry, ...]
    findings: tuple[Finding, ...]
    taken: Conflict | None
    """Another move has one of the tables, in one of these databases; or a feed of people's has the
    name that the move's first one needs."""


class MovePlans:
    """Looks at both ends."""

    def __init__(self, contexts: Contexts, feeds: FeedBook, hook: FindHook) -> None:
        """`hook` finds one by its name."""
        self._contexts = contexts
        self._feeds = feeds
        self._hook = hook

    def told(self, config: MoveConfig) -> MoveOutcome:
        """For people: the steps, and what was found."""
        plan = self._looked(config)
        findings = [*([from_error(plan.taken)] if plan.taken else []), *plan.findings]
        many = len(plan.tables)
        steps = {
            Step.CHECK_CREATE: f"look whether {many} tables can be moved",
            Step.FORWARD: f"copy and follow {', '.join(plan.tables)}",
            Step.GUARD: f"close the tables of {config.target} for everybody but Lockgate",
        }
        planned = tuple(PlannedStep(one.value, steps[one]) for one in PLANS[Command.CREATE])
        return _outcome(findings, planned)

    def checked(self, config: MoveConfig) -> MovePlan:
        """Raises for the first thing that stands in the way, before anything is made."""
        plan = self._looked(config)
        if plan.taken is not None:
            raise plan.taken
        wrong = [each for each in plan.findings if each.severity is Severity.ERROR]
        if wrong:
            first = wrong[0]
            more = f" (and {len(wrong) - 1} more: see --dry-run)" if len(wrong) > 1 else ""
            raise EndpointRefused(
                f"{first.what}{more}",
                object_=first.object,
                hint=first.hint,
                operation="create a move",
            )
        return plan

    def _looked(self, config: MoveConfig) -> MovePlan:
        feed = FeedConfig(
            name=feed_name(config.name, 0),
            source=Secret(config.source),
            target=Secret(config.target),
            tables=config.tables,
        )
        ends, between = self._contexts.between(feed)
        if not isinstance(ends.target, PostgresUrl):
            raise Conflict(
                "a lake takes no traffic: tables are moved from database to database",
                object_=config.target,
                hint="have a feed into the lake: lockgate feed create",
            )
        with connect(ends.source, purpose=f"plan {config.name}", autocommit=True) as connection:
            chosen = choose(connection, feed)
        names = [each.definition.table for each in chosen]
        findings = create_findings(ends.source, ends.target, names)
        if not any(each.severity is Severity.ERROR for each in findings):
            more = findings_of(feed, ends, chosen, self._contexts.home, new=True)
            findings = list(dict.fromkeys([*findings, *more]))
        try:
            self._hook(config.hook)
        except LockgateError as error:
            findings.append(from_error(error))
        tables = _ids(chosen)
        said = {(each.code, each.object) for each in findings}
        for place in (ends.source, ends.target):
            known = apart.fed(self._contexts, place, tables, config.name)
            findings += [each for each in known if (each.code, each.object) not in said]
        there = _there(ends.target, names, config, findings)
        taken = self._taken(config, (ends.source, ends.target), tables)
        return MovePlan(tables, there, between, tuple(findings), taken)

    def _taken(
        self, config: MoveConfig, places: Iterable[Url], tables: Collection[TableId]
    ) -> Conflict | None:
        """Sides are told by their databases: an endpoint of another name may lead to the same."""
        for place in places:
            for other in self._contexts.moves_at(place, tables):
                if other.move != config.name:
                    return taken(other, min(set(tables).intersection(other.tables)))
        try:
            refuse_if_taken(self._feeds.read(feed_name(config.name, 0)))
        except Conflict as name_taken:
            return name_taken
        return None


def refused(why: Conflict) -> MoveOutcome:
    """For people, when `create` would not even look."""
    return _outcome([from_error(why)])


def _outcome(findings: list[Finding], steps: tuple[PlannedStep, ...] = ()) -> MoveOutcome:
    wrong = [each for each in findings if each.severity is Severity.ERROR]
    return MoveOutcome(
        "",
        "done",
        f"it would be refused: {wrong[0].what}" if wrong else "nothing was changed",
        wrong[0].hint if wrong else "",
        dry=True,
        steps=steps,
        findings=documents_of(findings),
    )


def _ids(chosen: list[Chosen]) -> tuple[TableId, ...]:
    return tuple(each.definition.table.id for each in chosen)


def _there(
    target: PostgresUrl, names: list[TableName], config: MoveConfig, findings: list[Finding]
) -> tuple[TableId, ...]:
    """What the target has; nothing when it does not answer, which is among the findings."""
    try:
        with connect(target, purpose=f"plan {config.name}", autocommit=True) as connection:
            return tuple(name.id for name in discover.describe(connection, names))
    except LockgateError as error:
        findings.append(from_error(error))
        return ()
