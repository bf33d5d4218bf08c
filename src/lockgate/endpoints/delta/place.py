"""Where a Delta table is, and how its store is reached.

An object store that speaks S3 is told by settings, named as delta-rs names them, in any case:

    aws_access_key_id, aws_secret_access_key, aws_session_token      who we are; without them, what
                                                                     the environment says
    aws_endpoint_url, aws_allow_http, aws_region                     where the store is
    aws_virtual_hosted_style_request                                 true: the bucket is in the host
"""

import contextlib
import errno
import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from pyarrow import fs

from lockgate.model.secret import Secret
from lockgate.model.value import Value

__all__ = ["S3", "Place"]

S3: Final = ("s3://", "s3a://")
_LOOKS: Final = 100


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
        if self.url.startswith(S3):
            return self._s3(), self.url.split("://", 1)[1]
        files, base = fs.FileSystem.from_uri(self.url)
        return files, base

    def listed(self, *, recursive: bool = False) -> list[fs.FileInfo]:
        """What lies there, in the order of the store; nothing when there is no such directory.

        pyarrow looks more than once, and fails where a directory comes or goes in between: then
        there is nothing of it yet, or what is left of a tree is looked at again.
        """
        files, base = self.filesystem()
        selector = fs.FileSelector(base, allow_not_found=True, recursive=recursive)
        for _ in range(_LOOKS if recursive else 1):
            with contextlib.suppress(FileNotFoundError):
                found: list[fs.FileInfo] = files.get_file_info(selector)
                return found
        return []

    def flush(self, name: str, *, above: bool = False) -> None:
        """Let a file in it survive a power failure, its name included; with `above`, the names of
        the directories that it lies in as well. A store has seen to that when it answers."""
        files, base = self.filesystem()
        if not isinstance(files, fs.LocalFileSystem):
            return
        path = Path(base, name).absolute()
        _flush(path)
        _flush_folder(path.parent)
        if not above:
            return
        for folder in path.parent.parents:
            try:
                _flush_folder(folder)
            except PermissionError:
                return  # above what is ours: nothing of it is new
            if os.path.ismount(folder):
                return

    def setting(self, name: str) -> str | None:
        """One of the settings above, without the prefix `aws_`."""
        named = {key.lower().removeprefix("aws_"): value for key, value in self.settings.items()}
        value = named.get(name) or (named.get("endpoint") if name == "endpoint_url" else None)
        return value.reveal() if value else None

    def _s3(self) -> fs.FileSystem:
        """pyarrow's own way from a URL to a store knows nothing of settings."""
        endpoint = urlsplit(self.setting("endpoint_url") or "")
        return fs.S3FileSystem(
            access_key=self.setting("access_key_id"),
            secret_key=self.setting("secret_access_key"),
            session_token=self.setting("session_token"),
            region=self.setting("region") or ("us-east-1" if endpoint.netloc else None),
            endpoint_override=endpoint.netloc or None,
            scheme=endpoint.scheme or "https",
            force_virtual_addressing=self.setting("virtual_hosted_style_request") == "true",
        )

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


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_folder(path: Path) -> None:
    try:
        _flush(path)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system whose directories see to it themselves
            raise
