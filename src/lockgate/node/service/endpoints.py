"""Endpoints: named databases, looked at before anything relies on them."""

import re
from typing import Final

from lockgate.endpoints.delta.check import check_lake
from lockgate.endpoints.delta.url import LakeUrl, is_lake
from lockgate.endpoints.postgres.check_source import check_source
from lockgate.endpoints.postgres.check_target import check_target
from lockgate.model.documents import Endpoint, EndpointReport
from lockgate.model.errors import Conflict, NotFound, UsageError
from lockgate.model.feed_status import FindingDocument
from lockgate.model.findings import Finding, Severity, worst
from lockgate.model.secret import Secret
from lockgate.node.feed.ends import parse_url
from lockgate.node.service.contexts import config_of
from lockgate.node.service.stores import Stores
from lockgate.store.endpoints import EndpointEntry
from lockgate.store.feeds import FeedEntry
from lockgate.store.moves import MoveEntry

__all__ = ["EndpointDesk", "documents_of"]

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_MOVE: Final = "move "
"""Before the names of moves, among those of feeds."""


class EndpointDesk:
    """What people ask about endpoints."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def all(self) -> list[Endpoint]:
        """By name."""
        used = self._used()
        return [_shown(entry, used) for entry in self._stores.endpoints.all()]

    def one(self, name: str) -> Endpoint:
        """One of them."""
        return _shown(self._entry(name), self._used())

    def add(self, name: str, url: Secret, who: str) -> Endpoint:
        """Name a database, or give the name another URL."""
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} is no name of an endpoint",
                object_="name",
                hint="take at most 40 of a-z, 0-9, _ and -, a letter first",
            )
        new = parse_url(url)
        before = self._stores.endpoints.read(name)
        if before is not None and before.url == url:
            return self.one(name)

        def check(
            before: EndpointEntry | None, feeds: list[FeedEntry], moves: list[MoveEntry]
        ) -> None:
            users = _users(feeds, moves).get(name, ())
            if users and before and parse_url(before.url).label != new.label:
                raise Conflict(
                    f"the endpoint is another database, and {_told(users)}",
                    object_=name,
                    hint="add the other database under a name of its own; a new password or "
                    "option for the same one is taken",
                )

        self._stores.endpoints.write(EndpointEntry(name, url), check)
        self._stores.history.write(who, "endpoint add", name, new.text, "done")
        return self.one(name)

    def test(self, name: str) -> EndpointReport:
        """Look at it as a source and as a target."""
        url = self._entry(name).url
        source, target = _looked_at(url)
        wrong = [each for each in (*source, *target) if each.severity is not Severity.OK]
        return EndpointReport(
            name,
            documents_of(source),
            documents_of(target),
            worst(source) is not Severity.ERROR,
            worst(target) is not Severity.ERROR,
            tuple(dict.fromkeys(each.hint for each in wrong if each.hint)),
        )

    def remove(self, name: str, who: str) -> None:
        """Forget it, unless it is used."""
        self._entry(name)

        def check(_: EndpointEntry | None, feeds: list[FeedEntry], moves: list[MoveEntry]) -> None:
            users = _users(feeds, moves).get(name, ())
            if users:
                raise Conflict(
                    _told(users),
                    object_=name,
                    hint="remove the feeds, and complete or cancel the moves first",
                )

        self._stores.endpoints.remove(name, check)
        self._stores.history.write(who, "endpoint remove", name, outcome="done")

    def _entry(self, name: str) -> EndpointEntry:
        entry = self._stores.endpoints.read(name)
        if entry is None:
            raise NotFound(
                "there is no endpoint of this name",
                object_=name,
                hint="`lockgate endpoint list` shows those that are there",
            )
        return entry

    def _used(self) -> dict[str, tuple[str, ...]]:
        """The feeds and moves that use each endpoint."""
        return _users(self._stores.feeds.all(), self._stores.moves.all())


def _users(feeds: list[FeedEntry], moves: list[MoveEntry]) -> dict[str, tuple[str, ...]]:
    """A move goes for its feeds: it needs both ends also between one feed and the next."""
    used: dict[str, tuple[str, ...]] = {}
    for entry in feeds:
        config = config_of(entry)
        for end in {config.source.reveal(), config.target.reveal()} if not entry.move else ():
            used[end] = (*used.get(end, ()), entry.feed)
    for move in moves:
        for end in (move.config.source, move.config.target) if not move.over else ():
            used[end] = (*used.get(end, ()), f"{_MOVE}{move.move}")
    return used


def _told(users: tuple[str, ...]) -> str:
    feeds = [each for each in users if not each.startswith(_MOVE)]
    moves = [each.removeprefix(_MOVE) for each in users if each.startswith(_MOVE)]
    parts = [f"feeds use it: {', '.join(feeds)}"] if feeds else []
    return "; ".join([*parts, f"moves use it: {', '.join(moves)}"] if moves else parts)


def _shown(entry: EndpointEntry, used: dict[str, tuple[str, ...]]) -> Endpoint:
    url = parse_url(entry.url)
    kind = "delta" if isinstance(url, LakeUrl) else "postgres"
    return Endpoint(entry.name, url.text, kind, used.get(entry.name, ()))


def _looked_at(url: Secret) -> tuple[list[Finding], list[Finding]]:
    """As a source, and as a target."""
    if is_lake(url):
        no_source = Finding(
            Severity.ERROR, "lake-is-no-source", "a lake is no source", "from", hint=""
        )
        return [no_source], check_lake(LakeUrl.parse(url))
    return check_source(url), check_target(url)


def documents_of(findings: list[Finding]) -> tuple[FindingDocument, ...]:
    """Findings as people are shown them."""
    return tuple(
        FindingDocument(each.severity.value, each.code, each.what, each.object, each.hint)
        for each in findings
    )
