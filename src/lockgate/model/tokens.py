"""Who may ask for what: named tokens, each with a role.

    viewer     looks
    operator   also creates, pauses, resumes, splits, moves, drains
    admin      also removes, deals with endpoints and tokens, and gives URLs of databases

Only digests are kept. A token is 32 random bytes, so a plain SHA-256 of it is enough: there is
nothing to guess.
"""

import enum
import hashlib
from dataclasses import dataclass
from typing import Final

from lockgate.model.secret import Secret

__all__ = ["HOME_TOKENS", "AccessToken", "Role", "digest_of"]

HOME_TOKENS: Final = "home-"
"""So begin the names of tokens that nodes write into their homes, and of no others: a node that
starts replaces the one of its name."""


class Role(enum.Enum):
    """What a token opens. Each includes the ones before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def includes(self, other: "Role") -> bool:
        """True when whoever has this role may do what needs the other."""
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True)
class AccessToken:
    """A token, as far as it is kept."""

    name: str
    role: Role
    digest: str


def digest_of(token: Secret) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.reveal().encode()).hexdigest()
