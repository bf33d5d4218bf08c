"""What happened at the lake, kept by the checkers alone: the fence and the keepers are not asked.

Fence   a commit under a token that is older than the newest claim of that table; a home that
        takes the lake from another without having been asked to
Drain   a commit to a dead table; files deleted that are not a dead table's, or that the same
        keeper's own work still reads; a table that comes back because the newer one of its
        name was deleted

A table's newest claim, its death and its readers are all that has to be remembered for that.
"""

from collections.abc import Callable

from lockgate.model.ids import Millis, TableId, Token
from lockgate.model.lake import HomeId, Leadership, TableKey
from lockgate.sim.lake.probes import LakeProbe, LakeProbes
from lockgate.sim.violation import Law, LawBroken

__all__ = ["LakeLedger", "about_table"]


def about_table(key: TableKey) -> str:
    """The name under which an incarnation's story is kept."""
    return f"table:{key[0]}/{key[1]}"


class LakeLedger:
    """The truth about tables and leaders."""

    def __init__(self, now: Callable[[], Millis], probes: LakeProbes) -> None:
        self._now = now
        self._probes = probes
        self._tokens: dict[TableKey, Token] = {}
        self.deaths: dict[TableKey, Millis] = {}
        self.begun: dict[TableId, int] = {}
        """The newest of each name that was killed on a drop's way to older ones."""
        self.unseen: dict[TableKey, Millis] = {}
        """When a survey last could not look at a table."""
        self._uses: dict[tuple[TableKey, str], int] = {}
        """How many pieces of work of a keeper read files of a table."""
        self._asked: dict[HomeId, int] = {}
        self._took: dict[HomeId, int] = {}

    # --- who leads ----------------------------------------------------------------------------

    def step_up_asked(self, home: HomeId) -> None:
        """A person wants that home to lead."""
        self._asked[home] = self._asked.get(home, 0) + 1

    def lake_taken(self, held: Leadership, new: Leadership) -> None:
        """The epoch was raised. From a home that led it is taken once for each time it is asked."""
        if held.home == new.home:
            self._probes.hit(LakeProbe.LAKE_RETAKEN)
            return
        self._probes.hit(LakeProbe.LAKE_TAKEN)
        self._took[new.home] = self._took.get(new.home, 0) + 1
        if held.home:
            self._probes.hit(LakeProbe.LAKE_TAKEN_OVER)
        if self._took[new.home] > self._asked.get(new.home, 0):
            what = f"{new.home} took the lake from {held.home or 'nobody'} and was not asked to"
            raise LawBroken(Law.FENCE, what)

    # --- commits ------------------------------------------------------------------------------

    def claimed(self, key: TableKey, token: Token) -> None:
        """A table has a new owner."""
        self.committed(key, token)
        self._tokens[key] = token

    def committed(self, key: TableKey, token: Token) -> None:
        """Something landed in a stable table."""
        newest = self._tokens.get(key, token)
        if token < newest:
            what = f"{token} committed to {key[0]}/{key[1]}, which {newest} has claimed"
            raise LawBroken(Law.FENCE, what, (about_table(key),))
        if key in self.deaths:
            what = f"{token} committed to {key[0]}/{key[1]}, which is dead"
            raise LawBroken(Law.DRAIN, what, (about_table(key),))

    def killed(self, key: TableKey, *, dropped: bool) -> None:
        """The last commit."""
        self.deaths[key] = self._now()
        if dropped:
            self.begun[key[0]] = max(key[1], self.begun.get(key[0], 0))

    # --- files --------------------------------------------------------------------------------

    def uses(self, key: TableKey, who: str) -> None:
        """A keeper's work begins to read files."""
        self._uses[key, who] = self._uses.get((key, who), 0) + 1

    def lets_go(self, key: TableKey, who: str) -> None:
        """It reads no more."""
        self._uses[key, who] -= 1

    def deletes(self, key: TableKey, who: str, *, dead: bool) -> None:
        """A keeper deletes a file of a table."""
        if not dead:
            what = f"{who} deletes files of {key[0]}/{key[1]}, which is alive"
            raise LawBroken(Law.DRAIN, what, (about_table(key),))
        if self._uses.get((key, who), 0):
            what = f"{who} deletes files of {key[0]}/{key[1]} that its own work reads"
            raise LawBroken(Law.DRAIN, what, (about_table(key),))

    def gone(self, key: TableKey, living: list[TableKey]) -> None:
        """The directory of a dead table is deleted. The newest of a name is what the name means."""
        for other in living:
            if other[1] < key[1]:
                what = f"{other[0]}/{other[1]} comes back: {key[1]}, which replaced it, is deleted"
                raise LawBroken(Law.DRAIN, what, (about_table(other), about_table(key)))
