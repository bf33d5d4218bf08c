"""The verbs of a cutover at a PostgreSQL database: what a move does at its two sides.

    row.py         the move's row at a side: the fence of every verb, and what is to be remembered
    guards.py      seal, unblock; guard, open  blocking.py   block
    triggers.py    the guards themselves       standing.py   whose they are, taking them down
    relations.py   tables and partitions       picture.py    are they what they were
    locks.py       tables in use, politely     visit.py      a verb's connection and patience
    sequences.py   carry
    dispose.py     rename, drop                clean.py      clean
    checks.py      what is in the way, before anything is done

A flip, seen from the two servers:

    giving side                                taking side
    ───────────                                ───────────
    open to everybody                          guarded: Lockgate alone writes
      │ block: guards with a deadline            │
      ▼                                          │
    blocked ─── position P: everything ───────►  applied up to P, feed frozen
      │         that was ever written            │ carry: sequences
      │                                          │ the way back begins where it stands
      │ seal: guards without a deadline          │
      ▼ ════ point of no return ════             ▼
    sealed: Lockgate alone writes              open_tables: open to everybody

    blocked ── deadline ──► open again, by the server's own clock, whoever is alive

Between block and seal nobody can write at either side, so P and the position from which the way
back reads are exact; and whatever dies there, the giving side is open when its deadline is over.
The seal and the deadline cannot both win (`guards.py` says why), so there are never two open sides:
the taking side is opened only once the seal is known to have landed, and a side that was sealed is
never opened but by a flip back.

Every verb is one transaction under the move's row (those that take long have several, each of which
is), may be repeated, and is refused by StaleOwner once a later keeper was at this side.
"""

from lockgate.endpoints.postgres.cutover.checks import (
    complete_findings,
    create_findings,
    flip_findings,
    followed_findings,
)
from lockgate.endpoints.postgres.cutover.clean import clean
from lockgate.endpoints.postgres.cutover.dispose import drop, rename
from lockgate.endpoints.postgres.cutover.guards import (
    block,
    guard,
    is_sealed,
    open_tables,
    seal,
    unblock,
)
from lockgate.endpoints.postgres.cutover.row import MoveMark, MoveRow, SideState, look, prepare
from lockgate.endpoints.postgres.cutover.sequences import carry

__all__ = [
    "MoveMark",
    "MoveRow",
    "SideState",
    "block",
    "carry",
    "clean",
    "complete_findings",
    "create_findings",
    "drop",
    "flip_findings",
    "followed_findings",
    "guard",
    "is_sealed",
    "look",
    "open_tables",
    "prepare",
    "rename",
    "seal",
    "unblock",
]
