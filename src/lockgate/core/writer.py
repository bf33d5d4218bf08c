"""Writing one scope of the metastore, one batch at a time.

    put/delete/raise → queue ── flush ──► in flight ── Landed ──► continuations, in order
                         ▲                   │
                         ├── NotLanded ──────┤   the serial is free: the batch is composed anew
                         │                   │
                         │                   └── Unknown ──► in doubt: only the same batch may be
                         │                                   repeated, until it has landed
                     (retry on a tick)

While one batch is in flight, all that is written meanwhile gathers into the next one. What
must wait for durability is a continuation: it runs when its batch has landed, never before.
"""

from collections.abc import Callable, Iterable

from lockgate.model.batch import Batch, Landed, NotLanded, Raise, Unknown
from lockgate.model.ids import Millis
from lockgate.model.instructions import Commit
from lockgate.model.records import Record, RecordKey, Scope, key_of

Continuation = Callable[[], None]


class _Entry:
    """What was handed in together and must land together."""

    __slots__ = ("deletes", "puts", "raises", "size", "then")

    def __init__(
        self,
        puts: tuple[Record, ...],
        deletes: tuple[RecordKey, ...],
        raises: tuple[Raise, ...],
        then: Continuation | None,
    ) -> None:
        self.puts = puts
        self.deletes = deletes
        self.raises = raises
        self.then = then
        self.size = len(puts) + len(deletes) + len(raises)


class Writer:
    """The single writer of a scope, under one fence."""

    def __init__(
        self, scope: Scope, fence: int, serial: int, *, records_max: int, retry_ms: int
    ) -> None:
        self.scope = scope
        self.fence = fence
        self.serial = serial
        """Of the last batch that landed."""
        self._records_max = records_max
        self._retry_ms = retry_ms
        self._queue: list[_Entry] = []
        self._flight: list[_Entry] = []
        self._batch: Batch | None = None
        """The batch in flight, or, after an unknown outcome, the only one that may be sent."""
        self._in_doubt = False
        """An attempt at this batch may still land: nothing else may be sent under its serial."""
        self._waiting = False
        self._retry_at: Millis = 0

    @property
    def idle(self) -> bool:
        """Nothing is waiting to become durable."""
        return not self._queue and self._batch is None

    @property
    def waiting(self) -> bool:
        """A batch was sent and its answer is still to come."""
        return self._waiting

    def write(
        self,
        puts: Iterable[Record] = (),
        deletes: Iterable[RecordKey] = (),
        raises: Iterable[Raise] = (),
        then: Continuation | None = None,
    ) -> None:
        """Have this durable, all or nothing; then run `then`."""
        self._queue.append(_Entry(tuple(puts), tuple(deletes), tuple(raises), then))

    def after(self, then: Continuation) -> None:
        """Run `then` once everything written so far is durable: at once, if it is."""
        if self.idle:
            then()
        else:
            self.write(then=then)

    def flush(self, now: Millis) -> Commit | None:
        """The commit to be asked for now, if any."""
        if self._waiting or now < self._retry_at:
            return None
        if self._batch is None:
            if not self._queue:
                return None
            self._flight = self._take()
            self._batch = self._compose()
        self._waiting = True
        return Commit(self._batch)

    def answered(self, now: Millis, answer: Landed | NotLanded | Unknown) -> None:
        """Take the metastore's word on the batch in flight; older answers are passed over.

        A refusal is not for the writer: its owner is stale and ends.
        """
        batch = self._batch
        if batch is None or answer.serial != batch.serial:
            return
        if isinstance(answer, Landed):
            self._landed(batch)
            return
        self._waiting = False
        self._retry_at = now + self._retry_ms
        if isinstance(answer, Unknown):
            self._in_doubt = True
        elif not self._in_doubt:
            self._recompose()

    def _landed(self, batch: Batch) -> None:
        done, self._flight, self._batch = self._flight, [], None
        self.serial = batch.serial
        self._in_doubt = False
        self._waiting = False
        self._retry_at = 0
        for entry in done:
            if entry.then is not None:
                entry.then()

    def _recompose(self) -> None:
        """The serial is unused: what did not land goes back in front of the queue."""
        self._queue = self._flight + self._queue
        self._flight = []
        self._batch = None

    def _take(self) -> list[_Entry]:
        """As many entries as fit into one batch, at least one; an entry is never torn."""
        taken: list[_Entry] = []
        size = 0
        for entry in self._queue:
            if taken and size + entry.size > self._records_max:
                break
            taken.append(entry)
            size += entry.size
        del self._queue[: len(taken)]
        return taken

    def _compose(self) -> Batch:
        """One batch in which, for each key, the last word counts."""
        last: dict[RecordKey, Record | None] = {}
        raises: list[Raise] = []
        for entry in self._flight:
            for key in entry.deletes:
                last[key] = None
            for record in entry.puts:
                last[key_of(record)] = record
            raises.extend(entry.raises)
        return Batch(
            self.scope,
            self.fence,
            self.serial + 1,
            puts=tuple(record for record in last.values() if record is not None),
            deletes=tuple(key for key, record in last.items() if record is None),
            raises=tuple(raises),
        )
