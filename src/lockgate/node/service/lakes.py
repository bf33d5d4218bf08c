"""What people ask of lakes: which tables there are, to drain and drop them, to lead or to follow.

Every node shows what the keeper has seen, from the metastore. What is to be done goes to the keeper
on the coordinator's node. It may take long: whoever asked is told that it is under way, and asks on
under the request's name. Should the keeper die meanwhile, its successor is asked the same again,
and each of these can be asked twice. Names of requests may be made up by those who ask, so that a
request whose answer was lost can be sent again; a name that is new here is a new request, checked
and written into the history as any other.
"""

import dataclasses
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from lockgate.endpoints.delta.url import LakeUrl
from lockgate.endpoints.postgres.source.slot import lsn_text
from lockgate.model.errors import Conflict, LockgateError, NotFound, OutcomeUnknown
from lockgate.model.feed_config import is_url
from lockgate.model.instructions import Answer
from lockgate.model.lake import LakeTrouble
from lockgate.model.lake_documents import (
    UNDER_WAY,
    LakeDocument,
    LakeOutcome,
    LakeTableDocument,
)
from lockgate.model.lake_events import DrainTable, DropTable, LakeVerb, StepDown, StepUp
from lockgate.model.lake_instructions import LakeAnswer, LakeVerdict
from lockgate.model.lake_status import TableState, TableStatus
from lockgate.model.selection import target_of
from lockgate.model.tables import parse_table
from lockgate.node.feed.ends import parse_url
from lockgate.node.lake.hosts import LakeHosts
from lockgate.node.link.wire import AskLake
from lockgate.node.service.asking import new_request
from lockgate.node.service.cluster import HERE_S, Cluster
from lockgate.node.service.contexts import config_of
from lockgate.node.service.noting import noted
from lockgate.node.service.stores import Stores
from lockgate.store.lakes import Shown

__all__ = ["LakeDesk", "TableBusy", "WorkFailed", "answer_here", "lakes_in_use"]

_NOT_YET: Final = "lake-under-way"
PATIENCE_S: Final = 20.0
"""Less than a client waits for an answer."""
_BEGUN_MAX: Final = 10_000
_NAMED_MAX: Final = 20
"""Tables that an error names."""


class TableBusy(Conflict):
    """Work is under way for the table. Nothing was changed."""

    code = "busy"


class WorkFailed(Conflict):
    """It was tried, and had no effect. No Transient: who tries again by itself would hear the same
    answer to the same request."""

    code = "work-failed"


def lakes_in_use(stores: Stores) -> dict[str, LakeUrl]:
    """Every lake that a feed goes to, or that an endpoint names, by its label."""
    urls = [entry.url for entry in stores.endpoints.all()]
    for entry in stores.feeds.all():
        target = config_of(entry).target
        if is_url(target):
            urls.append(target)
    found: dict[str, LakeUrl] = {}
    for url in urls:
        parsed = parse_url(url)
        if isinstance(parsed, LakeUrl):
            found[parsed.label] = parsed
    return found


def answer_here(hosts: LakeHosts, asked: AskLake) -> Answer:
    """Ask the keeper on this node, and answer as a core would."""
    try:
        answer = hosts.ask(asked.lake, asked.verb, HERE_S - 2.0)
    except LockgateError as error:
        return Answer(asked.request, "not-coordinator", str(error), error.hint)
    if answer is None:
        return Answer(asked.request, _NOT_YET)
    return Answer(asked.request, what=msgspec.json.encode(answer).decode())


class LakeDesk:
    """The lakes of one installation, for people."""

    def __init__(self, stores: Stores, cluster: Cluster) -> None:
        self._stores = stores
        self._cluster = cluster
        self._begun: OrderedDict[str, None] = OrderedDict()
        """Requests that were let through here: who names one of them asks on."""
        self._lock = threading.Lock()

    # --- looking ----------------------------------------------------------------------------------

    def one(self, endpoint: str) -> LakeDocument:
        """A lake and its tables."""
        return self._lake(endpoint, self._stores.lakes.shown(self._label(endpoint)))

    def _lake(self, endpoint: str, shown: Shown | None) -> LakeDocument:
        if shown is None:
            return LakeDocument(
                endpoint, "follower", "starting", 0, "", (), next_steps=("wait: it is looked at",)
            )
        status = shown.status
        trouble = status.trouble or LakeTrouble("")
        steps: tuple[str, ...] = ()
        if trouble.what:
            steps = (trouble.hint,) if trouble.hint else ()
        elif not status.leader.home:
            steps = (f"nobody leads this lake: lockgate lake step-up {endpoint}",)
        return LakeDocument(
            endpoint,
            status.role.value,
            status.stage,
            status.epoch,
            status.leader.home,
            tuple(self._table(endpoint, shown, each) for each in status.tables),
            status.done,
            status.total,
            round(max(0, self._now_ms() - shown.at_ms) / 1000, 1),
            steps,
            trouble.what,
        )

    def table(self, endpoint: str, table: str) -> LakeTableDocument:
        """The incarnation that a table's name means, as far as that is known; or the newest."""
        label = self._label(endpoint)
        shown = self._stores.lakes.shown(label)
        lake = self._lake(endpoint, shown)
        found = [each for each in lake.tables if each.table == table]
        if not found:
            hint = f"`lockgate lake list {endpoint}` shows those that are there"
            feeds = [name for name, fed in self._feeds_into(label).items() if table in fed]
            if feeds:
                hint = f"the feed {feeds[0]} brings it: it is shown some seconds after it is made"
            raise NotFound("there is no such table in the lake", object_=table, hint=hint)
        tables = shown.status.tables if shown is not None else ()
        meant = {each.incarnation for each in tables if each.table == table and each.meant}
        one = max(found, key=lambda each: (each.incarnation in meant, each.incarnation))
        if lake.error and not one.error:
            return dataclasses.replace(one, error=lake.error, next_steps=lake.next_steps)
        return one

    def _table(self, endpoint: str, shown: Shown, each: TableStatus) -> LakeTableDocument:
        figures = each.figures
        trouble = each.trouble
        return LakeTableDocument(
            each.table,
            shown.status.role.value,
            shown.status.epoch,
            figures.stable_version,
            figures.stable_rows,
            figures.ingest_segments,
            figures.ingest_rows,
            lsn_text(figures.drained_to),
            figures.size_bytes,
            each.state.value,
            each.incarnation,
            trouble.what if trouble else "",
            _next_steps(endpoint, each),
        )

    # --- doing ------------------------------------------------------------------------------------

    def drain(self, endpoint: str, table: str | None, who: str, request: str = "") -> LakeOutcome:
        """Bring a table's changes into its stable layer, or with None those of all tables."""
        return self._ask(
            endpoint, "lake drain", table or "", who, request, lambda name: DrainTable(name, table)
        )

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
        """End a table. `force`: also one that a feed still writes to; never one that is in use."""
        wait_ms = int(wait_s * 1000)

        def check() -> None:
            if not force:
                self._refuse_if_fed(endpoint, table)

        return self._ask(
            endpoint,
            "lake drop",
            table,
            who,
            request,
            lambda name: DropTable(name, table, wait_ms=wait_ms),
            check,
        )

    def step_up(self, endpoint: str, who: str, request: str = "") -> LakeOutcome:
        """Lead the lake, whoever leads it now."""
        return self._ask(endpoint, "lake step-up", "", who, request, StepUp)

    def step_down(
        self, endpoint: str, who: str, *, flush: bool = False, request: str = ""
    ) -> LakeOutcome:
        """Lead it no longer."""
        return self._ask(
            endpoint, "lake step-down", "", who, request, lambda name: StepDown(name, flush)
        )

    def _ask(
        self,
        endpoint: str,
        verb: str,
        table: str,
        who: str,
        request: str,
        make: Callable[[str], LakeVerb],
        check: Callable[[], None] = lambda: None,
    ) -> LakeOutcome:
        """`check` may refuse what is asked for; what was let through once is not checked again."""
        label = self._label(endpoint)
        name = request or new_request()
        if self._is_begun(name):
            return self._outcome(label, make(name), table or endpoint)
        with noted(self._stores.history, who, verb, endpoint, table, "asked for"):
            check()
            outcome = self._outcome(label, make(name), table or endpoint)
            self._begin(name)
            return outcome

    def _is_begun(self, request: str) -> bool:
        with self._lock:
            return request in self._begun

    def _begin(self, request: str) -> None:
        with self._lock:
            self._begun[request] = None
            while len(self._begun) > _BEGUN_MAX:
                self._begun.popitem(last=False)

    def _outcome(self, label: str, verb: LakeVerb, object_: str) -> LakeOutcome:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._cluster.answer_of_coordinator(
                lambda request: AskLake(request, label, verb), label, PATIENCE_S
            )
            if answer.code != _NOT_YET:
                break
            if time.monotonic() > deadline:
                return LakeOutcome(verb.request, UNDER_WAY, "it is not over yet")
        told = msgspec.json.decode(answer.what, type=LakeAnswer)
        return _told(told, object_)

    # --- which lake -------------------------------------------------------------------------------

    def _label(self, endpoint: str) -> str:
        entry = self._stores.endpoints.read(endpoint)
        if entry is None:
            raise NotFound(
                "there is no endpoint of this name",
                object_=endpoint,
                hint="`lockgate endpoint list` shows those that are there",
            )
        url = parse_url(entry.url)
        if not isinstance(url, LakeUrl):
            raise Conflict(
                "the endpoint is a database and no lake",
                object_=endpoint,
                hint="name an endpoint whose URL begins with delta:",
            )
        return url.label

    def _refuse_if_fed(self, endpoint: str, table: str) -> None:
        """A feed would find its table gone, and pass its changes by."""
        label = self._label(endpoint)
        for feed, tables in self._feeds_into(label).items():
            if table in tables:
                raise Conflict(
                    f"the feed {feed} writes to this table",
                    object_=table,
                    hint=f"remove the feed first, or drop the table by --force: the feed then goes "
                    f"on without it, until `lockgate feed resync {feed} …` makes it anew",
                )

    def _feeds_into(self, label: str) -> Mapping[str, set[str]]:
        """The tables in the lake that each feed writes."""
        out: dict[str, set[str]] = {}
        for entry in self._stores.feeds.all():
            config = config_of(entry)
            named = self._stores.endpoints.read(config.target.reveal())
            url = parse_url(config.target if named is None else named.url)
            if url.label == label and not entry.removing:
                out[entry.feed] = {target_of(config, parse_table(t)).id for t in entry.tables}
        return out

    def _now_ms(self) -> int:
        return int(time.time() * 1000)


def _told(answer: LakeAnswer, object_: str) -> LakeOutcome:
    """What the keeper said, as a document or as an error."""
    failed = tuple(f"{each.table}: {each.trouble.what}" for each in answer.failed)
    if answer.verdict in _KINDS:
        what = answer.what or answer.verdict.value
        if len(failed) > 1:
            more = "; …" if len(failed) > _NAMED_MAX else ""
            what = f"{len(failed)} tables failed: {'; '.join(failed[:_NAMED_MAX])}{more}"
        raise _KINDS[answer.verdict](what, object_=object_, hint=answer.hint)
    return LakeOutcome(answer.request, answer.verdict.value, answer.what, answer.hint, failed)


_KINDS: Final[dict[LakeVerdict, type[LockgateError]]] = {
    LakeVerdict.BUSY: TableBusy,
    LakeVerdict.REFUSED: Conflict,
    LakeVerdict.NOT_FOUND: NotFound,
    LakeVerdict.FAILED: WorkFailed,
    LakeVerdict.UNKNOWN: OutcomeUnknown,
}


def _next_steps(endpoint: str, each: TableStatus) -> tuple[str, ...]:
    if each.trouble is not None and each.trouble.hint:
        return (each.trouble.hint,)
    if each.state is TableState.DEAD:
        return ("nothing: its files are deleted when no reader holds them",)
    if each.figures.ingest_rows and each.state is TableState.LIVE:
        return (f"to have stable level: lockgate lake drain {endpoint} {each.table}",)
    return ()
