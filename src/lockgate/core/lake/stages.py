"""The keeper's table: what each stage does with each event.

                       StepUp                                         the record of a home that led
    FOLLOWER ─────────► ASKING ──► WISHING ──► TAKING ◄─────────────── when its keeper died
       ▲                who leads?   wish         │
       │                             durable      │ the lake's epoch is raised
       │                                          ▼
       │                                      GATHERING   every live table is claimed
       │                                          ▼
       │                                      DRAINING    every table is drained, once
       │                                          ▼
       │                     ┌────────────────► LEADER ◄──────────────────────┐
       │                     │                    │ StepDown                  │
       │                     │                    ▼                           │ a table could not
       │                     │                 LEAVING ──► FLUSHING ──► RETURNING   be flushed
       │                     │                 wish         active work ends, │
       │                     │                 durable      queued is flushed │
       │                     │                                  ▼
       └── wish durable ── FORGETTING ◄──────────────────── RELEASING   nobody leads the lake
                             ▲
                             └── refused or stale: another home leads. From every stage, at once

Everything that decides which method of the keeper runs lives here.
"""

import enum
from typing import Final

from lockgate.core.machine import Table, do, ignore, table
from lockgate.model.lake import LakeRole
from lockgate.model.lake_events import (
    LAKE_ANSWERS,
    LAKE_VERBS,
    DrainTable,
    DropTable,
    KeeperOver,
    LakeRefused,
    LakeReleased,
    LakeSurveyed,
    LakeTakeFailed,
    LakeTaken,
    ReleaseFailed,
    StepDown,
    StepUp,
    SurveyFailed,
    Tick,
    WishNotRecorded,
    WishOutdated,
    WishRecorded,
    WorkEnded,
)

__all__ = ["BEGINS_WORK", "EVENTS", "ROLE_OF", "TABLE", "TAKES_WORK", "Stage"]


class Stage(enum.Enum):
    """See the module's diagram."""

    FOLLOWER = "follower"
    ASKING = "asking"
    WISHING = "wishing"
    TAKING = "taking"
    GATHERING = "gathering"
    DRAINING = "draining"
    LEADER = "leader"
    LEAVING = "leaving"
    FLUSHING = "flushing"
    RETURNING = "returning"
    RELEASING = "releasing"
    FORGETTING = "forgetting"
    ENDED = "ended"


_UP: Final = (Stage.ASKING, Stage.WISHING, Stage.TAKING, Stage.GATHERING, Stage.DRAINING)
_DOWN: Final = (Stage.LEAVING, Stage.FLUSHING, Stage.RETURNING, Stage.RELEASING)

ROLE_OF: Final[dict[Stage, LakeRole]] = {
    **dict.fromkeys(Stage, LakeRole.FOLLOWER),
    **dict.fromkeys(_UP, LakeRole.STEPPING_UP),
    **dict.fromkeys(_DOWN, LakeRole.STEPPING_DOWN),
    Stage.LEADER: LakeRole.LEADER,
}

TAKES_WORK: Final = frozenset({Stage.GATHERING, Stage.DRAINING, Stage.LEADER})
"""Stages in which people may ask for drains and drops."""

BEGINS_WORK: Final = TAKES_WORK | {Stage.LEAVING, Stage.FLUSHING, Stage.RETURNING}
"""Stages in which work that is queued is begun."""

EVENTS: Final = (Tick, *LAKE_VERBS, KeeperOver, *LAKE_ANSWERS)

_REPEATED: Final = "the answer to a question that was answered, or is of no interest any more"

TABLE: Table = table(
    Stage,
    EVENTS,
    {
        Stage.FOLLOWER: {
            StepUp: do("_begin_step_up"),
            StepDown: do("_is_so_already"),
        },
        Stage.ASKING: {
            LakeSurveyed: do("_surveyed_asking"),
            SurveyFailed: do("_survey_failed_asking"),
        },
        Stage.WISHING: {
            Tick: do("_tick_recording"),
            WishRecorded: do("_wished"),
            WishNotRecorded: do("_record_later"),
        },
        Stage.TAKING: {
            Tick: do("_tick_asking_lake"),
            LakeTaken: do("_taken"),
            LakeRefused: do("_refused"),
            LakeTakeFailed: do("_ask_lake_later"),
        },
        Stage.GATHERING: {
            LakeSurveyed: do("_surveyed_gathering"),
        },
        Stage.LEADER: {
            Tick: do("_tick_leading"),
            LakeSurveyed: do("_surveyed_leading"),
            SurveyFailed: do("_survey_failed_leading"),
            StepUp: do("_ask_whether_so"),
            StepDown: do("_begin_step_down"),
        },
        Stage.LEAVING: {
            Tick: do("_tick_recording"),
            WishRecorded: do("_leaves"),
            WishNotRecorded: do("_record_later"),
        },
        Stage.RETURNING: {
            Tick: do("_tick_recording"),
            WishRecorded: do("_returned"),
            WishNotRecorded: do("_record_later"),
        },
        Stage.RELEASING: {
            Tick: do("_tick_asking_lake"),
            LakeReleased: do("_released"),
            ReleaseFailed: do("_ask_lake_later"),
        },
        Stage.FORGETTING: {
            Tick: do("_tick_recording"),
            WishRecorded: do("_follows"),
            WishNotRecorded: do("_record_later"),
            StepDown: do("_join_step_down"),
        },
        Stage.ENDED: {
            **dict.fromkeys(EVENTS, ignore("another keeper sees to the lake")),
            **dict.fromkeys(LAKE_VERBS, do("_answer_ended")),
        },
    },
    everywhere={
        Tick: do("_tick"),
        StepUp: do("_join_step_up"),
        StepDown: do("_join_step_down"),
        DrainTable: do("_ask_for_work"),
        DropTable: do("_ask_for_work"),
        KeeperOver: do("_end"),
        WishOutdated: do("_outdated"),
        LakeSurveyed: do("_surveyed"),
        SurveyFailed: do("_survey_failed"),
        WorkEnded: do("_work_ended"),
        **dict.fromkeys(
            (
                *(WishRecorded, WishNotRecorded, LakeTaken, LakeRefused, LakeTakeFailed),
                *(LakeReleased, ReleaseFailed),
            ),
            ignore(_REPEATED),
        ),
    },
)
