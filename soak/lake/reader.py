"""Whoever reads: all the time, all tables, and compares each answer with what the source had there.

Three ways: what is there now; what was there at an earlier position; and what was pinned, which has
to stay readable whatever is dropped meanwhile. A table that was gone stays gone, unless a newer one
has its name.
"""

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from lockgate.endpoints.delta.draining import Snapshot
from lockgate.endpoints.delta.fenced import TableDead
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.missing import FilesMoved
from lockgate.endpoints.delta.pins import Pinned
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.travel import (
    NotLevel,
    PositionAhead,
    PositionGone,
    check_level,
    snapshot_at,
)
from lockgate.model.errors import LockgateError, NotFound
from soak.lake.roles import Part
from soak.lake.source import Source, rows_in
from soak.lake.story import Story

__all__ = ["ReaderRole"]

_REST_S: Final = 0.15
_HOLD_S: Final = 60.0
_RIGHT: Final = (NotFound, TableDead, FilesMoved, NotLevel)
"""What a reader may be told at any time: there is no such table, or look again."""


class ReaderRole:
    """Reads until the run ends."""

    def __init__(self, part: Part, story: Story) -> None:
        self._lake = Lake(Place(f"{part.run}/lake", "lake"))
        self._source = Source(part.seed)
        self._story = story
        self._over = threading.Event()
        self._seen: dict[str, int] = {}
        """The newest incarnation of each name that was there."""
        self._gone: dict[str, int] = {}
        """Incarnations up to this one are gone for ever."""
        self._counts: Counter[str] = Counter()
        draws = [random.Random(f"reader {part.seed} {number}") for number in range(2)]
        self._threads = [
            threading.Thread(target=self._loop, args=(work, draw), daemon=True)
            for work, draw in zip((self._now, self._held), draws, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def act(self, verb: str, args: tuple[Any, ...]) -> Any:
        assert (verb, args) == ("counts", ())
        return dict(self._counts)

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a reader did not end"

    def _loop(self, work: Callable[[str, random.Random], None], draw: random.Random) -> None:
        while not self._over.is_set():
            table = draw.choice(self._source.tables)
            try:
                work(table, draw)
            except _RIGHT as error:
                self._counts[f"told {error.code}"] += 1
            except LockgateError as error:
                self._accuse(f"a reader of {table} met {error!r}", traceback.format_exc())
            except Exception as error:
                self._accuse(f"a reader of {table} broke: {error!r}", traceback.format_exc())
            time.sleep(draw.random() * _REST_S)

    # --- ways to read ---------------------------------------------------------------------------

    def _now(self, name: str, draw: random.Random) -> None:
        table = self._open(name, draw)
        seen = table.snapshot()
        check_level(seen, seen.position, table.label)
        self._compare(name, table, seen, "read now")
        if draw.random() < 0.4:
            self._earlier(name, table, seen, draw)

    def _earlier(self, name: str, table: LayeredTable, now: Snapshot, draw: random.Random) -> None:
        first = max(now.settled, now.position - 60)
        position = draw.randint(first, now.position) if first < now.position else first
        try:
            seen = snapshot_at(table, position)
        except (PositionGone, PositionAhead) as error:
            self._counts[f"told {error.code}"] += 1
            return
        self._compare(name, table, seen, "read earlier")

    def _held(self, name: str, draw: random.Random) -> None:
        table = self._open_of(name, self._lake.live(name), draw)
        seen = table.snapshot()
        check_level(seen, seen.position, table.label)
        pinned = Pinned.take(table.place, table.home, seen, "reader", _HOLD_S)
        try:
            time.sleep(draw.random() * 0.1)
            try:
                self._compare(name, table, seen, "read pinned")
            except _RIGHT as error:
                self._accuse(f"a pinned reader of {name} met {error!r}", traceback.format_exc())
        finally:
            pinned.release()

    # --- looking --------------------------------------------------------------------------------

    def _open(self, name: str, draw: random.Random) -> LayeredTable:
        """For one thread: what it has seen, it has seen in this order."""
        gone_before = self._seen.get(name, 0)
        try:
            place = self._lake.live(name)
        except NotFound:
            self._gone[name] = gone_before
            raise
        incarnation = int(place.url.rsplit("/", 1)[1])
        if incarnation <= self._gone.get(name, 0):
            self._accuse(f"{name} {incarnation} was gone, and is back")
        if incarnation < gone_before:
            self._accuse(f"{name} was {gone_before}, and is {incarnation} again")
        self._seen[name] = max(gone_before, incarnation)
        return self._open_of(name, place, draw)

    def _open_of(self, name: str, place: Place, draw: random.Random) -> LayeredTable:
        homes = [LayeredTable.open(place, home) for home in self._lake.homes(place)]
        # As every reader does (`lockgate.lake.opening`): stable has what was before a home began.
        homes = [one for one in homes if one.begins <= one.stable.look().position]
        if not homes:
            raise NotFound("nobody has ingested it yet", object_=name, hint="")
        return draw.choice(homes)

    def _compare(self, name: str, table: LayeredTable, seen: Snapshot, how: str) -> None:
        found = rows_in(table.read(seen))
        incarnation = int(table.place.url.rsplit("/", 1)[1])
        wanted = self._source.rows(name, incarnation, seen.position)
        self._counts[how] += 1
        if wanted is None:
            self._accuse(f"{name} {incarnation} is not of any life of the table")
        elif found != wanted:
            differing = sorted(found.items() ^ wanted.items(), key=repr)
            self._accuse(
                f"{how}: {name} {incarnation} of {table.home} at {seen.position} (drained "
                f"{seen.drained}) differs: {differing}"
            )

    def _accuse(self, what: str, trace: str = "") -> None:
        self._counts["violations"] += 1
        self._story.tell("violation", what=what, trace=trace)
