"""A node that keeps the lake: the real hosts, keeper, executor and book, without a Spark.

Beside what it does, it tells: every instruction with the stage it was given in, every end of a
piece of work, and every request. The verdict goes by that.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, wraps
from pathlib import Path
from typing import Any, Final

from lockgate.core.lake.drops import Drops
from lockgate.endpoints.delta import compact as compacting
from lockgate.endpoints.delta.compact import Compacted
from lockgate.endpoints.delta.layered import Drained, LayeredTable
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.model.errors import Transient
from lockgate.model.ids import Token
from lockgate.model.lake import LakeSettings
from lockgate.model.lake_events import DropTable, LakeEvent, LakeVerb, WorkEnded
from lockgate.model.lake_instructions import LakeAnswer, LakeInstruction, RunWork
from lockgate.model.lake_status import LakeStatus
from lockgate.node.lake.host import LakeHost
from lockgate.node.lake.hosts import LakeHosts
from lockgate.pipeline.session import Spark
from lockgate.store.lakes import LakeBook
from lockgate.store.metastore import SqlMetastore
from soak.lake.roles import Part
from soak.lake.story import Story

__all__ = ["KeeperRole"]

_LEASE_MS: Final = 10_000


class InMemory:
    """`Rewriter` without a Spark: the same plans and commits, files rewritten here."""

    def drain(self, table: LayeredTable, token: Token, tag: str) -> Drained | None:  # noqa: ARG002
        return table.drain(token)

    def compact(self, table: LayeredTable, token: Token, tag: str) -> Compacted | None:  # noqa: ARG002
        return compacting.compact(table, token)


class KeeperRole:
    """Keeps the lake of one run, while it is told that the coordinator is here."""

    def __init__(self, part: Part, story: Story) -> None:
        _listen(story)
        self._leads = False
        self._story = story
        self._lake = part.run.name
        url = LakeUrl.parse(f"delta:{part.run}/lake")
        self._hosts = LakeHosts(
            part.home,
            LakeBook(_store(part.metastore).transactions),
            _no_spark,
            lambda: self._leads,
            lambda: {self._lake: url},
            lambda: 0,
            _settings(part.drain_ms, part.workers),
            InMemory(),
        )
        self._hosts.start()

    def act(self, verb: str, args: tuple[Any, ...]) -> Any:
        if verb == "leads":
            (self._leads,) = args
            return None
        if verb == "ask":
            return self._ask(*args)
        assert verb == "status", verb
        return self._status()

    def _ask(self, verb: LakeVerb, timeout_s: float) -> LakeAnswer | str:
        """`nobody`: nobody is here to ask; `later`: it was asked, and there is no answer yet."""
        try:
            return self._hosts.ask(self._lake, verb, timeout_s) or "later"
        except Transient:
            return "nobody"

    def _status(self) -> LakeStatus | None:
        kept = self._hosts._kept.get(self._lake)
        return None if kept is None or kept.host.broken else kept.host.status

    def end(self) -> None:
        self._hosts.stop()
        assert not self._hosts.running, "a keeper did not end"


@cache
def _store(file: Path) -> SqlMetastore:
    """A home's metastore; open for as long as the process lives."""
    return SqlMetastore.open(f"sqlite:///{file}", lease_ms=_LEASE_MS)


def _settings(drain_ms: int, workers: int) -> LakeSettings:
    """Everything that takes minutes in earnest takes moments here."""
    return LakeSettings(
        workers=workers,
        claimers=4,
        drain_ms=drain_ms,
        compact_files=2,
        vacuum_ms=400,
        retention_ms=0,
        held_ms=60,
        survey_ms=150,
        survey_wait_ms=20_000,
        retry_ms=30,
        backoff_ms_min=30,
        backoff_ms_max=300,
    )


def _no_spark() -> AbstractContextManager[Spark]:
    raise AssertionError("nothing here runs on Spark")


# --- what it tells ------------------------------------------------------------------------------

_story: list[Story] = []


def _listen(story: Story) -> None:
    """Have keepers of this process tell what they do; once for all runs."""
    if _story:
        return
    _story.append(story)
    begin, post, ask, drop = LakeHost.__init__, LakeHost.post, LakeHost.ask, Drops.decide

    @wraps(begin)
    def beginning(self: LakeHost, *args: Any) -> None:
        *rest, carry_out, show = args
        record = rest[3]
        story.tell("keeper", keeper=record.keeper, wish=record.wish.value)
        begin(self, *rest, _telling(self, record.keeper, carry_out), show)

    @wraps(post)
    def posted(self: LakeHost, event: LakeEvent) -> None:
        if isinstance(event, WorkEnded):
            story.tell(
                "ended",
                work=event.work,
                keeper=self._keeper.keeper,
                table=event.table,
                incarnation=event.incarnation,
                outcome=event.outcome.value,
                trouble="" if event.trouble is None else event.trouble.what,
            )
        post(self, event)

    @wraps(ask)
    def asked(self: LakeHost, verb: LakeVerb, timeout_s: float) -> LakeAnswer | None:
        if verb.request not in self._asked:
            table = getattr(verb, "table", None)
            what = type(verb).__name__
            story.tell("asked", what=what, keeper=self._keeper.keeper, table=table)
        return ask(self, verb, timeout_s)

    @wraps(drop)
    def dropped(self: Drops, verb: DropTable) -> None:
        drop(self, verb)
        for entry in self._book:
            if any(one.request == verb.request and one.deadline is not None for one in entry.drops):
                story.tell("waits", table=entry.table, request=verb.request)

    for owner, name, now in (
        (LakeHost, "__init__", beginning),
        (LakeHost, "post", posted),
        (LakeHost, "ask", asked),
        (Drops, "decide", dropped),
    ):
        setattr(owner, name, now)


def _telling(
    host: LakeHost, keeper: int, carry_out: Callable[[LakeInstruction], None]
) -> Callable[[LakeInstruction], None]:
    def told(instruction: LakeInstruction) -> None:
        if isinstance(instruction, RunWork):
            _story[0].tell(
                "work",
                keeper=keeper,
                stage=host._keeper.stage.value,
                work=instruction.work,
                kind=instruction.kind.value,
                table=instruction.table,
                incarnation=instruction.incarnation,
                epoch=instruction.token.epoch,
            )
        carry_out(instruction)

    return told
