"""A Delta table's log as files: what recent commits took out, and what of the log nobody needs.

A state is rebuilt from the last checkpoint before it and the commits since. So what lies before a
checkpoint can go, once every state that somebody may still ask for lies behind it. The newest
commit always stays: it alone says who owns the table, and whether it is dead. So does the last one
that is ours, and its state: what other programs have committed since is judged by it, and it is
what they are undone to.
"""

import re
from typing import Final

import msgspec

from lockgate.endpoints.delta.death import layer_faults
from lockgate.endpoints.delta.log_archive import ARCHIVE, LOG, flush_checkpoint
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.store_time import Found, delete_all, files_in
from lockgate.endpoints.delta.taken_out import taken_out
from lockgate.model.value import Value

__all__ = ["LogFiles"]

_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")
_NUMBERED: Final = re.compile(r"(\d{20})\.")


class LogFiles(Value, frozen=True):
    """The log of one table, as it was listed."""

    table: Place
    commits: dict[int, Found]
    checkpoints: frozenset[int]
    all: tuple[Found, ...]

    @staticmethod
    def of(table: Place, now_s: float) -> "LogFiles":
        # In this order: what is moved meanwhile is in both, not in neither (`log_archive`).
        listed = {
            one.name: one for folder in (LOG, ARCHIVE) for one in files_in(table.child(folder))
        }
        found = [listed[name] for name in sorted(listed)]
        commits = {}
        latest_s = 0.0
        for one in found:
            if match := _COMMIT.fullmatch(one.name):
                # A commit is not older than the one before it, whatever the clock said: one that
                # was set back would have its files deleted too early.
                if one.changed_s <= now_s:
                    latest_s = max(latest_s, one.changed_s)
                time_s = max(latest_s, one.changed_s)
                commits[int(match[1])] = msgspec.structs.replace(one, changed_s=time_s)
        checkpoints = (int(m[1]) for one in found if (m := _CHECKPOINT.fullmatch(one.name)))
        return LogFiles(table, commits, frozenset(checkpoints), tuple(found))

    def changed_s(self) -> float:
        """When the newest commit was made, by the store's clock; 0 when there is none."""
        return self.commits[max(self.commits)].changed_s if self.commits else 0.0

    def taken_out(self, since_s: float) -> set[str]:
        """The data files that commits since then took out: earlier states have them."""
        recent = (version for version, one in self.commits.items() if one.changed_s >= since_s)
        return taken_out(self.table, recent)

    def forget(self, before_s: float, sound: int | None) -> list[Found]:
        """Delete what no state needs that was the newest at some moment since then, nor that of the
        version `sound`; None: there is none."""
        recent = [version for version, one in self.commits.items() if one.changed_s >= before_s]
        needed = min(recent) - 1 if recent else max(self.commits, default=0)
        if sound is not None:
            needed = min(needed, sound)
        base = max((one for one in self.checkpoints if one <= needed), default=None)
        if base is None:
            return []
        with layer_faults("write", self.table):
            flush_checkpoint(self.table, base)
        gone = [f for f in self.all if (m := _NUMBERED.match(f.name)) and int(m[1]) < base]
        for folder in (ARCHIVE, LOG):  # the oldest first, about
            delete_all(self.table.child(folder), [one.name for one in gone])
        return gone
