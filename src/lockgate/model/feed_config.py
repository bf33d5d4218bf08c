"""What a feed is to do, as people write it down, and everything that is wrong with it.

    name = "shop"
    source = "postgres://app:${env:SHOP_PW}@db/shop"
    target = "postgres://app:${file:/run/secrets/pw}@copy/shop"
    tables = ["public.*", "!public.audit_*"]
    leave_out = ["public.users.ssn"]

    [masks]
    "public.users.email" = "hash"               # SHA-256 in hex; equal values stay equal
    "public.users.phone" = "null"
    "public.users.name" = { fixed = "somebody" }

    [rows]
    "public.orders" = "region = 'eu'"           # a condition in the source's SQL

    [rename]
    "public" = "shop"                           # a schema
    "public.orders" = "sales.orders"            # a table; goes before its schema

A configuration that exists is sound: what can be known to be wrong without asking a server is
refused when it is made, with the key named. What needs the tables is in `selection.py`.
"""

import enum
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from lockgate.model.conditions import not_one_condition
from lockgate.model.errors import UsageError
from lockgate.model.ids import FeedId
from lockgate.model.patterns import Pattern, parse_pattern, reserved, split_name
from lockgate.model.reading import convert, quoted, reveal, unfit
from lockgate.model.secret import Secret
from lockgate.model.value import Value

__all__ = [
    "WAL_STOP_BYTES",
    "WAL_WARN_BYTES",
    "FeedConfig",
    "FixedMask",
    "Mask",
    "MaskKind",
    "WrittenMask",
    "config_from_json",
    "is_url",
    "read_config",
]

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_GIB: Final = 2**30
WAL_WARN_BYTES: Final = 10 * _GIB
WAL_STOP_BYTES: Final = 50 * _GIB
"""Where nothing else is said."""

_NUMBERS: Final = {
    "chunk_rows": (1, 100_000_000),
    "wal_warn_bytes": (2**20, 2**62),
    "wal_stop_bytes": (2**20, 2**62),
    "retention_s": (0, 10 * 365 * 86_400),
    "flush_interval_ms": (1, 60_000),
    "decoding_memory_bytes": (2**16, 2**41),
}
"""Least and greatest, for whole numbers. The memory's are PostgreSQL's own."""


class MaskKind(enum.Enum):
    """How values are hidden."""

    NULL = "null"
    """There is no value in any row."""
    HASH = "hash"
    """The SHA-256 of the value's text in UTF-8, in lower-case hex. No value stays none.

    Equal values stay equal, so joins still work; and who can guess a value can check the guess:
    what has few possible values is better masked with NULL.
    """
    FIXED = "fixed"
    """The same text in every row, also where there was no value."""


class Mask(Value, frozen=True):
    """What takes the place of a column's values. The column then travels as text."""

    kind: MaskKind
    text: str = ""
    """For FIXED alone."""


class FixedMask(Value, frozen=True, forbid_unknown_fields=True):
    """A mask as it is written when it has a text."""

    fixed: str


WrittenMask = Literal["hash", "null"] | FixedMask


class FeedConfig(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A feed's configuration. Made by `read_config`, or directly; sound in either case."""

    name: FeedId
    source: Secret
    """A URL. It may hold a password, so it is a secret as a whole."""
    target: Secret
    tables: tuple[str, ...]
    """Patterns of `patterns.py`."""
    leave_out: tuple[str, ...] = ()
    """Columns, `schema.table.column`, with * and ? in any part."""
    masks: dict[str, WrittenMask] = msgspec.field(default_factory=dict)
    """By columns, written as in `leave_out`."""
    rows: dict[str, str] = msgspec.field(default_factory=dict)
    """Conditions in the source's SQL, by `schema.table`. Only rows that meet it are replicated."""
    rename: dict[str, str] = msgspec.field(default_factory=dict)
    """Where tables are at the target: `schema` → `schema`, `schema.table` → `schema.table`."""
    copy: bool = True
    """False: only what changes from now on is replicated; existing rows are there already."""
    defer_indexes: bool = True
    """Tables that the feed makes get their keys and indexes when the rows are there, which is
    faster. False: before."""
    chunk_rows: int = 200_000
    """Rows that one step of the copy takes: the unit in which it is resumed."""
    wal_warn_bytes: int = WAL_WARN_BYTES
    """When the source keeps more log than this for the feed, people are warned."""
    wal_stop_bytes: int = WAL_STOP_BYTES
    """When it keeps more than this, the feed stops and gives the log up: the source's disk is
    worth more than the feed, which must then be copied anew."""
    retention_s: int = 3600
    """How long changes are kept in the change log after they were applied everywhere."""
    flush_interval_ms: int = 200
    """Changes wait at most this long for others before they are made durable."""
    decoding_memory_bytes: int = 512 * 2**20
    """What the source's server may hold of one transaction before it writes it to disk."""

    def __post_init__(self) -> None:
        for check in (_check_names, _check_columns, _check_rows, _check_renames, _check_numbers):
            check(self)

    def masks_by_pattern(self) -> dict[str, Mask]:
        """The masks, under the patterns that they are written for."""
        return {pattern: _mask(written) for pattern, written in self.masks.items()}

    def to_json(self) -> bytes:
        """The configuration as a document, for the metastore: URLs as written, passwords too."""
        return msgspec.json.encode(self, enc_hook=reveal)


def read_config(document: Mapping[str, Any]) -> FeedConfig:
    """The configuration that a document (of TOML, or of JSON) stands for."""
    for key, kind in (("masks", WrittenMask), ("rows", str), ("rename", str)):
        table = document.get(key)
        for name, value in table.items() if isinstance(table, Mapping) else ():
            convert(value, kind, quoted(key, name))  # the reader's own error names no key here
    config: FeedConfig = convert(dict(document), FeedConfig)
    return config


def is_url(end: Secret) -> bool:
    """True when a source or target is a URL, false when it is the name of an endpoint."""
    text = end.reveal()
    return "://" in text or text.startswith("delta:")


def config_from_json(data: bytes) -> FeedConfig:
    """The configuration that `to_json` wrote."""
    document = convert(msgspec.json.decode(data), dict[str, Any])
    return read_config(document)


# --- what can be known to be wrong ----------------------------------------------------------------


def _check_names(config: FeedConfig) -> None:
    if not _NAME.fullmatch(config.name):
        raise unfit(
            f"{config.name!r} is no name of a feed",
            "name",
            "take at most 40 of a-z, 0-9, _ and -, a letter first",
        )
    for key in ("source", "target"):
        if not getattr(config, key):
            raise unfit("an endpoint is missing", key, "write its URL: postgres://…")
    takes = False
    for number, text in enumerate(config.tables):
        takes |= not _pattern(f"tables[{number}]", text, 2).leaves_out
    if not takes:
        raise unfit(
            "no table is chosen",
            "tables",
            'name at least one, or a pattern: tables = ["public.*"]',
        )


def _check_columns(config: FeedConfig) -> None:
    for number, text in enumerate(config.leave_out):
        _pattern(f"leave_out[{number}]", text, 3)
        if text in config.masks:
            raise unfit(
                f"{text} is left out and masked", f"leave_out[{number}]", "decide for one of them"
            )
    for text in config.masks:
        _pattern(quoted("masks", text), text, 3)


def _check_rows(config: FeedConfig) -> None:
    for text, condition in config.rows.items():
        key = quoted("rows", text)
        if _pattern(key, text, 2).leaves_out:
            raise unfit("a row filter has nothing to leave out", key, "write it without the !")
        if why := not_one_condition(condition):
            raise unfit(f"a row filter is not one condition: {why}", key, "write it as in WHERE")


def _check_renames(config: FeedConfig) -> None:
    taken: dict[tuple[str, ...], str] = {}
    for text, to in config.rename.items():
        key = quoted("rename", text)
        here, there = split_name(text), split_name(to)
        if len(here) not in {1, 2} or len(here) != len(there):
            raise unfit(
                f"{text} cannot become {to}",
                key,
                "rename a schema to a schema, or schema.table to schema.table, without * and ?",
            )
        if reserved(here[0]) or reserved(there[0]):
            raise unfit(
                "nothing is replicated out of or into a schema of the system or of Lockgate",
                key,
                "choose another schema",
            )
        if any(len(part.encode()) > 63 for part in there):
            raise unfit("a name has more than 63 bytes", key, "choose a shorter one")
        if len(there) == 2 and there in taken:
            raise unfit(
                f"{taken[there]} and {text} would both become {to}", key, "give each its own name"
            )
        taken[there] = text


def _check_numbers(config: FeedConfig) -> None:
    for key, (least, greatest) in _NUMBERS.items():
        if not least <= getattr(config, key) <= greatest:
            raise unfit("a number is out of range", key, f"take {least} to {greatest}")
    if config.wal_stop_bytes <= config.wal_warn_bytes:
        raise unfit(
            "the feed would stop before anybody is warned",
            "wal_stop_bytes",
            "make it greater than wal_warn_bytes",
        )


# --- inside ---------------------------------------------------------------------------------------


def _pattern(key: str, text: str, parts: int) -> Pattern:
    try:
        return parse_pattern(text, parts)
    except UsageError as error:
        raise unfit(error.what, key, error.hint) from None


def _mask(written: str | FixedMask) -> Mask:
    if isinstance(written, FixedMask):
        return Mask(MaskKind.FIXED, written.fixed)
    return Mask(MaskKind(written))
