"""Lists in pages: `limit` of them, `after` the last one of the page before.

`next` is opaque to whoever asks. It holds the last name that was shown rather than a number of
rows to skip, so a page begins where the former one ended also when something was added or removed
in between.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Final, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from lockgate.model.errors import UsageError

__all__ = ["LIMIT_MAX", "HistoryQuery", "Page", "PageQuery", "paged"]

T = TypeVar("T")

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1000
_PREFIX: Final = b"n:"
_NO_NUL: Final = r"^[^\x00]*$"


class Page(BaseModel, Generic[T]):
    """Some of a list."""

    model_config = ConfigDict(frozen=True)

    items: tuple[T, ...]
    next: str | None = Field(
        default=None, description="Give it as `after` to see more; null when there is no more."
    )


class _PageFields(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    limit: int = Field(default=LIMIT_DEFAULT, ge=1, le=LIMIT_MAX)
    after: str = Field(
        default="", max_length=1000, pattern=_NO_NUL, description="`next` of the last page."
    )


class _HistoryFields(_PageFields):
    object: str = Field(
        default="", max_length=300, pattern=_NO_NUL, description="Of one thing only."
    )
    before: int | None = Field(default=None, ge=1, le=2**62, description="Older than this entry.")


PageQuery = Annotated[_PageFields, Query()]
HistoryQuery = Annotated[_HistoryFields, Query()]


def paged(items: Sequence[T], key: Callable[[T], str], query: _PageFields) -> Page[T]:
    """One page of a list, in the order of its keys."""
    after = _read(query.after)
    rest = sorted((item for item in items if key(item) > after), key=key)
    shown = tuple(rest[: query.limit])
    more = len(rest) > len(shown)
    return Page(items=shown, next=_written(key(shown[-1])) if more else None)


def _written(name: str) -> str:
    return base64.urlsafe_b64encode(_PREFIX + name.encode()).decode().rstrip("=")


def _read(cursor: str) -> str:
    if not cursor:
        return ""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        data = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True)
        if not data.startswith(_PREFIX):
            raise ValueError(cursor)
        return data.removeprefix(_PREFIX).decode()
    except (ValueError, binascii.Error):
        raise UsageError(
            "this is not where a page begins", object_="after", hint="give `next` as it was"
        ) from None
