"""What a step works with: the move, its two sides, the number of its keeper, the time it has."""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from lockgate.endpoints.postgres.cutover.row import MoveMark
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import Conflict, Transient
from lockgate.model.findings import Finding, Severity
from lockgate.model.ids import FeedId
from lockgate.model.move_instructions import RunStep
from lockgate.model.moves import MoveFacts, Side
from lockgate.model.tables import TableName, parse_table
from lockgate.node.hooks.port import FindHook, Hook, HookContext, HookEnd
from lockgate.node.move.feeds import MoveFeeds
from lockgate.store.moves import MoveEntry

__all__ = ["Done", "Job", "Stopped", "refuse_if_wrong"]

POLL_S: Final = 0.02
LOOK_S: Final = 0.3
"""So often it is looked whether a feed that is waited for still runs. That asks the metastore."""
UNBOUNDED_S: Final = 3600.0
"""What a step gets that may take as long as it takes. Then it is tried again."""


class Stopped(Exception):
    """Nobody waits for this attempt any more."""


class NotInTime(Transient):
    """What was waited for was not so when the step's time was over."""

    code = "not-in-time"


class Done(NamedTuple):
    """What came of a step."""

    detail: str = ""
    facts: MoveFacts | None = None


class Job:
    """One attempt at a step."""

    def __init__(
        self,
        entry: MoveEntry,
        run: RunStep,
        urls: Callable[[str], PostgresUrl],
        feeds: MoveFeeds,
        hook: FindHook,
        is_stopped: Callable[[], bool],
    ) -> None:
        """`urls` tells where an endpoint is, by its name."""
        self.entry = entry
        self.run = run
        self.feeds = feeds
        self.mark = MoveMark(entry.move, entry.birth, run.keeper)
        self.tables: list[TableName] = [parse_table(each) for each in entry.tables]
        self._urls = urls
        self._hook = hook
        self._is_stopped = is_stopped
        self._until_s = time.monotonic() + (run.left_ms / 1000 if run.left_ms else UNBOUNDED_S)

    # --- sides ------------------------------------------------------------------------------------

    @property
    def facts(self) -> MoveFacts:
        return self.run.facts

    @property
    def giving(self) -> Side:
        return self.run.giving

    @property
    def taking(self) -> Side:
        return self.run.giving.other

    def name(self, side: Side) -> str:
        """What people call it."""
        return self.entry.endpoint(side)

    def url(self, side: Side) -> PostgresUrl:
        """Where it is now: passwords may change."""
        return self._urls(self.name(side))

    # --- time -------------------------------------------------------------------------------------

    @property
    def left_s(self) -> float:
        return max(0.0, self._until_s - time.monotonic())

    def check(self) -> None:
        """Raise Stopped when nobody waits any more."""
        if self._is_stopped():
            raise Stopped

    def wait(self, done: Callable[[], bool], what: str, hint: str = "") -> None:
        """Until it is so. NotInTime when it is not in time."""
        while not done():
            self.check()
            if not self.left_s:
                raise NotInTime(
                    f"not in time: {what}",
                    object_=self.entry.move,
                    hint=hint or "it is tried again; or take a greater --timeout",
                )
            time.sleep(min(POLL_S, self.left_s or POLL_S))

    def wait_applied(self, done: Callable[[], bool], what: str, feed: FeedId) -> None:
        """The same for what a feed is to apply. Conflict when it has failed: then nothing comes any
        more. Who has waited in vain is told what keeps the feed."""
        look_s = time.monotonic() + LOOK_S

        def is_done() -> bool:
            nonlocal look_s
            if done():
                return True
            if time.monotonic() >= look_s:
                look_s = time.monotonic() + LOOK_S
                self.feeds.refuse_if_failed(feed)
            return False

        try:
            self.wait(is_done, what)
        except (Stopped, NotInTime):
            if why := self.feeds.error(feed):
                hint = f"see `lockgate feed status {feed}` for what is to be done"
                raise NotInTime(f"{what}: {why}", object_=feed, hint=hint) from None
            raise

    # --- hooks ------------------------------------------------------------------------------------

    @property
    def hook(self) -> Hook:
        return self._hook(self.entry.config.hook, self._is_stopped)

    def hooked(self) -> HookContext:
        """Which flip it is, for the hook."""
        return HookContext(
            self.entry.move,
            HookEnd(self.giving, self.name(self.giving)),
            HookEnd(self.taking, self.name(self.taking)),
            self.entry.tables,
            self.run.keeper,
            self.left_s,
            self.entry.birth,
        )


def refuse_if_wrong(findings: list[Finding], object_: str) -> str:
    """Raise Conflict for the first thing that stands in the way; else what people should know."""
    wrong = [each for each in findings if each.severity is Severity.ERROR]
    if wrong:
        first = wrong[0]
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise Conflict(f"{first.what}{more}", object_=first.object or object_, hint=first.hint)
    warnings = [each.what for each in findings if each.severity is Severity.WARNING]
    return "; ".join(warnings)
