"""Feeds: what a person asked for, and where a feed stands in its life."""

import enum

from lockgate.model.ids import TableId
from lockgate.model.positions import ORIGIN, Position
from lockgate.model.value import Value


class FeedState(enum.Enum):
    """A feed's state as people see it."""

    NORMAL = "normal"
    WARNING = "warning"
    FAILED = "failed"
    STOPPED = "stopped"
    FINISHED = "finished"
    REMOVED = "removed"


class Goal(enum.Enum):
    """What a feed's maintainer is to bring about."""

    RUN = "run"
    STOP = "stop"
    REMOVE = "remove"


class FeedSpec(Value, frozen=True):
    """The part of a feed's configuration that its owners act on."""

    start: Position = ORIGIN
    tables: tuple[TableId, ...] = ()
    """Tables that exist at `start`; later ones come with the DDL that creates them."""
    until: Position | None = None
    """The feed is finished once everything up to here is applied."""
    birth: int = 0
    """Rises with every feed that is created, whatever its name: the later of two has the higher."""


class Trouble(Value, frozen=True):
    """Why a feed cannot go on as it is."""

    what: str
    retryable: bool
    span: str = ""


class Outcome(enum.Enum):
    """How a maintainer ended."""

    STOPPED = "stopped"
    REMOVED = "removed"
    STALE = "stale"
