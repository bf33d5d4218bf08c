"""What people ask of moves: to create, switch, reverse, complete and cancel them, and how they are.

    command ──► any node ──► the keeper, on the coordinator's node: begun, busy, refused …
                   └──────── the record says what became of it, whoever keeps the move by then

Every node shows what is recorded, from the metastore. What is to be done goes to the keeper. It may
take long: whoever asked is told that it is under way, and asks on under the request's name. The
record has that name and what came of it, so nothing is begun twice, whoever died meanwhile and
whatever others have asked for since.
"""

import time
from collections.abc import Callable, Collection
from typing import Final

import msgspec
import sqlalchemy as sa

from lockgate.core.move.requests import request_of
from lockgate.core.move.rules import judge
from lockgate.core.move.words import UNKNOWN_TROUBLE
from lockgate.model.errors import Conflict, LockgateError, NotFound, OutcomeUnknown
from lockgate.model.instructions import Answer
from lockgate.model.lake_documents import UNDER_WAY
from lockgate.model.move_config import MoveConfig
from lockgate.model.move_events import MoveCommand
from lockgate.model.move_instructions import MoveAnswer, MoveVerdict
from lockgate.model.move_status import MoveOutcome, MoveStatus, PlannedStep, Routes
from lockgate.model.moves import Command, MoveId, MoveOrder, MoveRecord
from lockgate.node.hooks import FindHook
from lockgate.node.link.wire import AskMove
from lockgate.node.move.hosts import MoveHosts
from lockgate.node.service.asking import new_request
from lockgate.node.service.cluster import HERE_S, Cluster
from lockgate.node.service.contexts import Contexts
from lockgate.node.service.move_plans import MovePlans, refused
from lockgate.node.service.move_statuses import MoveStatuses, again
from lockgate.node.service.noting import BEGUN, noted
from lockgate.node.service.statuses import Statuses
from lockgate.node.service.stores import Stores
from lockgate.store.endpoints import unchanged
from lockgate.store.feeds import unfed
from lockgate.store.moves import MoveEntry, unmoved

__all__ = ["MoveBusy", "MoveDesk", "MoveStuck", "RolledBack", "answer_here"]

_NOT_YET: Final = "move-under-way"
PATIENCE_S: Final = 20.0
"""Less than a client waits for an answer."""
CREATE_S: Final = 30.0
POLL_S: Final = 0.05
ROUTES_POLL_S: Final = 0.1


class MoveBusy(Conflict):
    """Another command is under way for the move. Nothing was changed."""

    code = "busy"


class RolledBack(Conflict):
    """A flip failed before its point of no return: everything is as it was."""

    code = "rolled-back"


class MoveStuck(Conflict):
    """A command cannot go on until somebody acts."""

    code = "stuck"


def answer_here(hosts: MoveHosts, asked: AskMove) -> Answer:
    """Ask the keeper on this node, and answer as a core would."""
    try:
        answer = hosts.ask(asked.move, asked.command, HERE_S - 2.0)
    except LockgateError:
        return Answer(asked.request, _NOT_YET)
    if answer is None:
        return Answer(asked.request, _NOT_YET)
    return Answer(asked.request, what=msgspec.json.encode(answer).decode())


class MoveDesk:
    """The moves of one installation, for people."""

    def __init__(
        self,
        stores: Stores,
        contexts: Contexts,
        cluster: Cluster,
        feeds: Statuses,
        knock: Callable[[], None],
        hook: FindHook,
    ) -> None:
        """`knock` has the keepers of moves on this node look for new ones; `hook` finds one by its
        name."""
        self._stores = stores
        self._cluster = cluster
        self._knock = knock
        self._statuses = MoveStatuses(stores, feeds)
        self._plans = MovePlans(contexts, stores.feeds, hook)

    # --- looking ----------------------------------------------------------------------------------

    def all(self) -> list[MoveStatus]:
        """Every move, by name; those that are over too, until another takes the name."""
        return self._statuses.all()

    def one(self, name: str) -> MoveStatus:
        """One move. Raises NotFound."""
        return self._statuses.one(self._entry(name))

    def routes(
        self, tables: Collection[str] = (), *, after: int | None = None, wait_s: float = 0.0
    ) -> Routes:
        """Where tables' traffic goes: of all that are moved, or of these (`schema.table`). With
        `after`, waits until the version is greater, for `wait_s` at most."""
        book = self._stores.moves
        if after is not None:
            self._wait(lambda: book.version() > after, wait_s, ROUTES_POLL_S)
        return book.routes(tables)

    # --- creating ---------------------------------------------------------------------------------

    def plan(self, config: MoveConfig) -> MoveOutcome:
        """What `create` would do: its steps, and what the checks of both sides find. Changes
        nothing; what stands in the way is among the findings."""
        found = self._standing(config.name)
        if found is None:
            return self._plans.told(config)
        if found.config != config:
            return refused(_in_use(config.name))
        verdict, status = MoveVerdict.NOTHING.value, self._statuses.one(found)
        return MoveOutcome("", verdict, "the move is there already", dry=True, status=status)

    def create(self, config: MoveConfig, who: str) -> MoveStatus:
        """Record the move and wait until its feed is set up. What can be known to fail is refused
        before anything is recorded. Asked again with the same configuration: how it is."""
        found = self._standing(config.name) or self._entered(config, who)
        if found.config != config:
            raise _in_use(config.name)
        self._knock()
        birth = found.birth
        self._wait(lambda: self._is_settled(config.name, birth), CREATE_S)
        entry = self._entry(config.name)
        refused = entry.over and entry.record.order.command is Command.CREATE
        if entry.birth == birth and refused:
            # It was refused by the keeper, which looks once more: nothing of it is anywhere.
            self._stores.moves.remove(config.name)
            trouble = entry.record.trouble or UNKNOWN_TROUBLE
            raise Conflict(trouble.what, object_=config.name, hint=trouble.hint)
        return self._statuses.one(entry)

    def _standing(self, name: MoveId) -> MoveEntry | None:
        """The move of this name, unless it is over: that one makes room."""
        found = self._stores.moves.read(name)
        return None if found is None or found.over else found

    def _entered(self, config: MoveConfig, who: str) -> MoveEntry:
        detail = f"{config.source} to {config.target}, tables {', '.join(config.tables)}"
        with noted(self._stores.history, who, "move create", config.name, detail):
            moves, feeds = self._stores.moves.all(), self._stores.feeds.all()
            plan = self._plans.checked(config)

            def check(connection: sa.Connection) -> None:
                unchanged(plan.between)(connection)
                unmoved(plan.tables, moves)(connection)
                unfed(plan.tables, feeds)(connection)

            return self._stores.moves.enter(config, plan.tables, plan.there, check)

    def _is_settled(self, name: MoveId, birth: int) -> bool:
        entry = self._stores.moves.read(name)
        if entry is None or entry.birth != birth:
            return True
        return entry.record.ended or entry.record.stuck

    def remove(self, name: str, who: str) -> None:
        """Forget a move that is completed or cancelled. Raises NotFound, Conflict."""
        with noted(self._stores.history, who, "move remove", name, outcome="done"):
            self._stores.moves.remove(name)

    # --- commands ---------------------------------------------------------------------------------

    def command(
        self, name: str, order: MoveOrder, who: str, *, dry: bool = False, request: str = ""
    ) -> MoveOutcome:
        """Have a command carried out, or with `dry` only gone through.

        Answers when it is over, or after a while that it is under way: ask again with the
        outcome's `request`. Raises NotFound, MoveBusy, Conflict when it is refused, RolledBack
        when a flip was put back, MoveStuck when it waits for somebody, OutcomeUnknown.
        """
        entry = self._entry(name)
        named = request or new_request()
        if not dry and request_of(entry.record, named) is not None:
            return self._followed(entry, named)
        if dry:
            return self._told(entry, self._asked(entry, MoveCommand(named, order, dry=True)), dry)
        verb = f"move {order.command.value}"
        with noted(self._stores.history, who, verb, name, _detail(order), BEGUN):
            answer = self._asked(entry, MoveCommand(named, order))
            if answer.verdict is not MoveVerdict.BEGUN:
                return self._told(entry, answer, dry)
        return self._followed(entry, named)

    def _asked(self, entry: MoveEntry, command: MoveCommand) -> MoveAnswer:
        """The first answer: that it has begun, or why not."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            now = self._entry(entry.move)
            known = request_of(now.record, command.request)
            judged = known or judge(now.record, command.order)
            if now.over and judged is not None:  # nobody keeps a move that is over
                why = judged.why
                return MoveAnswer(command.request, judged.verdict, why.what, why.hint)
            answer = self._cluster.answer_of_coordinator(
                lambda request: AskMove(request, entry.move, command), entry.move, PATIENCE_S
            )
            if answer.code != _NOT_YET:
                return msgspec.json.decode(answer.what, type=MoveAnswer)
            if time.monotonic() > deadline:
                raise OutcomeUnknown(
                    "it was asked for, and nobody has said in time that it has begun",
                    object_=entry.move,
                    hint=f"see `lockgate move status {entry.move}`, then ask again",
                )
            time.sleep(POLL_S)

    def _told(self, entry: MoveEntry, answer: MoveAnswer, dry: bool) -> MoveOutcome:
        """An answer that is the last one, as a document or as an error."""
        kind = _KINDS.get(answer.verdict)
        if kind is not None:
            what = answer.what or answer.verdict.value
            raise kind(what, object_=entry.move, hint=answer.hint)
        steps = tuple(PlannedStep(step.value, detail) for step, detail in answer.steps)
        return MoveOutcome(
            answer.request,
            answer.verdict.value,
            answer.what,
            answer.hint,
            dry,
            steps,
            status=self.one(entry.move),
        )

    def _followed(self, entry: MoveEntry, request: str) -> MoveOutcome:
        """What the record says became of it, once it is over."""
        self._wait(lambda: self._is_followed(entry, request), PATIENCE_S, POLL_S)
        now = self._entry(entry.move)
        known = request_of(now.record, request)
        if now.birth != entry.birth or known is None:
            raise OutcomeUnknown(
                "much else was asked of the move since",
                object_=entry.move,
                hint=f"see `lockgate move status {entry.move}`",
            )
        if known.verdict is not MoveVerdict.BEGUN:
            answer = MoveAnswer(request, known.verdict, known.why.what, known.why.hint)
            return self._told(now, answer, dry=False)
        if now.record.stuck:
            raise _stuck(now.record)
        status = self._statuses.one(now)
        return MoveOutcome(request, UNDER_WAY, "it is not over yet", status=status)

    def _is_followed(self, entry: MoveEntry, request: str) -> bool:
        now = self._stores.moves.read(entry.move)
        if now is None or now.birth != entry.birth or now.record.stuck:
            return True
        known = request_of(now.record, request)
        return known is None or known.verdict is not MoveVerdict.BEGUN

    # --- inside -----------------------------------------------------------------------------------

    def _entry(self, name: str) -> MoveEntry:
        entry = self._stores.moves.read(name)
        if entry is None:
            raise NotFound(
                "there is no move of this name",
                object_=name,
                hint="`lockgate move list` shows those that are there",
            )
        return entry

    def _wait(self, is_so: Callable[[], bool], timeout_s: float, pause_s: float = POLL_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not is_so() and (left_s := deadline - time.monotonic()) > 0:
            time.sleep(min(pause_s, left_s))


_KINDS: Final[dict[MoveVerdict, type[LockgateError]]] = {
    MoveVerdict.BUSY: MoveBusy,
    MoveVerdict.REFUSED: Conflict,
    MoveVerdict.ROLLED_BACK: RolledBack,
    MoveVerdict.UNKNOWN: OutcomeUnknown,
}


def _in_use(name: MoveId) -> Conflict:
    return Conflict(
        "a move of this name exists with another configuration",
        object_=name,
        hint="choose another name, or complete or cancel that move first",
    )


def _stuck(record: MoveRecord) -> MoveStuck:
    trouble = record.trouble or UNKNOWN_TROUBLE
    hint = f"{trouble.hint}; then: {again(record)}" if trouble.hint else again(record)
    return MoveStuck(trouble.what, object_=record.move, hint=hint)


def _detail(order: MoveOrder) -> str:
    if order.command in (Command.SWITCH, Command.REVERSE):
        return f"timeout {order.timeout_ms / 1000:g} s"
    lost = "" if order.lost is None else f", without the {order.lost.value}, which is lost"
    return f"{order.disposal.value}{lost}"
