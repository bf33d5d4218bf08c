"""The commits of a Delta table one by one, as its log has them.

A handle of delta-rs tells what a table is at one version. What is asked here is when something
happened: at which version a position was reached, which files came since. One small file of the log
answers for one commit, so that a search over thousands of them opens a few.

Commits are forgotten from the oldest on (Delta tidies its log at checkpoints). `None` stands for
one that is not there any more.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from lockgate.endpoints.delta.death import layer_faults
from lockgate.endpoints.delta.files import DataFile
from lockgate.endpoints.delta.log_archive import ARCHIVE, LOG
from lockgate.endpoints.delta.place import Place
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = ["Commit", "Commits"]

_POSITION: Final = "lockgate.position"
_FEW: Final = 8
_THREADS: Final = 16
"""A store far away takes its time for each small file, and answers many at once."""


class Commit(Value, frozen=True):
    """One commit of ours, or of somebody else."""

    version: int
    time_ms: int
    """By the clock of who committed."""
    position: Position | None
    """None: the commit is not ours."""
    added: tuple[DataFile, ...]
    """Files with new rows; what merely takes the place of others is not among them."""
    removed: tuple[str, ...]


class Commits:
    """The log of one table. What was read once is kept: a commit never changes."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._files, self._base = place.filesystem()
        self._read: dict[int, Commit | None] = {}

    def get(self, version: int) -> Commit | None:
        """One commit."""
        if version < 0:
            return None
        if version not in self._read:
            self._read[version] = self._load(version)
        return self._read[version]

    def many(self, versions: Iterable[int]) -> Iterator[Commit | None]:
        """Several, in the order that they are asked for."""
        wanted = list(versions)
        if len(wanted) < _FEW:
            yield from map(self.get, wanted)
            return
        with ThreadPoolExecutor(_THREADS) as pool:
            yield from pool.map(self.get, wanted)

    def position(self, version: int) -> Position | None:
        """What had landed with the version; a commit that is not ours changes nothing of it."""
        commit = self.get(version)
        while commit is not None and commit.position is None:
            commit = self.get(commit.version - 1)
        return commit.position if commit else None

    def newest(self, upto: int, old: Callable[[int], bool | None]) -> int | None:
        """The newest version, at most `upto`, that is `old`; None where that is forgotten.

        `old` is true up to some version and false behind it, and None for what is forgotten.
        What is asked for is mostly near the end, so the steps back get longer one by one.
        """
        young, step = upto + 1, 1
        low = upto
        while low >= 0 and old(low) is False:
            young, low, step = low, low - step, step * 2
        low = max(low, -1)
        while young - low > 1:
            middle = (young + low) // 2
            if old(middle) is False:
                young = middle
            else:
                low = middle
        return low if low >= 0 and old(low) else None

    def _load(self, version: int) -> Commit | None:
        text = self._text(LOG, version) or self._text(ARCHIVE, version)
        if text is None:
            return None
        actions = [_ACTION.decode(line) for line in text.splitlines() if line]
        return Commit(
            version,
            next((a.commitInfo.timestamp for a in actions if a.commitInfo), 0),
            next((a.txn.version for a in actions if a.txn and a.txn.appId == _POSITION), None),
            tuple(_file(a.add) for a in actions if a.add and a.add.dataChange),
            tuple(unquote(a.remove.path) for a in actions if a.remove),
        )

    def _text(self, folder: str, version: int) -> bytes | None:
        with layer_faults("read", self._place):
            try:
                path = f"{self._base}/{folder}/{version:020d}.json"
                with self._files.open_input_stream(path) as source:
                    return bytes(source.read())
            except FileNotFoundError:
                return None


# --- what Delta writes ----------------------------------------------------------------------------


class _Info(msgspec.Struct):
    timestamp: int = 0


class _Txn(msgspec.Struct):
    appId: str  # noqa: N815 - the log's word
    version: int


class _Add(msgspec.Struct):
    path: str
    size: int = 0
    dataChange: bool = True  # noqa: N815
    stats: str | None = None


class _Remove(msgspec.Struct):
    path: str


class _Action(msgspec.Struct):
    commitInfo: _Info | None = None  # noqa: N815
    txn: _Txn | None = None
    add: _Add | None = None
    remove: _Remove | None = None


class _Stats(msgspec.Struct):
    numRecords: int = 0  # noqa: N815
    minValues: dict[str, Any] = {}  # noqa: N815
    maxValues: dict[str, Any] = {}  # noqa: N815


_ACTION: Final = msgspec.json.Decoder(_Action)
_STATS: Final = msgspec.json.Decoder(_Stats)


def _file(add: _Add) -> DataFile:
    stats = _STATS.decode(add.stats) if add.stats else _Stats()
    path = unquote(add.path)
    return DataFile(path, stats.numRecords, add.size, stats.minValues, stats.maxValues)
