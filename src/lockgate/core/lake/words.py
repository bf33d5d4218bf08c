"""What people are told by the keeper of a lake, and what they can do next."""

from lockgate.model.lake import LakeRole, LakeTrouble

__all__ = [
    "BUSY_HINT",
    "ENDED",
    "FLUSH_HINT",
    "LEAVES",
    "NOT_LEADER",
    "NO_TABLE",
    "OUTDATED",
    "UNFLUSHED",
]

OUTDATED = LakeTrouble(
    "another home leads the lake now", "ask there, or `lockgate lake step-up` here"
)
ENDED = LakeTrouble("another node keeps this lake now", "ask again")
LEAVES = LakeTrouble("this home is stepping down", "ask the home that leads next")
NO_TABLE = LakeTrouble("no such table", "`lockgate lake list` shows the tables that there are")
BUSY_HINT = "ask again when it is over, or give it time with `--wait`"
UNFLUSHED = "tables have changes that are not drained, or may have some"
FLUSH_HINT = "drain them first, or step down with a flush; `lockgate lake list` shows them"
NOT_LEADER: dict[LakeRole, LakeTrouble] = {
    LakeRole.FOLLOWER: LakeTrouble(
        "this home does not lead the lake",
        "ask the home that leads, or `lockgate lake step-up` here",
    ),
    LakeRole.STEPPING_UP: LakeTrouble(
        "this home does not lead the lake yet", "ask again in a moment"
    ),
    LakeRole.STEPPING_DOWN: LEAVES,
}
