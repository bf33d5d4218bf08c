"""A lake in memory: who leads it, and tables behind a fence that can die and be deleted.

It keeps the rules of the real one: look, compare, commit, in one moment; a dead table takes no
commit; a directory is never used twice. It counts no rows, only positions and files.
"""

from lockgate.model.ids import NO_TOKEN, Millis, TableId, Token
from lockgate.model.lake import (
    NOBODY,
    Figures,
    HomeId,
    LakeTrouble,
    Leadership,
    TableKey,
    TableSeen,
    WorkOutcome,
    released,
    taken,
)
from lockgate.model.lake_instructions import TakeLake
from lockgate.sim.lake.ledger import LakeLedger
from lockgate.sim.lake.probes import LakeProbe, LakeProbes
from lockgate.sim.loop import Loop

__all__ = ["SimLake", "SimTable"]

COPY_MS = (0, 2_500)
BROKEN = LakeTrouble("the disk made a noise")


class SimTable:
    """One incarnation."""

    __slots__ = (
        "awaits",
        "born_at",
        "broken_until",
        "dead_at",
        "drained",
        "dropped",
        "files",
        "incarnation",
        "ingest",
        "oldest_at",
        "stable",
        "table",
        "token",
    )

    def __init__(self, table: TableId, incarnation: int, now: Millis, *, stable: bool) -> None:
        self.table = table
        self.incarnation = incarnation
        self.born_at = now
        self.stable = stable
        self.awaits = False
        """Its rows are still to come: the one before it is the table."""
        self.token = NO_TOKEN
        self.ingest = self.drained = incarnation
        self.oldest_at: Millis = now
        self.files: set[int] = set()
        self.dead_at: Millis | None = None
        self.dropped = False
        """It died by a drop of its name."""
        self.broken_until: Millis = 0

    @property
    def key(self) -> TableKey:
        return self.table, self.incarnation

    @property
    def dead(self) -> bool:
        return self.dead_at is not None


class SimLake:
    """All of it, at one moment."""

    def __init__(self, loop: Loop, ledger: LakeLedger, probes: LakeProbes) -> None:
        self._loop = loop
        self._ledger = ledger
        self._probes = probes
        self.leader: Leadership = NOBODY
        self.tables: dict[TableKey, SimTable] = {}
        self._position = 0
        self._files = 0

    # --- feeds --------------------------------------------------------------------------------

    def newest(self, table: TableId) -> SimTable | None:
        """What the name means: the newest that has had rows."""
        named = [one for one in self.tables.values() if one.table == table]
        had_rows = [one for one in named if not one.awaits]
        return max(had_rows or named, key=lambda one: one.incarnation, default=None)

    def make(self, table: TableId, *, stable: bool) -> SimTable:
        """A feed makes the next incarnation of a table. One that lives is the table until the new
        one has its rows."""
        before = self.newest(table)
        self._position += 1
        made = SimTable(table, self._position, self._loop.now, stable=stable)
        if before is not None:
            made.awaits = not before.dead
            replaces = LakeProbe.LAKE_REPLACED if made.awaits else LakeProbe.LAKE_RECREATED
            self._probes.hit(replaces)
        if made.awaits:
            self._loop.after(self._loop.between(*COPY_MS), self._copied, made)
        self.tables[made.key] = made
        return made

    def _copied(self, table: SimTable) -> None:
        if not table.dead:
            table.awaits = False

    def change(self, table: SimTable) -> None:
        """A feed brings changes."""
        if table.ingest == table.drained:
            table.oldest_at = self._loop.now
        self._position += self._loop.between(1, 4)
        table.ingest = self._position

    def new_file(self) -> int:
        """The name of a file that nobody knows yet."""
        self._files += 1
        return self._files

    # --- who leads ----------------------------------------------------------------------------

    def take(self, ask: TakeLake) -> Leadership | None:
        """Raise the epoch for a keeper, if it may."""
        held = self.leader
        new = self.allowed(held, ask)
        if new is not None and new != held:
            self.leader = new
            self._ledger.lake_taken(held, new)
        return new

    def allowed(self, held: Leadership, ask: TakeLake) -> Leadership | None:
        return taken(held, ask.home, ask.keeper, ask.attempt, ask.over)

    def release(self, home: HomeId, epoch: int) -> None:
        """Nobody leads it, if it was theirs."""
        self.leader = released(self.leader, home, epoch)

    # --- looking ------------------------------------------------------------------------------

    def survey(self, table: TableId | None) -> tuple[TableSeen, ...]:
        """All incarnations of one table, or of all, as they are now."""
        found = (one for one in self.tables.values() if table is None or one.table == table)
        return tuple(self._seen(one) for one in found)

    def _seen(self, table: SimTable) -> TableSeen:
        now = self._loop.now
        figures = Figures(
            ingest_rows=table.ingest - table.drained,
            ingest_bytes=table.ingest - table.drained,
            ingest_segments=1,
            ingest_to=table.ingest,
            oldest_ms=now - table.oldest_at,
            drained_to=table.drained,
            stable_rows=table.drained - table.incarnation,
            stable_files=len(table.files),
            small_files=len(table.files),
        )
        if now < table.broken_until:
            self._ledger.unseen[table.key] = now
            return TableSeen(*table.key, trouble=BROKEN)
        dead_ms = now - table.dead_at if table.dead_at is not None else 0
        awaits = table.awaits
        return TableSeen(
            *table.key,
            table.dead,
            dead_ms,
            table.token,
            figures,
            awaits=awaits,
            dropped=table.dropped,
        )

    # --- commits ------------------------------------------------------------------------------

    def _refusal(self, key: TableKey, token: Token, *, claiming: bool) -> WorkOutcome | None:
        """Why the fence lets nothing through; None when it does."""
        table = self.tables.get(key)
        if table is None or table.dead:
            return WorkOutcome.DEAD
        return None if self.admits(table, token, claiming=claiming) else WorkOutcome.STALE

    def admits(self, table: SimTable, token: Token, *, claiming: bool) -> bool:
        """The fence."""
        return token >= table.token if claiming else token == table.token

    def claim(self, key: TableKey, token: Token) -> WorkOutcome:
        refused = self._refusal(key, token, claiming=True)
        if refused is not None:
            return refused
        table = self.tables[key]
        if not table.stable:
            self._probes.hit(LakeProbe.LAKE_DRAIN_WITHOUT_STABLE)
            table.stable = True
        table.token = token
        self._ledger.claimed(key, token)
        return WorkOutcome.DONE

    def rewrite(
        self, key: TableKey, token: Token, read: frozenset[int], after: int, upto: int
    ) -> WorkOutcome:
        """Land a drain or a compaction: the files that were read go, one comes."""
        refused = self._refusal(key, token, claiming=False)
        if refused is not None:
            return refused
        table = self.tables[key]
        if table.drained != after or not read <= table.files:
            return WorkOutcome.FAILED  # overtaken
        self._ledger.committed(key, token)
        table.files -= read
        table.files.add(self.new_file())
        table.drained = upto
        if upto >= table.ingest:
            table.oldest_at = self._loop.now
        return WorkOutcome.DONE

    def kill(self, key: TableKey, token: Token, *, dropped: bool) -> WorkOutcome:
        refused = self._refusal(key, token, claiming=True)
        if refused is not None:
            return refused
        table = self.tables[key]
        self._ledger.claimed(key, token)
        self._ledger.killed(key, dropped=dropped)
        table.token = token
        table.dead_at = self._loop.now
        table.dropped = dropped
        return WorkOutcome.DONE

    def delete(self, key: TableKey, who: str) -> bool:
        """Delete one more file of a dead table, its directory at last; True when all is gone."""
        table = self.tables.get(key)
        if table is None:
            return True
        self._ledger.deletes(key, who, dead=table.dead)
        if table.files:
            table.files.discard(min(table.files))
            return False
        if self.newest(key[0]) is table:
            named = [one for one in self.tables.values() if one.table == key[0]]
            self._ledger.gone(key, [one.key for one in named if not one.dead and not one.awaits])
        del self.tables[key]
        return True
