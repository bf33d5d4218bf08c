"""Nodes, the past, and tokens: what people look after besides data."""

from collections.abc import Callable
from dataclasses import dataclass

from lockgate.api.bodies import TokenBody
from lockgate.api.pages import HistoryQuery, Page, PageQuery, paged
from lockgate.api.ports import Service
from lockgate.api.routes.given import Name, Who
from lockgate.model.documents import HistoryEntry, NodeStatus
from lockgate.model.errors import UsageError
from lockgate.model.tokens import Role

__all__ = ["NewToken", "PeopleRoutes", "TokenShown"]


@dataclass(frozen=True)
class TokenShown:
    """Who may ask. Neither the token nor its digest is in it."""

    name: str
    role: Role


@dataclass(frozen=True)
class NewToken:
    """A token, this once."""

    name: str
    role: Role
    token: str


class PeopleRoutes:
    """Verbs about nodes, history and tokens, each named as in `verbs.py`."""

    def __init__(self, service: Service, tokens_changed: Callable[[], None]) -> None:
        self._service = service
        self._tokens_changed = tokens_changed

    def node_list(self, query: PageQuery) -> Page[NodeStatus]:
        return paged(self._service.nodes(), lambda node: node.name, query)

    def node_drain(self, name: Name, who: Who) -> NodeStatus:
        return self._service.drain_node(name, who)

    def history(self, query: HistoryQuery) -> Page[HistoryEntry]:
        """Entries have numbers, so `next` is simply the `before` of the next page."""
        before = _entry(query.after) if query.after else query.before
        found = self._service.history(query.object, before, query.limit + 1)
        shown = tuple(found[: query.limit])
        more = len(found) > len(shown)
        return Page(items=shown, next=str(shown[-1].id) if more else None)

    def token_list(self, query: PageQuery) -> Page[TokenShown]:
        tokens = [TokenShown(token.name, token.role) for token in self._service.tokens()]
        return paged(tokens, lambda token: token.name, query)

    def token_add(self, body: TokenBody, who: Who) -> NewToken:
        token = self._service.add_token(body.name, body.allowed, who)
        self._tokens_changed()
        return NewToken(body.name, body.allowed, token.reveal())

    def token_remove(self, name: Name, who: Who) -> None:
        self._service.remove_token(name, who)
        self._tokens_changed()


def _entry(after: str) -> int:
    if not (after.isascii() and after.isdigit() and 0 < len(after) < 20):
        raise UsageError(
            "this is not where a page begins", object_="after", hint="give `next` as it was"
        )
    return int(after)
