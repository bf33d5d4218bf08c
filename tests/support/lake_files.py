"""The files of a lake table, as a test wants them: older than they are, or counted."""

import os
from pathlib import Path

from lockgate.endpoints.delta.files import live_files
from lockgate.endpoints.delta.layered import LayeredTable

__all__ = ["age", "bytes_named", "data_files"]


def age(folder: str | Path, seconds: float) -> None:
    """Let all that was written below it so far be so much older, by the store's clock."""
    for path in Path(folder).rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - seconds
            os.utime(path, (then, then))


def data_files(folder: str | Path) -> set[str]:
    """What lies in a layer's directory."""
    return {path.name for path in Path(folder).glob("*.parquet")}


def bytes_named(table: LayeredTable) -> int:
    """The true sizes of the files that the two layers name."""
    return sum(
        Path(layer.place.url, file.path).stat().st_size
        for layer in (table.stable, table.ingest)
        for file in live_files(layer.handle)
    )
