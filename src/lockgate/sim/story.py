"""The story of what went wrong: a seed that broke a law is run again, and this takes notes.

Runs without a violation so pay nothing for it.
"""

from typing import Any, NamedTuple

from lockgate.model.batch import Batch, Loaded
from lockgate.model.events import Tick
from lockgate.model.floors import Refusal
from lockgate.model.ids import Millis, Token
from lockgate.model.instructions import Commit, Renew, Send
from lockgate.model.messages import BootstrapReply, Heartbeat, HeartbeatReply, NodeReport, Requests
from lockgate.model.records import Record
from lockgate.model.spans import TRIGGER, SpanSpec
from lockgate.sim.loop import Loop
from lockgate.sim.sink import Sink

ENTRIES_MAX = 80

Note = tuple[Millis, str, str, Any]


class SinkVerb(NamedTuple):
    """A transaction at the sink, and what came of it."""

    feed: str
    span: str
    verb: str
    token: Token
    outcome: Any

    def __repr__(self) -> str:
        outcome = self.outcome.value if isinstance(self.outcome, Refusal) else self.outcome
        return f"{self.verb} {self.feed}/{self.span} under {self.token}: {outcome}"


class Story:
    """Everything that happened, and the part of it that concerns somebody."""

    def __init__(self) -> None:
        self._notes: list[Note] = []

    def note(self, when: Millis, who: str, what: str, thing: Any) -> None:
        """Something happened."""
        self._notes.append((when, who, what, thing))

    def listen(self, loop: Loop, sink: Sink) -> None:
        """Take down every transaction at the sink from now on."""
        claim, apply, write_ddl, close = sink.claim, sink.apply, sink.write_ddl, sink.close

        def note(*told: Any) -> Any:
            verb = SinkVerb(*told)
            self.note(loop.now, "sink", "takes", verb)
            return verb.outcome

        def claimed(feed: str, spec: SpanSpec, token: Token, *rest: Any) -> Any:
            return note(feed, spec.id, "claim", token, claim(feed, spec, token, *rest))

        def applied(feed: str, span: str, token: Token, *rest: Any) -> Any:
            return note(feed, span, "apply", token, apply(feed, span, token, *rest))

        def written(feed: str, token: Token, *rest: Any) -> Any:
            return note(feed, TRIGGER, "write DDL", token, write_ddl(feed, token, *rest))

        def closed(feed: str, token: Token, forget: bool) -> Any:
            return note(feed, TRIGGER, "close", token, close(feed, token, forget))

        vars(sink).update(claim=claimed, apply=applied, write_ddl=written, close=closed)

    def about(self, entities: tuple[str, ...]) -> list[str]:
        """The last entries that concern the entities, oldest first."""
        spans = [name.removeprefix("span:").split("/") for name in entities if name[:5] == "span:"]
        feeds = [name.removeprefix("feed:") for name in entities if name[:5] == "feed:"]
        nodes = [name.removeprefix("node:") for name in entities if name[:5] == "node:"]
        told: list[str] = []
        for when, who, what, thing in reversed(self._notes):
            text = self._tell(thing, spans, feeds, who in nodes)
            if text is not None:
                told.append(f"{when:>6} {who} {what} {text}".rstrip())
                if len(told) >= ENTRIES_MAX:
                    break
        told.reverse()
        return told

    def _tell(
        self, thing: Any, spans: list[list[str]], feeds: list[str], of_node: bool
    ) -> str | None:
        if isinstance(thing, str | int):
            return str(thing)
        if isinstance(thing, Send):
            inner = self._tell(thing.message, spans, feeds, of_node)
            return None if inner is None else f"→{thing.to} {inner}"
        if isinstance(thing, Tick | Renew | NodeReport | HeartbeatReply):
            return None
        if isinstance(thing, Commit):
            return self._batch(thing.batch, spans, feeds)
        if isinstance(thing, Batch):
            return self._batch(thing, spans, feeds)
        if isinstance(thing, Loaded):
            return f"Loaded({thing.scope} fence {thing.fence} serial {thing.serial})"
        feed = getattr(thing, "feed", None)
        if feed is not None and (feed in feeds or any(feed == of for of, _ in spans)):
            return self._of_feed(thing, [span for of, span in spans if of == feed])
        scope = getattr(thing, "scope", None)
        if scope is not None and any(scope == f"feed:{feed}" for feed in feeds):
            return repr(thing)
        return repr(thing) if of_node and feed is None else None

    def _of_feed(self, thing: Any, spans: list[str]) -> str | None:
        if isinstance(thing, Requests):
            items = [item for item in thing.items if not spans or item.span in spans]
            return f"Requests(epoch {thing.epoch} to /{thing.to}) {items}" if items else None
        if isinstance(thing, Heartbeat | BootstrapReply):
            statuses = [status for status in thing.statuses if status.span in spans]
            name = type(thing).__name__
            return f"{name}(epoch {thing.epoch} of {thing.node}) {statuses}" if statuses else None
        span = getattr(thing, "span", None) or getattr(getattr(thing, "spec", None), "id", None)
        if span is not None and spans and span not in spans:
            return None
        return repr(thing)

    def _batch(self, batch: Batch, spans: list[list[str]], feeds: list[str]) -> str | None:
        names = [span for _, span in spans]
        if batch.scope.startswith("feed:") and batch.scope.removeprefix("feed:") not in feeds:
            return None

        def concerns(record: Record) -> bool:
            text = repr(record)
            if any(repr(name) in text for name in names):
                return True
            return not names and any(repr(feed) in text for feed in feeds)

        puts = [record for record in batch.puts if concerns(record)]
        deletes = [key for key in batch.deletes if not names or any(n in key.id for n in names)]
        raises = [change for change in batch.raises if change.scope[5:] in feeds]
        if not puts and not deletes and not raises:
            return None
        head = f"batch {batch.scope} fence {batch.fence} serial {batch.serial}"
        return f"{head} puts {puts} deletes {deletes} raises {raises}"
