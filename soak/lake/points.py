"""Points between two steps of the work on lake tables, at which it is held up or its process ends.

For tests only, and from outside: nothing in the package knows of this. `install` wraps functions of
the package in this one process. With nothing armed, a point is passed at once.

A killed process kills itself, by SIGKILL and at the very point: nothing is closed, nothing tidied.
"""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final

from lockgate.endpoints.delta import compact, delete, draining, fenced, lake, layered, vacuum
from lockgate.endpoints.delta.document import Document
from lockgate.endpoints.delta.feed_document import FeedDocument
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.head import LakeHead
from lockgate.endpoints.delta.sink_tables import SinkTables
from lockgate.node.lake import works
from lockgate.store.lakes import LakeBook

__all__ = ["ANY", "FEED_POINTS", "KEEPER_POINTS", "Armed", "Points", "install"]

ANY: Final = "any point"
KEEPER_POINTS: Final = (
    "take before",
    "take after",
    "wish after",
    "commit before",
    "commit after",
    "drain planned",
    "drain rewritten",
    "drain before",
    "drain after",
    "compact rewritten",
    "kill halfway",
    "kill ingest",
    "delete buried",
    "delete file",
    "delete after",
    "document tidy",
)
FEED_POINTS: Final = (
    "commit before",
    "commit after",
    "land written",
    "create layer",
    "ddl made",
    "ddl ended",
    "rows before",
    "rows after",
    "kill halfway",
    "document tidy",
)


@dataclass(frozen=True)
class Armed:
    """What is to happen at points in one run."""

    seed: int = 0
    pause_share: float = 0.0
    """At so many of all points there is a pause,"""
    pause_s: float = 0.0
    """of up to so long."""
    slow: str = ""
    """A point at which there is always a pause, of about that length."""
    dies_at: str = ""
    """The point at which the process ends, or `ANY`; empty: at none."""
    dies_on: int = 1
    """When it is there for so many times."""


class Points:
    """Those of this process."""

    def __init__(self, dying: Callable[[str], None] = lambda _: None) -> None:
        """`dying` is told at which point the process ends."""
        self._dying = dying
        self._armed = Armed()
        self._draw = random.Random(0)
        self._passed: dict[str, int] = {}
        self._lock = threading.Lock()

    def arm(self, armed: Armed) -> None:
        """From now on. Counts begin anew."""
        with self._lock:
            self._armed = armed
            self._draw = random.Random(armed.seed)
            self._passed.clear()

    def passed(self) -> dict[str, int]:
        """How often each point was passed since it was armed."""
        with self._lock:
            return dict(self._passed)

    def at(self, name: str) -> None:
        """Here is a point."""
        with self._lock:
            armed = self._armed
            self._passed[name] = self._passed.get(name, 0) + 1
            dies = name == armed.dies_at and self._passed[name] >= armed.dies_on
            if armed.dies_at == ANY:
                dies = sum(self._passed.values()) >= armed.dies_on
            slow = name == armed.slow
            pauses = slow or self._draw.random() < armed.pause_share
            pause_s = self._draw.uniform(0.5 if slow else 0.0, 1.0) * armed.pause_s
        if dies:
            self._dying(name)
            os.kill(os.getpid(), signal.SIGKILL)
        if pauses:
            time.sleep(pause_s)


def install(points: Points) -> None:
    """Wrap what the points are in."""

    def put(owner: Any, name: str, before: str = "", after: str = "") -> None:
        setattr(owner, name, _between(points, getattr(owner, name), before, after))

    put(LakeHead, "take", "take before", "take after")
    put(LakeBook, "wish", after="wish after")
    put(fenced, "_properties", after="commit before")
    put(FencedTable, "_land", after="commit after")
    put(FencedTable, "kill_whoever", before="kill ingest")
    put(draining, "plan", after="drain planned")
    put(draining, "land", "drain before", "drain after")
    put(layered, "rewrite", after="drain rewritten")
    put(layered, "write_file", after="land written")
    put(compact, "rewrite", after="compact rewritten")
    put(vacuum, "condemn", after="vacuum condemned")
    for module in (works, layered, delete, lake):
        put(module, "end", before="kill halfway")
    put(delete, "bury", after="delete buried")
    put(delete, "_remove", after="delete after")
    delete._remove_file = _archiving(points, delete._remove_file)
    put(Document, "_tidy", before="document tidy")
    put(SinkTables, "make", after="ddl made")
    put(SinkTables, "end", after="ddl ended")
    put(FeedDocument, "change", "rows before", "rows after")
    create = FencedTable.create.__func__  # type: ignore[attr-defined]
    FencedTable.create = classmethod(  # type: ignore[assignment,method-assign]
        _between(points, create, "create layer", "")
    )


def _between(
    points: Points, work: Callable[..., Any], before: str, after: str
) -> Callable[..., Any]:
    @wraps(work)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if before:
            points.at(before)
        answer = work(*args, **kwargs)
        if after:
            points.at(after)
        return answer

    return wrapped


def _archiving(points: Points, remove: Callable[[Any, str], None]) -> Callable[[Any, str], None]:
    """Keep the log of a stable table that is deleted: what was committed to it is looked at in the
    end. A second name for the same file costs nothing."""

    def removing(files: Any, path: str) -> None:
        points.at("delete file")
        if "/stable/_delta_log/" in path and path.endswith(".json"):
            keep(Path(path))
        remove(files, path)

    return removing


def keep(path: Path) -> None:
    """Link `<run>/lake/<table>/<incarnation>/stable/_delta_log/<file>` into `<run>/archive`."""
    incarnation = path.parents[2]
    run = incarnation.parents[2]
    folder = run / "archive" / incarnation.parent.name / incarnation.name
    with contextlib.suppress(FileNotFoundError):
        inode = path.stat().st_ino
        for life in range(100):
            # Somebody who slept may have made the directory once more: another log, another life.
            to = folder / str(life) / path.name
            to.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, to)
            except FileExistsError:
                if to.stat().st_ino == inode:
                    return
            else:
                return
