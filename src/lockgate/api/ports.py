"""What the HTTP interface needs of the node behind it.

`node.service.Service` is one; tests of the interface have another. Every method may block, is
called from many threads, and raises `LockgateError`s only: NotFound, Conflict, UsageError, what an
endpoint said, or Transient when asking again may help.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from lockgate.model.diffs import DiffDocument, DiffOrder, DiffSummary
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
from lockgate.model.lake_documents import LakeDocument, LakeOutcome, LakeTableDocument
from lockgate.model.move_config import MoveConfig
from lockgate.model.move_status import MoveOutcome, MoveStatus, Routes
from lockgate.model.moves import MoveOrder
from lockgate.model.secret import Secret
from lockgate.model.tokens import AccessToken, Role

__all__ = ["Diffs", "Lakes", "Moves", "Service"]


class Diffs(Protocol):
    """Comparisons of tables of two sides. Each is recorded, and run by whichever node has room."""

    def run(self, order: DiffOrder, who: str, diff: str = "") -> DiffDocument:
        """Record one, under this name or one that is made up. Asked again under a name, it is not
        run twice; Conflict when that name has another order, or as things stand with the feed."""
        ...

    def run_of_move(
        self, move: str, who: str, diff: str = "", *, repair: bool = False
    ) -> DiffDocument:
        """One of both sides of a move, by the feed that runs now."""
        ...

    def resume(self, diff: str, who: str) -> DiffDocument:
        """Go on with one that failed. One that runs is no error; one that is finished, Conflict."""
        ...

    def cancel(self, diff: str, who: str) -> DiffDocument:
        """Call off one that runs. One that has failed is no error; a finished one, Conflict."""
        ...

    def all(self) -> list[DiffSummary]:
        """All that are remembered, the newest first."""
        ...

    def one(self, diff: str) -> DiffDocument:
        """One of them, as far as it is."""
        ...

    def last_of_move(self, move: str) -> DiffDocument:
        """The newest of a move. NotFound when there is none."""
        ...


class Lakes(Protocol):
    """The lakes of the installation, each by the name of its endpoint.

    What is asked for may take long. An outcome whose verdict is `under-way` is no end: asked on
    under the request's name it is waited for further, and begun anew only where nobody knows of it
    any more. Each of these can be asked twice. Conflict when the endpoint is no lake, when this
    installation does not lead it, or when work is under way (code `busy`)."""

    def one(self, endpoint: str) -> LakeDocument:
        """A lake and its tables."""
        ...

    def table(self, endpoint: str, table: str) -> LakeTableDocument:
        """The newest incarnation of a table."""
        ...

    def drain(self, endpoint: str, table: str | None, who: str, request: str = "") -> LakeOutcome:
        """Bring a table's changes into its stable layer, or with None those of all tables."""
        ...

    def drop(
        self,
        endpoint: str,
        table: str,
        who: str,
        *,
        wait_s: float = 0.0,
        force: bool = False,
        request: str = "",
    ) -> LakeOutcome:
        """End a table. `wait_s`: for work that is under way for it. `force`: also one that a feed
        still writes to."""
        ...

    def step_up(self, endpoint: str, who: str, request: str = "") -> LakeOutcome:
        """Lead the lake, whoever leads it now."""
        ...

    def step_down(
        self, endpoint: str, who: str, *, flush: bool = False, request: str = ""
    ) -> LakeOutcome:
        """Lead it no longer; with `flush` after a drain of what is not drained."""
        ...


class Moves(Protocol):
    """The moves of the installation.

    A command may take long. An outcome whose verdict is `under-way` is no end: asked on under the
    request's name it is waited for further. Conflict when it is refused as things stand, with the
    code `busy` while another command is under way, and `rolled-back` when a flip was put back."""

    def plan(self, config: MoveConfig) -> MoveOutcome:
        """What `create` would do, and what stands in its way. Changes nothing anywhere."""
        ...

    def create(self, config: MoveConfig, who: str) -> MoveStatus:
        """Record the move and have its feed set up. An equal one that exists is no error."""
        ...

    def all(self) -> list[MoveStatus]:
        """Every move, by name."""
        ...

    def one(self, name: str) -> MoveStatus:
        """One of them."""
        ...

    def command(
        self, name: str, order: MoveOrder, who: str, *, dry: bool = False, request: str = ""
    ) -> MoveOutcome:
        """Have a command carried out, or with `dry` only gone through."""
        ...

    def remove(self, name: str, who: str) -> None:
        """Forget one that is over."""
        ...

    def routes(
        self, tables: Collection[str] = (), *, after: int | None = None, wait_s: float = 0.0
    ) -> Routes:
        """Where the traffic of tables goes. With `after`, waits until the version is greater, for
        `wait_s` at most."""
        ...


class Service(Protocol):
    """One node, and through it the cluster. `who` is the name of the token that asks."""

    @property
    def name(self) -> str:
        """The node's own."""
        ...

    @property
    def diffs(self) -> Diffs:
        """Both sides compared, row by row."""
        ...

    @property
    def lakes(self) -> Lakes:
        """Tables in files."""
        ...

    @property
    def moves(self) -> Moves:
        """Tables on their way from one database to another."""
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
