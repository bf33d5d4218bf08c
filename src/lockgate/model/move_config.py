"""What a move is to do, as people write it down, and everything that is wrong with it.

    name = "orders"
    source = "shop"                       # endpoints, by name
    target = "shop-new"
    tables = ["public.orders*", "!public.orders_old"]
    defer_indexes = true                  # built at the target when the rows are there
    hook = "pgbouncer"                    # of the server's configuration: who routes the traffic

Both ends are endpoints with names: routes, guards and errors tell people where a table is, and a
URL is no name for that. A configuration that exists is sound, as with feeds (`feed_config.py`).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lockgate.model.errors import UsageError
from lockgate.model.moves import MoveId
from lockgate.model.patterns import parse_pattern
from lockgate.model.reading import convert, unfit
from lockgate.model.value import Value

__all__ = ["FEED_MARK", "MoveConfig", "feed_name", "move_config_from_json", "read_move_config"]

FEED_MARK: Final = "--"
"""Stands in the names of moves' feeds, and in no name of a move. People create no feed with it in
its name; one of theirs may have it from a time when they could."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,29}")
_ENDPOINT: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_HOOK: Final = re.compile(r"[a-zA-Z0-9_-]{0,64}")


class MoveConfig(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A move's configuration. Made by `read_move_config`, or directly; sound in either case."""

    name: MoveId
    source: str
    """The endpoint that has the tables."""
    target: str
    """The endpoint that gets them."""
    tables: tuple[str, ...]
    """Patterns of `patterns.py`. What they match when the move is created is moved."""
    defer_indexes: bool = True
    """Indexes, foreign keys and checks are built at the target when the rows are there."""
    hook: str = ""
    """What is run at a flip, by its name in the server's configuration; empty: nothing."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or FEED_MARK in self.name:
            raise unfit(
                f"{self.name!r} is no name of a move",
                "name",
                "take at most 30 of a-z, 0-9, _ and -, a letter first, and no two - in a row",
            )
        for key in ("source", "target"):
            if not _ENDPOINT.fullmatch(getattr(self, key)):
                raise unfit(
                    "a move goes from one endpoint to another, by their names",
                    key,
                    "name it: lockgate endpoint add NAME postgres://…",
                )
        if not _HOOK.fullmatch(self.hook):
            raise unfit(
                f"{self.hook!r} is no name of a hook",
                "hook",
                "name one that stands in the server's configuration: [hooks.NAME]",
            )
        _check_tables(self.tables)

    def to_json(self) -> bytes:
        """The configuration as a document, for the metastore."""
        return msgspec.json.encode(self)


def read_move_config(document: Mapping[str, Any]) -> MoveConfig:
    """The configuration that a document (of TOML, or of JSON) stands for."""
    config: MoveConfig = convert(dict(document), MoveConfig)
    return config


def move_config_from_json(data: bytes) -> MoveConfig:
    """The configuration that `to_json` wrote."""
    return read_move_config(convert(msgspec.json.decode(data), dict[str, Any]))


def feed_name(move: MoveId, flips: int) -> str:
    """The feed of a move after so many flips. People create no feed that is called so."""
    return f"{move}{FEED_MARK}{flips}"


def _check_tables(tables: tuple[str, ...]) -> None:
    takes = False
    for number, text in enumerate(tables):
        try:
            takes |= not parse_pattern(text).leaves_out
        except UsageError as error:
            raise unfit(error.what, f"tables[{number}]", error.hint) from None
    if not takes:
        raise unfit(
            "no table is chosen",
            "tables",
            'name at least one, or a pattern: tables = ["public.*"]',
        )
