"""A command hook that keeps a ledger, and what ledger and flag must say of a move at rest.

    before    holds: the flag is there
    after     the traffic goes on at the taking side: its name is kept, the flag goes
    undo      the traffic goes on where it was: the flag goes

It compares no fences: what a dead node has begun is ended by Lockgate, not by the script.
"""

import json
from pathlib import Path

import msgspec

__all__ = ["HOOK", "HookLedger", "Told", "wrongly_told"]

HOOK = "ledger"
_SCRIPT = """#!/bin/sh
cd "$1" || exit 1
echo "$LOCKGATE_PHASE $LOCKGATE_MOVE $LOCKGATE_SIDE $LOCKGATE_FENCE" >> told
case $LOCKGATE_PHASE in
    before) touch "held-$LOCKGATE_MOVE" ;;
    after | undo) rm -f "held-$LOCKGATE_MOVE" ;;
esac
"""


class Told(msgspec.Struct, frozen=True):
    """One run of the hook."""

    phase: str
    move: str
    side: str
    """The one that takes the traffic."""
    fence: str


class HookLedger:
    """The hook of all nodes of a world."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        script = folder / "hook"
        script.write_text(_SCRIPT)
        script.chmod(0o755)
        self.config = folder / "nodes.toml"
        """What every node has in its configuration."""
        self.config.write_text(
            f"[hooks.{HOOK}]\ncommand = {json.dumps([str(script), str(folder)])}\n"
        )

    def told(self, move: str) -> list[Told]:
        """All its runs for this move, the first one first."""
        file = self._folder / "told"
        lines = file.read_text().splitlines() if file.exists() else []
        return [one for one in (Told(*line.split()) for line in lines) if one.move == move]

    def holds(self, move: str) -> bool:
        return (self._folder / f"held-{move}").exists()


def wrongly_told(told: list[Told], *, holds: bool, traffic: str) -> list[str]:
    """What is wrong when the move is at rest, with its traffic at this side."""
    wrong = ["the hook holds the traffic of a move at rest"] if holds else []
    sent = [one.side for one in told if one.phase == "after"]
    if (sent[-1] if sent else "source") != traffic:
        wrong.append(f"the hook sent the traffic to {sent[-1:]}, and it is at the {traffic}")
    fences = [one.fence for one in told]
    if fences != sorted(fences):
        wrong.append(f"the hook was run for a former keeper: {fences}")
    return wrong
