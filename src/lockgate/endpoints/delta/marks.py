"""What a Delta table's log says about its owner, its progress and its end.

Delta keeps the last number that each *application* wrote with a commit. Ours are one application
per number, so that a commit, its owner and its position land together or not at all.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from deltalake import DeltaTable, Transaction

from lockgate.endpoints.delta.commit_files import commit_name
from lockgate.endpoints.delta.place import Place
from lockgate.model.ids import NO_TOKEN, Token
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = ["VERSION", "Marks", "marks_in", "marks_of", "transactions", "written_at"]

_EPOCH: Final = "lockgate.epoch"
_SEQ: Final = "lockgate.seq"
_INCARNATION: Final = "lockgate.incarnation"
_POSITION: Final = "lockgate.position"
_SETTLED: Final = "lockgate.settled"
_DEAD: Final = "lockgate.dead"
_WITH_NAME: Final = 2
_FOREIGN: Final = "lockgate.foreign"
_PRUNED: Final = "lockgate.pruned"
"""Optional: tables of before it was kept have commits without."""
VERSION: Final = "lockgate.version"
"""The commit's own number. A table whose version is another was written to by somebody else."""
_ALL: Final = (_EPOCH, _SEQ, _INCARNATION, _POSITION, _SETTLED, _DEAD, _FOREIGN, VERSION)


class Marks(Value, frozen=True):
    """One moment of a table."""

    version: int
    token: Token = NO_TOKEN
    position: Position = 0
    """Everything up to here is in the table."""
    dead: bool = False
    """It was dropped: nothing is committed to it any more."""
    dropped: bool = False
    """And it went with its name: what it was to replace goes too."""
    settled: Position = 0
    """Below this position the rows of its first copy are not level with each other."""
    pruned: Position = 0
    """Changes up to here may be out of ingest: stable had them by then. Who finds it not so far any
    more has found that its log was cut. 0: nothing is known of it."""
    foreign: int = 0
    """The first version whose rows are somebody else's; 0 when all are ours."""
    lost: int = 0
    """The first version whose commit is not there any more, but for its name; 0 for none. It is
    found with every look, and written nowhere: put back, the commit counts again."""


def marks_of(table: DeltaTable) -> Marks:
    """As the handle sees it; the log may have gone on."""
    return _marks(
        table.version(), {app: table.transaction_version(app) or 0 for app in (*_ALL, _PRUNED)}
    )


def marks_in(table: Place, version: int) -> Marks | None:
    """The same, by what a commit of ours says itself: that is all of it. None: it is not ours, or
    cannot be read. Delta looks for each number through the whole log: 7 ms for all of them in one
    of 40 commits, where this takes 0.03."""
    files, base = table.filesystem()
    try:
        with files.open_input_file(f"{base}/{commit_name(version)}") as source:
            lines = source.read().splitlines()
        found = [_LINE.decode(line).txn for line in lines if line.startswith(_TXN)]
    except (OSError, msgspec.MsgspecError):
        return None
    numbers = {txn.appId: txn.version for txn in found}
    whole = numbers.get(VERSION) == version and all(app in numbers for app in _ALL)
    return _marks(version, numbers) if whole else None


class _Txn(msgspec.Struct):
    appId: str  # noqa: N815  Delta's word
    version: int


class _Line(msgspec.Struct):
    txn: _Txn


_TXN: Final = b'{"txn":'
_LINE: Final = msgspec.json.Decoder(_Line)


def _marks(version: int, numbers: Mapping[str, int]) -> Marks:
    return Marks(
        version=version,
        token=Token(numbers[_EPOCH], numbers[_SEQ], numbers[_INCARNATION]),
        position=numbers[_POSITION],
        dead=numbers[_DEAD] > 0,
        dropped=numbers[_DEAD] == _WITH_NAME,
        settled=numbers[_SETTLED],
        pruned=numbers.get(_PRUNED, 0),
        foreign=numbers[_FOREIGN],
    )


def written_at(table: DeltaTable) -> int | None:
    """The version of our last commit. None: this table has never been ours."""
    return table.transaction_version(VERSION)


def transactions(marks: Marks) -> list[Transaction]:
    """What the commit carries that makes the table so.

    All of it each time: two commits at once then always clash, and the newest commit alone says
    everything.
    """
    numbers = {
        _EPOCH: marks.token.epoch,
        _SEQ: marks.token.seq,
        _INCARNATION: marks.token.incarnation,
        _POSITION: marks.position,
        _SETTLED: marks.settled,
        _DEAD: _WITH_NAME if marks.dropped else int(marks.dead),
        _FOREIGN: marks.foreign,
        _PRUNED: marks.pruned,
        VERSION: marks.version,
    }
    return [Transaction(app, number) for app, number in numbers.items()]
