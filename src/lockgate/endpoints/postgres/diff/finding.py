"""Which rows of a range differ: first whether any does, then where, then which, then how.

    checksum ──equal──► done                                            one pass on either side
        └─► buckets: 256 of them, by the key's hash                     one more
               └─► hashes: key and hash of all rows in buckets that differ
                      └─► rows: all columns of those that are shown

Nearly always a few rows differ, so few buckets do, and little travels. When many do, they are read
some at a time, so that what is in memory stays small.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from lockgate.endpoints.postgres.diff import statements
from lockgate.endpoints.postgres.diff.items import Compared, DiffPart, SideTable
from lockgate.endpoints.postgres.diff.sessions import Rows, Side, Sides
from lockgate.model.diffs import DiffColumn, DiffSample, RangeOutcome, RowKind
from lockgate.model.value import Value

__all__ = ["Difference", "compare", "differences"]

_AT_ONCE: Final = 500_000
"""Rows of either side whose hashes are looked at together."""
_TEXT_MAX: Final = 500
"""Characters that are shown of a value."""

Key = tuple[str | None, ...]


class Difference(Value, frozen=True):
    """A row that differs: by its key, or without one by its hash, and how many there are of it."""

    kind: RowKind
    key: Key = ()
    hash: int = 0
    count: int = 1


def compare(sides: Sides, part: DiffPart, seed: int, samples: int) -> RangeOutcome:
    """What a range has in rows, and how many of them differ, with some to show."""
    table = part.table
    here, there = _checksums(sides, part, seed)
    counts = dict.fromkeys(RowKind, 0)
    shown: list[Difference] = []
    if here != there:
        for each in _found(sides, part, seed, (here[0], there[0]), samples):
            counts[each.kind] += each.count
            if len(shown) < samples:
                shown.append(each)
    outcome = RangeOutcome(
        table.source.table.id,
        part.space.no,
        here[0],
        counts[RowKind.MISSING],
        counts[RowKind.EXTRA],
        counts[RowKind.DIFFERENT],
        tuple(_samples(sides, part, seed, shown)),
    )
    sides.check(table)
    return outcome


def differences(sides: Sides, part: DiffPart, seed: int) -> Iterator[Difference]:
    """Every row that differs, in the order in which they are found."""
    here, there = _checksums(sides, part, seed)
    if here != there:
        yield from _by_bucket(sides, part, seed)
    sides.check(part.table)


def _checksums(sides: Sides, part: DiffPart, seed: int) -> tuple[tuple[int, str], tuple[int, str]]:
    [here], [there] = sides.both(
        part.table, lambda side: statements.checksum(side, part.space, seed)
    )
    return (here[0], here[1]), (there[0], there[1])


def _found(
    sides: Sides, part: DiffPart, seed: int, counts: tuple[int, int], samples: int
) -> Iterator[Difference]:
    if all(counts):
        yield from _by_bucket(sides, part, seed)
        return
    # One side has nothing: what differs is known, and only what is shown is read.
    side, table, kind = (
        (sides.source, part.table.source, RowKind.MISSING)
        if counts[0]
        else (sides.target, part.table.target, RowKind.EXTRA)
    )
    some = side.ask(
        table,
        lambda each: statements.hashes(
            each, part.space, seed, range(statements.BUCKETS), limit=samples
        ),
    )
    told = [Difference(kind, tuple(key), hash_, count) for key, hash_, count in some]
    yield from told
    rest = max(counts) - sum(each.count for each in told)
    if rest:
        yield Difference(kind, count=rest)


def _by_bucket(sides: Sides, part: DiffPart, seed: int) -> Iterator[Difference]:
    here, there = sides.both(part.table, lambda side: statements.buckets(side, part.space, seed))
    ours = {bucket: (count, total) for bucket, count, total in here}
    theirs = {bucket: (count, total) for bucket, count, total in there}
    differing = sorted(
        bucket for bucket in ours.keys() | theirs.keys() if ours.get(bucket) != theirs.get(bucket)
    )
    sizes = {
        bucket: max(ours.get(bucket, (0,))[0], theirs.get(bucket, (0,))[0]) for bucket in differing
    }
    for some in _groups(differing, sizes):
        ask = partial(statements.hashes, space=part.space, seed=seed, some=some)
        here, there = sides.both(part.table, ask)
        yield from _by_key(here, there) if part.table.key else _by_hash(here, there)


def _groups(buckets: Sequence[int], sizes: Mapping[int, int]) -> Iterator[list[int]]:
    group: list[int] = []
    rows = 0
    for bucket in buckets:
        if group and rows + sizes[bucket] > _AT_ONCE:
            yield group
            group, rows = [], 0
        group.append(bucket)
        rows += sizes[bucket]
    if group:
        yield group


def _by_key(here: Rows, there: Rows) -> Iterator[Difference]:
    ours = {tuple(key): hash_ for key, hash_, _ in here}
    theirs = {tuple(key): hash_ for key, hash_, _ in there}
    for key, hash_ in ours.items():
        other = theirs.get(key)
        if other is None:
            yield Difference(RowKind.MISSING, key)
        elif other != hash_:
            yield Difference(RowKind.DIFFERENT, key)
    for key in theirs.keys() - ours.keys():
        yield Difference(RowKind.EXTRA, key)


def _by_hash(here: Rows, there: Rows) -> Iterator[Difference]:
    ours = {hash_: count for _, hash_, count in here}
    theirs = {hash_: count for _, hash_, count in there}
    for hash_ in ours.keys() | theirs.keys():
        more = ours.get(hash_, 0) - theirs.get(hash_, 0)
        if more:
            kind = RowKind.MISSING if more > 0 else RowKind.EXTRA
            yield Difference(kind, hash=hash_, count=abs(more))


# --- what is shown --------------------------------------------------------------------------------


def _samples(
    sides: Sides, part: DiffPart, seed: int, shown: Sequence[Difference]
) -> Iterator[DiffSample]:
    table = part.table
    if table.key:
        keys = [each.key for each in shown if each.key]
        here = _rows_by_key(sides.source, table.source, _keys_of(shown, RowKind.EXTRA))
        there = _rows_by_key(sides.target, table.target, _keys_of(shown, RowKind.MISSING))
        kinds = {each.key: each.kind for each in shown}
        for key in keys:
            yield _sample(table, kinds[key], key, here.get(key), there.get(key))
        return
    for each, row in _rows_by_hash(sides, part, seed, shown):
        only = (row, None) if each.kind is RowKind.MISSING else (None, row)
        yield _sample(table, each.kind, (), *only)


def _keys_of(shown: Sequence[Difference], but: RowKind) -> list[Key]:
    return [each.key for each in shown if each.key and each.kind is not but]


def _rows_by_key(side: Side, table: SideTable, keys: Sequence[Key]) -> dict[Key, Sequence[Any]]:
    if not keys:
        return {}
    found = side.ask(table, lambda each: statements.rows(each, keys))
    return {tuple(row[: len(table.key)]): row for row in found}


def _rows_by_hash(
    sides: Sides, part: DiffPart, seed: int, shown: Sequence[Difference]
) -> Iterator[tuple[Difference, Sequence[Any]]]:
    for side, table, kind in (
        (sides.source, part.table.source, RowKind.MISSING),
        (sides.target, part.table.target, RowKind.EXTRA),
    ):
        wanted = {each.hash: each for each in shown if each.kind is kind and each.hash}
        if wanted:
            ask = partial(statements.rows_by_hash, space=part.space, seed=seed, some=list(wanted))
            found = side.ask(table, ask)
            yield from ((wanted[row[0]], row[1:]) for row in found)


def _sample(
    table: Compared,
    kind: RowKind,
    key: Key,
    here: Sequence[Any] | None,
    there: Sequence[Any] | None,
) -> DiffSample:
    columns = []
    for number, name in enumerate(table.names):
        ours = None if here is None else here[number]
        theirs = None if there is None else there[number]
        if kind is not RowKind.DIFFERENT or ours != theirs:
            columns.append(DiffColumn(name, _cut(ours), _cut(theirs)))
    return DiffSample(
        kind, {name: _cut(text) for name, text in zip(table.key, key, strict=True)}, tuple(columns)
    )


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= _TEXT_MAX:
        return text
    return f"{text[:_TEXT_MAX]}… ({len(text)} characters)"
