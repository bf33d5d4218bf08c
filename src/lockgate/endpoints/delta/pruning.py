"""Ingest stays short: what stable has by now is taken out of it, and its log is made shorter.

Whoever lands changes sees to it from time to time, and whoever drains, in the name of who lands
them: to a table that has gone quiet nothing comes any more.

From then on stable alone has it. So every ingest says how far stable was when it let go of changes:
Delta opens a log whose newest commits are gone without a word, at what it was before them, and what
is drained on top of that would hide for good what is missing. Each speaks for itself: one that has
all changes since where stable stands now makes whole what another one cannot.

Who compares the two looks at ingest first: stable only comes further, whoever prunes meanwhile.
"""

from typing import TYPE_CHECKING, Any, Final

from lockgate.endpoints.delta import layer_notes
from lockgate.endpoints.delta.changes import may_follow
from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.files import DataFile, live_files, removed
from lockgate.endpoints.delta.log_archive import archive
from lockgate.endpoints.delta.marks import Marks
from lockgate.model.ids import Token

if TYPE_CHECKING:
    from lockgate.endpoints.delta.layered import LayeredTable

__all__ = ["ARCHIVE_EVERY", "PRUNE_EVERY", "prune", "prune_if_worth", "refuse_cut"]

PRUNE_EVERY: Final = 20
"""Commits of ingest from one look for what stable has by now to the next."""
ARCHIVE_EVERY: Final = 500
"""Commits of ingest from one tidying of its log to the next."""


def prune(table: "LayeredTable", token: Token | None) -> int:
    """Take what stable has by now out of ingest; how many files that were."""
    ingest = table.ingest
    ingest.note(token, layer_notes.OF_INGEST)
    seen = ingest.look()
    stable = table.stable.look()
    refuse_cut(table, seen, stable)
    gone: list[DataFile] = []

    def actions(_: Marks) -> list[Any] | None:
        gone[:] = [
            file for file in live_files(ingest.handle) if not may_follow(file, stable.position)
        ]
        return [removed(file) for file in gone] or None

    ingest.commit(token, actions, pruned=stable.position)
    if gone:
        _archive_if_due(table)
    return len(gone)


def prune_if_worth(table: "LayeredTable", token: Token) -> int:
    """The same, once there is something to gain: every commit costs readers a little."""
    _archive_if_due(table)
    return 0 if table.ingest.handle.version() % PRUNE_EVERY else prune(table, token)


def _archive_if_due(table: "LayeredTable") -> None:
    """For everybody who commits: where two take turns, one may have all the odd versions."""
    version = table.ingest.handle.version()
    if not version % ARCHIVE_EVERY:
        archive(table.ingest.place, version)


def refuse_cut(table: "LayeredTable", ingest: Marks, stable: Marks) -> None:
    """FileCorrupt where stable, which was looked at after ingest, has lost what is pruned."""
    if stable.position >= ingest.pruned:
        return
    table.stable.refuse_lost(stable)
    raise FileCorrupt(
        f"the newest commits of its log are gone: what is drained, up to position {ingest.pruned}, "
        f"was taken out of ingest, and stable stands at {stable.position}",
        object_=table.stable.place.label,
        hint="put its log back from a copy of the storage, all of it as it was last, or copy the "
        "table anew: `lockgate feed resync FEED TABLE`. Until then it is neither read nor drained",
        operation="read",
    )
