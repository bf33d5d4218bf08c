"""Where a Delta table is, and how its store is reached."""

import msgspec
from pyarrow import fs

from lockgate.model.secret import Secret
from lockgate.model.value import Value

__all__ = ["Place"]


class Place(Value, frozen=True):
    """A directory of a file system, or a prefix of an object store."""

    url: str
    label: str
    """How people know it."""
    settings: dict[str, Secret] = msgspec.field(default_factory=dict)
    """What the store wants to know, keys of accounts among it."""

    @property
    def options(self) -> dict[str, str]:
        return {name: value.reveal() for name, value in self.settings.items()}

    def filesystem(self) -> tuple[fs.FileSystem, str]:
        """The store, and where in it the place is."""
        if "://" not in self.url:
            return fs.LocalFileSystem(), self.url
        files, base = fs.FileSystem.from_uri(self.url)
        return files, base

    def to_wire(self) -> bytes:
        """For a task of ours. With credentials: bytes, which no plan or log shows."""
        return msgspec.msgpack.encode((self.url, self.label, self.options))

    @staticmethod
    def from_wire(wire: bytes) -> "Place":
        url, label, options = msgspec.msgpack.decode(wire, type=tuple[str, str, dict[str, str]])
        return Place(url, label, {name: Secret(value) for name, value in options.items()})

    def child(self, name: str) -> "Place":
        """One below it."""
        return Place(f"{self.url}/{name}", f"{self.label}/{name}", self.settings)
