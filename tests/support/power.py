"""A disk that loses power: what was flushed is there after it, and nothing else."""

import os
import shutil
from pathlib import Path

import pytest

__all__ = ["Disk"]


class Disk:
    """A directory, and what of it is on the disk by now.

    It is the worst of all disks: nothing is kept that nobody flushed, no content and no name.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.flushed: list[Path] = []
        """What was flushed, in order."""
        self.broken = ""
        """Whatever has this in its path cannot be flushed."""
        self._content: dict[Path, bytes] = {}
        self._names: dict[Path, set[str]] = {}
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self._flush)

    def lose_power(self) -> None:
        """And come up again."""
        self._restore(self.root)

    def _flush(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if self.broken and self.broken in str(path):
            raise OSError(5, os.strerror(5))
        self._fsync(descriptor)
        self.flushed.append(path)
        if path.is_dir():
            self._names[path] = {each.name for each in path.iterdir()}
        else:
            self._content[path] = path.read_bytes()

    def _restore(self, folder: Path) -> None:
        for path in list(folder.iterdir()):
            if path.name not in self._names.get(folder, set()):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            elif path.is_dir():
                self._restore(path)
            else:
                path.write_bytes(self._content.get(path, b""))
