"""A move as people and scripts see it: the documents of `move status`, of its commands, of routes.

Plain frozen dataclasses, as all documents of the HTTP interface are (`documents.py`).
"""

from dataclasses import dataclass

from lockgate.model.feed_status import CopyProgress, FindingDocument
from lockgate.model.moves import MoveState

__all__ = [
    "BLOCKED",
    "MoveFeed",
    "MoveOutcome",
    "MoveStatus",
    "MoveStep",
    "PlannedStep",
    "Route",
    "Routes",
]

BLOCKED = "blocked"
"""What `traffic` says while nobody can write at either side."""


@dataclass(frozen=True)
class MoveStep:
    """One step of the command that is under way, or was the last one."""

    name: str
    state: str
    """`pending`, `running`, `done`, `undoing` or `undone`."""
    started: str = ""
    """By the metastore's clock, ISO 8601 in UTC; empty: not yet."""
    ended: str = ""
    detail: str = ""


@dataclass(frozen=True)
class MoveFeed:
    """The feed of a move that runs, in one of the two directions."""

    feed: str
    state: str
    """As in `feed status`."""
    lag_s: float | None = None
    checkpoint: str = ""


@dataclass(frozen=True)
class MoveStatus:
    """What holds now, and what can be done next."""

    name: str
    state: MoveState
    step: str
    """The one that is under way; empty when no command is."""
    steps: tuple[MoveStep, ...]
    traffic: str
    """`source`, `target`, or `blocked` while nobody can write at either side, or a hook holds the
    traffic."""
    lag_s: float | None
    copy: CopyProgress
    forward: MoveFeed | None = None
    """From source to target; none while traffic is at the target."""
    reverse: MoveFeed | None = None
    as_of: str = ""
    """After `complete`: the position of the target that the source's kept tables stand at."""
    error: str = ""
    """Why the last attempt failed, or is not getting on."""
    next_steps: tuple[str, ...] = ()
    command: str = ""
    """The command that is under way, or was the last one."""
    source: str = ""
    target: str = ""
    tables: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """What a completed or cancelled move has left, on purpose."""
    route_version: int = 0
    hook: str = ""
    notes: tuple[str, ...] = ()
    """What people should know although nothing is wrong."""


@dataclass(frozen=True)
class PlannedStep:
    """A step that would be done, and what it would do."""

    name: str
    detail: str


@dataclass(frozen=True)
class MoveOutcome:
    """What came of a command, or of a dry run."""

    request: str
    """To ask on by, while it is under way."""
    verdict: str
    """`done`, `nothing-to-do`, or `under-way`."""
    what: str = ""
    hint: str = ""
    dry: bool = False
    steps: tuple[PlannedStep, ...] = ()
    """Of a dry run."""
    findings: tuple[FindingDocument, ...] = ()
    """Of a dry run of `create`: what the checks found."""
    status: MoveStatus | None = None
    """How the move is now; none when it was not created."""


@dataclass(frozen=True)
class Route:
    """Where a table's traffic goes."""

    table: str
    endpoint: str
    move: str
    version: int
    """Of all routes, when this one changed last."""


@dataclass(frozen=True)
class Routes:
    """All routes there are, as of a version, which rises with each change of any of them."""

    version: int
    routes: tuple[Route, ...]
