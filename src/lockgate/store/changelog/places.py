"""Where a segment's file lies, and what its name says.

    <feed>/<epoch>-<seq>-<incarnation>/<first seq>-<run>-<table>.parquet
    <feed>/<epoch>-<seq>-<incarnation>/<first seq>-<run>-<segments>.pack     (see `packs`)

Names are made of letters, digits and a few signs that mean nothing anywhere, whatever the feed
and the table are called; a hash tells apart what then looks alike. The name carries what a sweeper
needs to know of a file that no row names: whose it is, and where in the log it would stand. `run`
is drawn anew by every writer, so that no two of them ever mean the same file.
"""

import hashlib
import re
from typing import Final

from lockgate.model.ids import FeedId, TableId, Token
from lockgate.model.value import Value
from lockgate.store.changelog.packs import slice_of

__all__ = [
    "TEMPORARY",
    "Place",
    "feed_folder",
    "file_of",
    "pack_name",
    "parse",
    "segment_name",
    "sharers",
    "token_folder",
]

TEMPORARY: Final = ".tmp"
"""Ends the name of a file that is being written."""

_PLAIN: Final = re.compile(r"[a-z0-9_][a-z0-9_-]{0,62}")
_TOKEN: Final = re.compile(r"(\d+)-(\d+)-(\d+)")
_FILE: Final = re.compile(r"(\d+)-[0-9a-f]+-(?:[A-Za-z0-9_~]+\.parquet|\d+\.pack)(\.tmp)?")
_PACK: Final = re.compile(r".*/\d+-[0-9a-f]+-(\d+)\.pack")
_LENGTH: Final = 40


class Place(Value, frozen=True):
    """What a file's path says."""

    path: str
    """Below the root."""
    token: Token
    id: int
    temporary: bool


def feed_folder(feed: FeedId) -> str:
    """The folder of a feed: its name, if that is plain, or something like it."""
    return feed if _PLAIN.fullmatch(feed) else _alike(feed)


def token_folder(token: Token) -> str:
    """The folder of an owner, in its feed's."""
    return f"{token.epoch}-{token.seq}-{token.incarnation}"


def segment_name(id_: int, run: str, table: TableId) -> str:
    """The name of a segment's file in its owner's folder."""
    return f"{id_}-{run}-{_alike(table)}.parquet"


def pack_name(id_: int, run: str, count: int) -> str:
    """The name of a pack in its owner's folder: its first segment's number, and how many it has."""
    return f"{id_}-{run}-{count}.pack"


def file_of(path: str) -> str:
    """The file in which the segment of this path lies."""
    place = slice_of(path)
    return path if place is None else place.file


def sharers(path: str) -> int:
    """How many segments lie in the file of this path."""
    found = _PACK.fullmatch(file_of(path))
    return 1 if found is None else int(found[1])


def parse(path: str) -> Place | None:
    """What the path of a file below the root says; None when no segment's file is called so."""
    match path.split("/"):
        case [_, folder, name]:
            owner, file = _TOKEN.fullmatch(folder), _FILE.fullmatch(name)
            if owner is None or file is None:
                return None
            epoch, seq, incarnation = map(int, owner.groups())
            token = Token(epoch, seq, incarnation)
            return Place(path, token, int(file[1]), temporary=file[2] is not None)
        case _:
            return None


def _alike(name: str) -> str:
    """A safe name: no plain one, for those have no tilde."""
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9_]+', '_', name)[:_LENGTH]}~{digest}"
