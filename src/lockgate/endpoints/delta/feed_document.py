"""The rows of one feed at a lake, as a document that its owners change one at a time."""

import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from lockgate.endpoints.delta import rows as on
from lockgate.endpoints.delta.document import Document
from lockgate.endpoints.delta.fenced import TableDead
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rows import FeedRows, Refused, SpanRow
from lockgate.model.errors import StaleOwner
from lockgate.model.floors import Refusal
from lockgate.model.ids import SpanId, Token

__all__ = ["FeedDocument"]

T = TypeVar("T")


class FeedDocument:
    """Any thread may ask; one at a time is heard."""

    def __init__(self, place: Place) -> None:
        self._document: Document[FeedRows] = Document(
            place,
            FeedRows,
            FeedRows(),
            "drop its tables (`lockgate lake drop --force`) and create the feed anew, "
            "under another name",
        )
        self._lock = threading.RLock()

    def read(self) -> FeedRows:
        with self._lock:
            return self._document.read()

    def spans(self) -> Mapping[SpanId, SpanRow]:
        """All rows, as they are now."""
        return self.read().spans

    def change(self, step: Callable[[FeedRows], FeedRows]) -> FeedRows:
        with self._lock:
            return self._document.change(step)

    def change_row(self, span: SpanId, token: Token, how: Callable[[SpanRow], SpanRow]) -> SpanRow:
        """Change one row, if it is the token's."""
        return self.change(lambda rows: on.changed(rows, span, token, how)).spans[span]

    def ask(self, work: Callable[[], T]) -> T | Refusal:
        """What `work` answers, or why the fence did not let it happen."""
        with self._lock:
            try:
                return work()
            except Refused as refused:
                return refused.refusal
            except TableDead:
                return Refusal.GONE
            except StaleOwner:
                return Refusal.NEWER
