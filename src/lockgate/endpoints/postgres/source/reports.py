"""What an error or a warning of the server means for somebody who reads changes.

The words are the server's, in its own language, so meaning is taken from the SQLSTATE, and from
the name that stands in them.
"""

from typing import Final

from lockgate.endpoints.postgres.faults import fault
from lockgate.endpoints.postgres.source.errors import (
    PublicationLost,
    SlotBusy,
    SourceLost,
)
from lockgate.endpoints.postgres.source.inbox import Report
from lockgate.endpoints.postgres.source.slot import slot_lost
from lockgate.model.errors import EndpointUnavailable, LockgateError

__all__ = ["concerning", "publication_lost"]

_UNFIT: Final = "55000"


def concerning(report: Report, *, slot: str, publication: str, label: str) -> LockgateError | None:
    """The error that a report of the server's stands for; None when it is a notice of no weight.

    From version 18 on, a server whose publication is gone warns, and goes on without its tables.
    """
    object_ = f"{slot}, {label}"
    of_publication = f'"{publication}"' in report.message
    if report.severity not in {"ERROR", "FATAL", "PANIC"}:
        of_publication = of_publication or f"{publication}" in report.message.split()
        lost = report.state == _UNFIT and of_publication
        return publication_lost(publication, report.message) if lost else None
    error = report.as_error()
    match report.state:
        case "42704" if of_publication:
            return publication_lost(publication, error)
        case "42704" if f'"{slot}"' in report.message:
            return slot_lost("the slot is not there any more", object_, error)
        case "55000" | "58P01":
            return slot_lost("the server has removed log that the slot needs", object_, error)
        case "55006":
            return SlotBusy(
                "the slot is being read by somebody else",
                object_=object_,
                hint="it is tried again, and a reader of Lockgate's own is ended after a grace",
                operation="read changes",
                cause=error,
            )
    found = fault(error, object_=object_, operation="read changes")
    if isinstance(found, EndpointUnavailable):
        return SourceLost(
            found.what, object_=object_, hint=found.hint, operation="read changes", cause=error
        )
    return found


def publication_lost(publication: str, cause: BaseException | str | None = None) -> PublicationLost:
    """The error for a publication without which changes are missing."""
    return PublicationLost(
        "the publication is not there any more",
        object_=publication,
        hint="changes since it was dropped are in no stream, also after it is created again: "
        "remove the feed and create it anew, which copies its tables",
        operation="read changes",
        cause=cause,
    )
