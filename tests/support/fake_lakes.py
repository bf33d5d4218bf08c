"""The lakes of `services.FakeService`: every endpoint whose URL begins with `delta:` is one.

Each has three tables, one of them with a name that needs quoting, and what is left of a dead one.
This installation leads them. What tests steer:

    under_way = 3               the next three answers are that it is not over yet
    busy.add("public.orders")   work is under way for the table
    asked                       every request that was asked, as (verb, object, request)
    failed = ("…",)             tables for which the next thing does not work
"""

import contextlib
import dataclasses
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from lockgate.model.errors import Conflict, NotFound
from lockgate.model.lake_documents import (
    UNDER_WAY,
    LakeDocument,
    LakeOutcome,
    LakeTableDocument,
)

WEIRD: Final = 'public."We/ird?#%2F"'
"""Nothing of it may be taken for a part of an address."""
HOME: Final = "7d4f0a91c2b8e653"


class FakeBusy(Conflict):
    """As the node's own."""

    code = "busy"


class FakeLakes:
    """An `api.ports.Lakes`."""

    def __init__(
        self,
        call: Callable[[str, str], AbstractContextManager[Any]],
        url: Callable[[str], str],
        feeds_into: Callable[[str], tuple[str, ...]],
        note: Callable[[str, str, str, str], None],
    ) -> None:
        self._call = call
        self._url = url
        self._feeds_into = feeds_into
        self._note = note
        self._lakes: dict[str, LakeDocument] = {}
        self.under_way = 0
        self.busy: set[str] = set()
        self.failed: tuple[str, ...] = ()
        self.asked: list[tuple[str, str, str]] = []

    def one(self, endpoint: str) -> LakeDocument:
        """A lake and its tables."""
        with self._call("lake", ""):
            return self._lake(endpoint)

    def table(self, endpoint: str, table: str) -> LakeTableDocument:
        """The newest of its name."""
        with self._call("lake_table", ""):
            return self._table(endpoint, table)

    def drain(self, endpoint: str, table: str | None, who: str, request: str = "") -> LakeOutcome:
        """Nothing waits any more."""
        with self._begun("drain", endpoint, table, who, request) as ended:
            if ended is not None:
                return ended
            drained = [self._table(endpoint, table)] if table else self._lake(endpoint).tables
            waiting = [each for each in drained if each.ingest_rows]
            for each in waiting:
                rows = each.stable_rows + each.ingest_rows
                level = {"ingest_rows": 0, "ingest_segments": 0, "next_steps": ()}
                self._put(endpoint, each, stable_rows=rows, **level)
            return self._outcome(request, bool(waiting))

    def drop(
        self,
        endpoint: str,
        table: str,
        who: str,
        *,
        wait_s: float = 0.0,
        force: bool = False,
        request: str = "",
    ) -> LakeOutcome:
        """It is dead, unless it is fed or busy."""
        with self._begun("drop", endpoint, table, who, request) as ended:
            if ended is not None:
                return ended
            if not force and (feeds := self._feeds_into(endpoint)):
                raise Conflict(
                    f"the feed {feeds[0]} writes to this table",
                    object_=table,
                    hint="remove the feed first, or drop the table by --force",
                )
            if table in self.busy and not wait_s:
                raise FakeBusy("a drain is under way for the table", object_=table, hint="--wait")
            found = self._table(endpoint, table)
            self._put(endpoint, found, state="dead")
            return self._outcome(request, found.state != "dead")

    def step_up(self, endpoint: str, who: str, request: str = "") -> LakeOutcome:
        """This one leads."""
        with self._begun("step-up", endpoint, None, who, request) as ended:
            if ended is not None:
                return ended
            before = self._lake(endpoint)
            if before.role != "leader":
                self._lead(endpoint, "leader", before.epoch + 1, HOME)
            what = f"this home leads the lake under epoch {self._lake(endpoint).epoch}"
            return self._outcome(request, before.role != "leader", what)

    def step_down(
        self, endpoint: str, who: str, *, flush: bool = False, request: str = ""
    ) -> LakeOutcome:
        """Nobody leads."""
        with self._begun("step-down", endpoint, None, who, request) as ended:
            if ended is not None:
                return ended
            before = self._lake(endpoint)
            if not flush and any(each.ingest_rows for each in before.tables):
                raise Conflict(
                    "2 tables have changes that are not drained",
                    object_=endpoint,
                    hint="drain them first, or step down with a flush",
                )
            self._lead(endpoint, "follower", before.epoch, "")
            return self._outcome(request, before.role == "leader", "this home follows")

    # --- for tests --------------------------------------------------------------------------------

    def grow(self, endpoint: str, count: int) -> None:
        """So many tables more."""
        lake = self._lake(endpoint)
        more = tuple(_table(f"public.t{n:05d}", 1000 + n, 5, 0) for n in range(count))
        self._lakes[endpoint] = dataclasses.replace(lake, tables=(*lake.tables, *more))

    def progress(self, endpoint: str, done: int, total: int) -> None:
        """How far a step-up is said to be."""
        lake = self._lake(endpoint)
        self._lakes[endpoint] = dataclasses.replace(lake, done=done, total=total)

    # --- inside -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _begun(self, verb: str, endpoint: str, table: str | None, who: str, request: str) -> Any:
        with self._call(f"lake_{verb.replace('-', '_')}", who):
            self._lake(endpoint)
            self.asked.append((verb, table or endpoint, request))
            if self.under_way:
                self.under_way -= 1
                yield LakeOutcome(request or secrets.token_hex(8), UNDER_WAY, "it is not over yet")
                return
            yield None
            self._note(who, f"lake {verb}", endpoint, table or "")

    def _outcome(self, request: str, done: bool, what: str = "") -> LakeOutcome:
        verdict = "done" if done else "nothing-to-do"
        return LakeOutcome(request or secrets.token_hex(8), verdict, what, "", self.failed)

    def _lake(self, endpoint: str) -> LakeDocument:
        if not self._url(endpoint).startswith("delta:"):
            raise Conflict(
                "the endpoint is a database and no lake",
                object_=endpoint,
                hint="name an endpoint whose URL begins with delta:",
            )
        return self._lakes.setdefault(endpoint, _fresh(endpoint))

    def _table(self, endpoint: str, table: str) -> LakeTableDocument:
        found = [each for each in self._lake(endpoint).tables if each.table == table]
        if not found:
            raise NotFound(
                "there is no such table in the lake",
                object_=table,
                hint=f"`lockgate lake list {endpoint}` shows those that are there",
            )
        return max(found, key=lambda each: each.incarnation)

    def _put(self, endpoint: str, old: LakeTableDocument, **changes: Any) -> None:
        lake = self._lakes[endpoint]
        new = dataclasses.replace(old, **changes)
        tables = tuple(new if each == old else each for each in lake.tables)
        self._lakes[endpoint] = dataclasses.replace(lake, tables=tables)

    def _lead(self, endpoint: str, role: str, epoch: int, leader: str) -> None:
        lake = self._lakes[endpoint]
        steps = () if leader else (f"nobody leads this lake: lockgate lake step-up {endpoint}",)
        self._lakes[endpoint] = dataclasses.replace(
            lake, role=role, stage=role, epoch=epoch, leader=leader, next_steps=steps
        )


def _fresh(endpoint: str) -> LakeDocument:
    dead = dataclasses.replace(_table("public.orders", 1, 0, 0), state="dead")
    tables = (
        _table("public.items", 3, 40, 2),
        _table("public.orders", 2, 1000, 24),
        _table(WEIRD, 4, 7, 0),
        dead,
    )
    return LakeDocument(endpoint, "leader", "leader", 3, HOME, tables, seen_s=0.4)


def _table(name: str, incarnation: int, rows: int, waiting: int) -> LakeTableDocument:
    step = f"to have stable level: lockgate lake drain lake {name}"
    return LakeTableDocument(
        table=name,
        role="leader",
        epoch=3,
        stable_version=5,
        stable_rows=rows,
        ingest_segments=2 if waiting else 0,
        ingest_rows=waiting,
        drained_to="0/16B3700",
        size_bytes=rows * 100,
        state="live",
        incarnation=incarnation,
        next_steps=(step,) if waiting else (),
    )
