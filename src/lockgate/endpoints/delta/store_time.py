"""The time that a store gives to files, and what lies in a directory of it.

What is old is told by the store's own times on both sides of the comparison, because the clocks of
those who write differ. Where the store and we disagree, the earlier of the two is now: what is held
for too long costs room, what is deleted too early is gone.
"""

import contextlib
import datetime as dt
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pyarrow import fs

from lockgate.endpoints.delta.faults import faults
from lockgate.endpoints.delta.place import Place
from lockgate.model.value import Value

__all__ = ["Found", "changed_s", "delete_all", "files_in", "store_now_s"]

_CONTROL: Final = "_lockgate"
_PROBE: Final = "now"
_FEW: Final = 8
_THREADS: Final = 16


class Found(Value, frozen=True):
    """A file that lies in a store."""

    name: str
    bytes: int
    changed_s: float
    """When it was written, by the store's clock."""


def store_now_s(incarnation: Place) -> float:
    """What time it is where its files are.

    Everybody writes the same file and nobody deletes it: whoever wrote it last, it is from now. It
    lies outside of the incarnation, whose directory may be deleted meanwhile and would be back.
    """
    with faults("write", incarnation):
        files, base = incarnation.filesystem()
        folder = f"{base.rstrip('/').rsplit('/', 2)[0]}/{_CONTROL}"
        files.create_dir(folder, recursive=True)
        files.open_output_stream(f"{folder}/{_PROBE}").close()
        return min(changed_s(files.get_file_info(f"{folder}/{_PROBE}")), time.time())


def files_in(place: Place) -> list[Found]:
    """The files of a directory itself; none when there is no such directory."""
    with faults("list", place):
        found = place.listed()
    return [
        Found(info.base_name, info.size or 0, changed_s(info))
        for info in sorted(found, key=lambda info: info.base_name)
        if info.type is fs.FileType.File
    ]


def delete_all(place: Place, names: list[str]) -> None:
    """In about this order, many at a time: a store far away takes its time for each. One that is
    gone already is no matter."""
    with faults("delete", place):
        files, base = place.filesystem()

        def delete(name: str) -> None:
            with contextlib.suppress(FileNotFoundError):
                files.delete_file(f"{base}/{name}")

        if len(names) < _FEW:
            for name in names:
                delete(name)
            return
        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(delete, names):
                pass


def changed_s(info: fs.FileInfo) -> float:
    """When a file was written, by the store's clock."""
    changed = info.mtime
    if isinstance(changed, dt.datetime):
        return changed.timestamp()
    return float(changed) if changed is not None else time.time()
