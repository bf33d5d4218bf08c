"""What must hold of a run that is healed: rows, files, sizes, logs, and what people were told."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lockgate.endpoints.delta.files import live_files
from lockgate.endpoints.delta.graves import around
from lockgate.endpoints.delta.homes import ingests_of, opened
from lockgate.endpoints.delta.lake import STABLE, Lake, home_of
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.vacuum import vacuum
from lockgate.model.errors import NotFound
from lockgate.model.lake_events import DropTable
from lockgate.model.lake_instructions import LakeVerdict
from lockgate.node.lake.surveying import Surveyor
from soak.lake.people import Asked
from soak.lake.source import Source, rows_in
from soak.lake.story import told

__all__ = ["Facts", "judge"]

_TXN: Final = "lockgate."


@dataclass(frozen=True)
class Facts:
    """A run that is over and healed."""

    run: Path
    source: Source
    asked: list[Asked]
    leader: str

    @property
    def lake(self) -> Lake:
        return Lake(Place(str(self.run / "lake"), "lake"))


def judge(facts: Facts, counts: Counter[str]) -> list[str]:
    """What does not hold."""
    events = list(told(facts.run))
    for event in events:
        if event["event"] in {"waits", "resync", "copied"}:
            counts[f"story {event['event']}"] += 1
        elif event["event"] == "dies":
            counts[f"killed at the point: {event['point']}"] += 1
        elif event["event"] == "ended":
            counts[f"work {event['outcome']}"] += 1
    return [
        *_accusations(events),
        *_step_ups(events),
        *_tables(facts, events, counts),
        *_logs(facts, counts),
    ]


# --- what was told while it ran -------------------------------------------------------------------


def _accusations(events: list[dict[str, Any]]) -> Iterator[str]:
    for event in events:
        if event["event"] == "violation":
            yield f"{event['who']}: {event['what']}\n{event.get('trace', '')}"
        elif event["event"] == "log":
            yield f"{event['who']} logged: {event['said']}\n{event['trace']}"
        elif event["event"] == "ended" and event["outcome"] in {"failed", "unknown"}:
            if event["trouble"] == "it was stopped before it was done":
                continue  # its keeper leads no more
            if "and stable stands at" in event["trouble"]:
                continue  # another home has what lies between; the feed copies the table anew
            yield f"{event['who']}: work ended {event['outcome']}: {event}"


def _step_ups(events: list[dict[str, Any]]) -> Iterator[str]:
    """A step-up drains each table at most once, but for those that people ask for meanwhile."""
    begun: Counter[tuple[Any, ...]] = Counter()
    asked: Counter[tuple[Any, ...]] = Counter()
    for event in events:
        who = (event["who"], event.get("keeper"))
        if event["event"] == "asked" and event["what"] == "DrainTable":
            asked[who] += 1
        elif event["event"] == "work" and event["kind"] == "drain" and event["stage"] == "draining":
            begun[(*who, event["epoch"], event["table"], event["incarnation"])] += 1
    for key, count in begun.items():
        if count > 1 + asked[key[:2]]:
            yield f"a step-up drained a table {count} times: {key}"


# --- tables and files -----------------------------------------------------------------------------


def _tables(facts: Facts, events: list[dict[str, Any]], counts: Counter[str]) -> Iterator[str]:
    made: dict[str, set[int]] = defaultdict(set)
    """Incarnations that had rows."""
    for entry in facts.source.entries:
        if entry.kind == "create":
            made[entry.table].add(entry.position)
    for event in events:
        if event["event"] == "copied":
            made[event["table"]].add(event["incarnation"])
    dropped, maybe = _drops(facts.asked, events)
    for table in facts.source.tables:
        there = facts.lake.incarnations(table)
        life = facts.source.life(table, facts.source.end)
        newest = max((one for one in made[table] if life and one >= life.born), default=None)
        try:
            place = facts.lake.live(table)
        except NotFound:
            if there:
                yield f"{table} is not there, but directories of it are: {there}"
            if newest is not None and not ({(table, newest), (table, None)} & (dropped | maybe)):
                yield f"{table} {newest} is not there, and nobody has dropped it"
            counts["tables dropped in the end"] += 1
            continue
        incarnation = int(place.url.rsplit("/", 1)[1])
        if life is None or incarnation < life.born:
            yield f"{table} {incarnation} is there, and the source has dropped it"
        if (table, incarnation) in dropped:
            yield f"{table} {incarnation} is there, and somebody was told that it is dropped"
        if there != [incarnation]:
            yield f"{table}: {there} are there, not only {incarnation}"
        counts["tables live in the end"] += 1
        yield from _table(facts, table, incarnation, place)


def _drops(
    asked: list[Asked], events: list[dict[str, Any]]
) -> tuple[set[tuple[str, int | None]], set[tuple[str, int | None]]]:
    """Incarnations that were dropped for certain, and those that may have been; None: any."""
    kills = [one for one in events if one["event"] == "work" and one["kind"] == "kill"]
    dropped: set[tuple[str, int | None]] = set()
    maybe: set[tuple[str, int | None]] = set()
    for one in asked:
        if not isinstance(one.verb, DropTable):
            continue
        table = one.verb.table
        if one.doubt or one.answer is None:
            maybe.add((table, None))
        if one.answer is None:
            continue
        if one.answer.verdict in {LakeVerdict.DONE, LakeVerdict.NOTHING}:
            if one.answer.incarnation:
                dropped.add((table, one.answer.incarnation))
                # By its name, and so for good: nothing that was there then is the table later.
                dropped |= {(table, each) for each in one.known if one.verb.incarnation is None}
                # What was begun anew between the question and the answer goes with it.
                later = {kill["incarnation"] for kill in kills if kill["table"] == table}
                maybe |= {(table, each) for each in later if each > one.answer.incarnation}
        elif one.answer.verdict is LakeVerdict.UNKNOWN:
            # By its name all go, the newest first, and the answer names but one.
            maybe.add((table, one.verb.incarnation and one.answer.incarnation))
    return dropped, maybe


def _table(facts: Facts, name: str, incarnation: int, place: Place) -> Iterator[str]:
    """Rows of each home's view, the leader's drain, sizes, and no file that nobody names."""
    homes = facts.lake.homes(place)
    wanted = facts.source.rows(name, incarnation, facts.source.end)
    for home in homes:
        table = LayeredTable.open(place, home)
        seen = table.snapshot()
        rows = facts.source.rows(name, incarnation, seen.position)
        if rows != wanted:
            yield f"{name} {incarnation} of {home} has stopped at {seen.position}"
        if rows_in(table.read(seen)) != rows:
            yield f"{name} {incarnation} of {home} has other rows in the end, at {seen.position}"
        if home == facts.leader and seen.ingest:
            yield f"{name} {incarnation} is not drained: {seen.drained} of {seen.position}"
    if facts.leader in homes:
        table = LayeredTable.open(place, facts.leader)
        stable = [table.rows_in(file) for file in table.snapshot().stable]
        rows = {}
        for part in stable:
            rows |= rows_in(part)
        if rows != wanted:
            yield f"{name} {incarnation}: stable has other rows than the source"
    vacuum(place, retention_s=0, grace_s=-1)
    for home in sorted({home_of(ingest) for ingest in homes}):
        yield from _sizes(place, home, name)


def _sizes(place: Place, home: str, name: str) -> Iterator[str]:
    """Of stable, and of all that the home's feeds have brought."""
    tables = opened(place, ingests_of(place, home))
    stable = tables[0].stable
    size = 0
    for layer in (stable, *(table.ingest for table in tables)):
        layer.look()
        folder = Path(layer.place.url)
        named = {file.path: file.bytes for file in live_files(layer.handle)}
        there = {path.name: path.stat().st_size for path in folder.glob("*.parquet")}
        size += sum(there.values())
        if layer is not stable or named:
            if named != there:
                yield f"{name} {folder.name}: names {named}, has {there}"
        elif there:
            size -= sum(there.values())  # a vacuum leaves an empty stable alone
    _, seen, _ = Surveyor(around(around(place)), home).survey(name)
    sizes = [one.figures.size_bytes for one in seen if not one.dead]
    if sizes != [size]:
        yield f"{name} of {home}: a survey finds {sizes} bytes, files have {size}"
    work = Path(place.url, "work")
    if work.exists() and list(work.iterdir()):
        yield f"{name}: files of drains are left: {list(work.iterdir())}"


# --- logs -----------------------------------------------------------------------------------------


def _logs(facts: Facts, counts: Counter[str]) -> Iterator[str]:
    """Of every stable table that there was: no token and no position goes back, a dead table has no
    further commit, and rows change only with the position, under a leader's token."""
    folders = {
        *(path.parent for path in facts.run.glob("archive/*/*/*/*.json")),
        *facts.run.glob(f"lake/public*/*/{STABLE}/_delta_log"),
    }
    for folder in sorted(folders):
        counts["stable logs"] += 1
        where = folder.relative_to(facts.run)
        before: dict[str, int] = {}
        for file in sorted(folder.glob("*.json")):
            counts["stable commits"] += 1
            marks, changes = _commit(file)
            yield from _step(f"{where}/{file.name}", before, marks, changes=changes)
            before = marks


def _commit(file: Path) -> tuple[dict[str, int], bool]:
    """What a commit says of its owner, and whether it changes rows."""
    marks: dict[str, int] = {}
    changes = False
    for line in file.read_text().splitlines():
        action = json.loads(line)
        if "txn" in action and action["txn"]["appId"].startswith(_TXN):
            marks[action["txn"]["appId"].removeprefix(_TXN)] = action["txn"]["version"]
        for kind in ("add", "remove"):
            changes |= bool(action.get(kind, {}).get("dataChange"))
    return marks, changes


def _step(
    where: str, before: dict[str, int], marks: dict[str, int], *, changes: bool
) -> Iterator[str]:
    if not before:
        return
    order = ("epoch", "seq", "incarnation")
    if [marks[part] for part in order] < [before[part] for part in order]:
        yield f"{where}: a token has gone back, from {before} to {marks}"
    if marks["position"] < before["position"]:
        yield f"{where}: the position has gone back, from {before} to {marks}"
    if before["dead"]:
        yield f"{where}: a dead table was committed to"
    if changes and not marks["epoch"]:
        yield f"{where}: rows have changed under nobody's token"
    copied = marks["settled"] > before["settled"]
    if changes and marks["position"] == before["position"] and not copied:
        yield f"{where}: rows have changed and the position has not"
