"""One interleaving: a lake of its own, what a seed does to it, and the healing.

    begin ──► people ask, nodes are paused, replaced and killed ──► heal ──► verdict

Healed means: everybody runs, one node keeps the lake for each home, the feeds have landed the whole
log, one home has stepped up and drained everything, and nothing dead has a directory any more.
"""

import random
import shutil
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from lockgate.endpoints.delta.head import LakeHead
from lockgate.endpoints.delta.lake import STABLE, Lake
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import LockgateError, NotFound
from lockgate.model.lake_events import DrainTable, DropTable, LakeVerb, StepDown, StepUp
from lockgate.model.lake_instructions import LakeAnswer, LakeVerdict
from soak.lake.actor import ActorGone
from soak.lake.cast import FEEDS, HOMES, KEEPERS, Cast, Death
from soak.lake.people import Asked, People
from soak.lake.points import ANY, FEED_POINTS, KEEPER_POINTS, Armed
from soak.lake.source import Source
from soak.lake.verdict import Facts, judge

__all__ = ["Outcome", "Run"]

_HEAL_S: Final = 120.0
_LOOK_S: Final = 0.02
_SLOW: Final = ("drain planned", "drain before", "compact rewritten", "delete buried", "", "")
_POINT_S: Final = 2.0
"""A point that was not reached so long after people have done everything is not waited for."""


@dataclass
class Outcome:
    """What came of a run."""

    seed: int
    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    deaths: tuple[Death, ...] = ()
    phases_s: tuple[float, ...] = ()
    """How long it took to begin, to act, to heal, to end and to judge."""


class Run:
    """One of them."""

    def __init__(self, cast: Cast, folder: Path, seed: int, *, kills: bool) -> None:
        self._cast = cast
        self._folder = folder
        self._kills = kills
        self._draw = random.Random(f"run {seed}")
        self._source = Source(seed)
        self._lake = Lake(Place(str(folder / "lake"), "lake"))
        self._head = LakeHead(Place(str(folder / "lake"), "lake"), "nobody")
        self._people = People(cast.keeper)
        self._leader = "a"
        self._serial = 0
        self._point = False
        """Somebody is to be killed at a point."""
        self._to_go_on: dict[str, float] = {}
        self._to_end: dict[str, float] = {}
        self.outcome = Outcome(seed)

    def run(self) -> Outcome:
        """All of it. The folder is gone afterwards, unless something was found."""
        marks = [time.monotonic()]
        self._folder.mkdir(parents=True)
        self._begin()
        for phase in (self._act, self._heal, self._cast.end, self._judge):
            marks.append(time.monotonic())
            phase()
        marks.append(time.monotonic())
        self.outcome.phases_s = tuple(after - before for before, after in pairwise(marks))
        if not self.outcome.violations:
            shutil.rmtree(self._folder)
        return self.outcome

    def _begin(self) -> None:
        draw = self._draw
        homes = list(HOMES)
        draw.shuffle(homes)
        self._leader = homes[0]  # who is first, leads
        drain_ms = draw.choice([60, 400, 100_000])
        workers = draw.choice([1, 2])
        self._cast.begin(self._folder, self.outcome.seed, drain_ms, workers, self._arm())
        for home in homes:
            self._cast.lead(self._cast.keeps[home], True)
        until_s = time.monotonic() + 2.0
        while len(self._lake.tables()) < 2 and time.monotonic() < until_s:
            self._wait(_LOOK_S)

    def _arm(self) -> dict[str, Armed]:
        draw = self._draw
        share, pause_s = draw.choice([(0.0, 0.2), (0.1, 0.05), (0.3, 0.1), (0.05, 0.3)])
        slow = draw.choice(_SLOW)
        armed = {
            name: Armed(draw.getrandbits(32), share, pause_s, slow) for name in (*KEEPERS, *FEEDS)
        }
        if self._kills and draw.random() < 0.8:
            self._point = True
            leads = "a1" if self._leader == "a" else "b1"
            victim = draw.choices([leads, "a1", "b1", "feed-a", "feed-b"], [6, 1, 1, 2, 2])[0]
            point, times = ANY, draw.randint(1, 80)
            if draw.random() < 0.5:
                point = draw.choice(FEED_POINTS if victim in FEEDS else KEEPER_POINTS)
                times = draw.randint(1, 3)
            armed[victim] = Armed(draw.getrandbits(32), share, pause_s, slow, point, times)
        return armed

    # --- what happens -----------------------------------------------------------------------------

    def _act(self) -> None:
        draw = self._draw
        steps = draw.randint(10, 20)
        kill_at = draw.randrange(steps) if self._kills and not self._point else -1
        for step in range(steps):
            self._wait(draw.choice([0.0, 0.02, 0.1, 0.3]))
            self._one()
            if step == kill_at:
                self._kill()
        until_s = time.monotonic() + _POINT_S
        while self._kills and not self._cast.deaths:
            if time.monotonic() > until_s or self._fed_all():
                self._kill()
            self._wait(_LOOK_S)

    def _one(self) -> None:
        draw = self._draw
        what = draw.choices(
            ["drain", "all", "drop", "up", "down", "move", "pause", "again", "resync"],
            [4, 2, 6, 3, 2, 2, 2, 1, 2],
        )[0]
        self.outcome.counts[f"did {what}"] += 1
        table = draw.choice(self._source.tables)
        leader = self._head.read().leader or self._leader
        home = leader if draw.random() < 0.85 else draw.choice(HOMES)
        if what == "drain":
            self._ask(home, DrainTable(self._name(), table))
        elif what == "all":
            self._ask(home, DrainTable(self._name(), None))
        elif what == "drop":
            self._drop(home, table)
        elif what == "up":
            self._ask(draw.choice(HOMES), StepUp(self._name()))
        elif what == "down":
            self._ask(home, StepDown(self._name(), draw.random() < 0.7))
        elif what == "move":
            self._move()
        elif what == "pause":
            name = draw.choice([*KEEPERS, *FEEDS])
            self._cast.stop(name)
            self._to_go_on[name] = time.monotonic() + draw.random() * 0.5
        elif what == "again":
            self._tell(draw.choice(list(FEEDS)), "again")
        else:
            self._tell(f"feed-{home}", "resync", table)

    def _drop(self, home: str, table: str) -> None:
        draw = self._draw
        incarnation = None
        if draw.random() < 0.2:
            incarnation = max(self._lake.incarnations(table), default=None)
        wait_ms = draw.choice([0, 0, 100, 3_000])
        if draw.random() < 0.6:  # right behind a drain, to meet it
            self._ask(home, DrainTable(self._name(), table))
            self._wait(draw.choice([0.0, 0.02, 0.1]))
        known = tuple(each for each in self._lake.incarnations(table) if self._is_made(table, each))
        self._people.ask(home, DropTable(self._name(), table, incarnation, wait_ms), known)

    def _is_made(self, table: str, incarnation: int) -> bool:
        """Whoever looks from now on finds it."""
        place = self._lake.place(table, incarnation)
        return Path(place.url, STABLE, "_delta_log", f"{0:020d}.json").exists()

    def _move(self) -> None:
        """The other node of home a has the coordinator. The former one may not know it yet."""
        before = self._cast.keeps["a"]
        now = "a2" if before == "a1" else "a1"
        if {before, now} & (self._cast.stopped | set(self._cast.dead())):
            return
        self._cast.lead(now, True)
        self._cast.keeps["a"] = now
        self._to_end[before] = time.monotonic() + self._draw.choice([0.0, 0.2, 0.6])

    def _kill(self) -> None:
        name = self._draw.choice([self._cast.keeps["a"], "b1", "b1", "feed-a", "feed-b"])
        self._cast.kill(name)

    def _wait(self, seconds: float) -> None:
        """And see to what is due meanwhile."""
        until_s = time.monotonic() + seconds
        while True:
            now_s = time.monotonic()
            for name in [one for one, at_s in self._to_go_on.items() if now_s >= at_s]:
                del self._to_go_on[name]
                self._cast.go_on(name)
            for name in [one for one, at_s in self._to_end.items() if now_s >= at_s]:
                del self._to_end[name]
                if name not in self._cast.stopped and name not in self._cast.keeps.values():
                    self._cast.lead(name, False)
            self._cast.bury()
            for name in self._cast.dead():
                if self._draw.random() < 0.3:
                    self._cast.replace(name)
            if now_s >= until_s:
                return
            time.sleep(min(_LOOK_S, until_s - now_s))

    def _tell(self, name: str, verb: str, *args: str) -> None:
        if name not in self._cast.stopped:
            self._cast.tell(name, verb, *args)

    def _name(self) -> str:
        self._serial += 1
        return f"r{self._serial}"

    def _ask(self, home: str, verb: LakeVerb) -> Asked:
        return self._people.ask(home, verb)

    # --- healing ----------------------------------------------------------------------------------

    def _heal(self) -> None:
        cast = self._cast
        for name in (*KEEPERS, *FEEDS):
            cast.go_on(name)
        self._to_go_on.clear()
        cast.bury()
        for name in cast.dead():
            cast.replace(name)
        for name in (*KEEPERS, *FEEDS):
            cast.tell(name, "arm", Armed())
        for name in self._to_end:
            if name not in cast.keeps.values():
                cast.lead(name, False)
        deadline_s = time.monotonic() + _HEAL_S
        self._await("feeds do not come to the end of the log", self._fed, deadline_s)
        for name in FEEDS:
            # Begun once more, a feed sees to what those before it have left behind.
            cast.tell(name, "again")
        self._await("feeds do not come to the end of the log", self._fed, deadline_s)
        left = self._people.wait(deadline_s)
        if left:
            self._accuse(f"never answered: {[one.verb for one in left]}")
        self._leader = self._draw.choice(HOMES)
        self._await("nobody comes to lead", self._leads, deadline_s)
        self._await("tables are not drained", self._drained, deadline_s)
        self._await("something dead is not deleted", self._deleted, deadline_s)
        # Once more: it changes nothing, which the verdict sees in the tables' logs.
        self._await("tables are not drained", self._drained, deadline_s)
        self._people.leave()

    def _await(self, otherwise: str, look: object, deadline_s: float) -> None:
        assert callable(look)
        while not look():
            if time.monotonic() > deadline_s:
                status = {home: self._cast.keeper(home).call("status") for home in HOMES}
                self._accuse(f"{otherwise}: {status}")
                return
            time.sleep(_LOOK_S)

    def _fed(self) -> bool:
        """A feed that waits for rows which only a leader brings says so, and people do as it says:
        they step up there."""
        waiting = [home for name, home in FEEDS.items() if not self._cast[name].call("done")]
        for home in waiting:
            if self._cast[f"feed-{home}"].call("wants lead"):
                self._leader = home
                self._leads()
        return not waiting

    def _fed_all(self) -> bool:
        feeds = [self._cast[name] for name in FEEDS if name not in self._cast.stopped]
        try:
            return len(feeds) == len(FEEDS) and all(feed.call("done") for feed in feeds)
        except ActorGone:
            return False

    def _told(self, verb: LakeVerb) -> LakeAnswer | None:
        told = self._cast.keeper(self._leader).call("ask", verb, 30.0)
        return told if isinstance(told, LakeAnswer) else None

    def _leads(self) -> bool:
        told = self._told(StepUp(self._name()))
        if told is None:
            return False
        done = told.verdict is LakeVerdict.DONE and not told.failed
        return done or told.verdict is LakeVerdict.NOTHING

    def _drained(self) -> bool:
        told = self._told(DrainTable(self._name(), None))
        fine = (LakeVerdict.DONE, LakeVerdict.NOTHING, LakeVerdict.SUPERSEDED)
        return told is not None and told.verdict in fine and not told.failed

    def _deleted(self) -> bool:
        """Nothing is there but the newest incarnation of each table."""
        for table in self._lake.tables():
            found = self._lake.incarnations(table)
            if len(found) != 1:
                return False
            try:
                self._lake.live(table)
            except (NotFound, LockgateError):
                return False
        return True

    # --- the verdict ------------------------------------------------------------------------------

    def _judge(self) -> None:
        outcome, people = self.outcome, self._people
        for one in people.asked:
            outcome.counts[f"{type(one.verb).__name__} {one.verdict}"] += 1
            if one.failure:
                self._accuse(one.failure)
        outcome.deaths = tuple(self._cast.deaths)
        outcome.counts["kills"] += len(outcome.deaths)
        for death in outcome.deaths:
            role = "feed" if death.who in FEEDS else "keeper"
            when = "any time" if death.how == "any time" else "a point"
            outcome.counts[f"killed {role} at {when}"] += 1
        facts = Facts(self._folder, self._source, people.asked, self._leader)
        outcome.violations += judge(facts, outcome.counts)
        if outcome.violations:
            told = "".join(f"{one.verb} at {one.home}: {one.answer}\n" for one in people.asked)
            (self._folder / "asked").write_text(told, "utf-8")

    def _accuse(self, what: str) -> None:
        self.outcome.violations.append(what)
