"""What readers hold fast: a small file each, which names the files that it reads.

    <incarnation>/_pins/pin-<name>          who, which state, which files, for how long
                       /condemned-<name>    what a vacuum is about to delete

A pin counts for a while from when it was written last, by the store's clock; a reader renews it,
and one that has died lets go by itself. Between a reader that pins and a vacuum that deletes, no
clock decides: the vacuum names what it is going to delete and *then* looks at the pins, the reader
pins and *then* looks at what is condemned. At least one of them sees the other, and gives way.

A file that a power failure has emptied or torn says nothing: who wrote it died then.
"""

import contextlib
import math
import secrets
import threading
from collections.abc import Iterator
from typing import Final, Self, TypeVar

import msgspec

from lockgate.endpoints.delta.draining import Snapshot
from lockgate.endpoints.delta.files import delete_file
from lockgate.endpoints.delta.graves import is_buried
from lockgate.endpoints.delta.lake import INGEST, STABLE
from lockgate.endpoints.delta.missing import FilesMoved, table_dead, why_missing
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.small_files import HALF, read_small, write_small
from lockgate.endpoints.delta.store_time import files_in
from lockgate.model.errors import LockgateError, ObjectMissing
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = [
    "PINS",
    "Layers",
    "Pin",
    "Pinned",
    "condemn",
    "condemned",
    "holding",
    "live_pins",
    "sweep_pins",
]

T = TypeVar("T")

PINS: Final = "_pins"
_PIN: Final = "pin-"
_CONDEMNED: Final = "condemned-"
_HOLD_S: Final = 900.0
_SPARE: Final = 2
"""A pin is let go after so many times its length: a reader may be slow, and a clock may jump."""

Layers = dict[str, tuple[str, ...]]
"""Data files, by the directory of their layer."""


class Pin(Value, frozen=True):
    """One reader's."""

    who: str
    stable_version: int
    position: Position
    hold_s: float
    """It counts for so long after it was written last."""
    files: Layers


class Pinned:
    """A pin that is held."""

    def __init__(self, place: Place, pin: Pin) -> None:
        self._place = place.child(PINS)
        self._name = f"{_PIN}{secrets.token_hex(12)}"
        self._pin = pin

    @classmethod
    def take(
        cls, place: Place, home: str, seen: Snapshot, who: str, hold_s: float = _HOLD_S
    ) -> Self:
        """Hold fast what a snapshot of an incarnation shows.

        FilesMoved or TableDead when some of it has gone already, or is just going.
        """
        files = {
            STABLE: tuple(file.path for file in seen.stable),
            f"{INGEST}{home}": tuple(file.path for file in seen.ingest),
        }
        held = cls(place, Pin(who, seen.stable_version, seen.position, hold_s, files))
        held.renew()
        try:
            _check(place, files)
        except LockgateError:
            held.release()
            raise
        return held

    def renew(self) -> None:
        """Count its time anew."""
        write_small(self._place, self._name, msgspec.json.encode(self._pin))

    def release(self) -> None:
        delete_file(self._place, self._name)


@contextlib.contextmanager
def holding(
    place: Place, home: str, seen: Snapshot, who: str, hold_s: float = _HOLD_S
) -> Iterator[Pinned]:
    """Hold it fast and renew it, until the end of the block."""
    pinned = Pinned.take(place, home, seen, who, hold_s)
    over = threading.Event()

    def renew() -> None:
        while not over.wait(hold_s / 3):
            with contextlib.suppress(LockgateError):  # there are two more before it is let go
                pinned.renew()

    thread = threading.Thread(target=renew, name=f"pin of {who}", daemon=True)
    thread.start()
    try:
        yield pinned
    finally:
        over.set()
        thread.join()
        pinned.release()


def live_pins(place: Place, now_s: float) -> list[Pin]:
    """Those that count."""
    return [pin for _, pin, age_s in _pins(place, now_s) if age_s <= pin.hold_s * _SPARE]


def sweep_pins(place: Place, now_s: float, grace_s: float) -> None:
    """Delete pins of readers that have died long ago, what was never finished, and what says
    nothing."""
    pins = place.child(PINS)
    counts_s = {name: pin.hold_s * _SPARE for name, pin, _ in _pins(place, now_s)}
    counts_s |= dict.fromkeys(condemned(place), math.inf)
    for found in files_in(pins):
        ours = found.name.startswith((_PIN, _CONDEMNED, HALF))
        if ours and now_s - found.changed_s > counts_s.get(found.name, 0.0) + grace_s:
            delete_file(pins, found.name)


def _pins(place: Place, now_s: float) -> list[tuple[str, Pin, float]]:
    """Name, pin, and age."""
    found = [one for one in files_in(place.child(PINS)) if one.name.startswith(_PIN)]
    read = [(one, _read(place, one.name, Pin)) for one in found]
    return [(one.name, pin, now_s - one.changed_s) for one, pin in read if pin is not None]


def condemn(place: Place, files: Layers) -> str:
    """Say what is about to be deleted; the name of what says so."""
    name = f"{_CONDEMNED}{secrets.token_hex(12)}"
    write_small(place.child(PINS), name, msgspec.json.encode(files))
    return name


def condemned(place: Place) -> dict[str, Layers]:
    """What vacuums have said that they delete, by the name of what says so."""
    out: dict[str, Layers] = {}
    pins = place.child(PINS)
    for found in files_in(pins):
        if found.name.startswith(_CONDEMNED):
            layers = _read(place, found.name, Layers)
            if layers is not None:
                out[found.name] = layers
    return out


def _check(place: Place, files: Layers) -> None:
    if is_buried(place):
        raise table_dead(place)
    for listed in condemned(place).values():
        for layer, paths in files.items():
            if set(paths) & set(listed.get(layer, ())):
                raise FilesMoved(
                    "files of this state are just being deleted",
                    object_=place.label,
                    hint="read a newer state of the table",
                    operation="pin",
                )
    for layer, paths in files.items():
        lost = set(paths) - {found.name for found in files_in(place.child(layer))}
        if lost:
            cause = ObjectMissing("it is not there", object_=min(lost), hint="")
            raise why_missing(place, layer, sorted(lost), cause)


def _read(place: Place, name: str, kind: type[T]) -> T | None:
    """None: it was released meanwhile, or says nothing."""
    try:
        return msgspec.json.decode(read_small(place.child(PINS), name), type=kind)
    except msgspec.DecodeError:
        return None
