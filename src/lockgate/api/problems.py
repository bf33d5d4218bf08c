"""What went wrong, as an RFC 9457 problem document. There is no other kind of error answer.

    type       urn:lockgate:problem:<code>
    title      what kind of problem it is; always the same for a code
    status     of the answer
    detail     what happened: the error's words, and its cause in one line
    instance   urn:lockgate:request:<id>; the log has the same id
    code       for scripts: LockgateError.code, or one of `_TITLES` for HTTP's own
    object     which feed, endpoint, key of a body, …
    hint       what to do next
    operation  what was being done

The statuses say whose turn it is: 4xx the asker's, 424 the endpoint's (it said no, not us), 503
nobody's (ask again), 507 the disk's, and 500 ours. A 500 carries nothing of the error itself: its
trace is in the log, under the request's id.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from fastapi import Response

from lockgate.api.scrub import Scrubber
from lockgate.model.errors import (
    Conflict,
    DataRefused,
    EndpointBusy,
    EndpointRefused,
    EndpointUnavailable,
    IllegalTransition,
    LockgateError,
    NotFound,
    ObjectMissing,
    OutcomeUnknown,
    StaleOwner,
    StorageFull,
    Terminal,
    Transient,
    UsageError,
)

__all__ = ["MEDIA_TYPE", "STATUSES", "Problem", "Refused", "of_error", "respond", "status_of"]

MEDIA_TYPE: Final = "application/problem+json"
_RETRY_S: Final = 1

STATUSES: Final[Mapping[type[LockgateError], int]] = {
    UsageError: 422,
    NotFound: 404,
    Conflict: 409,
    StaleOwner: 409,
    EndpointRefused: 424,  # MissingPrivilege too
    EndpointUnavailable: 424,
    EndpointBusy: 424,
    ObjectMissing: 424,
    StorageFull: 507,
    IllegalTransition: 500,  # a bug, whatever the user did
    Terminal: 409,
    Transient: 503,
    OutcomeUnknown: 503,
    LockgateError: 500,
}
"""The nearest class counts."""

_TITLES: Final[Mapping[str, str]] = {
    "usage": "The request is not one that can be carried out",
    "not-found": "There is nothing of this name",
    "conflict": "As things stand it cannot be done",
    "stale-owner": "Somebody else owns this now",
    "endpoint-refused": "An endpoint refused",
    "missing-privilege": "An endpoint does not allow this",
    "endpoint-unavailable": "An endpoint does not answer",
    "endpoint-busy": "An endpoint was too busy",
    "bucket-missing": "The bucket is not there",
    "object-missing": "Something is missing at an endpoint",
    "data-refused": "A target does not take a row",
    "storage-full": "There is no room left to record it",
    "metastore-unavailable": "The metastore does not answer",
    "metastore-unreadable": "The metastore cannot be read",
    "metastore-too-new": "The metastore is of a newer version",
    "did-not-land": "A change had no effect",
    "outcome-unknown": "It is not known whether it took effect",
    "transient": "It failed for now",
    "terminal": "It cannot be done until somebody acts",
    "work-failed": "It was tried, and did not work",
    # HTTP's own
    "malformed": "The request cannot be read",
    "unauthenticated": "No valid token",
    "forbidden": "The token's role does not allow this",
    "no-such-path": "There is nothing under this path",
    "method-not-allowed": "The path does not take this method",
    "timeout": "The request took too long to arrive",
    "too-large": "The request is too large",
    "media-type": "The body is of another type than expected",
    "too-many": "Too many requests",
    "busy": "Other work comes first",  # the node's (503), or a lake table's (409)
    "internal": "A bug in Lockgate",
}


@dataclass(frozen=True)
class Problem:
    """One problem document."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    object: str
    hint: str
    operation: str


class Refused(Exception):
    """A request that HTTP itself has a word for: it does not get as far as the service."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        object_: str = "",
        hint: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.object = object_
        self.hint = hint
        self.headers = dict(headers or {})

    def problem(self, request: str, operation: str) -> Problem:
        """As a document."""
        return _made(
            self.status, self.code, self.detail, request, self.object, self.hint, operation
        )

    @classmethod
    def for_now(cls, status: int, code: str, detail: str, after_s: float, hint: str) -> "Refused":
        """One that may go through later."""
        seconds = str(max(1, math.ceil(after_s)))
        return cls(status, code, detail, hint=hint, headers={"Retry-After": seconds})


def status_of(error: LockgateError) -> int:
    """The status that stands for an error."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def of_error(error: LockgateError, request: str, operation: str, scrubber: Scrubber) -> Problem:
    """What the service raised, as a document without secrets."""
    status = status_of(error)
    if status == 500:
        return of_bug(request, operation)
    detail = f"{error.what}: {error.cause_line}" if error.cause_line else error.what
    if isinstance(error, DataRefused) and error.detail:
        detail = f"{detail}; {error.detail}"
    clean = scrubber.text
    return _made(
        status,
        error.code,
        clean(detail),
        request,
        clean(error.object),
        clean(error.hint),
        clean(error.operation) or operation,
    )


def of_bug(request: str, operation: str) -> Problem:
    """What somebody is told of a bug: where to look, and nothing else."""
    return _made(
        500,
        "internal",
        "something went wrong that nobody expected",
        request,
        "",
        f"look for {request} in the node's log, and report what stands there",
        operation,
    )


def respond(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """The document as an answer."""
    extra = dict(headers or {})
    if problem.status == 503:
        extra.setdefault("Retry-After", str(_RETRY_S))
    return Response(
        json.dumps(asdict(problem)).encode("ascii"),  # ASCII: also lone surrogates can be written
        problem.status,
        extra,
        MEDIA_TYPE,
    )


def _made(
    status: int, code: str, detail: str, request: str, object_: str, hint: str, operation: str
) -> Problem:
    return Problem(
        type=f"urn:lockgate:problem:{code}",
        title=_TITLES.get(code, code.replace("-", " ")),
        status=status,
        detail=detail,
        instance=f"urn:lockgate:request:{request}",
        code=code,
        object=object_,
        hint=hint,
        operation=operation,
    )
