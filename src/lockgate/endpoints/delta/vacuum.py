"""Deleting files that nobody needs any more: of stable, of every ingest, and of `work`.

Of the files in a layer's directory those stay that

    the newest state names,
    a commit within the retention took out: older states within it have them,
    a live pin names,
    are younger than a grace: somebody may be about to commit them.

All else goes: files of older states, and files of drains and batches that never came to a commit.
Before a first copy has landed it may be under way for days, and stable's directory is left alone.
So is a layer in which another program changed rows, or of which a commit is lost, its log too: what
it was before is still wanted, and what it may be again. And so is an ingest whose log is damaged:
nobody can tell what it names, and all other layers are cleared as ever. Where it is stable's own
log, nothing is deleted of the table at all, and that is said.

Before all that, what stable has by now is taken out of every ingest. Who lands batches does so, and
who drains; but to a table may come nothing more, and who drained it leads another home, or was
killed before he came to it.
"""

import contextlib
from collections.abc import Iterator
from typing import Final

from lockgate.endpoints.delta.faults import LOST
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.files import live_files
from lockgate.endpoints.delta.foreign import CommitLost, ForeignCommit
from lockgate.endpoints.delta.lake import INGEST, STABLE, WORK, homes_of
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.log_archive import ARCHIVE
from lockgate.endpoints.delta.log_files import LogFiles
from lockgate.endpoints.delta.missing import table_dead
from lockgate.endpoints.delta.pins import PINS, Layers, condemn, condemned, live_pins, sweep_pins
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.small_files import sweep_halves
from lockgate.endpoints.delta.store_time import Found, delete_all, files_in, store_now_s
from lockgate.model.value import Value

__all__ = ["GRACE_S", "RETENTION_S", "Vacuumed", "vacuum"]

RETENTION_S: Final = 7 * 86_400.0
"""How long what was once the newest state can still be read."""
GRACE_S: Final = 2 * 86_400.0
"""How long a file may lie about before a commit names it: longer than any drain takes."""
_DATA: Final = ".parquet"


class Vacuumed(Value, frozen=True):
    """What a vacuum deleted."""

    files: int = 0
    bytes: int = 0
    log_files: int = 0
    """Of the layers' logs, beside those."""


def vacuum(place: Place, retention_s: float = RETENTION_S, grace_s: float = GRACE_S) -> Vacuumed:
    """Delete what nobody needs of one incarnation. A table that is dead is not a vacuum's.

    Killed anywhere, the next one goes on; two at once do no harm.
    """
    if FencedTable.open(place.child(STABLE)).look().dead:
        raise table_dead(place)
    _prune(place)
    now_s = store_now_s(place)
    held = _held(place, now_s)
    found = {
        layer: [
            one
            for one in _unneeded(place, layer, now_s, retention_s, grace_s)
            if (layer, one.name) not in held
        ]
        for layer in _layers(place)
    }
    if any(found.values()):
        condemn(place, _named(found))
        held = _held(place, now_s)
    files = size = 0
    for layer, candidates in found.items():
        # Looked at once more: somebody may have named a file that lay about for long.
        named = _named_now(place, layer) if candidates else None
        if named is None:
            continue
        gone = [f for f in candidates if (layer, f.name) not in held and f.name not in named]
        delete_all(place.child(layer), [one.name for one in gone])
        files += len(gone)
        size += sum(one.bytes for one in gone)
    _acquit(place)
    sweep_pins(place, now_s, grace_s)
    for layer in found:
        sweep_halves(place.child(layer).child(ARCHIVE), now_s, grace_s)
    logs = sum(_forget(place, layer, now_s, retention_s) for layer in found if layer != WORK)
    return Vacuumed(files, size, logs)


def _prune(place: Place) -> None:
    stable = place.child(STABLE).label
    for home in homes_of(place):
        # Not made yet; or left alone, see above.
        with contextlib.suppress(ForeignCommit, CommitLost):
            try:
                LayeredTable.open(place, home).prune(None)
            except LOST as error:
                if error.object.startswith(stable):
                    raise  # what is gone of its log may be put back, and nothing else tells


def _held(place: Place, now_s: float) -> set[tuple[str, str]]:
    pins = live_pins(place, now_s)
    return {(layer, path) for pin in pins for layer, paths in pin.files.items() for path in paths}


def _layers(place: Place) -> Iterator[str]:
    yield STABLE
    for home in homes_of(place):
        yield f"{INGEST}{home}"
    yield WORK


def _unneeded(
    place: Place, layer: str, now_s: float, retention_s: float, grace_s: float
) -> list[Found]:
    lying = [one for one in files_in(place.child(layer)) if now_s - one.changed_s > grace_s]
    if layer == WORK:
        return lying
    lying = [one for one in lying if one.name.endswith(_DATA)]
    if not lying:
        return []
    with _left_alone(layer):
        table = FencedTable.open(place.child(layer))
        marks = table.look()
        named = {file.path for file in live_files(table.handle)}
        if marks.foreign or (layer == STABLE and not named and not marks.settled):
            return []
        recent = LogFiles.of(place.child(layer), now_s).taken_out(now_s - retention_s)
        return [one for one in lying if one.name not in named and one.name not in recent]
    return []


def _named_now(place: Place, layer: str) -> set[str] | None:
    """None: nobody can tell."""
    if layer == WORK:
        return set()
    with _left_alone(layer):
        table = FencedTable.open(place.child(layer))
        table.look()
        return {file.path for file in live_files(table.handle)}
    return None


def _forget(place: Place, layer: str, now_s: float, retention_s: float) -> int:
    """Shorten the layer's log; by how many files."""
    with _left_alone(layer):
        table = FencedTable.open(place.child(layer))
        if not table.look().foreign:
            log = LogFiles.of(place.child(layer), now_s)
            return len(log.forget(now_s - retention_s, table.sound_at))
    return 0


def _left_alone(layer: str) -> contextlib.suppress:
    """What is not made yet, or damaged: see above."""
    return contextlib.suppress(*(() if layer == STABLE else LOST))


def _named(found: dict[str, list[Found]]) -> Layers:
    return {layer: tuple(one.name for one in files) for layer, files in found.items() if files}


def _acquit(place: Place) -> None:
    """Take back what was said of files that are all gone; a vacuum that sleeps cannot hurt them.

    While one of them is there it stays said: who condemned it and sleeps may still delete it.
    """
    for name, layers in condemned(place).items():
        left = any(
            set(paths) & {one.name for one in files_in(place.child(layer))}
            for layer, paths in layers.items()
        )
        if not left:
            delete_all(place.child(PINS), [name])
