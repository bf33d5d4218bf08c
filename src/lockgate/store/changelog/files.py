"""The files of the change log: below one root, in a file system or an object store.

A segment is a Parquet file, or lies in a pack with other small ones (see `packs`).

A file is written under a temporary name, flushed, and renamed; the folder is flushed before any
row names the file. So what a row names is whole and survives a power cut. An object store has
neither renaming nor flushing: there a file appears whole when it is closed, or not at all.

How they are written was chosen for the speed of writing, on 250,000 rows of ten columns: LZ4 costs
0.10 s where zstd at its fastest costs 0.15 and no compression 0.06 with twice the bytes;
dictionaries pay for the columns that hardly change (0.10 s against 0.15 with all of them), and
statistics are asked for by position only.
"""

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from lockgate.model.errors import LockgateError, ObjectMissing, StorageFull, Terminal, UsageError
from lockgate.model.ids import FeedId, Token
from lockgate.store.changelog.groups import Group, note
from lockgate.store.changelog.packs import Slice, packed, slice_of
from lockgate.store.changelog.places import (
    TEMPORARY,
    Place,
    feed_folder,
    file_of,
    pack_name,
    parse,
    segment_name,
    token_folder,
)
from lockgate.store.changelog.rows import Segment
from lockgate.store.changelog.shapes import digest_of, shape_of

__all__ = ["SegmentFiles", "SegmentWriter"]

_OPTIONS: Final[dict[str, Any]] = {
    "compression": "lz4",
    "use_dictionary": ["position", "op", "xid", "time"],
    "write_statistics": ["position", "unchanged"],
    "data_page_version": "2.0",
}

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class SegmentFiles:
    """All files of the change logs below one root: `/path`, `file:///path`, `s3://bucket/path`."""

    def __init__(self, root: str, files: fs.FileSystem | None = None) -> None:
        """`files` takes the place of what the root's scheme stands for."""
        parts = urlsplit(root)
        self._local = files is None and parts.scheme in {"", "file"}
        try:
            if files is None and parts.scheme:
                files, base = fs.FileSystem.from_uri(root)
            else:
                base = str(Path(root).absolute())
        except (pa.ArrowException, ValueError, OSError) as error:
            why = str(error).replace(root, _label(parts))
            raise UsageError(
                "the place of the change log cannot be used",
                object_=_label(parts),
                hint="name a folder, or a URL that Arrow knows: /path, file:///path, s3://bucket",
                cause=why,
            ) from None
        self._files: fs.FileSystem = files or fs.LocalFileSystem()
        self._base = base.rstrip("/")
        self._parts = parts
        self.label = self._base if self._local else _label(parts)
        """The root, for people: no credentials."""

    def uri(self, path: str) -> str:
        """How anybody, on any machine, opens the file at `path` below the root."""
        if self._local:
            return self._at(path)
        place = slice_of(path)
        file = path if place is None else place.file
        uri = urlunsplit(self._parts._replace(path=f"{self._parts.path.rstrip('/')}/{file}"))
        return uri if place is None else str(place._replace(file=uri))

    def writer(self, feed: FeedId, token: Token) -> "SegmentWriter":
        """A writer for one owner of a feed's log; makes its folder."""
        folder = f"{feed_folder(feed)}/{token_folder(token)}"
        with self._guarded("make a folder", folder):
            self._make(folder)
        return SegmentWriter(self, folder)

    def listing(self, feed: FeedId) -> Iterator[list[Place]]:
        """Everything of a feed that is called like a segment, a folder at a time."""
        for folder in self._entries(feed_folder(feed), fs.FileType.Directory):
            found = (parse(path) for path in self._entries(folder, fs.FileType.File))
            yield [place for place in found if place is not None]

    def delete(self, paths: Iterable[str]) -> int:
        """Delete the files of segments; those that are gone already are fine. How many were not."""
        count = 0
        for path in dict.fromkeys(map(file_of, paths)):
            with self._guarded("delete a file", path), contextlib.suppress(FileNotFoundError):
                self._files.delete_file(self._at(path))
                count += 1
        return count

    def delete_empty_folders(self, feed: FeedId, below: Token) -> None:
        """Tidy up after owners older than `below`. An object store has no folders to tidy."""
        if not self._local:
            return
        for folder in self._entries(feed_folder(feed), fs.FileType.Directory):
            place = parse(f"{folder}/0-0-x.parquet")
            if place is not None and place.token < below:
                with contextlib.suppress(OSError):
                    os.rmdir(self._at(folder))  # noqa: PTH106

    def remove(self, feed: FeedId, upto: Token) -> None:
        """Delete everything that owners of a feed left, whose log is forgotten up to this token.

        Later owners are those of another feed, which was created under the same name since.
        """
        folder = feed_folder(feed)
        for each in self._entries(folder, fs.FileType.Directory):
            place = parse(f"{each}/0-0-x.parquet")
            if place is not None and place.token <= upto:
                with self._guarded("delete a folder", each), contextlib.suppress(FileNotFoundError):
                    self._files.delete_dir(self._at(each))
        if self._local:
            with contextlib.suppress(OSError):
                os.rmdir(self._at(folder))  # noqa: PTH106

    # --- for the writer -----------------------------------------------------------------------

    def put(self, path: str, write: Callable[[pa.NativeFile], None]) -> int:
        """Have a file written to `path`: how many bytes. Whatever fails leaves nothing behind."""
        target = self._at(path)
        with self._guarded("write a segment", path):
            if not self._local:
                with self._files.open_output_stream(target) as out:
                    write(out)
                return int(self._files.get_file_info(target).size)
            temporary = target + TEMPORARY
            try:
                with pa.OSFile(temporary, "w") as out:
                    write(out)
                size = _flush(temporary)
                os.rename(temporary, target)  # noqa: PTH104
            except BaseException:
                for left in (temporary, target):
                    with contextlib.suppress(OSError):
                        os.unlink(left)  # noqa: PTH108
                raise
            return size

    def flush(self, folder: str) -> None:
        """Make the names of the files in a folder durable."""
        if self._local:
            with self._guarded("flush a folder", folder):
                _flush(self._at(folder))

    # --- inside -------------------------------------------------------------------------------

    def _at(self, path: str) -> str:
        return f"{self._base}/{path}"

    def _make(self, folder: str) -> None:
        if not self._local:
            self._files.create_dir(self._at(folder))
            return
        missing = Path(self._at(folder))
        made = []
        while not missing.exists():
            made.append(missing)
            missing = missing.parent
        Path(self._at(folder)).mkdir(parents=True, exist_ok=True)
        for each in made:
            _flush(str(each.parent))

    def _entries(self, folder: str, kind: fs.FileType) -> list[str]:
        """The paths of what is in a folder."""
        selector = fs.FileSelector(self._at(folder), allow_not_found=True)
        with self._guarded("list a folder", folder):
            found = self._files.get_file_info(selector)
        return [f"{folder}/{each.base_name}" for each in found if each.type is kind]

    @contextlib.contextmanager
    def _guarded(self, operation: str, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._error(operation, path, error) from error

    def _error(self, operation: str, path: str, error: OSError) -> LockgateError:
        if error.errno in _FULL:
            return StorageFull(
                "there is no room left for the change log",
                object_=f"{self.label}/{path}",
                hint="free some space there, or keep less of the log (retention); nothing that "
                "was acknowledged to the source is lost, and the capture goes on from there",
                operation=operation,
                cause=error,
            )
        if isinstance(error, FileNotFoundError):
            return ObjectMissing(
                "a folder of the change log is not there any more",
                object_=f"{self.label}/{path}",
                hint="a newer owner of the log tidied up, or other hands did",
                operation=operation,
                cause=error,
            )
        return Terminal(
            "the change log's files cannot be used",
            object_=f"{self.label}/{path}",
            hint="see that the place exists and that this user may read and write there",
            operation=operation,
            cause=error,
        )


class SegmentWriter:
    """Writes segments for one owner. Threads may write at once; `flush` comes after them all."""

    def __init__(self, files: SegmentFiles, folder: str) -> None:
        self._files = files
        self._folder = folder
        self._run = secrets.token_hex(4)

    def write(self, table: pa.Table, groups: Sequence[Group] = ()) -> Segment:
        """Write changes in the segments' schema, of one shape. Raises StorageFull.

        `groups` are the row groups, where the changes lie in the order of their keys' hashes.
        The file is durable and its name is not, until `flush`.
        """
        segment = _described(table)
        path = f"{self._folder}/{segment_name(segment.id, self._run, segment.table)}"
        size = self._files.put(path, lambda out: _write(table, groups, out))
        return msgspec.structs.replace(segment, path=path, bytes=size)

    def write_pack(self, tables: Sequence[pa.Table]) -> list[Segment]:
        """Write several small tables into one file, see `packs`. Raises StorageFull.

        All of them, or none, must come into the log, and in one append.
        """
        segments = [_described(table) for table in tables]
        first = min(segment.id for segment in segments)
        path = f"{self._folder}/{pack_name(first, self._run, len(segments))}"
        # Made in memory, because what is written in small pieces is written slowly.
        whole = pa.BufferOutputStream()
        places = packed(tables, whole)
        data = whole.getvalue()
        self._files.put(path, lambda out: out.write(data))
        ends = [*(offset for offset, _ in places[1:]), data.size]
        return [
            msgspec.structs.replace(
                segment, path=str(Slice(path, offset, length)), bytes=end - offset
            )
            for segment, (offset, length), end in zip(segments, places, ends, strict=True)
        ]

    def flush(self) -> None:
        """Make everything that was written survive, names included. Before any row names it."""
        self._files.flush(self._folder)


def _described(table: pa.Table) -> Segment:
    """What there is to say of changes before they are in a file."""
    if not table.num_rows:
        raise ValueError("a segment without changes")
    shape = shape_of(table.schema)
    positions, seqs = (pc.min_max(table[name]) for name in ("position", "seq"))
    return Segment(
        id=seqs["min"].as_py(),
        table=shape.table.id,
        shape=digest_of(table.schema),
        path="",
        low=positions["min"].as_py(),
        high=positions["max"].as_py(),
        rows=table.num_rows,
        bytes=0,
    )


def _write(table: pa.Table, groups: Sequence[Group], out: pa.NativeFile) -> None:
    with pq.ParquetWriter(out, table.schema, **_OPTIONS) as writer:
        if not groups:
            writer.write_table(table)
            return
        at = 0
        for group in groups:
            writer.write_table(table.slice(at, group.rows), row_group_size=group.rows)
            at += group.rows
        writer.add_key_value_metadata(note(groups))


def _flush(path: str) -> int:
    """Flush a file or folder to the disk: its size."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def _label(parts: SplitResult) -> str:
    """A URL without what may be secret in it: user, password, options."""
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host, query="", fragment=""))
