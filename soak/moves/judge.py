"""Whether a side holds what a ledger says: of every key the very version, or nothing.

A side that lacks a change may never have got it, or have lost it again. Where a change was
acknowledged it certainly was; so the two are told apart by the side that acknowledged it:

    found instead of             acknowledged at this side         acknowledged at the other one
    a version   an older one     overwritten by an older version   update lost
                nothing          row lost                          row lost
    no row      an older one     delete came back                  delete lost
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import psycopg
from psycopg import sql

from soak.moves.ledger import Acknowledged, Change, Kind, Ledger

__all__ = ["judge", "notes_at"]


def notes_at(url: str, table: str) -> list[str]:
    """What all rows of a side say."""
    with psycopg.connect(url) as connection:
        statement = sql.SQL("SELECT note FROM {}").format(sql.Identifier(*table.split(".")))
        return [note for (note,) in connection.execute(statement)]


def judge(notes: Iterable[str], side: str, ledger: Ledger, tag: str) -> list[str]:
    """What is wrong with a writer's rows at a side that has everything, each kind in a line."""
    found: dict[str, list[str]] = defaultdict(list)
    for note in notes:
        if note.startswith(f"{tag} "):
            found[note.rpartition(" ")[0]].append(note)
    known: dict[str, list[Acknowledged]] = defaultdict(list)
    for one in ledger.changes:
        known[one.change.key].append(one)
    unknown = {one.key: one for one in ledger.unknown}
    wrong: dict[str, list[str]] = defaultdict(list)
    for key in sorted({*found, *known, *unknown}):
        what = _wrong(found[key], side, known[key], unknown.get(key))
        if what:
            wrong[what].append(key)
    return [f"{len(keys)} {what}, of {keys[0]} first" for what, keys in sorted(wrong.items())]


def _wrong(
    notes: Sequence[str], side: str, known: Sequence[Acknowledged], unknown: Change | None
) -> str:
    """Of one key; nothing when it is as it should be."""
    if len(notes) > 1:
        return "doubled rows"
    now = notes[0] if notes else None
    last = known[-1] if known else None
    may_be = {last.change.state if last is not None else None}
    if unknown is not None:
        may_be.add(unknown.state)
    if now in may_be:
        return ""
    if now is None:
        return "lost rows"
    if last is None or now not in {one.change.state for one in known}:
        return "rows of a version that nobody wrote"
    here = last.side == side
    if last.change.kind is Kind.DELETE:
        return "deletes that came back" if here else "lost deletes"
    return "rows overwritten by an older version" if here else "lost updates"
