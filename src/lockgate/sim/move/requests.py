"""Requests of people, and whether they were answered with the truth.

    begun          at most once, never after the end was told, and it is durable
    done           the record says so, durably
    rolled back    the record says so: nothing of the flip is left, traffic is where it was
    nothing to do  it is so already
    busy, refused  without having begun: nothing

What is true is asked of the metastore and the sides, never of the keeper.
"""

from lockgate.model.move_events import MoveCommand
from lockgate.model.move_instructions import MoveAnswer, MoveVerdict
from lockgate.model.moves import Command, MoveRecord, Side
from lockgate.sim.move.ledger import ABOUT, MoveLedger
from lockgate.sim.move.probes import MoveProbe, MoveProbes
from lockgate.sim.move.store import MoveStore
from lockgate.sim.violation import Law, LawBroken

__all__ = ["MoveRequests"]


class Request:
    """Asked of one keeper."""

    __slots__ = ("asked", "begun", "name", "over", "stuck", "traffic")

    def __init__(self, name: str, asked: MoveCommand, traffic: Side, *, stuck: bool) -> None:
        self.name = name
        """The keeper's."""
        self.asked = asked
        self.traffic = traffic
        """Where it was."""
        self.stuck = stuck
        self.begun = False
        self.over = False


class MoveRequests:
    """All of them."""

    def __init__(self, store: MoveStore, ledger: MoveLedger, probes: MoveProbes) -> None:
        self._store = store
        self._ledger = ledger
        self._probes = probes
        self._all: dict[str, Request] = {}

    def ask(self, name: str, asked: MoveCommand) -> None:
        """Somebody asks a keeper."""
        record = self._store.record
        request = Request(name, asked, record.traffic, stuck=record.stuck)
        self._all[asked.request] = request

    def lose(self, name: str) -> None:
        """The keeper is gone: nobody waits for its answers."""
        for request in self._all.values():
            if request.name == name:
                request.over = True

    def unanswered(self) -> str:
        """The first request that nobody answers; empty when there is none."""
        for request in self._all.values():
            if not request.over:
                return f"{request.name} has not answered {request.asked}"
        return ""

    def answered(self, answer: MoveAnswer, keeper: int) -> None:
        """A keeper tells somebody what came of it."""
        request = self._all[answer.request]
        if request.over:
            raise self._lie(request, answer, "it was answered before")
        if answer.verdict is MoveVerdict.BEGUN:
            if request.begun:
                raise self._lie(request, answer, "that was told before")
            request.begun = True
            if self._store.keeps(keeper):
                self._judge_begun(request, answer, self._store.record)
            return
        request.over = True
        self._probe(request, answer)
        # One that was followed by another says what was true of its own record.
        if self._store.keeps(keeper):
            self._judge(request, answer, self._store.record)

    def _lie(self, request: Request, answer: MoveAnswer, why: str) -> LawBroken:
        what = f"{request.name} answered {answer.verdict.value} to {request.asked}: {why}"
        return LawBroken(Law.RECORD, what, ABOUT)

    def _judge(self, request: Request, answer: MoveAnswer, record: MoveRecord) -> None:
        command = request.asked.order.command
        match answer.verdict:
            case MoveVerdict.DONE if not request.asked.dry:
                if record.order.command is not command or not record.ended or record.undoing:
                    raise self._lie(request, answer, f"the record says {record}")
            case MoveVerdict.ROLLED_BACK:
                if not record.ended or not record.undoing or record.traffic is not request.traffic:
                    raise self._lie(request, answer, f"the record says {record}")
                guard = self._ledger.sides[record.traffic].guard
                if guard is not None:
                    raise self._lie(request, answer, f"there is {guard}")
            case MoveVerdict.REFUSED if request.begun:
                if record.traffic is not request.traffic or record.facts.sealed:
                    raise self._lie(request, answer, f"the record says {record}")
            case MoveVerdict.NOTHING:
                self._judge_nothing(request, answer, record)
            case MoveVerdict.DONE:
                if len(answer.steps) < 3:
                    raise self._lie(request, answer, "these are not all steps")

    def _judge_begun(self, request: Request, answer: MoveAnswer, record: MoveRecord) -> None:
        if record.order.command is not request.asked.order.command:
            raise self._lie(request, answer, f"the record says {record}")

    def _judge_nothing(self, request: Request, answer: MoveAnswer, record: MoveRecord) -> None:
        command = request.asked.order.command
        traffic = {Command.SWITCH: Side.TARGET, Command.REVERSE: Side.SOURCE}.get(command)
        if traffic is not None and record.traffic is not traffic:
            raise self._lie(request, answer, f"traffic is at the {record.traffic.value}")
        if (
            traffic is None
            and command is not Command.CREATE
            and record.order.command is not command
        ):
            raise self._lie(request, answer, f"the last command is {record.order.command.value}")

    def _probe(self, request: Request, answer: MoveAnswer) -> None:
        probes, command, verdict = self._probes, request.asked.order.command, answer.verdict
        if request.asked.dry:
            if verdict is MoveVerdict.DONE:
                probes.hit(MoveProbe.MOVE_DRY_RUN)
            elif verdict is MoveVerdict.REFUSED and answer.steps:
                probes.hit(MoveProbe.MOVE_DRY_REFUSED)
        elif verdict is MoveVerdict.DONE:
            if request.stuck:
                probes.hit(MoveProbe.MOVE_STUCK_FREED)
            if command in _DONE:
                probes.hit(_DONE[command])
            if request.asked.order.lost is not None:
                probes.hit(_LOST[command])
                if not self._ledger.sides[request.asked.order.lost].lost:
                    probes.hit(MoveProbe.MOVE_GIVEN_UP_BACK)
        elif verdict is MoveVerdict.ROLLED_BACK:
            probes.hit(MoveProbe.MOVE_ROLLED_BACK)
        elif verdict is MoveVerdict.BUSY:
            probes.hit(MoveProbe.MOVE_BUSY)
        elif verdict is MoveVerdict.REFUSED and request.begun:
            probes.hit(MoveProbe.MOVE_CHECK_REFUSED)
            if request.asked.order.lost is not None:
                probes.hit(MoveProbe.MOVE_GIVING_UP_REFUSED)


_DONE = {
    Command.SWITCH: MoveProbe.MOVE_SWITCHED,
    Command.REVERSE: MoveProbe.MOVE_REVERSED,
    Command.COMPLETE: MoveProbe.MOVE_COMPLETED,
    Command.CANCEL: MoveProbe.MOVE_CANCELLED,
}
_LOST = {
    Command.COMPLETE: MoveProbe.MOVE_WITHOUT_SOURCE,
    Command.CANCEL: MoveProbe.MOVE_WITHOUT_TARGET,
}
