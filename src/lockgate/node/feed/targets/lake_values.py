"""Which schema changes give a lake's rows values that no change of the log brings."""

import re
from typing import Final

from lockgate.model.schema_changes import (
    AddColumn,
    AlterType,
    DropColumn,
    RenameColumn,
    TableChange,
)

__all__ = ["keeps_values"]

_MODIFIER: Final = re.compile(r"\(([\d,]+)\)")


def keeps_values(change: TableChange) -> bool:
    """False when rows that were there have values afterwards that no change of the log brings."""
    gone = {each.column for each in change.changes if isinstance(each, DropColumn)}
    for each in change.changes:
        if isinstance(each, AddColumn) and each.column in gone:
            return False  # another one of the same name
        if isinstance(each, RenameColumn):
            return False
        if isinstance(each, AddColumn) and each.fill is not None:
            return False
        if isinstance(each, AlterType) and not each.empty and not _wider(each.was, each.type):
            return False
    return True


def _wider(was: str, now: str) -> bool:
    """True for texts that may only be longer than before."""
    texts = ("character varying", "text")
    before, after = _MODIFIER.sub("", was), _MODIFIER.sub("", now)
    if before not in texts or after not in texts:
        return False
    limit, room = _MODIFIER.search(was), _MODIFIER.search(now)
    if room is None:
        return True
    return limit is not None and int(limit[1]) <= int(room[1])
