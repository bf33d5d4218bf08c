"""What people ask of diffs: to run one, call it off, go on with it, and what came of it.

    run, resume ──► checked ──► recorded ──► whichever node has room for it (`node/diff/runner`)
    show ◄───────────────────── the book: the ranges that are done, as they come

What can be known to be in the way is said before anything is recorded. A diff has a name from
whoever asks: asked again under the same name, it is not run twice.
"""

import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from lockgate.model.diffs import (
    DiffDocument,
    DiffOrder,
    DiffRecord,
    DiffState,
    DiffSummary,
    DiffTrouble,
)
from lockgate.model.errors import Conflict, LockgateError, NotFound, UsageError
from lockgate.model.feed_config import is_url
from lockgate.model.move_status import MoveStatus
from lockgate.model.moves import MoveState
from lockgate.model.secret import Secret
from lockgate.node.diff.sides import DiffSides
from lockgate.node.service.contexts import config_of
from lockgate.node.service.diff_documents import document, resume_command, summary
from lockgate.node.service.noting import noted
from lockgate.node.service.statuses import shown
from lockgate.node.service.stores import Stores
from lockgate.store.history import History

__all__ = ["DiffDesk", "note_end"]

SEED_BITS: Final = 62
OVER: Final = frozenset({MoveState.COMPLETED, MoveState.CANCELLED})


class MoveNotLevel(Conflict):
    """A command is under way for the move, or it is not copied: there is nothing to compare."""

    code = "busy"


class DiffDesk:
    """The diffs of one installation, for people."""

    def __init__(
        self,
        stores: Stores,
        sides: DiffSides,
        move: Callable[[str], MoveStatus],
        knock: Callable[[], None],
    ) -> None:
        """`move` tells how a move is; `knock` has this node look for new diffs."""
        self._stores = stores
        self._sides = sides
        self._move = move
        self._knock = knock

    # --- looking ----------------------------------------------------------------------------------

    def all(self) -> list[DiffSummary]:
        """Every diff that is remembered, the newest first."""
        book = self._stores.diffs
        found = []
        for record in book.all():
            looked = book.look(record.id) if record.state is DiffState.RUNNING else None
            if looked is None:
                found.append(summary(record, (), record.seen_ms))
            else:
                found.append(summary(looked.record, looked.ranges, looked.now_ms))
        return found

    def one(self, diff: str) -> DiffDocument:
        """One of them. Raises NotFound."""
        looked = self._stores.diffs.look(diff)
        if looked is None:
            raise _unknown(diff)
        return document(looked)

    def last_of_move(self, move: str) -> DiffDocument:
        """The newest diff of a move. Raises NotFound."""
        self._move(move)
        for record in self._stores.diffs.all():
            if record.order.move == move:
                return self.one(record.id)
        raise NotFound(
            "no diff of this move is remembered",
            object_=move,
            hint=f"run one: lockgate move diff {move}",
        )

    # --- running ----------------------------------------------------------------------------------

    def run(self, order: DiffOrder, who: str, diff: str = "") -> DiffDocument:
        """Record a diff, for a node that has room for it. What can be known to be in the way is
        refused before. Under a name that is known: how that one is, if it is of the same order."""
        known = self._known(diff, lambda found: _covers(found, order))
        if known is not None:
            return known
        if order.feed:
            order = self._with_feed(order)
        else:
            _check_apart(order)
        return self._recorded(order, who, diff, "diff run")

    def run_of_move(
        self, move: str, who: str, diff: str = "", *, repair: bool = False
    ) -> DiffDocument:
        """The same for the feed of a move that runs now, forward or back."""
        known = self._known(diff, lambda found: (found.move, found.repair) == (move, repair))
        if known is not None:
            return known
        order = DiffOrder(
            source="", target="", tables=(), feed=_feed_of(self._move(move)), repair=repair
        )
        return self._recorded(self._with_feed(order), who, diff, "move diff")

    def resume(self, diff: str, who: str) -> DiffDocument:
        """Go on with a diff that failed, with the ranges that are left. One that runs goes on
        anyway; one that is finished is a Conflict."""
        book = self._stores.diffs
        record = book.read(diff)
        if record is None:
            raise _unknown(diff)
        if record.state is DiffState.FINISHED:
            raise Conflict(
                "the diff is finished: there is nothing to go on with",
                object_=diff,
                hint=f"`lockgate diff show {diff}` shows what it found; or run it anew",
            )
        if record.state is DiffState.FAILED:
            with noted(self._stores.history, who, "diff resume", diff):
                self._sides.of(record.order)
                book.take_up(diff, record, None)
            self._knock()
        return self.one(diff)

    def cancel(self, diff: str, who: str) -> DiffDocument:
        """Call off a diff that runs: what it has found is kept, and it can be resumed. One that has
        failed stays so; one that is finished is a Conflict."""
        record = self._stores.diffs.read(diff)
        if record is None:
            raise _unknown(diff)
        if record.state is DiffState.RUNNING:
            hint = f"`{resume_command(record)}` goes on with what is left"
            why = DiffTrouble("called-off", f"it was called off by {who}", diff, hint)
            with noted(self._stores.history, who, "diff cancel", diff):
                self._stores.diffs.call_off(diff, why)
            self._knock()
        now = self.one(diff)
        if now.state is DiffState.FINISHED:
            raise Conflict(
                "the diff is finished: there is nothing to call off",
                object_=diff,
                hint=f"`lockgate diff show {diff}` shows what it found",
            )
        return now

    # --- inside -----------------------------------------------------------------------------------

    def _known(self, diff: str, same: Callable[[DiffOrder], bool]) -> DiffDocument | None:
        """The diff of this name, if there is one. Conflict when it is not the `same`."""
        looked = self._stores.diffs.look(diff) if diff else None
        if looked is None:
            return None
        if not same(looked.record.order):
            raise _taken(diff)
        return document(looked)

    def _recorded(self, order: DiffOrder, who: str, diff: str, verb: str) -> DiffDocument:
        name = diff or secrets.token_hex(5)
        how = ", with repair" if order.repair else ""
        detail = f"{name}: {order.source} to {order.target}{how}"
        with noted(self._stores.history, who, verb, order.move or order.feed or name, detail):
            sides = self._sides.of(order)
            record = DiffRecord(
                id=name,
                order=order,
                who=who,
                attempt=0,
                seed=secrets.randbits(SEED_BITS),
                lake=sides.lake,
            )
            kept = self._stores.diffs.begin(record)
        if kept.order != order:
            raise _taken(name)
        self._knock()
        return self.one(name)

    def _with_feed(self, order: DiffOrder) -> DiffOrder:
        """The order with the feed's ends; those that are given must be these."""
        entry = self._sides.feed(order.feed)
        config = config_of(entry)
        source, target = shown(config.source), shown(config.target)
        for which, given, real in (("from", order.source, source), ("to", order.target, target)):
            if given and given != real:
                raise UsageError(
                    f"the feed goes {which} {real}, and not {given}",
                    object_=which,
                    hint=f"leave --{which} away: the feed has its own",
                )
        return msgspec.structs.replace(order, source=source, target=target, move=entry.move)


def _covers(found: DiffOrder, asked: DiffOrder) -> bool:
    """Is it what was asked for? With a feed the ends need not be named."""
    ends = ((asked.source, found.source), (asked.target, found.target))
    if any(given and given != real for given, real in ends):
        return False
    return (found.tables, found.feed, found.repair) == (asked.tables, asked.feed, asked.repair)


def _check_apart(order: DiffOrder) -> None:
    for which, given in (("from", order.source), ("to", order.target)):
        if not given:
            raise UsageError(
                "an endpoint is missing",
                object_=which,
                hint=f"give --{which} EP, or --feed NAME for the ends of a feed",
            )
        if is_url(Secret(given)):
            raise UsageError(
                "a diff is between endpoints that have names",
                object_=which,
                hint="add the database or lake first: lockgate endpoint add NAME URL",
            )
    if not order.tables:
        raise UsageError(
            "no table is chosen", object_="tables", hint="give --tables 'schema.table', or * of it"
        )


def _feed_of(move: MoveStatus) -> str:
    """The feed that runs now. Conflict while there is none to be compared by."""
    if move.state in OVER:
        raise Conflict(
            f"the move is {move.state.value}: no feed joins its sides any more",
            object_=move.name,
            hint="compare them while nobody writes: lockgate diff run --from EP --to EP …",
        )
    if move.state is MoveState.COPYING:
        raise MoveNotLevel(
            "rows of the move are still being copied",
            object_=move.name,
            hint=f"`lockgate move watch {move.name}` shows how far they are",
        )
    feed = move.forward or move.reverse
    if move.state not in {MoveState.RUNNING, MoveState.SWITCHED} or feed is None:
        raise MoveNotLevel(
            f"the move is {move.state.value}",
            object_=move.name,
            hint="; ".join(move.next_steps),
        )
    return feed.feed


def _taken(diff: str) -> Conflict:
    return Conflict("there is another diff of this name", object_=diff, hint="choose another name")


def _unknown(diff: str) -> NotFound:
    return NotFound(
        "there is no diff of this name",
        object_=diff,
        hint="`lockgate diff list` shows those that are remembered",
    )


def note_end(history: History, record: DiffRecord) -> None:
    """Have the history say what came of a diff. It is in the book; this is for people."""
    order = record.order
    if record.state is DiffState.FAILED:
        outcome = f"failed: {record.trouble.what}" if record.trouble is not None else "failed"
    else:
        outcome = "equal" if record.equal else f"not equal: {record.unequal} rows"
    verb = "move diff" if order.move else "diff run"
    with suppress(LockgateError):
        history.write(record.who, verb, order.move or order.feed or record.id, record.id, outcome)
