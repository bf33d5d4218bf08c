"""A table of a lake compared with one of a database, or of a lake, row by row, by Spark itself.

    survey ── both sides' tables ──► plan: one range each
    snapshots ── one moment on each side ──► buckets ── equal: done
                                                └─ else: rows of buckets that differ, then samples

It has the same two verbs as a diff of two databases (`diff.DiffRun`). What differs is what a moment
is: of a database a snapshot, of a lake a position (`endpoints/delta/diff_level`). The lake can be
asked for a position that it has passed, so no feed is held.

Values of a database are taken to the types of the lake, as a copy takes them, and compared there:
exactly what a reader of the lake would have to see.

Nothing is repaired here: rows of a lake come from its feed alone, which can bring a table anew.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final

import msgspec
import pyarrow as pa

from lockgate.endpoints.delta.diff_level import lake_apart, lake_level
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.endpoints.postgres.diff.snapshots import Snapshots
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.apply import ApplyError
from lockgate.model.diffs import (
    SAMPLES_MAX,
    DiffColumn,
    DiffSample,
    DiffTrouble,
    RangeOutcome,
    RowKind,
    TableRecord,
)
from lockgate.model.errors import Conflict, LockgateError
from lockgate.model.ids import FeedId
from lockgate.model.selection import TableSelection
from lockgate.model.tables import TableName
from lockgate.model.value import Value
from lockgate.pipeline.jobs import collect
from lockgate.pipeline.lake_diff_queries import Queries
from lockgate.pipeline.lake_diff_sides import LakeSide, Opened, PostgresSide, Side
from lockgate.pipeline.session import Spark

__all__ = ["LakeDiffRun", "LakeNotRepaired", "not_repaired"]

_ATTEMPTS: Final = 4
_PAUSE_S: Final = 0.5
_TEXT_MAX: Final = 500
"""Characters that are shown of a value."""

Url = PostgresUrl | LakeUrl
Take = Callable[[Sequence[RangeOutcome]], None]
Snapshooter = Callable[[], AbstractContextManager[Snapshots]]


class LakeNotRepaired(Conflict):
    """Rows of a lake come from its feed, and a diff does not write them."""

    code = "lake-not-repaired"


def not_repaired(target: str, feed: FeedId = "") -> LakeNotRepaired:
    """What is said to whoever asks for it; `feed` is the one between the two, if there is one."""
    command = f"lockgate feed resync {feed} TABLE" if feed else "lockgate feed resync"
    return LakeNotRepaired(
        "a diff does not write rows of a lake, nor from one",
        object_=target,
        hint=f"`{command}` has the feed copy a table anew",
        operation="repair",
    )


class _Failed(Exception):
    """A task of a DataFrame said so."""

    def __init__(self, error: ApplyError) -> None:
        super().__init__(error.what)
        self.error = error


class _Pair(Value, frozen=True):
    """A table on both sides."""

    schema: pa.Schema
    """Of the columns that are compared."""
    key: tuple[str, ...]
    lacks: tuple[str, ...]
    notes: tuple[str, ...]


class LakeDiffRun:
    """One attempt at a diff in which a lake is the source, the target, or both."""

    def __init__(
        self,
        spark: Spark,
        source: Url,
        target: Url,
        wanted: Sequence[TableSelection],
        *,
        seed: int,
        tag: str,
        repair: bool = False,
        feed: FeedId = "",
        check: Callable[[], None] = lambda: None,
    ) -> None:
        if repair:
            raise not_repaired(target.label, feed)
        self._spark = spark
        self._source = source
        self._target = target
        self._wanted = {each.table.id: each for each in wanted}
        self._seed = seed
        self._tag = tag
        self._feed = feed
        self._check = check

    def snapshots(self) -> AbstractContextManager[Snapshots]:
        """Both sides at one position of the feed; or, without one, each as it is now."""
        source, target = self._source, self._target
        if self._feed and isinstance(source, PostgresUrl) and isinstance(target, LakeUrl):
            tables = list(self._wanted.values())
            return lake_level(source, target, self._feed, tables, check=self._check)
        return lake_apart(source, target)

    def plan(self) -> tuple[TableRecord, ...]:
        """What is compared of every table: each is one range."""
        return tuple(self._record(each) for each in self._wanted.values())

    def compare(
        self,
        tables: Sequence[TableRecord],
        done: Collection[tuple[str, int]],
        snapshots: Snapshooter,
        take: Take,
    ) -> dict[str, ApplyError]:
        """Compare every table that is not `done`, and hand over what came of each.

        `snapshots` are as of `self.snapshots`. Answers why a table could not be compared; the
        others are through then. Raises what concerns all of them.
        """
        left = {each.table: each for each in tables if each.ranges and (each.table, 0) not in done}
        errors: dict[str, ApplyError] = {}
        for attempt in range(_ATTEMPTS):
            if not left:
                break
            if attempt:
                time.sleep(_PAUSE_S * 2**attempt)
            errors = self._attempt(left, snapshots, take)
            if not any(error.retryable for error in errors.values()):
                break
        return errors

    # --- planning ---------------------------------------------------------------------------------

    def _sides(self, selection: TableSelection) -> tuple[Side, Side]:
        there = TableSelection(selection.target, selection.target, selection.columns)
        return (
            self._side(self._source, selection, selection.table),
            self._side(self._target, there, selection.target),
        )

    def _side(self, url: Url, selection: TableSelection, name: TableName) -> Side:
        if isinstance(url, LakeUrl):
            return LakeSide(url, name)
        return PostgresSide(url, selection, self._spark.slots)

    def _record(self, selection: TableSelection) -> TableRecord:
        record = TableRecord(selection.table.id, selection.target.id, hashed=1)
        try:
            here, there = self._sides(selection)
            pair = _paired(selection, here, there)
        except LockgateError as error:
            trouble = DiffTrouble(error.code, error.what, error.object, error.hint)
            return msgspec.structs.replace(record, trouble=trouble)
        return msgspec.structs.replace(
            record,
            key=pair.key,
            columns=tuple(pair.schema.names),
            rows_estimate=here.rows,
            lacks=pair.lacks,
            notes=pair.notes,
        )

    # --- running ----------------------------------------------------------------------------------

    def _attempt(
        self, left: dict[str, TableRecord], snapshots: Snapshooter, take: Take
    ) -> dict[str, ApplyError]:
        errors: dict[str, ApplyError] = {}
        # Before the snapshots: what is rewritten after this look is noticed.
        seen: dict[str, tuple[_Pair, Side, Side]] = {}
        for name, record in left.items():
            try:
                here, there = self._sides(self._wanted[name])
                pair = _paired(self._wanted[name], here, there)
                if pair.key != record.key or tuple(pair.schema.names) != record.columns:
                    raise _changed(name)
                seen[name] = pair, here, there
            except LockgateError as error:
                errors[name] = ApplyError.of(error)
        if not seen:
            return errors
        with snapshots() as held:
            for name, (pair, here, there) in seen.items():
                self._check()
                try:
                    outcome = self._outcome(name, pair, here, there, held)
                except _Failed as failed:
                    errors[name] = failed.error
                    continue
                except LockgateError as error:
                    errors[name] = ApplyError.of(error)
                    continue
                take([outcome])
                del left[name]
        return errors

    def _outcome(
        self, name: str, pair: _Pair, here: Side, there: Side, held: Snapshots
    ) -> RangeOutcome:
        with ExitStack() as opened:
            ours = opened.enter_context(here.opened(held.source))
            theirs = opened.enter_context(there.opened(held.target))
            found = _Comparison(self._spark, self._tag, self._seed, pair, ours, theirs).run()
        return RangeOutcome(
            name,
            0,
            found.rows,
            found.counts[RowKind.MISSING],
            found.counts[RowKind.EXTRA],
            found.counts[RowKind.DIFFERENT],
            found.samples,
            held.position,
        )


class _Found(Value, frozen=True):
    rows: int
    counts: Mapping[RowKind, int]
    samples: tuple[DiffSample, ...] = ()


class _Comparison:
    """One table, both sides opened."""

    def __init__(
        self, spark: Spark, tag: str, seed: int, pair: _Pair, here: Opened, there: Opened
    ) -> None:
        self._spark, self._tag, self._pair = spark, tag, pair
        self._here, self._there = here, there
        self._queries = Queries(pair.schema, pair.key, seed)

    def run(self) -> _Found:
        counts = dict.fromkeys(RowKind, 0)
        sides = self._buckets()
        rows = sum(count for count, *_ in sides[0].values())
        differing = [
            bucket
            for bucket in sides[0].keys() | sides[1].keys()
            if sides[0].get(bucket) != sides[1].get(bucket)
        ]
        if not differing:
            return _Found(rows, counts)
        session = self._spark.session
        kept = self._queries.differing(session, *self._frames(session), sorted(differing))
        kept = kept.persist()
        try:
            told = self._collected(lambda session: self._queries.counts(session, kept))
            for row in told.to_pylist():
                counts[RowKind(row["kind"])] += row["n"]
            shown = self._collected(lambda _: kept.drop("n").limit(SAMPLES_MAX)).drop(["error"])
        finally:
            kept.unpersist()
        return _Found(rows, counts, tuple(self._samples(shown)))

    def _buckets(self) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
        found = self._collected(
            lambda session: self._queries.buckets(session, *self._frames(session))
        )
        sides: tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]] = ({}, {})
        for row in found.to_pylist():
            sides[row["side"]][row["bucket"]] = row["n"], row["low"], row["high"]
        return sides

    def _samples(self, shown: pa.Table) -> list[DiffSample]:
        found = self._collected(
            lambda session: self._queries.rows(session, *self._frames(session), shown),
            told=False,
        )
        names, key = self._pair.schema.names, self._pair.key
        numbers = [names.index(name) for name in key]
        rows: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
        for row in found.to_pylist():
            place = (row["kind"], *(row[f"c{no}"] for no in numbers))
            rows.setdefault(place, {})[row["side"]] = row
        samples = []
        for (kind, *values), sides in rows.items():
            ours, theirs = sides.get(0, {}), sides.get(1, {})
            columns = tuple(
                DiffColumn(name, _cut(ours.get(f"c{no}")), _cut(theirs.get(f"c{no}")))
                for no, name in enumerate(names)
                if RowKind(kind) is not RowKind.DIFFERENT
                or ours.get(f"c{no}") != theirs.get(f"c{no}")
            )
            by_name = {name: _cut(value) for name, value in zip(key, values, strict=True)}
            samples.append(DiffSample(RowKind(kind), by_name, columns))
        return samples

    def _frames(self, session: Any) -> tuple[Any, Any]:
        schema = self._pair.schema
        return self._here.frame(session, schema), self._there.frame(session, schema)

    def _collected(self, make: Callable[[Any], Any], *, told: bool = True) -> pa.Table:
        """What a query finds; what a task had to say to it is raised."""
        found = collect(self._spark, self._tag, make)
        if told:
            for said in found["error"].drop_null().to_pylist():
                raise _Failed(msgspec.json.decode(said, type=ApplyError))
        return found


def _paired(selection: TableSelection, here: Side, there: Side) -> _Pair:
    """What of a table is compared, in which types. Raises what keeps it from being."""
    lake = next((side for side in (there, here) if isinstance(side, LakeSide)), there)
    other = here if lake is there else there
    chosen = [name for name in here.schema.names if name in selection.columns]
    names = [name for name in chosen if name in there.schema.names]
    key = lake.key
    lost = [name for name in key if name not in names]
    if lost or not key or (isinstance(other, LakeSide) and set(other.key) != set(key)):
        raise Conflict(
            "the two sides do not know rows by the same key",
            object_=selection.table.id,
            hint=f"the lake's is ({', '.join(key)}); a table that has another by now is copied "
            "anew by `lockgate feed resync`",
            operation="compare",
        )
    # Where two lakes have two types, both are compared as texts.
    fields = [
        lake.schema.field(name)
        if not isinstance(other, LakeSide)
        or lake.schema.field(name).type == other.schema.field(name).type
        else pa.field(name, pa.string())
        for name in names
    ]
    extra = [name for name in there.schema.names if name not in here.schema.names]
    return _Pair(
        pa.schema(fields),
        key,
        tuple(name for name in chosen if name not in there.schema.names),
        tuple(f"the target has a column {name} that is not compared" for name in extra),
    )


def _changed(name: str) -> Conflict:
    return Conflict(
        "the table is not what it was when the diff was planned",
        object_=name,
        hint="run the diff anew",
        operation="compare",
    )


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= _TEXT_MAX:
        return text
    return f"{text[:_TEXT_MAX]}… ({len(text)} characters)"
