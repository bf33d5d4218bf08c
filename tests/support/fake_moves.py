"""The moves of `services.FakeService`: each is copied as soon as it is made.

Commands are done at once, with the steps that the real ones have. What tests steer:

    under_way = 3             the next three answers are that it is not over yet
    trouble = "a lock"        the next flip is put back, and this is why
    asked                     every command that was asked for, as (command, move, request)
    orders                    the orders that came with them
    at("shop", "block")       the move is said to be at this step
    then                      after each look at a move, it is as the next of these says
    patience_s = 0            nobody hangs on a change of routes for longer
"""

import dataclasses
import secrets
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from lockgate.model.errors import Conflict, NotFound
from lockgate.model.feed_status import CopyProgress, FindingDocument
from lockgate.model.lake_documents import UNDER_WAY
from lockgate.model.move_config import MoveConfig
from lockgate.model.move_status import (
    MoveFeed,
    MoveOutcome,
    MoveStatus,
    MoveStep,
    PlannedStep,
    Route,
    Routes,
)
from lockgate.model.moves import Command, Disposal, MoveOrder, MoveState

_FLIP: Final = (
    *("check", "block", "catch-up", "freeze", "sequences", "way-back"),
    *("seal", "flip", "open", "retire"),
)
_STEPS: Final = {
    Command.CREATE: ("check-create", "forward", "guard"),
    Command.SWITCH: _FLIP,
    Command.REVERSE: _FLIP,
    Command.COMPLETE: ("check-complete", "run-out", "end-feed", "dispose", "clean"),
    Command.CANCEL: ("check-cancel", "stop", "end-feed", "drop-copies", "clean"),
}
_OVER: Final = frozenset({MoveState.COMPLETED, MoveState.CANCELLED})
_ENDS: Final = {
    Command.SWITCH: (MoveState.SWITCHED, "target"),
    Command.REVERSE: (MoveState.RUNNING, "source"),
    Command.COMPLETE: (MoveState.COMPLETED, "target"),
    Command.CANCEL: (MoveState.CANCELLED, "source"),
}
_NEXT: Final = {
    MoveState.RUNNING: ("lockgate move switch {}",),
    MoveState.SWITCHED: ("lockgate move complete {} --rename", "lockgate move reverse {}"),
}


class FakeRolledBack(Conflict):
    """As the node's own."""

    code = "rolled-back"


class FakeMoves:
    """An `api.ports.Moves`."""

    def __init__(
        self,
        call: Callable[..., AbstractContextManager[Any]],
        chosen: Callable[[str, str, Sequence[str]], list[str]],
        note: Callable[[str, str, str, str], None],
    ) -> None:
        self._call = call
        self._chosen = chosen
        self._note = note
        self._configs: dict[str, MoveConfig] = {}
        self._moves: dict[str, MoveStatus] = {}
        self._routes: dict[str, Route] = {}
        self._version = 1
        self._changed = threading.Condition()
        self.under_way = 0
        self.trouble = ""
        self.patience_s = 60.0
        self.then: list[dict[str, Any]] = []
        self.findings: tuple[FindingDocument, ...] = ()
        self.asked: list[tuple[str, str, str]] = []
        self.orders: list[MoveOrder] = []

    def plan(self, config: MoveConfig) -> MoveOutcome:
        """Its steps."""
        with self._call("plan_move"):
            tables = self._chosen(config.source, config.target, config.tables)
            steps = tuple(
                PlannedStep(name, f"{len(tables)} tables") for name in _STEPS[Command.CREATE]
            )
            return MoveOutcome("", "done", dry=True, steps=steps, findings=self.findings)

    def create(self, config: MoveConfig, who: str) -> MoveStatus:
        """A new one; the same again is no error."""
        with self._call("create_move", who):
            known = self._configs.get(config.name)
            if known is not None and known != config:
                raise Conflict(
                    "there is another move of this name", object_=config.name, hint="choose another"
                )
            if known is None:
                tables = self._chosen(config.source, config.target, config.tables)
                if config.source == config.target:
                    raise Conflict("both ends are one", object_=config.source, hint="name another")
                self._configs[config.name] = config
                self._moves[config.name] = _fresh(config, tables)
                self._point(config.name, config.source)
                self._note(who, "move create", config.name, "")
            return self._moves[config.name]

    def all(self) -> list[MoveStatus]:
        """By name."""
        with self._call("moves"):
            return [self._moves[name] for name in sorted(self._moves)]

    def one(self, name: str) -> MoveStatus:
        """One of them."""
        with self._call("move"):
            seen = self._move(name)
            if self.then:
                self.put(name, **self.then.pop(0))
            return seen

    def command(
        self, name: str, order: MoveOrder, who: str, *, dry: bool = False, request: str = ""
    ) -> MoveOutcome:
        """Done at once, unless tests say otherwise."""
        with self._call("command_move", who):
            move = self._move(name)
            self.asked.append((order.command.value, name, request))
            self.orders.append(order)
            named = request or secrets.token_hex(8)
            if self.under_way:
                self.under_way -= 1
                return MoveOutcome(named, UNDER_WAY, "it is not over yet", status=move)
            state, traffic = _ENDS[order.command]
            if move.state is state and move.command == order.command.value:
                what = f"the move is {state.value} already"
                return MoveOutcome(named, "nothing-to-do", what, dry=dry, status=move)
            self._refuse(move, order)
            if dry:
                steps = tuple(PlannedStep(step, f"would {step}") for step in _STEPS[order.command])
                return MoveOutcome(named, "done", dry=True, steps=steps, status=move)
            if self.trouble:
                what, self.trouble = self.trouble, ""
                raise FakeRolledBack(what, object_=name, hint="try again")
            kept = ("public._orders_old",) * (order.disposal is Disposal.RENAME)
            over = state in _OVER
            now = dataclasses.replace(
                move,
                state=state,
                traffic=traffic,
                command=order.command.value,
                steps=_done(order.command),
                forward=MoveFeed(f"{name}--0", "normal", 0.1) if traffic == "source" else None,
                reverse=MoveFeed(f"{name}--1", "normal", 0.1) if traffic == "target" else None,
                as_of="0/2A4410" if state is MoveState.COMPLETED else "",
                kept=kept if over and order.lost is None else (),
                notes=()
                if order.lost is None
                else (f"left behind, {order.lost.value} db: a slot",),
                next_steps=tuple(step.format(name) for step in _NEXT.get(state, ())),
            )
            self._moves[name] = now
            if now.traffic != move.traffic:
                config = self._configs[name]
                self._point(name, config.target if traffic == "target" else config.source)
            self._note(who, f"move {order.command.value}", name, "")
            return MoveOutcome(named, "done", status=now)

    def remove(self, name: str, who: str) -> None:
        """Forget it."""
        with self._call("remove_move", who):
            if self._move(name).state not in _OVER:
                raise Conflict("the move is not over", object_=name, hint="complete or cancel it")
            del self._moves[name], self._configs[name]

    def routes(
        self, tables: Collection[str] = (), *, after: int | None = None, wait_s: float = 0.0
    ) -> Routes:
        """Where tables are."""
        with self._call("routes"):
            pass
        with self._changed:
            if after is not None:
                self._changed.wait_for(lambda: self._version > after, min(wait_s, self.patience_s))
            found = (self._routes[table] for table in sorted(self._routes))
            wanted = tuple(one for one in found if not tables or one.table in tables)
            return Routes(self._version, wanted)

    # --- for tests --------------------------------------------------------------------------------

    def at(self, name: str, step: str, state: MoveState = MoveState.SWITCHING) -> None:
        """A command is under way, and this is its step."""
        names = _STEPS[Command.SWITCH]
        place = names.index(step)
        steps = tuple(
            dataclasses.replace(one, state="done" if n < place else "pending", started="", ended="")
            if n != place
            else dataclasses.replace(one, state="running", ended="")
            for n, one in enumerate(_done(Command.SWITCH))
        )
        self._moves[name] = dataclasses.replace(
            self._moves[name], state=state, step=step, steps=steps, command="switch"
        )

    def put(self, name: str, **changes: Any) -> None:
        """How a move is said to be."""
        self._moves[name] = dataclasses.replace(self._moves[name], **changes)

    def point(self, name: str, endpoint: str) -> None:
        """Routes change, as by a flip; who hangs on them is told."""
        self._point(name, endpoint)

    # --- inside -----------------------------------------------------------------------------------

    def _move(self, name: str) -> MoveStatus:
        if name not in self._moves:
            raise NotFound("there is no such move", object_=name, hint="lockgate move list")
        return self._moves[name]

    def _refuse(self, move: MoveStatus, order: MoveOrder) -> None:
        wants = {
            Command.SWITCH: "source",
            Command.REVERSE: "target",
            Command.COMPLETE: "target",
            Command.CANCEL: "source",
        }[order.command]
        if move.state in _OVER or move.traffic != wants:
            raise Conflict(
                f"the move is {move.state.value}", object_=move.name, hint="see its next steps"
            )

    def _point(self, name: str, endpoint: str) -> None:
        with self._changed:
            self._version += 1
            for table in self._moves[name].tables:
                self._routes[table] = Route(table, endpoint, name, self._version)
            self._changed.notify_all()


def _done(command: Command) -> tuple[MoveStep, ...]:
    return tuple(
        MoveStep(
            name,
            "done",
            f"2026-03-01T09:30:{n:02d}.000Z",
            f"2026-03-01T09:30:{n:02d}.250Z",
            "1.2 s" if name == "catch-up" else "",
        )
        for n, name in enumerate(_STEPS[command])
    )


def _fresh(config: MoveConfig, tables: Sequence[str]) -> MoveStatus:
    return MoveStatus(
        name=config.name,
        state=MoveState.RUNNING,
        step="",
        steps=_done(Command.CREATE),
        traffic="source",
        lag_s=0.1,
        copy=CopyProgress(1000, 1000, 100.0, 0.0),
        forward=MoveFeed(f"{config.name}--0", "normal", 0.1, "0/16B3700"),
        reverse=None,
        as_of="",
        next_steps=(f"lockgate move switch {config.name}",),
        command="create",
        source=config.source,
        target=config.target,
        tables=tuple(tables),
        hook=config.hook,
    )
