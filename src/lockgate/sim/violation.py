"""A broken law: what it was, and the story that led there."""

from enum import Enum

import msgspec


class Law(Enum):
    """The five laws, and two that every machine keeps: its contract, and to get done."""

    FENCE = "Fence"
    RECORD = "Record"
    DRAIN = "Drain"
    COVER = "Cover"
    TOGETHER = "Together"
    CONTRACT = "Contract"
    LIVENESS = "Liveness"


class Violation(msgspec.Struct, frozen=True):
    """What a seed found. The story is oldest first; the same seed tells it again."""

    seed: int
    law: str
    what: str
    story: list[str] = []


class LawBroken(Exception):
    """Raised where a law is seen broken; it ends the seed.

    `about` names the entities whose stories explain it: `span:<feed>/<id>`, `feed:<id>`,
    `node:<id>`.
    """

    def __init__(
        self, law: Law, what: str, about: tuple[str, ...] = (), story: tuple[str, ...] = ()
    ) -> None:
        super().__init__(f"{law.value}: {what}")
        self.law = law
        self.what = what
        self.about = about
        self.story = story


def about_span(feed: str, span: str) -> str:
    """The name under which a span's story is kept."""
    return f"span:{feed}/{span}"


def about_feed(feed: str) -> str:
    """The name under which a feed's story is kept."""
    return f"feed:{feed}"


def about_node(node: str) -> str:
    """The name under which a node's story is kept."""
    return f"node:{node}"
