"""Who comes in: finds the verb of a request, and sees whether whoever asks may.

    path ──► verb? ──no──► 404, 405                        (at the rate of strangers)
               │
               ├ OPEN      anybody                          (at the rate of strangers)
               ├ LINK      the link key, nothing else       ─┐ wrong: 401; too often: 429
               └ others    a token, then its rate (429),     ┘
                           then its role (403)

All this happens before a byte of the body is read. A valid token is let in also from an address
with many failures: there is nothing to guess in 32 random bytes, and otherwise a stranger behind
the same proxy could lock everybody out. The limit is there for the load and the log.
"""

from dataclasses import dataclass
from typing import Final

from lockgate.api.keys import Keys, shown
from lockgate.api.limits import Limits, Rates, network_of
from lockgate.api.logs import Log
from lockgate.api.problems import Refused
from lockgate.api.verbs import VERBS, Access, Verb
from lockgate.model.tokens import Role

__all__ = ["Asked", "Door"]

Headers = list[tuple[bytes, bytes]]

_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="lockgate"'}


@dataclass
class Asked:
    """A request, as far as it is understood yet."""

    id: str
    address: str
    verb: Verb | None = None
    who: str = ""
    """The name of the token; `link` for another node; empty for a stranger."""
    role: Role | None = None
    """The token's; None for whoever has none."""


class Door:
    """Lets requests in, one by one. For the event loop's thread."""

    def __init__(self, keys: Keys, limits: Limits, log: Log) -> None:
        self._keys = keys
        self._log = log
        self._by_token = Rates(limits.per_token)
        self._by_stranger = Rates(limits.per_address)
        self._by_failure = Rates(limits.failed_logins)

    def find(self, asked: Asked, method: str, path: str) -> Verb:
        """The verb that is meant; Refused when there is none."""
        wanted = "GET" if method == "HEAD" else method
        here = [verb for verb in VERBS if verb.pattern.fullmatch(path)]
        for verb in here:
            if verb.method == wanted:
                asked.verb = verb
                return verb
        self._stranger(asked)
        if not here:
            raise Refused(
                404,
                "no-such-path",
                "there is nothing under this path",
                hint="the paths are in /api/v1/openapi.json",
            )
        raise Refused(
            405,
            "method-not-allowed",
            f"the path does not take {method[:20]}",
            hint="the paths are in /api/v1/openapi.json",
            headers={"Allow": _allow(here)},
        )

    async def admit(self, asked: Asked, verb: Verb, headers: Headers) -> None:
        """Return when whoever asks may, with their name noted; Refused when not."""
        if verb.access is Access.OPEN:
            self._stranger(asked)
        elif verb.access is Access.LINK:
            key = shown(headers)
            if not (key and self._keys.is_link(key)):
                raise self._unknown(asked, verb)
            asked.who = "link"
        else:
            await self._admit_token(asked, verb, headers)

    async def _admit_token(self, asked: Asked, verb: Verb, headers: Headers) -> None:
        token = shown(headers)
        asker = await self._keys.asker(token) if token else None
        if asker is None:
            raise self._unknown(asked, verb)
        asked.who, asked.role = asker.name, asker.role
        if after_s := self._by_token.take(asker.name):
            raise _too_many(f"the token {asker.name} asks too often", after_s)
        needed = verb.access.role
        if needed is None or not asker.role.includes(needed):
            raise Refused(
                403,
                "forbidden",
                f"{verb.operation} needs the role {verb.access.value},"
                f" and {asker.name} is {asker.role.value}",
                hint="use a token with that role",
            )

    def _stranger(self, asked: Asked) -> None:
        if after_s := self._by_stranger.take(network_of(asked.address)):
            raise _too_many("too many requests from this address", after_s)

    def _unknown(self, asked: Asked, verb: Verb) -> Refused:
        if after_s := self._by_failure.take(network_of(asked.address)):
            return _too_many("too many failed logins from this address", after_s)
        self._log.refused(asked.id, verb, asked.address)
        link = verb.access is Access.LINK
        return Refused(
            401,
            "unauthenticated",
            "the link key is missing or wrong" if link else "the token is missing or wrong",
            hint="nodes of one cluster share a metastore, which has their key"
            if link
            else "send Authorization: Bearer TOKEN; commands take it from LOCKGATE_TOKEN",
            headers=_CHALLENGE,
        )


def _allow(verbs: list[Verb]) -> str:
    methods = {verb.method for verb in verbs}
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))


def _too_many(detail: str, after_s: float) -> Refused:
    return Refused.for_now(429, "too-many", detail, after_s, "ask more slowly")
