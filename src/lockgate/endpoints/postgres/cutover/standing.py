"""Whose guards stand on tables, and taking them down: what the verbs of guards share."""

from collections.abc import Sequence
from typing import Final

from lockgate.endpoints.postgres.cutover import triggers
from lockgate.endpoints.postgres.cutover.locks import ALONE, NotHad, lock
from lockgate.endpoints.postgres.cutover.relations import Relation, relations
from lockgate.endpoints.postgres.cutover.row import MoveMark
from lockgate.endpoints.postgres.cutover.triggers import Guard
from lockgate.endpoints.postgres.cutover.visit import Visit
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.model.errors import Conflict
from lockgate.model.tables import TableName

__all__ = ["conflict", "disarm", "is_of", "refuse_others", "sweep"]

_SWEEP_S: Final = 0.1


def is_of(guard: Guard, mark: MoveMark) -> bool:
    """True when the move has put it up, under whatever keeper."""
    return (guard.move, guard.birth) == (mark.move, mark.birth)


def refuse_others(cursor: Cursor, visit: Visit, found: Sequence[Relation]) -> None:
    """A table is in one move at a time."""
    for one in triggers.standing(cursor, found).values():
        if one.guard.is_armed and not is_of(one.guard, visit.mark):
            raise Conflict(
                f"the guard of another move is on {one.relation}: {one.guard.move}",
                object_=f"{visit.mark}, {visit.label}",
                hint=f"complete or cancel that move; if it is long over: DROP TRIGGER "
                f"{triggers.TRIGGER} ON {one.relation}",
                operation=visit.operation,
            )


def disarm(cursor: Cursor, visit: Visit, found: Sequence[Relation]) -> None:
    """Have this move's guards hold up nobody. The relations are locked against writers."""
    there = triggers.standing(cursor, found)
    armed = [
        each
        for each in found
        if each.oid in there
        and there[each.oid].guard.is_armed
        and is_of(there[each.oid].guard, visit.mark)
    ]
    if armed:
        triggers.disarm(cursor, armed, there[armed[0].oid].guard)


def sweep(visit: Visit, tables: Sequence[TableName]) -> None:
    """Drop triggers that hold up nobody, where nobody is in the way. The rest is for `clean`."""
    with visit.transaction() as cursor:
        found = relations(cursor, tables, skip_missing=True)
        there = triggers.standing(cursor, found)
    for each in found:
        if each.oid not in there:
            continue
        try:
            with visit.transaction() as cursor:
                visit.row(cursor)
                lock(cursor, [each], ALONE, _SWEEP_S)
                one = triggers.standing(cursor, [each]).get(each.oid)
                if one is not None and not one.guard.is_armed:
                    triggers.drop(cursor, [each.table])
        except NotHad:
            continue


def conflict(visit: Visit, why: str) -> Conflict:
    return Conflict(
        why,
        object_=f"{visit.mark}, {visit.label}",
        hint="nothing was changed; see lockgate move status",
        operation=visit.operation,
    )
