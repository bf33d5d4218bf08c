"""What the objects of a feed are called at its source.

Slots belong to the whole server, not to a database, and may be named with small letters, digits
and underscores only. So a name carries a mark of everything that makes it unique; the readable
part is for people who look at `pg_replication_slots`. The birth of a feed (see `store.births`) is a
part of the mark: two feeds that bear one name, one after the other, share no object.
"""

import hashlib
import re
from typing import Final

from lockgate.model.ids import FeedId

__all__ = ["PREFIX", "publication_name", "slot_name", "temporary_slot_name"]

PREFIX: Final = "lockgate_"
"""What every slot and publication of Lockgate's begins with."""

_NAME_BYTES_MAX: Final = 63
_MARK_HEX: Final = 12


def slot_name(feed: FeedId, home: str = "", birth: int = 0) -> str:
    """The feed's slot. `home` tells two installations of Lockgate apart that share a source."""
    return _name("slot", feed, home, birth)


def publication_name(feed: FeedId, home: str = "", birth: int = 0) -> str:
    """The feed's publication. Another name than the slot's: errors tell them apart by it."""
    return _name("publication", feed, home, birth)


def temporary_slot_name(slot: str, pid: int) -> str:
    """A slot that ends with the session of this process id of the server."""
    tail = f"_tmp{pid}"
    return slot[: _NAME_BYTES_MAX - len(tail)] + tail


def _name(kind: str, feed: FeedId, home: str, birth: int) -> str:
    whole = "\0".join([kind, home, feed, *([str(birth)] if birth else [])])
    mark = hashlib.sha256(whole.encode()).hexdigest()[:_MARK_HEX]
    room = _NAME_BYTES_MAX - len(PREFIX) - 1 - _MARK_HEX
    readable = re.sub(r"[^a-z0-9]+", "_", feed.lower(), flags=re.ASCII).strip("_")[:room]
    return f"{PREFIX}{readable}_{mark}" if readable else f"{PREFIX}{mark}"
