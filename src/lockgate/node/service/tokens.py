"""Tokens: who may ask, under which role."""

import secrets

from lockgate.model.errors import Conflict, NotFound, UsageError
from lockgate.model.secret import Secret
from lockgate.model.tokens import HOME_TOKENS, AccessToken, Role, digest_of
from lockgate.node.service.stores import Stores

__all__ = ["TokenDesk"]


class TokenDesk:
    """What people ask about tokens."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def all(self) -> list[AccessToken]:
        """Their digests, never themselves."""
        return self._stores.tokens.all()

    def add(self, name: str, role: Role, who: str) -> Secret:
        """A new token under this name; one that is there must be removed first."""
        if name.startswith(HOME_TOKENS):
            raise UsageError(
                f"names that begin with {HOME_TOKENS} are for the tokens of nodes' homes",
                object_="name",
                hint="choose another name",
            )
        if any(each.name == name for each in self.all()):
            raise Conflict("a token of this name exists", object_=name, hint="remove it first")
        token = Secret(secrets.token_urlsafe(32))
        self._stores.tokens.write(AccessToken(name, role, digest_of(token)))
        self._stores.history.write(who, "token add", name, role.value, "done")
        return token

    def remove(self, name: str, who: str) -> None:
        """From now on it opens nothing."""
        if not self._stores.tokens.remove(name):
            raise NotFound("there is no token of this name", object_=name, hint="list the tokens")
        self._stores.history.write(who, "token remove", name, outcome="done")
