"""One lake table, and Lockgate's way to bring changes into it.

All begin with the same files, linked and not copied, and end with the same rows: they are compared
by a digest over every value, which a stranger's reader (Polars) takes of the live files.

    Layered       land in ingest, drain into stable as a Spark job
    Lazy          the same, but drained only when it is due

What others would do is in `lake_peers`.
"""

import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from bench.rig.cpu import Cpu
from bench.rig.lake_rows import KEY, SCHEMA, Changes, rows
from lockgate.core.lake.entry import Entry
from lockgate.core.lake.policy import wants_drain
from lockgate.endpoints.delta.copy_task import FILE_ROWS_MAX
from lockgate.endpoints.delta.files import DataFile, added, live_files, write_file
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.model.ids import Token
from lockgate.model.lake import Figures, LakeSettings
from lockgate.pipeline.drain import drain

if TYPE_CHECKING:
    from lockgate.pipeline.session import Spark

__all__ = ["TABLE", "Base", "Layered", "Lazy", "Peer", "Upsert", "digest"]

TABLE: Final = "public.orders"
HOME: Final = "bench"
LEADER, DISPATCHER = Token(1, 1, 1), Token(5, 1, 1)
_BORN: Final = 1


class Base:
    """The files that everybody begins with, as a first copy writes them."""

    def __init__(self, directory: Path, count: int, *, smaller: int = 1) -> None:
        self.count = count
        file_rows = FILE_ROWS_MAX // smaller
        self.directory = directory / f"base-{count}"
        self._told = self.directory / "files.json"
        if not self._told.exists():
            self.directory.mkdir(parents=True)
            place = Place(str(self.directory), "base")
            starts = range(0, count, file_rows)
            keys = (np.arange(at, min(at + file_rows, count), dtype=np.int64) * 2 for at in starts)
            files = [write_file(place, rows(some), KEY) for some in keys]
            self._told.write_bytes(msgspec.json.encode(files))
        self.files = msgspec.json.decode(self._told.read_bytes(), type=list[DataFile])

    def link(self, directory: Path) -> None:
        """Let a table have the files."""
        for file in self.files:
            os.link(self.directory / file.path, directory / file.path)


class Upsert(msgspec.Struct, frozen=True):
    """What bringing in some changes took."""

    seconds: float
    cpu: dict[str, float]
    """Processor seconds, by kind of process."""
    written: int
    """Bytes of data files, those that were deleted at once among them."""
    files: int
    """How many files of the table were rewritten."""


class Peer(ABC):
    """A table, and a way to bring changes into it."""

    name: str

    def __init__(self, directory: Path, base: Base) -> None:
        self.path = directory / type(self).__name__.lower()
        shutil.rmtree(self.path, ignore_errors=True)
        self._make(base)

    def upsert(self, changes: Changes) -> Upsert:
        """Bring them in."""
        given = self._given(changes)
        return self.timed(lambda: self._upsert(given))

    def timed(self, work: Callable[[], int]) -> Upsert:
        """What it takes, with nothing of before left to be written to the disk."""
        before = self._live()
        os.sync()
        with Cpu() as cpu:
            began = time.perf_counter()
            beside = work()
            took = time.perf_counter() - began
        after = self._live()
        new = sum(size for path, size in after.items() if path not in before)
        return Upsert(took, cpu.seconds, beside + new, len(before.keys() - after.keys()))

    def digest(self) -> tuple[int, int]:
        return digest([self._data / path for path in self._live()])

    @property
    def _data(self) -> Path:
        """Where the files of the Delta table are."""
        return self.path

    def _live(self) -> dict[str, int]:
        files = live_files(DeltaTable(str(self._data)))
        return {file.path: file.bytes for file in files}

    def _make(self, base: Base) -> None:
        table = DeltaTable.create(str(self.path), SCHEMA)
        base.link(self.path)
        table.create_write_transaction([added(file) for file in base.files], "append", SCHEMA)

    def _given(self, changes: Changes) -> pa.Table:
        """In the form in which this way takes them; not timed."""
        return changes.as_source()

    @abstractmethod
    def _upsert(self, given: pa.Table) -> int:
        """Bring them in; answers the bytes that were written beside the table's files."""


class Layered(Peer):
    """Ours."""

    name = "Lockgate"

    def __init__(self, directory: Path, base: Base, spark: "Spark | None" = None) -> None:
        self._spark = spark
        self._position = _BORN
        self.drains = 0
        super().__init__(directory, base)

    @property
    def _data(self) -> Path:
        return Path(self.table.place.url) / "stable"

    def _make(self, base: Base) -> None:
        place = Lake(Place(str(self.path), "lake")).place(TABLE, _BORN)
        self.table = LayeredTable.create(place, HOME, SCHEMA, KEY, LEADER, DISPATCHER, _BORN)
        base.link(self._data)
        self.table.land_copy(LEADER, base.files, _BORN, _BORN)

    def _given(self, changes: Changes) -> pa.Table:
        return changes.as_ingest(self._position)

    def _upsert(self, given: pa.Table) -> int:
        return self.land(given) + self.drain()

    def land(self, given: pa.Table) -> int:
        """Into ingest only; answers the bytes."""
        before = {file.path for file in live_files(self.table.ingest.handle)}
        self._position += given.num_rows
        self.table.land(DISPATCHER, given, self._position)
        new = [file for file in live_files(self.table.ingest.handle) if file.path not in before]
        return sum(file.bytes for file in new)

    def drain(self) -> int:
        """All that is in ingest; answers the bytes of the states, which lie there as they are."""
        assert self._spark is not None
        states = 0
        at = self.table.stable.look().position
        # As the keeper goes on: until stable is where ingest was when it began.
        while at < self._position:
            done = drain(self._spark, self.table, LEADER, "bench")
            assert done is not None, "there was something in ingest"
            at = done.to
            self.drains += 1
            states += done.changes * _row_bytes()
        self.table.prune(DISPATCHER)
        return states


class Lazy(Layered):
    """The same, drained when Lockgate's own policy says so, by what it would see of the table."""

    name = "Lockgate, by its policy"

    def _upsert(self, given: pa.Table) -> int:
        size = self.land(given)
        return size + self.drain() if self._is_due() else size

    def _is_due(self) -> bool:
        seen = self.table.snapshot()
        entry = Entry(TABLE, _BORN, 0)
        entry.figures = Figures(
            ingest_rows=sum(file.rows for file in seen.ingest),
            ingest_bytes=sum(file.bytes for file in seen.ingest),
            stable_rows=sum(file.rows for file in seen.stable),
        )
        return wants_drain(entry, 0, LakeSettings())


def digest(paths: list[Path]) -> tuple[int, int]:
    """How many rows there are, and a sum over every value that their order does not change."""
    import polars as pl

    count = total = 0
    for path in paths:
        frame = pl.read_parquet(path, columns=SCHEMA.names, hive_partitioning=False)
        frame = frame.with_columns(pl.col("created").dt.cast_time_unit("us"))
        count += frame.height
        total += int(frame.hash_rows(1).to_numpy().sum(dtype=np.uint64))
    return count, total % 2**64


def _row_bytes() -> int:
    """Of a state, as it is written for the tasks: plain."""
    sample = rows(np.arange(1000, dtype=np.int64))
    return int(sample.nbytes) // len(sample) + 24
