"""To whom a verb goes, and what its answer means.

verb of a feed ──► the coordinator      verb of a span ──► the feed's owner
                        └───────────┬──────────┘
          here? the core answers    │   elsewhere? the link carries it, that node's core answers
                                    ▼
  "not me", "not yet", no answer: look again who it is, ask again, until the time is over
  "not begun":                    Transient: it is not wished for any more, ask again
  "taken", and no word since:     OutcomeUnknown: it may come, or die with whoever took it
  anything else:                  recorded, or a refusal that people are told

Nothing here ends well that is not recorded: what is only in somebody's memory is forgotten when
that node dies.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol

from lockgate.core.node import NodeCore
from lockgate.model.errors import Conflict, LockgateError, NotFound, OutcomeUnknown, Transient
from lockgate.model.ids import FeedId, NodeId
from lockgate.model.instructions import Answer
from lockgate.model.records import COORDINATOR, FeedRecord
from lockgate.node.link.wire import AskLake, AskMove, ResyncSpan, Verb
from lockgate.node.process import NodeProcess
from lockgate.node.service.asking import Asking, new_request
from lockgate.store.metastore import SqlMetastore

__all__ = ["BUSY", "HERE_S", "TAKEN", "Cluster", "Link"]

ASK_S: Final = 20.0
HERE_S: Final = 8.0
"""How long the core of one node may take: less than another node waits for its answer."""
LOOK_S: Final = 1.0
PAUSE_S: Final = 0.1
TAKEN: Final = "under-way"
"""Somebody has it in hand and has not said yet that it is recorded."""
BUSY: Final = "busy"
"""Not begun: who would do it is in the middle of something, and was told not to any more."""
_AGAIN: Final = frozenset(
    {
        "not-coordinator",
        "coordinator-starting",
        "coordinator-lost",
        "not-owner",
        "not-running",
        BUSY,
    }
)
"""Somebody else is to be asked, or the same one a little later."""
_NOT_BEGUN: Final = frozenset({"span-busy"})
_NOT_CERTAIN: Final = frozenset({TAKEN, OutcomeUnknown.code, "owner-lost"})
_NOT_FOUND: Final = frozenset({"unknown-feed", "unknown-node", "unknown-span"})


class Link(Protocol):
    """The way to other nodes."""

    def ask(self, to: NodeId, verb: Verb) -> Answer:
        """The answer of that node's core. Raises Transient when there is none."""
        ...


class Cluster:
    """The other nodes, and this one's own core."""

    def __init__(
        self,
        process: NodeProcess,
        asking: Asking,
        link: Link,
        metastore: SqlMetastore,
        resync: Callable[[ResyncSpan], Answer],
        lake: Callable[[AskLake], Answer],
        move: Callable[[AskMove], Answer],
    ) -> None:
        """`resync`, `lake` and `move` carry out what is this node's to do and not its core's."""
        self._process = process
        self._asking = asking
        self._link = link
        self._metastore = metastore
        self._resync = resync
        self._lake = lake
        self._move = move

    @property
    def me(self) -> NodeId:
        """This node."""
        return self._process.node

    @property
    def leads(self) -> bool:
        """True while the coordinator is here."""
        return self._process.look(lambda core: core.coordinator is not None)

    def leads_until_s(self) -> float:
        """Until when nobody else leads, by this machine's clock: the end of the lease. What is
        over, while the coordinator is not here. Transient when the core does not say."""
        return self._process.look(_leads_until_s, LOOK_S)

    def leader(self) -> NodeId | None:
        """The node of the coordinator, by the last word of the metastore."""
        view = self._process.look(lambda core: core.member.view)
        return None if view.leader is None else view.leader.ref.node

    def records(self) -> dict[FeedId, FeedRecord]:
        """All feeds, as the coordinator has them recorded."""
        loaded = self._metastore.look(COORDINATOR)
        if not hasattr(loaded, "records"):
            raise Transient(
                "the metastore cannot be read",
                object_=self._metastore.label,
                hint="ask again in a moment",
                cause=loaded.why,
            )
        return {each.feed: each for each in loaded.records if isinstance(each, FeedRecord)}

    def owner(self, feed: FeedId) -> NodeId | None:
        """The node of the feed's owner."""
        record = self.records().get(feed)
        return None if record is None or record.owner is None else record.owner.node

    def ask_coordinator(self, verb: Callable[[str], Verb], object_: str) -> None:
        """Have the coordinator record it."""
        self._ask(verb, self.leader, object_, ASK_S)

    def answer_of_coordinator(
        self, verb: Callable[[str], Verb], object_: str, patience_s: float
    ) -> Answer:
        """What the coordinator's node says, whatever it is."""
        return self._answer(verb, self.leader, object_, patience_s)

    def ask_owner(self, verb: Callable[[str], Verb], feed: FeedId) -> None:
        """Have the feed's owner record it; it is done from then on, whoever dies."""
        self._ask(verb, lambda: self.owner(feed), feed, ASK_S)

    def ask_node(
        self,
        verb: Callable[[str], Verb],
        whom: Callable[[], NodeId | None],
        object_: str,
        patience_s: float,
    ) -> None:
        """Have the node do it that `whom` names."""
        self._ask(verb, whom, object_, patience_s)

    def ask_here(self, verb: Verb) -> Answer:
        """What this node says, for whichever node was asked."""
        if isinstance(verb, ResyncSpan):
            return self._resync(verb)
        if isinstance(verb, AskLake):
            return self._lake(verb)
        if isinstance(verb, AskMove):
            return self._move(verb)
        answer = self._asking.ask(self._process.post, verb, HERE_S)
        return answer or Answer(verb.request, TAKEN)

    # --- inside -----------------------------------------------------------------------------------

    def _ask(
        self,
        make: Callable[[str], Verb],
        whom: Callable[[], NodeId | None],
        object_: str,
        patience_s: float,
    ) -> None:
        _raise_refusal(self._answer(make, whom, object_, patience_s), object_)

    def _answer(
        self,
        make: Callable[[str], Verb],
        whom: Callable[[], NodeId | None],
        object_: str,
        patience_s: float,
    ) -> Answer:
        deadline = time.monotonic() + patience_s
        why = "nobody is there to do it"
        while time.monotonic() < deadline:
            node = whom()
            answer = None if node is None else self._answer_of(node, make(new_request()))
            if isinstance(answer, Answer):
                if answer.code not in _AGAIN:
                    return answer
                why = answer.what
            elif answer is not None:
                why = str(answer)
            time.sleep(PAUSE_S)
        raise Transient(
            "it could not be asked for in time",
            object_=object_,
            hint="ask again in a moment; `lockgate node list` shows which nodes are there",
            cause=why,
        )

    def _answer_of(self, node: NodeId, verb: Verb) -> Answer | LockgateError:
        if node == self._process.node:
            return self.ask_here(verb)
        try:
            return self._link.ask(node, verb)
        except Transient as error:
            return error


def _leads_until_s(core: NodeCore) -> float:
    return core.member.deadline / 1000 if core.coordinator is not None else 0.0


def _raise_refusal(answer: Answer, object_: str) -> None:
    if not answer.code:
        return
    if answer.code in _NOT_CERTAIN:
        raise OutcomeUnknown(
            answer.what or "it was asked for, and nobody has said in time that it is recorded",
            object_=object_,
            hint=answer.hint or "see whether it came about, and ask again if it did not",
        )
    if answer.code in _NOT_BEGUN:
        raise Transient(answer.what, object_=object_, hint=answer.hint)
    kind = NotFound if answer.code in _NOT_FOUND else Conflict
    raise kind(answer.what, object_=object_, hint=answer.hint)
