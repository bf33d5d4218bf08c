"""What the HTTP interface needs of the node behind it.

`node.service.Service` is one; tests of the interface have another. Every method may block, is
called from many threads, and raises `LockgateError`s only: NotFound, Conflict, UsageError, what an
endpoint said, or Transient when asking again may help.
"""

from collections.abc import Sequence
from typing import Protocol

from lockgate.model.documents import (
    Endpoint,
    EndpointReport,
    Health,
    HistoryEntry,
    NodeStatus,
    Waited,
)
from lockgate.model.feed_config import FeedConfig
from lockgate.model.feed_status import FeedPlan, FeedStatus, FeedTable
from lockgate.model.secret import Secret
from lockgate.model.tokens import AccessToken, Role

__all__ = ["Service"]


class Service(Protocol):
    """One node, and through it the cluster. `who` is the name of the token that asks."""

    @property
    def name(self) -> str:
        """The node's own."""
        ...

    def health(self) -> Health:
        """Whether it is there. Never raises."""
        ...

    # --- endpoints ------------------------------------------------------------------------------

    def endpoints(self) -> list[Endpoint]:
        """All, by name."""
        ...

    def endpoint(self, name: str) -> Endpoint:
        """One of them."""
        ...

    def add_endpoint(self, name: str, url: Secret, who: str) -> Endpoint:
        """Name a database. The same again is no error; another URL replaces the former one, as
        long as it names the same database or nothing uses it (else Conflict)."""
        ...

    def test_endpoint(self, name: str) -> EndpointReport:
        """Look at it as a source and as a target."""
        ...

    def remove_endpoint(self, name: str, who: str) -> None:
        """Forget it; Conflict while a feed uses it."""
        ...

    # --- feeds ----------------------------------------------------------------------------------

    def feeds(self) -> list[FeedStatus]:
        """All, by name."""
        ...

    def feed(self, name: str) -> FeedStatus:
        """One of them."""
        ...

    def feed_tables(self, name: str) -> list[FeedTable]:
        """Its tables with their spans, by name."""
        ...

    def plan_feed(self, config: FeedConfig) -> FeedPlan:
        """What `create_feed` would make. Changes nothing anywhere."""
        ...

    def create_feed(self, config: FeedConfig, who: str) -> FeedStatus:
        """Record the feed and have it set up. An equal one that exists is no error."""
        ...

    def pause_feed(self, name: str, who: str) -> FeedStatus:
        """Stop it, to be resumed."""
        ...

    def resume_feed(self, name: str, who: str) -> FeedStatus:
        """Let a stopped or failed one run again."""
        ...

    def remove_feed(self, name: str, who: str, force: bool = False) -> FeedStatus | None:
        """End it, and remove everything that was made for it but the target's tables. None when it
        is gone; else how it is: it is recorded, and goes on by itself. With `force`, a database
        that cannot be reached is not waited for: the state is `removed`, and the notes name what
        was left behind there."""
        ...

    def wait_feed(self, name: str, timeout_s: float, position: str = "") -> Waited:
        """Until everything up to `position` is applied, or the time is over. Without one: up to
        what is committed at the source now; the answer says which position that is."""
        ...

    def resync_table(self, name: str, table: str, who: str) -> FeedStatus:
        """Copy one table anew."""
        ...

    def move_span(self, name: str, span: str, node: str, who: str) -> FeedStatus:
        """Run a span elsewhere."""
        ...

    def split_span(
        self, name: str, span: str, points: Sequence[str], parts: int | None, who: str
    ) -> FeedStatus:
        """Cut a span at key hashes (hex, their first digits), or into equal parts."""
        ...

    def merge_spans(self, name: str, spans: Sequence[str], who: str) -> FeedStatus:
        """Join neighbouring spans of one table."""
        ...

    # --- nodes, the past, tokens ----------------------------------------------------------------

    def nodes(self) -> list[NodeStatus]:
        """All that ever joined, by name."""
        ...

    def drain_node(self, name: str, who: str) -> NodeStatus:
        """Have everything leave a node."""
        ...

    def history(self, object_: str, before: int | None, limit: int) -> list[HistoryEntry]:
        """Who did what, the newest first; of one feed, node or endpoint, or (empty) of all."""
        ...

    def tokens(self) -> list[AccessToken]:
        """Who may ask. Their digests, never themselves."""
        ...

    def add_token(self, name: str, role: Role, who: str) -> Secret:
        """A new token; shown once."""
        ...

    def remove_token(self, name: str, who: str) -> None:
        """From now on it opens nothing."""
        ...

    # --- machines -------------------------------------------------------------------------------

    def metrics(self) -> bytes:
        """For Prometheus, as text."""
        ...

    def link_key(self) -> Secret:
        """What other nodes of the cluster show to be let in. Known from the start: never blocks,
        never raises."""
        ...

    def receive(self, body: bytes) -> None:
        """Messages of another node's core (`node.link.wire`). UsageError when they cannot be
        read; nothing else: what is not for us is not news."""
        ...

    def carry_out(self, body: bytes) -> bytes:
        """A verb that another node was asked for and that is this node's to answer."""
        ...
