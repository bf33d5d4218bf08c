"""The keeper's table: what each stage does with each event.

      a record whose command                          MoveCommand
      is not over                        RESTING ───────────────────────────┐
          │                                 ▲ ▲                             │ dry: DRYING, and back
          ▼             recorded:           │ │ recorded: all undone        ▼
      RESUMING          all done            │ └──────────────────────┐      │
          │   ┌─────────────────────────────┘                        │      │
          │   │                                                      │      │
          ├──►NOTING ◄───────────────────────────────────────────────┼──────┘
          │   │  ▲   the record that says what is next is on its way │
          │   │  │                                                   │
          │   ▼  │ done                  too late, refused,          │
          └──►RUNNING ─────────────────┐ or the keeper was lost      │
              │  ▲  │                  │ before the seal             │
              │  │  └─► STOPPING ──────┤                             │
       failed │  │      nobody wants   ▼                             │
              ▼  │      it any more   NOTING ──► UNDOING ──► NOTING ─┘
            WAITING                              │    ▲
            STUCK   until somebody asks again    ▼    │
                                             UNDO_WAITING

    LOOKING   somebody wants a complete or a cancel to go on without a side: is that gone? From
              where the next attempt would be RUNNING, and back there

    ENDED   a later keeper was there, at the metastore or at a side. From every stage, at once

Everything that decides which method of the keeper runs lives here.
"""

import enum
from typing import Final

from lockgate.core.machine import Table, do, ignore, table
from lockgate.model.move_events import (
    MOVE_EVENTS,
    MoveCommand,
    MoveKeeperOver,
    MoveNotRecorded,
    MoveOutdated,
    MoveRecorded,
    StepEnded,
    Tick,
)

__all__ = ["TABLE", "Stage"]


class Stage(enum.Enum):
    """See the module's diagram."""

    RESTING = "resting"
    RESUMING = "resuming"
    NOTING = "noting"
    RUNNING = "running"
    STOPPING = "stopping"
    WAITING = "waiting"
    STUCK = "stuck"
    UNDOING = "undoing"
    UNDO_WAITING = "undo-waiting"
    DRYING = "drying"
    LOOKING = "looking"
    ENDED = "ended"


_REPEATED: Final = "the end of an attempt that has ended before"
_NOTHING: Final = "no command is under way"

TABLE: Table = table(
    Stage,
    MOVE_EVENTS,
    {
        Stage.RESTING: {
            Tick: ignore(_NOTHING),
            MoveCommand: do("_command"),
        },
        Stage.RESUMING: {
            Tick: do("_resume"),
        },
        Stage.NOTING: {
            Tick: do("_tick_noting"),
            MoveRecorded: do("_recorded"),
        },
        Stage.RUNNING: {
            Tick: do("_tick_running"),
            StepEnded: do("_step_ended"),
        },
        Stage.STOPPING: {
            StepEnded: do("_stopped"),
        },
        Stage.WAITING: {
            Tick: do("_tick_waiting"),
        },
        Stage.UNDOING: {
            StepEnded: do("_undo_ended"),
        },
        Stage.UNDO_WAITING: {
            Tick: do("_tick_undo_waiting"),
        },
        Stage.DRYING: {
            Tick: do("_tick_drying"),
            MoveCommand: do("_busy_drying"),
            StepEnded: do("_dry_ended"),
        },
        Stage.LOOKING: {
            StepEnded: do("_look_ended"),
        },
        Stage.ENDED: {
            **dict.fromkeys(MOVE_EVENTS, ignore("another keeper sees to the move")),
            MoveCommand: do("_answer_ended"),
        },
    },
    everywhere={
        Tick: do("_tick"),
        MoveCommand: do("_command_meanwhile"),
        MoveRecorded: do("_told_recorded"),
        MoveNotRecorded: do("_record_later"),
        MoveOutdated: do("_end"),
        MoveKeeperOver: do("_end"),
        StepEnded: ignore(_REPEATED),
    },
)
