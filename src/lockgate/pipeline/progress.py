"""How far a copy is, told while it runs.

The sink's record of landed chunks is the one place that knows, whichever tasks on whichever
machines have brought them; so it is read every now and then, beside the job.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

import psycopg

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.sink.chunks import Chunk
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import LockgateError
from lockgate.model.feed_status import CopyProgress
from lockgate.model.ids import FeedId, SpanId

__all__ = ["Landed", "Progress", "progress_of"]

_EVERY_S: Final = 1.0

_LANDED: Final = """
SELECT span, count(*), sum(rows)::int8 FROM lockgate.chunks
WHERE feed = %s AND span = ANY (%s) AND done GROUP BY span
"""


class Progress:
    """Reports while it is entered, and once more at the end. What it cannot read it leaves out."""

    def __init__(
        self,
        target: PostgresUrl,
        feed: FeedId,
        spans: Mapping[SpanId, tuple[int, int]],
        report: Callable[[CopyProgress], None] | None,
    ) -> None:
        """`spans` are the spans, with the number of their chunks and their rows, estimated."""
        self._target = target
        self._feed = feed
        self._spans = spans
        self._report = report
        self._ended = threading.Event()
        self._began_s = time.monotonic()
        self._began_rows: int | None = None
        self._thread = threading.Thread(target=self._run, name=f"progress {feed}", daemon=True)

    def __enter__(self) -> Self:
        if self._report is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._report is not None:
            self._thread.join()

    def _run(self) -> None:
        over = False
        while not over:
            over = self._ended.is_set()  # looked at before reading: the last look sees it all
            try:
                self._look()
            except (psycopg.Error, LockgateError):
                self._ended.wait(_EVERY_S)

    def _look(self) -> None:
        assert self._report is not None
        with connect(self._target, purpose=f"{self._feed} progress", autocommit=True) as connection:
            while True:
                over = self._ended.is_set()
                found = connection.execute(_LANDED, (self._feed, list(self._spans))).fetchall()
                landed = {span: (chunks, rows) for span, chunks, rows in found}
                done = sum(rows for _, rows in landed.values())
                if self._began_rows is None:
                    self._began_rows = done
                spent_s = time.monotonic() - self._began_s
                self._report(progress_of(self._spans, landed, done - self._began_rows, spent_s))
                if over or self._ended.wait(_EVERY_S):
                    return


class Landed:
    """The same where whoever runs the copy sees each chunk land: reports then, and at once."""

    def __init__(
        self,
        spans: Mapping[SpanId, tuple[int, int]],
        chunks: Mapping[SpanId, Sequence[Chunk]],
        report: Callable[[CopyProgress], None],
    ) -> None:
        """`spans` as for `Progress`; `chunks` with those that landed before."""
        self._spans = spans
        self._report = report
        self._began_s = time.monotonic()
        self._new_rows = 0
        self._landed: dict[SpanId, tuple[int, int]] = {}
        for span, some in chunks.items():
            done = [chunk.rows for chunk in some if chunk.done]
            self._landed[span] = len(done), sum(done)
        self._tell()

    def more(self, span: SpanId, rows: int) -> None:
        """A chunk of so many rows has landed."""
        chunks, before = self._landed.get(span, (0, 0))
        self._landed[span] = chunks + 1, before + rows
        self._new_rows += rows
        self._tell()

    def _tell(self) -> None:
        spent_s = time.monotonic() - self._began_s
        self._report(progress_of(self._spans, self._landed, self._new_rows, spent_s))


def progress_of(
    spans: Mapping[SpanId, tuple[int, int]],
    landed: Mapping[SpanId, tuple[int, int]],
    new_rows: int,
    spent_s: float,
) -> CopyProgress:
    """What is done and what is left. Of chunks that have landed the rows are known by now."""
    done = sum(rows for _, rows in landed.values())
    left = 0.0
    for span, (chunks, rows) in spans.items():
        left += rows * (1 - landed.get(span, (0, 0))[0] / chunks)
    total = done + round(left)
    percent = 100.0 if not left else 100.0 * done / total if total else 0.0
    eta_s = left * spent_s / new_rows if new_rows > 0 else None
    return CopyProgress(done, total, round(percent, 1), None if eta_s is None else round(eta_s, 1))
