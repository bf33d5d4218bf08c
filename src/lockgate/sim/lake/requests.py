"""Requests of people, and whether they were answered once and with the truth.

    done            of a drop: that table is dead, and so is what was to take its place when it
                    was asked. Of a drain: what was there when it was asked
                    is in stable, or the table is not there any more
    nothing to do   of a drop: the table was dead or gone
    busy, refused,
    failed          no kill of that table has, had or may still have an effect
    superseded      a table died after the request was made, or the leader steps down
    done            of a step-down: that is durable; and if the one asked led, what was there when
                    it was asked is in stable

What is true is asked of the lake and the ledger, never of the keeper.
"""

from lockgate.model.ids import Millis
from lockgate.model.lake import TableKey, Wish
from lockgate.model.lake_events import DrainTable, DropTable, LakeVerb, StepDown, StepUp
from lockgate.model.lake_instructions import LakeAnswer, LakeVerdict
from lockgate.sim.lake.lake import SimLake
from lockgate.sim.lake.ledger import LakeLedger, about_table
from lockgate.sim.lake.probes import LakeProbe, LakeProbes
from lockgate.sim.lake.store import WishStore
from lockgate.sim.lake.watch import Kill, Watch
from lockgate.sim.violation import Law, LawBroken, about_node

__all__ = ["Request", "Requests"]

_NO_EFFECT = frozenset({LakeVerdict.BUSY, LakeVerdict.REFUSED, LakeVerdict.FAILED})


class Request:
    """Asked of one keeper."""

    __slots__ = (
        "answered",
        "asked_at",
        "awaiting",
        "heirs_kills",
        "home",
        "kills",
        "leaves",
        "led",
        "levels",
        "name",
        "verb",
        "waited",
    )

    def __init__(
        self, name: str, home: str, verb: LakeVerb, now: Millis, levels: dict[TableKey, int]
    ) -> None:
        self.name = name
        """The keeper's."""
        self.home = home
        self.verb = verb
        self.asked_at = now
        self.levels = levels
        """How far ingest was, of each table that its name meant."""
        self.awaiting: set[TableKey] = set()
        """Living tables that were still to get their rows."""
        self.kills: list[Kill] = []
        self.heirs_kills: list[Kill] = []
        """Those of them that are for its sake alone, of what would be the table in its place."""
        self.answered = False
        self.leaves = False
        """It is what has a leader step down: it joins no step-down that is under way."""
        self.waited = False
        self.led = False
        """Its home led when it was asked."""


class Requests:
    """All of them."""

    def __init__(
        self, lake: SimLake, ledger: LakeLedger, store: WishStore, probes: LakeProbes
    ) -> None:
        self._lake = lake
        self._ledger = ledger
        self._store = store
        self._probes = probes
        self._all: dict[str, Request] = {}

    def ask(
        self,
        name: str,
        home: str,
        verb: LakeVerb,
        now: Millis,
        *,
        busy: bool = False,
        leads: bool = False,
    ) -> None:
        """Somebody asks a keeper. `busy`: work is under way for the table it is about; `leads`: as
        far as the keeper knows."""
        lake = self._lake
        levels = {
            one.key: one.ingest
            for one in lake.tables.values()
            if not one.dead and lake.newest(one.table) is one
        }
        joins = any(isinstance(one.verb, StepDown) for one in self.open_of(name))
        request = self._all[verb.request] = Request(name, home, verb, now, levels)
        request.leaves = leads and not joins
        request.waited = busy
        request.awaiting = {one.key for one in lake.tables.values() if one.awaits and not one.dead}
        request.led = lake.leader.home == home
        if isinstance(verb, StepUp):
            self._ledger.step_up_asked(home)

    def open_of(self, name: str) -> list[Request]:
        """What a keeper has not answered yet."""
        return [one for one in self._all.values() if one.name == name and not one.answered]

    def lose(self, name: str) -> None:
        """The keeper is gone: nobody waits for its answers."""
        for request in self.open_of(name):
            request.answered = True

    def drops(self, name: str, key: TableKey) -> bool:
        """Somebody waits for the end of the table."""
        verbs = [one.verb for one in self.open_of(name)]
        return any(isinstance(verb, DropTable) and verb.table == key[0] for verb in verbs)

    def drains(self, name: str, key: TableKey) -> int:
        """How often this keeper was asked to drain the table."""
        verbs = [one.verb for one in self._all.values() if one.name == name]
        return sum(isinstance(v, DrainTable) and v.table in {None, key[0]} for v in verbs)

    def begins_kill(self, name: str, kill: Kill, *, heir: bool) -> None:
        """Those who wait for the table's end have a stake in it."""
        stakes = [
            one
            for one in self.open_of(name)
            if isinstance(one.verb, DropTable) and one.verb.table == kill.key[0]
        ]
        for request in stakes:
            request.kills.append(kill)
        if heir and len(stakes) == 1:
            stakes[0].heirs_kills.append(kill)

    def unanswered(self) -> str:
        """The first request that nobody answers; empty when there is none."""
        for request in self._all.values():
            if not request.answered:
                return f"{request.name} has not answered {request.verb}"
        return ""

    # --- answers ------------------------------------------------------------------------------

    def answered(self, answer: LakeAnswer, watch: Watch) -> None:
        """A keeper tells somebody what came of it."""
        request = self._all[answer.request]
        if request.answered:
            raise self._lie(request, answer, "was answered before")
        request.answered = True
        verb = request.verb
        if isinstance(verb, DropTable):
            self._judge_drop(request, verb, answer)
        elif isinstance(verb, DrainTable):
            self._judge_drain(request, verb, answer)
        elif isinstance(verb, StepUp):
            self._judge_step_up(request, answer, watch)
        else:
            self._judge_step_down(request, verb, answer, watch)

    def _lie(self, request: Request, answer: LakeAnswer, why: str) -> LawBroken:
        what = f"{request.name} answered {answer.verdict.value} to {request.verb}: {why}"
        verb = request.verb
        about = [about_node(request.name)]
        if isinstance(verb, DropTable):
            about.append(about_table((verb.table, answer.incarnation)))
        return LawBroken(Law.DRAIN, what, tuple(about))

    def _judge_drop(self, request: Request, verb: DropTable, answer: LakeAnswer) -> None:
        key = verb.table, answer.incarnation
        verdict = answer.verdict
        if verdict is LakeVerdict.DONE or (verdict is LakeVerdict.NOTHING and answer.incarnation):
            alive = self._lake.tables.get(key)
            if alive is not None and not alive.dead:
                raise self._lie(request, answer, "it is alive")
            self._judge_heirs(request, verb, answer)
        elif verdict in _NO_EFFECT and any(
            kill.may_land and (kill.key == key or kill in request.heirs_kills)
            for kill in request.kills
        ):
            raise self._lie(request, answer, "a kill has an effect")
        self._probe_drop(request, verb, verdict)

    def _judge_heirs(self, request: Request, verb: DropTable, answer: LakeAnswer) -> None:
        """What was being copied when a table was dropped does not become it afterwards."""
        awaiting = [key for key in request.awaiting if key[0] == verb.table]
        if awaiting:
            self._probes.hit(LakeProbe.LAKE_DROP_OF_COPYING)
        newest = self._lake.newest(verb.table)
        for key in awaiting:
            table = self._lake.tables.get(key)
            replaced = newest is not None and not newest.awaits and newest.incarnation > key[1]
            if table is not None and not table.dead and not replaced:
                raise self._lie(request, answer, f"{key[1]} is alive, and comes in its place")

    def _probe_drop(self, request: Request, verb: DropTable, verdict: LakeVerdict) -> None:
        if verdict is LakeVerdict.DONE:
            self._probes.hit(LakeProbe.LAKE_DROP_DONE)
            if request.waited:
                self._probes.hit(LakeProbe.LAKE_DROP_WAITED)
        elif verdict is LakeVerdict.NOTHING:
            self._probes.hit(LakeProbe.LAKE_DROP_DEAD)
        elif verdict is LakeVerdict.REFUSED:
            self._probes.hit(LakeProbe.LAKE_DROP_REFUSED)
        elif verdict is LakeVerdict.BUSY:
            waited = verb.wait_ms > 0
            self._probes.hit(
                LakeProbe.LAKE_DROP_WAITED_BUSY if waited else LakeProbe.LAKE_DROP_BUSY
            )

    def _judge_drain(self, request: Request, verb: DrainTable, answer: LakeAnswer) -> None:
        names = {verb.table} if verb.table is not None else {name for name, _ in request.levels}
        if answer.verdict is LakeVerdict.SUPERSEDED and answer.what == "the table was dropped":
            # One that could not be looked at may have been dead, and nobody knew.
            since = (*self._ledger.deaths.items(), *self._ledger.unseen.items())
            names_since = {name for (name, _), at in since if at >= request.asked_at}
            if not names_since or (verb.table is not None and verb.table not in names_since):
                raise self._lie(request, answer, "no table has died since it was asked")
            self._probes.hit(LakeProbe.LAKE_DROP_SUPERSEDES)
        elif answer.verdict in {LakeVerdict.DONE, LakeVerdict.NOTHING}:
            for key, level in request.levels.items():
                table = self._lake.tables.get(key)
                newest = self._lake.newest(key[0])
                unseen = self._ledger.unseen.get(key, -1) >= request.asked_at
                current = table is newest and not unseen and not self._is_over(key)
                if key[0] in names and current and table is not None and table.drained < level:
                    raise self._lie(request, answer, f"{key} is at {table.drained}, not {level}")
            if verb.table is not None and not any(key[0] == verb.table for key in request.levels):
                self._probes.hit(LakeProbe.LAKE_DRAIN_OF_DEAD)

    def _judge_drained(self, request: Request, answer: LakeAnswer) -> None:
        """Who may be switched off now keeps nothing back that was there when he was asked to."""
        for key, level in request.levels.items():
            table = self._lake.tables.get(key)
            current = table is self._lake.newest(key[0]) and not self._is_over(key)
            if current and table is not None and table.drained < level:
                raise self._lie(request, answer, f"{key} is at {table.drained}, not {level}")

    def _is_over(self, key: TableKey) -> bool:
        """It is dead, or will be whoever leads: a newer one died by a drop of their name."""
        tables = self._lake.tables.values()
        newer = (one for one in tables if one.table == key[0] and one.incarnation >= key[1])
        return any(one.dead and (one.dropped or one.key == key) for one in newer)

    def _judge_step_up(self, request: Request, answer: LakeAnswer, watch: Watch) -> None:
        """Who counts as leader has claimed every table that was there when it took the lake; and
        nobody is told that a home leads already that did not."""
        if answer.verdict is LakeVerdict.NOTHING:
            if not request.led and self._lake.leader.home != request.home:
                what = f"{request.name} says that it leads already, and another home does"
                raise LawBroken(Law.FENCE, what, (about_node(request.name),))
            return
        if answer.verdict is not LakeVerdict.DONE:
            return
        if answer.failed:
            self._probes.hit(LakeProbe.LAKE_TABLE_FAILED)
        failed = {one.table for one in answer.failed}
        for table in self._lake.tables.values():
            there = table.born_at < watch.taken_at and not table.dead and table.table not in failed
            if there and table.token.epoch < watch.epoch:
                what = f"{request.name} leads and has not claimed {table.table}/{table.incarnation}"
                about = (about_node(request.name), about_table(table.key))
                raise LawBroken(Law.FENCE, what, about)

    def _judge_step_down(
        self, request: Request, verb: StepDown, answer: LakeAnswer, watch: Watch
    ) -> None:
        if answer.verdict is LakeVerdict.DONE:
            wished = watch.wished
            if wished.wish is not Wish.FOLLOW or not self._store.was_durable(request.home, wished):
                what = f"{request.name} says that it follows, and that is not durable"
                raise LawBroken(Law.RECORD, what, (about_node(request.name),))
            if request.leaves and self._lake.leader.epoch == watch.epoch:
                self._judge_drained(request, answer)
        elif answer.verdict is LakeVerdict.REFUSED:
            flushed = LakeProbe.LAKE_FLUSH_FAILED if verb.flush else None
            self._probes.hit(flushed or LakeProbe.LAKE_STEP_DOWN_REFUSED)
