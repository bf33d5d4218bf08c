"""Which lakes are kept on this node: all that the installation uses, while the coordinator is here.

A keeper that begins makes the wish record its own first. So of two nodes that both take themselves
for the coordinator's, the later one's keeper counts; what the other still does meets its fence.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final

import msgspec

from lockgate.endpoints.delta.head import LakeHead
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.model.errors import LockgateError
from lockgate.model.ids import Epoch
from lockgate.model.lake import LakeSettings, LakeTrouble, Wish, WishRecord
from lockgate.model.lake_events import LakeVerb
from lockgate.model.lake_instructions import LakeAnswer
from lockgate.model.lake_status import LakeStatus
from lockgate.node.keeping.hosts import KeeperHosts
from lockgate.node.lake.executing import LakeExecutor
from lockgate.node.lake.host import LakeHost
from lockgate.node.lake.works import OnSpark, Rewriter, Workbench
from lockgate.node.telemetry.lakes import LakeWatch
from lockgate.node.telemetry.lines import Lines
from lockgate.pipeline.session import Spark
from lockgate.store.lakes import LakeBook

__all__ = ["LakeHosts"]

_lines: Final = Lines("lockgate.lake")


class LakeHosts(KeeperHosts[LakeUrl, LakeHost]):
    """The lakes that are kept here, on threads of their own."""

    def __init__(
        self,
        home: str,
        book: LakeBook,
        spark: Callable[[], AbstractContextManager[Spark]],
        leads: Callable[[], bool],
        lakes: Callable[[], Mapping[str, LakeUrl]],
        now_ms: Callable[[], int],
        settings: LakeSettings,
        rewriter: Rewriter | None = None,
        watch: LakeWatch | None = None,
    ) -> None:
        """`leads` says whether lakes are kept here, `lakes` which there are, by their labels.
        Files are rewritten on Spark, unless there is another `rewriter`."""
        super().__init__("lake", leads, lakes, _lines)
        self._home = home
        self._book = book
        self._rewriter = rewriter or OnSpark(spark)
        self._now_ms = now_ms
        self._settings = settings
        self._watch = watch or LakeWatch()

    def statuses(self) -> dict[str, LakeStatus]:
        """The lakes that are kept here, as of now."""
        return {lake: host.status for lake, host in self.hosts().items()}

    def ask(self, lake: str, verb: LakeVerb, timeout_s: float) -> LakeAnswer | None:
        """What the lake's keeper answers; None: nothing yet. Transient when none is here."""
        return self.host(lake).ask(verb, timeout_s)

    def begin(self, name: str, wanted: LakeUrl) -> tuple[LakeHost, LakeExecutor]:
        lake, place = name, wanted.place()
        door = LakeHead(place, self._home)
        head = door.join()
        mine = head.leader == self._home
        first = WishRecord(Wish.LEAD, over=head.epoch) if mine else WishRecord()
        record = self._book.begin(lake, first)
        if record.wish is Wish.FOLLOW and door.read().leader == self._home:
            record = self._wish_to_lead(lake, record, head.epoch)
        settings = self._settings
        bench = Workbench(place, self._home, self._rewriter, settings.retention_ms / 1000)
        executor = LakeExecutor(lake, place, self._home, self._book, bench, settings, self._watch)
        host = LakeHost(
            lake,
            self._home,
            head.homes[self._home],
            record,
            settings,
            executor.carry_out,
            lambda status: self._show(lake, record.keeper, status),
        )
        _lines.info("a lake is kept here", lake=lake, keeper=record.keeper)
        return host, executor

    def _wish_to_lead(self, lake: str, record: WishRecord, epoch: Epoch) -> WishRecord:
        """Who has stepped down has left the lake before that is recorded. So the record is of
        another lake that was here, and this one is led by nobody else."""
        wish = msgspec.structs.replace(record, wish=Wish.LEAD, over=epoch, serial=record.serial + 1)
        return wish if self._book.wish(lake, wish) else record

    def troubled(self, name: str, what: str, hint: str) -> None:
        try:
            self._book.ail(name, LakeTrouble(what, hint), self._now_ms())
        except LockgateError as error:
            _lines.warning("the catalog of a lake cannot be written", lake=name, why=error)

    def _show(self, lake: str, keeper: int, status: LakeStatus) -> None:
        try:
            self._book.show(lake, keeper, status, self._now_ms())
        except LockgateError as error:
            _lines.warning("the catalog of a lake cannot be written", lake=lake, why=error)
