"""Fail points: stand a node still at the very moment at which an operator enters a state.

    test    FailPoints(folder).arm(FailPoint("shop", "move", "stopping", "before", span=…))
    node    python -m soak.failpoints server …        with LOCKGATE_FAILPOINTS=folder
    test    .frozen()  ──►  who owns, from where, to where     (then kills somebody)
    test    .go()

For tests only, and from outside: nothing in the package knows of this. The launcher wraps what
carries out the core's instructions, then runs the ordinary command line. The core has decided when
the node stands still; what it decided is still to be carried out (`before`), or has been (`after`).
Only the core's thread stands still: dispatchers go on, and the lease is not renewed.

A step of a move is a fail point, too: `FailPoint("orders", "step", "way-back", "after")`. There the
thread of the step stands still, before it acts, or when it has acted and has told nobody yet; the
rest of the node goes on. Its undoing is one of the kind "undo".

So is what came of ranges of a diff, by the diff's name: `FailPoint(id, "diff", "range", "after")`,
recorded or about to be. The diff's thread stands still.

And so is the Spark job of a drain or a compaction, by the lake table's name:
`FailPoint("public.orders", "drain", "rewrite", "after")`. Its tasks have written their files, and
no commit names them yet.

The two talk through files, each written under another name first: half a file is never read.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.core.node import NodeCore
from lockgate.core.operators.add import Add
from lockgate.core.operators.base import Operator
from lockgate.core.operators.merge import Merge
from lockgate.core.operators.move import Move
from lockgate.core.operators.remove import Remove
from lockgate.core.operators.split import Split
from lockgate.endpoints.delta.files import DataFile
from lockgate.model.diffs import DiffRecord, RangeOutcome
from lockgate.model.instructions import Instruction
from lockgate.model.move_events import MoveEvent
from lockgate.model.move_instructions import RunStep

__all__ = ["ENV", "LAUNCHER", "FailPoint", "FailPoints", "Frozen"]

ENV: Final = "LOCKGATE_FAILPOINTS"
LAUNCHER: Final = (sys.executable, "-m", "soak.failpoints")
_LOOK_S: Final = 0.01


class FailPoint(msgspec.Struct, frozen=True):
    """Where to stand still: at the first operator of this kind that has to do with the span, or
    with the table when no span is named; or at a step of a move, named in place of the feed."""

    feed: str
    kind: str
    state: str
    when: str
    span: str = ""
    table: str = ""


class Frozen(msgspec.Struct, frozen=True):
    """A node that stands still, and whom its operator has to do with."""

    owner: str
    operator: str
    origin: str = ""
    destination: str = ""


class FailPoints:
    """The fail points of one node, from the test's side and from the node's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._armed = folder / "armed"
        self._frozen = folder / "frozen"
        self._go = folder / "go"

    # --- the test ---------------------------------------------------------------------------------

    def arm(self, point: FailPoint) -> None:
        """Stand still there, once."""
        self.clear()
        _write(self._armed, msgspec.to_builtins(point))

    def frozen(self) -> Frozen | None:
        """How the node stands still, once it does."""
        if not self._frozen.exists():
            return None
        return msgspec.convert(json.loads(self._frozen.read_bytes()), Frozen)

    def go(self) -> None:
        """Go on."""
        self._armed.unlink(missing_ok=True)
        _write(self._go, {})

    def clear(self) -> None:
        """Forget all of it. Not while the node stands still."""
        for file in (self._armed, self._frozen, self._go):
            file.unlink(missing_ok=True)

    # --- the node ---------------------------------------------------------------------------------

    def armed(self) -> FailPoint | None:
        """What the test wants."""
        try:
            return msgspec.convert(json.loads(self._armed.read_bytes()), FailPoint)
        except FileNotFoundError:
            return None

    def freeze(self, frozen: Frozen) -> None:
        """Stand still until told to go on."""
        self._armed.unlink(missing_ok=True)
        _write(self._frozen, msgspec.to_builtins(frozen))
        while not self._go.exists():
            time.sleep(_LOOK_S)


class Watch:
    """Sees which operators there are, after each event of the core."""

    def __init__(self, points: FailPoints) -> None:
        self._points = points
        self._wanted: FailPoint | None = None
        self._known: dict[str, Operator] = {}

    def look(self, core: NodeCore) -> tuple[FailPoint, Frozen] | None:
        """The fail point that is reached, and by whom."""
        wanted = self._points.armed()
        if wanted != self._wanted:
            self._wanted = wanted
            self._known.clear()
        if wanted is None:
            return None
        maintainer = core.maintainers.get(wanted.feed)
        if isinstance(maintainer, Maintainer):
            self._meet(maintainer, wanted)
        for operator in self._known.values():
            if operator.state.value == wanted.state:
                return wanted, _described(core.node, operator)
        return None

    def _meet(self, maintainer: Maintainer, wanted: FailPoint) -> None:
        """Those that end are not among the maintainer's any more: they are remembered."""
        for name, operator in maintainer.operators.items():
            if name not in self._known and operator.kind.value == wanted.kind:
                tables = {
                    span.record.span.table
                    for span in map(maintainer.spans.get, operator.spans)
                    if span is not None
                }
                if wanted.span in operator.spans if wanted.span else wanted.table in tables:
                    self._known[name] = operator


def _described(owner: str, operator: Operator) -> Frozen:
    """Origins and destinations as they were when the operator began."""
    if isinstance(operator, Add):
        return Frozen(owner, operator.id, destination=operator.placement.node.node)
    if isinstance(operator, Remove):
        return Frozen(owner, operator.id, origin=operator.removal.node.node)
    if isinstance(operator, Split):
        return Frozen(owner, operator.id, origin=operator.origin.node)
    assert isinstance(operator, Move | Merge)
    assert operator.record.destination is not None
    destination = operator.record.destination.node
    if isinstance(operator, Move):
        return Frozen(owner, operator.id, operator.removal.node.node, destination)
    others = {source.node.node for source in operator.sources.values()} - {destination}
    return Frozen(owner, operator.id, min(others, default=destination), destination)


def _write(file: Path, content: dict[str, Any]) -> None:
    half = file.with_suffix(".half")
    half.write_text(json.dumps(content), "utf-8")
    half.replace(file)


def install(folder: Path) -> None:
    """From now on, nodes of this process stand still where the folder says."""
    from lockgate.node.process import NodeProcess

    points = FailPoints(folder)
    watch = Watch(points)
    carry_out = NodeProcess._carry_out

    def watched(process: NodeProcess, instructions: list[Instruction]) -> None:
        reached = watch.look(process._core)
        if reached is not None and reached[0].when == "before":
            points.freeze(reached[1])
        carry_out(process, instructions)
        if reached is not None and reached[0].when == "after":
            points.freeze(reached[1])

    setattr(NodeProcess, "_carry_out", watched)  # noqa: B010  (not a method that is known here)
    _watch_steps(points)
    _watch_diffs(points)
    _watch_rewrites(points)


def _watch_steps(points: FailPoints) -> None:
    # By way of the service, as a node comes to it: the two know of each other.
    from lockgate.node.service import NodeService  # noqa: F401, I001
    from lockgate.node.move.executing import MoveExecutor

    run = MoveExecutor._run

    def watched(executor: MoveExecutor, asked: RunStep) -> MoveEvent:
        wanted = None if asked.dry else points.armed()
        name = (executor.move, "undo" if asked.undo else "step", asked.step.value)
        if wanted is None or (wanted.feed, wanted.kind, wanted.state) != name:
            return run(executor, asked)
        if wanted.when == "before":
            points.freeze(Frozen("", asked.step.value))
        ended = run(executor, asked)
        if wanted.when == "after":
            points.freeze(Frozen("", asked.step.value))
        return ended

    setattr(MoveExecutor, "_run", watched)  # noqa: B010  (not a method that is known here)


def _watch_diffs(points: FailPoints) -> None:
    from lockgate.store.diffs import DiffBook

    done = DiffBook.done

    def watched(book: DiffBook, record: DiffRecord, outcomes: Sequence[RangeOutcome]) -> bool:
        wanted = points.armed()
        name = (record.id, "diff", "range")
        if wanted is None or not outcomes or (wanted.feed, wanted.kind, wanted.state) != name:
            return done(book, record, outcomes)
        if wanted.when == "before":
            points.freeze(Frozen("", record.id))
        kept = done(book, record, outcomes)
        if wanted.when == "after":
            points.freeze(Frozen("", record.id))
        return kept

    setattr(DiffBook, "done", watched)  # noqa: B010  (not a method that is known here)


def _watch_rewrites(points: FailPoints) -> None:
    from lockgate.pipeline import drain

    rewritten = drain._rewritten

    def watched(*given: Any) -> list[DataFile]:
        wanted = points.armed()
        tag = given[-1]
        name = f"lake-{wanted.kind}-{wanted.feed}" if wanted and wanted.state == "rewrite" else ""
        if wanted is None or tag != name:
            return rewritten(*given)
        if wanted.when == "before":
            points.freeze(Frozen("", tag))
        new = rewritten(*given)
        if wanted.when == "after":
            points.freeze(Frozen("", tag))
        return new

    setattr(drain, "_rewritten", watched)  # noqa: B010  (not a name that is known here)


if __name__ == "__main__":
    from lockgate.cli.main import main

    install(Path(os.environ[ENV]))
    sys.exit(main())
