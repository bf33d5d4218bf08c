"""The rare paths of a move's world, by name. A long run that misses one tested too little."""

from enum import Enum

from lockgate.sim.hits import Hits

__all__ = ["MoveProbe", "MoveProbes"]


class MoveProbe(Enum):
    """Each is a path, and what it looks like when it is taken."""

    MOVE_SWITCHED = "traffic went to the target"
    MOVE_REVERSED = "traffic came back to the source"
    MOVE_FLIPPED_OFTEN = "traffic changed hands four times or more"
    MOVE_COMPLETED = "a move was completed"
    MOVE_CANCELLED = "a move was cancelled"
    MOVE_CREATE_CANCELLED = "a move was cancelled before it was created"
    MOVE_ROLLED_BACK = "a flip was put back"
    MOVE_CHECK_REFUSED = "a command was refused by its check"
    MOVE_LATE_RUNNING = "a step was stopped because it took too long"
    MOVE_LATE_NOTING = "a flip was given up because a record did not land in time"
    MOVE_LATE_WAITING = "a flip was given up because a step failed until it was too late"
    MOVE_SEAL_REFUSED = "a seal came too late"
    MOVE_SEAL_UNKNOWN = "a seal was on and nobody was told"
    MOVE_BLOCK_RAN_OUT = "writers were let through because a block ran out"
    MOVE_LOST_BEFORE_SEAL = "a successor found a flip before its seal"
    MOVE_LOST_IN_SEAL = "a successor found a seal that might be on"
    MOVE_LOST_SEALED = "a successor found a seal that was on"
    MOVE_LOST_BEHIND_SEAL = "a successor found a flip behind its seal"
    MOVE_LOST_UNDOING = "a successor went on undoing"
    MOVE_LOST_IN_COMPLETE = "a successor went on with a complete"
    MOVE_LOST_IN_CANCEL = "a successor went on with a cancel"
    MOVE_LOST_IN_CREATE = "a successor went on with a create"
    MOVE_UNDO_FAILED = "a step could not be undone at once"
    MOVE_STUCK = "a command waited for somebody to act"
    MOVE_STUCK_FREED = "a command that waited for somebody was done in the end"
    MOVE_DISPOSAL_CHANGED = "people wanted something else done with the tables when it was stuck"
    MOVE_JOINED = "people asked again for what was under way"
    MOVE_BUSY = "a command met another one"
    MOVE_DRY_RUN = "a dry run told all steps"
    MOVE_DRY_REFUSED = "a dry run told what would not succeed"
    MOVE_RECORD_LATE = "a record landed after it was said to be unknown"
    MOVE_RECORD_OUTDATED = "a former keeper's record was refused"
    MOVE_ROUTE_UNKNOWN = "traffic had changed hands and its keeper was not told"
    MOVE_ZOMBIE_FENCED = "a step of a former keeper was refused at a side"
    MOVE_ZOMBIE_AT_FEEDS = "a step of a former keeper was refused at the book of feeds"
    MOVE_ZOMBIE_AT_HOOK = "a former keeper was refused by the hook"
    MOVE_ZOMBIE_LANDED = "a step of a former keeper took effect before anybody else was there"
    MOVE_STRAGGLER_FENCED = "an apply that was on its way met a token that was void"
    MOVE_STRAGGLER_AFTER_RENAME = "an apply was refused when its table was renamed or dropped"
    MOVE_HELD_APPLY = "an apply was refused because it went beyond where the feed is held"
    MOVE_HOOK_HUNG = "a hook hung"
    MOVE_HOOK_FAILED = "a hook failed"
    MOVE_HELD_BY_OTHERS = "a flip met a feed that somebody held for a comparison"
    MOVE_OWNER_LOST = "a feed got another owner while writers were blocked"
    MOVE_CATCH_UP_SLOW = "a flip was given up because the feed was not level in time"
    MOVE_CANCELLED_COPYING = "a move was cancelled while its feed copied"
    MOVE_TOLD_OVER = "a keeper was told that its time is over while a step was under way"
    MOVE_ASKED_FORMER = "somebody asked a keeper that was followed by another"
    MOVE_SECOND_FLIP = "somebody asked for a flip while one was being put back"
    MOVE_TWO_KEEPERS = "a successor began while the former keeper lived"
    MOVE_ALL_DEAD = "nobody kept the move for a long time, and its block ran out"
    MOVE_WITHOUT_TARGET = "a move was cancelled without a target that was gone"
    MOVE_WITHOUT_SOURCE = "a move was completed without a source that was gone"
    MOVE_GIVEN_UP_BACK = "a side that was given up turned up again"
    MOVE_GIVING_UP_REFUSED = "a side that answers was said to be lost"
    MOVE_LOOKED_GONE = "a command that was under way went on without a side that was gone"
    MOVE_LOOKED_THERE = "a command that was under way went on with a side that was said to be lost"
    MOVE_END_REPEATED = "an end of a step came again"


class MoveProbes(Hits[MoveProbe]):
    """How often each was hit."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(MoveProbe)
