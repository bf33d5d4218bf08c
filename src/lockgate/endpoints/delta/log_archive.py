"""Old commits of an ingest, moved out of its log.

Whoever opens a Delta table in a directory, or looks whether it has gone on, lists its log, all of
it: with 150,000 files, which a busy ingest has after a day, that took half a second each time. What
lies before a checkpoint is needed by nobody who asks for the newest state. So it goes to a
directory of its own, where those find it who ask when something happened (`commits`), and a vacuum
(`log_files`), which deletes it there.

An object store is asked for what comes after a name, and is left alone.
"""

import contextlib
import re
from typing import Final

from pyarrow import fs

from lockgate.endpoints.delta.death import layer_faults
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.store_time import files_in

__all__ = ["ARCHIVE", "LOG", "archive", "flush_checkpoint"]

LOG: Final = "_delta_log"
ARCHIVE: Final = "_lockgate_log"
KEPT: Final = 1_000
"""Versions that stay at the least: for whoever is just looking, and for what people look at."""
_LAST_CHECKPOINT: Final = "_last_checkpoint"
_NUMBERED: Final = re.compile(r"(\d{20})\.")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")


def flush_checkpoint(layer: Place, version: int) -> None:
    """Have the checkpoint of a version on the disk, if there is one, and what points to the newest.

    Before the commits go that it stands for; and soon after it was written, for a table whose
    newest checkpoint is broken does not open.
    """
    log = layer.child(LOG)
    for name in (f"{version:020d}.checkpoint.parquet", _LAST_CHECKPOINT):
        try:
            log.flush(name)
        except FileNotFoundError:
            return


def archive(layer: Place, newest: int, kept: int = KEPT) -> int:
    """Move what lies before the last checkpoint that is so many versions old; how much that was.

    Killed anywhere, the next one goes on; two at once do no harm.
    """
    with layer_faults("write", layer):
        files, base = layer.filesystem()
        if not isinstance(files, fs.LocalFileSystem):
            return 0
        names = [found.name for found in files_in(layer.child(LOG))]
        checkpoints = (int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name)))
        first = max((number for number in checkpoints if number <= newest - kept), default=0)
        old = [name for name in names if (m := _NUMBERED.match(name)) and int(m[1]) < first]
        if old:
            flush_checkpoint(layer, first)
            files.create_dir(f"{base}/{ARCHIVE}", recursive=True)
        for name in sorted(old):  # the oldest first: what is left is without a gap
            with contextlib.suppress(FileNotFoundError):
                files.move(f"{base}/{LOG}/{name}", f"{base}/{ARCHIVE}/{name}")
        return len(old)
