"""What can go wrong with a feed's place in its source. Each says whether trying again helps."""

from lockgate.model.errors import (
    EndpointBusy,
    EndpointRefused,
    EndpointUnavailable,
    ObjectMissing,
    Terminal,
)

__all__ = [
    "FilterRefused",
    "NoSlotLeft",
    "NotOurs",
    "PublicationLost",
    "SlotBusy",
    "SlotLost",
    "SourceLost",
    "TableUnpublishable",
    "WalLimitReached",
]


class SourceLost(EndpointUnavailable):
    """The connection over which changes came is gone. A new one goes on where this one was."""

    code = "source-lost"


class SlotLost(ObjectMissing):
    """The slot is gone, or the log it pointed to is: changes are missing, and stay missing."""

    code = "slot-lost"


class SlotBusy(EndpointBusy):
    """Somebody else reads from the slot."""

    code = "slot-busy"


class NoSlotLeft(EndpointRefused):
    """The server has all the slots it may have."""

    code = "no-slot-left"


class PublicationLost(ObjectMissing):
    """The publication is gone, so changes of its tables were left out of the stream."""

    code = "publication-lost"


class TableUnpublishable(EndpointRefused):
    """Publishing the table would make updates and deletes at the source fail."""

    code = "table-unpublishable"


class FilterRefused(EndpointRefused):
    """A row filter that this server cannot have."""

    code = "filter-refused"


class NotOurs(Terminal):
    """An object bears a name of Lockgate's and is not Lockgate's. It is left alone."""

    code = "not-ours"


class WalLimitReached(Terminal):
    """The slot keeps so much log that the source's disk is in danger. The feed stops."""

    code = "wal-limit"
