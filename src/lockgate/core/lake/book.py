"""All tables of a lake that a keeper knows of, and how surveys change what it knows.

A survey takes time, and the world goes on meanwhile. So each has a number, in the order in which
they were begun, and a survey says nothing

    of a name      of which a later one has spoken already
    of an entry    that was changed after the survey was begun (`Entry.changed`). To become known
                   is a change as well: of two surveys the earlier may have looked later, and have
                   seen a table born that the later one did not
    but of death   which is believed whenever it is heard, and never taken back; and so is that a
                   table has got its rows

A name whose directory could not be listed keeps its entries, with the trouble.

An entry is forgotten when a survey that was begun after its last change does not list it any more.
Whatever survey is believed after that was begun later still, so none can bring it back.
"""

from collections.abc import Iterable, Iterator, Mapping

from lockgate.core.lake.entry import Entry, Life
from lockgate.model.ids import Millis, TableId
from lockgate.model.lake import LakeTrouble, TableKey, TableSeen

__all__ = ["Book"]


class Book:
    """Entries by name and incarnation."""

    def __init__(self) -> None:
        self._names: dict[TableId, dict[int, Entry]] = {}
        self._applied_to_all = 0
        self._applied: dict[TableId, int] = {}
        """Names of which a survey has spoken that is later than the last of all tables; and of
        which that one could not speak."""
        self.unseen: dict[TableId, LakeTrouble] = {}
        """Those, and why."""

    def __iter__(self) -> Iterator[Entry]:
        for incarnations in self._names.values():
            yield from incarnations.values()

    def find(self, key: TableKey) -> Entry | None:
        return self._names.get(key[0], {}).get(key[1])

    def newest(self, table: TableId) -> Entry | None:
        """The incarnation that the name means now, dead or not: the newest that has had rows, or
        may have for all that is known. One whose directory is gone is nothing a name can mean."""
        known = self._names.get(table, {}).values()
        there = [entry for entry in known if entry.life is not Life.GONE]
        named = [entry for entry in there if not entry.awaits]
        return max(named or there or known, key=lambda entry: entry.incarnation, default=None)

    def meant(self, table: TableId) -> list[Entry]:
        """The newest, dead or not; and if that may have had no rows, because it is dead or nobody
        could look at it, what the name means then."""
        newest = self.newest(table)
        if newest is None:
            return []
        if newest.awaits is False or (newest.awaits and not newest.is_dead):
            return [newest]
        return [newest, *(heir for heir in self.heirs(newest) if not self.replaced(heir))]

    def current(self) -> list[Entry]:
        """What each name means, in the order of names."""
        return [entry for table in sorted(self._names) for entry in self.meant(table)]

    def undrained(self, look: int) -> list[TableId]:
        """The names of which changes may not be in stable, as of survey `look` or a later one: also
        those whose incarnations nobody could list."""
        names = {entry.table for entry in self.current() if entry.undrained(look)}
        return sorted(names.union(self.unseen))

    def replaced(self, entry: Entry) -> bool:
        """A newer incarnation has its name: nobody finds this one any more. One that nobody could
        look at yet replaces nothing: the older may be all the rows that there are. Or the name was
        dropped, by a keeper that came no further than the newer one."""
        others = self._names.get(entry.table, {}).values()
        newer = (one for one in others if one.incarnation > entry.incarnation)
        return any(one.awaits is False or one.dropped for one in newer)

    def of(self, table: TableId) -> list[Entry]:
        """All incarnations of a name."""
        return list(self._names.get(table, {}).values())

    def heirs(self, entry: Entry) -> tuple[Entry, ...]:
        """Other living incarnations of the name that it would mean, now or when they have got
        their rows, were this one not there. None, if the name does not mean this one.

        One that has to end because the name was dropped is among them for as long as it lives: it
        may get its rows before it ends, and readers would find it.
        """
        if self.newest(entry.table) is not entry:
            return ()
        known = self.of(entry.table)
        with_rows = [one.incarnation for one in known if one.awaits is False]
        heirs = (
            one
            for one in known
            if one is not entry
            and not one.is_dead
            and not any(newer > one.incarnation for newer in with_rows)
        )
        return tuple(sorted(heirs, key=lambda one: one.incarnation))

    def hides(self, entry: Entry) -> bool:
        """An older incarnation lives that nobody finds because of this one, dead as it may be, or
        that has to end as this one did. Were this one's directory deleted first, the older would be
        the table again."""
        if entry.awaits and not entry.dropped:
            return False
        older = self._names.get(entry.table, {}).values()
        return any(one.incarnation < entry.incarnation and not one.is_dead for one in older)

    def unknown(self) -> dict[TableKey, LakeTrouble]:
        """Names of which there is nothing to tell but why; as of incarnation 0, which none is."""
        return {(name, 0): why for name, why in self.unseen.items() if name not in self._names}

    def applied(self, table: TableId | None) -> int:
        """The number of the latest survey that has spoken of the name, or of all of them."""
        if table is None:
            return self._applied_to_all
        if table in self.unseen:
            return self._applied[table]
        return max(self._applied_to_all, self._applied.get(table, 0))

    # --- surveys ------------------------------------------------------------------------------

    def hear(self, now: Millis, begun: int, tables: Iterable[TableSeen]) -> None:
        """Take what is final, however old or late the survey is that tells it.

        Also of a table that is not known: a survey that is still to come may have seen it alive.
        One that was deleted and forgotten is dead once more then, and deleted once more.
        """
        for seen in tables:
            entry = self.find(seen.key)
            if seen.dead:
                entry = entry or self._add(seen.key, now, begun)
                entry.die(now, seen.dead_ms)
                entry.dropped |= seen.dropped
            if entry is not None and seen.trouble is None and not seen.awaits:
                entry.awaits = False

    def apply(
        self,
        now: Millis,
        asked_at: Millis,
        number: int,
        begun: int,
        table: TableId | None,
        tables: Iterable[TableSeen],
        unseen: Mapping[TableId, LakeTrouble] = {},
    ) -> None:
        """Take what a survey of one table, or with None of all, has found. `begun` is the number of
        the last survey that has been begun by now. Of names that are `unseen` nothing is gone."""
        found: dict[TableId, list[TableSeen]] = {}
        for seen in tables:
            found.setdefault(seen.table, []).append(seen)
        for name, trouble in unseen.items():
            found[name] = [TableSeen(*entry.key, trouble=trouble) for entry in self.of(name)]
        names = {*self._names, *found} if table is None else {table}
        for name in sorted(names):
            if number > self.applied(name):
                self._apply_to(now, asked_at, number, begun, name, found.get(name, []))
        if table is not None:
            self._applied[table] = max(number, self._applied.get(table, 0))
        elif number > self._applied_to_all:
            not_applied = {name: self.applied(name) for name in unseen}
            later = {name: at for name, at in self._applied.items() if at > number}
            self._applied_to_all = number
            self._applied = later | not_applied
            self.unseen = dict(unseen)

    def _apply_to(
        self,
        now: Millis,
        asked_at: Millis,
        number: int,
        begun: int,
        name: TableId,
        found: list[TableSeen],
    ) -> None:
        listed = set()
        for seen in found:
            listed.add(seen.incarnation)
            entry = self.find(seen.key)
            if entry is None:
                entry = self._add(seen.key, now, begun=0)
                self.see(entry, now, asked_at, number, seen)
                entry.changed = begun
            else:
                self.see(entry, now, asked_at, number, seen)
        for entry in list(self._names.get(name, {}).values()):
            if entry.incarnation not in listed and number > entry.changed:
                self._lose(entry, now)

    def see(
        self, entry: Entry, now: Millis, asked_at: Millis, number: int, seen: TableSeen
    ) -> None:
        """Take what a survey says of one incarnation."""
        entry.see(now, asked_at, number, seen)

    def _add(self, key: TableKey, now: Millis, begun: int) -> Entry:
        entry = Entry(*key, now)
        entry.changed = begun
        self._names.setdefault(key[0], {})[key[1]] = entry
        return entry

    def _lose(self, entry: Entry, now: Millis) -> None:
        """Its directory is gone. What is under way for it ends first."""
        entry.die(now)
        entry.life = Life.GONE
        if entry.idle:
            incarnations = self._names[entry.table]
            del incarnations[entry.incarnation]
            if not incarnations:
                del self._names[entry.table]
