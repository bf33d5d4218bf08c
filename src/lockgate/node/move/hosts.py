"""Which moves are kept on this node: all that are not over, while the coordinator is here."""

from collections.abc import Callable
from typing import Final

from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import ObjectMissing
from lockgate.model.move_events import MoveCommand
from lockgate.model.move_instructions import MoveAnswer, RunStep
from lockgate.node.feed.ends import parse_source
from lockgate.node.hooks.port import FindHook
from lockgate.node.keeping.hosts import KeeperHosts
from lockgate.node.move.executing import MoveExecutor
from lockgate.node.move.feeds import MoveFeeds
from lockgate.node.move.host import MoveHost
from lockgate.node.move.job import Job
from lockgate.node.service.stores import Stores
from lockgate.node.telemetry.lines import Lines
from lockgate.store.moves import MoveEntry

__all__ = ["MoveHosts"]

_lines: Final = Lines("lockgate.move")


class MoveHosts(KeeperHosts[int, MoveHost]):
    """The moves that are kept here, on threads of their own."""

    def __init__(
        self,
        stores: Stores,
        feeds: MoveFeeds,
        leads: Callable[[], bool],
        hook: FindHook,
    ) -> None:
        """`leads` says whether moves are kept here; `hook` finds one by its name."""
        super().__init__("move", leads, self._births, _lines)
        self._stores = stores
        self._feeds = feeds
        self._hook = hook

    def _births(self) -> dict[str, int]:
        """Moves are known by their births: one of the same name that comes later is another."""
        return {entry.move: entry.birth for entry in self._stores.moves.all() if not entry.over}

    def begin(self, name: str, wanted: int) -> tuple[MoveHost, MoveExecutor]:
        record, now_ms = self._stores.moves.begin(name, wanted)
        entry = self._stores.moves.read(name)
        if entry is None or entry.birth != wanted:
            raise ObjectMissing("the move is gone", object_=name, hint="nothing: it was removed")
        executor = MoveExecutor(entry, self._stores.moves, self._job)
        host = MoveHost(record, now_ms, executor.carry_out)
        _lines.info("a move is kept here", move=name, keeper=record.keeper)
        return host, executor

    def _job(self, entry: MoveEntry, run: RunStep, is_stopped: Callable[[], bool]) -> Job:
        return Job(entry, run, self._url, self._feeds, self._hook, is_stopped)

    def _url(self, endpoint: str) -> PostgresUrl:
        found = self._stores.endpoints.read(endpoint)
        if found is None:
            raise ObjectMissing(
                "there is no endpoint of this name",
                object_=endpoint,
                hint=f"add it: lockgate endpoint add {endpoint} postgres://…",
            )
        return parse_source(found.url)

    def ask(self, move: str, command: MoveCommand, timeout_s: float) -> MoveAnswer | None:
        """What the move's keeper answers; None: nothing yet. Transient when none is here."""
        return self.host(move).ask(command, timeout_s)
