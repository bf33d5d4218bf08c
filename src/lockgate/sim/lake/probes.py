"""The rare paths of the lake's world, by name. A long run that misses one tested too little."""

from enum import Enum

from lockgate.sim.hits import Hits

__all__ = ["LakeProbe", "LakeProbes"]


class LakeProbe(Enum):
    """Each is a path, and what it looks like when it is taken."""

    LAKE_TAKEN = "a home stepped up"
    LAKE_RETAKEN = "a successor of a keeper that led went on leading"
    LAKE_TAKEN_OVER = "a home took the lake from another one that led"
    LAKE_TAKE_REFUSED = "a home was too late to lead"
    LAKE_TAKE_UNKNOWN = "it was not known whether the lake was taken, and it was"
    LAKE_TAKE_LATE = "a lake was taken after it was said to be unknown"
    LAKE_RELEASED = "a leader gave the lake up"
    LAKE_LEAVING_RESUMED = "a successor went on with a step-down"
    LAKE_WISH_LATE = "a wish landed after it was said to be unknown"
    LAKE_WISH_OUTDATED = "a former keeper's wish was refused"
    LAKE_STEP_DOWN_REFUSED = "a step-down was refused because changes were not drained"
    LAKE_FLUSH_FAILED = "a leader stayed because a table could not be flushed"
    LAKE_STALE_TOLD = "a leader learned from a fence that it is stale"
    LAKE_STALE_SEEN = "a leader learned from a survey that another home leads"
    LAKE_STALE_WITH_WORK = "a leader became a follower with work under way"
    LAKE_STEP_UP_WITH_OLD_WORK = "a home led again while work of its former epoch was under way"
    LAKE_ZOMBIE_FENCED = "work that outlived its keeper was refused by the fence"
    LAKE_ZOMBIE_COMMITTED = "work that outlived its keeper committed before anybody took over"
    LAKE_ZOMBIE_MET_DEATH = "work that outlived its keeper found its table dead"
    LAKE_FILES_GONE = "work of another keeper met missing files and let go"
    LAKE_DROP_DONE = "a table was dropped"
    LAKE_DROP_SUPERSEDES = "a drop came before a drain that waited"
    LAKE_DROP_BUSY = "a drop met a drain and was told busy"
    LAKE_DROP_WAITED = "a drop waited for work to end and was done"
    LAKE_DROP_WAITED_BUSY = "a drop waited until its deadline and was told busy"
    LAKE_DROP_DEAD = "a drop found the table dead already"
    LAKE_DROP_OF_COPYING = "a table was dropped while its next incarnation was being copied"
    LAKE_DROP_IN_STEP_UP = "a table was dropped while a home stepped up"
    LAKE_DROP_REFUSED = "a drop was asked of a home that does not lead"
    LAKE_KILL_UNKNOWN = "a kill landed and nobody knew"
    LAKE_KILL_LATE = "a kill landed after it was said to be unknown"
    LAKE_KILL_LATE_FENCED = "a kill of unknown outcome arrived when a newer leader had the table"
    LAKE_KILL_REPEATED = "a kill was repeated because its outcome was unknown"
    LAKE_DRAIN_OF_DEAD = "a drain was asked for a table that was dead"
    LAKE_DRAIN_WITHOUT_STABLE = "a table was claimed that existed only in ingest"
    LAKE_TABLE_UNSEEN = "a survey could not look at a table"
    LAKE_RECREATED = "a table of a dropped one's name was made"
    LAKE_REPLACED = "a table was replaced by a newer incarnation while it lived"
    LAKE_END_OF_FORMER = "work for a former incarnation ended when a newer one was there"
    LAKE_OLD_SURVEY = "a survey that was begun before a death told of a table as live"
    LAKE_DELETE_RESUMED = "a deletion went on where another had stopped"
    LAKE_DELETE_HELD = "a deletion waited for readers"
    LAKE_TABLE_FAILED = "a step-up was done although a table failed"
    LAKE_TABLE_RECOVERED = "a table that failed was drained later"
    LAKE_TWO_KEEPERS = "a successor began while the former keeper lived"
    LAKE_END_REPEATED = "an end of work came again"


class LakeProbes(Hits[LakeProbe]):
    """How often each was hit."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(LakeProbe)
