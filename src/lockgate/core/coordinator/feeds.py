"""A feed's life: every state it can be in, everything that can happen to it, what follows.

    ABSENT ──create──► NORMAL ──trouble──► WAITING ──backoff over──► RETRYING ──progress──► NORMAL
                        │  ▲                  ▲                          │
                        │  └── resume ──┐     └───────── trouble ────────┘
                        │              │
       pause ──► STOPPED ──────────────┤
       hopeless ──► FAILED ────────────┘
       all applied ──► FINISHED
       remove (from anywhere) ──► REMOVING ──confirmed──► REMOVED ──create──► NORMAL

A life is the pair of the state that people see and the goal that the maintainer is given; the
pairs are one to one, so nothing besides the record has to be kept. What a life does *not* say
is whether its goal is reached: that is the record's `owner`. As long as somebody is recorded
as owner, he, or a successor with a newer epoch, has to bring the goal about; with an owner of
None, a stopped feed is stopped and a removed one is gone.

Why a trouble stops the feed before it is tried again: what failed may sit in one dispatcher,
in the sink, or in the maintainer's own head. Closing all of it and beginning with a new epoch
is the one recovery there is, and it is exercised by every failover.

Why REMOVED is kept: the epochs of a feed are counted by its name. A new feed of that name goes
on counting, so whatever is left of the old one anywhere is older than all of the new one.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from lockgate.model.config import Timing
from lockgate.model.feeds import FeedSpec, FeedState, Goal
from lockgate.model.ids import Epoch, FeedId, Millis, NodeRef
from lockgate.model.records import FeedRecord


class Life(enum.Enum):
    """Where a feed is; see the module's diagram."""

    ABSENT = "absent"
    NORMAL = "normal"
    WAITING = "waiting"
    """In trouble: being stopped, then waiting for its next try."""
    RETRYING = "retrying"
    """Runs again after trouble, and has not got further than the trouble yet."""
    STOPPED = "stopped"
    FAILED = "failed"
    FINISHED = "finished"
    REMOVING = "removing"
    REMOVED = "removed"


class Occasion(enum.Enum):
    """What can happen to a feed: a person's verb, its maintainer's news, time."""

    CREATE = "create"
    CREATE_OTHER = "create-other"
    """As CREATE, and what is asked for is not what exists."""
    PAUSE = "pause"
    RESUME = "resume"
    REMOVE = "remove"
    TROUBLE = "trouble"
    HOPELESS = "hopeless"
    """Trouble that no further try will cure, or one try too many."""
    PROGRESS = "progress"
    ALL_APPLIED = "all-applied"
    GONE = "gone"
    """The maintainer has removed everything of the feed."""
    BACKOFF_OVER = "backoff-over"


LIVES: Mapping[Life, tuple[FeedState, Goal]] = {
    Life.NORMAL: (FeedState.NORMAL, Goal.RUN),
    Life.WAITING: (FeedState.WARNING, Goal.STOP),
    Life.RETRYING: (FeedState.WARNING, Goal.RUN),
    Life.STOPPED: (FeedState.STOPPED, Goal.STOP),
    Life.FAILED: (FeedState.FAILED, Goal.STOP),
    Life.FINISHED: (FeedState.FINISHED, Goal.STOP),
    Life.REMOVING: (FeedState.STOPPED, Goal.REMOVE),
    Life.REMOVED: (FeedState.REMOVED, Goal.REMOVE),
}
_LIFE_OF = {pair: life for life, pair in LIVES.items()}


@dataclass(frozen=True)
class Become:
    """The feed's life changes."""

    life: Life


@dataclass(frozen=True)
class Stay:
    """It is so already, or the news is late: nothing changes, and a person is told 'done'."""


@dataclass(frozen=True)
class Refuse:
    """It cannot be done, and the person is told why and what to do instead."""

    code: str
    what: str
    hint: str


Verdict = Become | Stay | Refuse

_STAY = Stay()
UNKNOWN_FEED = Refuse(
    "unknown-feed",
    "there is no feed of this name",
    "list the feeds to see their names, or create this one",
)
_EXISTS = Refuse(
    "feed-exists",
    "another feed of this name exists",
    "choose another name, or remove the existing feed first",
)
_REMOVING = Refuse(
    "feed-removing",
    "the feed is being removed",
    "wait until its state is 'removed'; a feed of the same name can be created then",
)
_FINISHED = Refuse(
    "feed-finished",
    "the feed has reached its end position",
    "remove it, or create another feed that starts where this one ended",
)

# News of a feed that is not running (any more) is late and means nothing.
_NO_NEWS: dict[Occasion, Verdict] = {
    Occasion.TROUBLE: _STAY,
    Occasion.HOPELESS: _STAY,
    Occasion.PROGRESS: _STAY,
    Occasion.ALL_APPLIED: _STAY,
    Occasion.GONE: _STAY,
    Occasion.BACKOFF_OVER: _STAY,
}
_RUNS: dict[Occasion, Verdict] = {
    Occasion.CREATE: _STAY,
    Occasion.CREATE_OTHER: _EXISTS,
    Occasion.PAUSE: Become(Life.STOPPED),
    Occasion.RESUME: _STAY,
    Occasion.REMOVE: Become(Life.REMOVING),
    Occasion.TROUBLE: Become(Life.WAITING),
    Occasion.HOPELESS: Become(Life.FAILED),
    Occasion.PROGRESS: _STAY,
    Occasion.ALL_APPLIED: Become(Life.FINISHED),
    Occasion.GONE: _STAY,
    Occasion.BACKOFF_OVER: _STAY,
}
_RESTS: dict[Occasion, Verdict] = {
    **_NO_NEWS,
    Occasion.CREATE: _STAY,
    Occasion.CREATE_OTHER: _EXISTS,
    Occasion.PAUSE: _STAY,
    Occasion.RESUME: Become(Life.NORMAL),
    Occasion.REMOVE: Become(Life.REMOVING),
}
_IS_NOT: dict[Occasion, Verdict] = {
    **_NO_NEWS,
    Occasion.CREATE: Become(Life.NORMAL),
    Occasion.CREATE_OTHER: Become(Life.NORMAL),
    Occasion.PAUSE: UNKNOWN_FEED,
    Occasion.RESUME: UNKNOWN_FEED,
    Occasion.REMOVE: UNKNOWN_FEED,
}

LIFE_CYCLE: Mapping[Life, Mapping[Occasion, Verdict]] = {
    Life.ABSENT: _IS_NOT,
    Life.NORMAL: _RUNS,
    Life.RETRYING: {**_RUNS, Occasion.PROGRESS: Become(Life.NORMAL)},
    Life.WAITING: {
        **_RESTS,
        Occasion.PAUSE: Become(Life.STOPPED),
        Occasion.HOPELESS: Become(Life.FAILED),
        Occasion.BACKOFF_OVER: Become(Life.RETRYING),
    },
    Life.STOPPED: _RESTS,
    Life.FAILED: {**_RESTS, Occasion.PAUSE: Become(Life.STOPPED)},
    Life.FINISHED: {**_RESTS, Occasion.RESUME: _FINISHED},
    Life.REMOVING: {
        **_NO_NEWS,
        Occasion.CREATE: _REMOVING,
        Occasion.CREATE_OTHER: _REMOVING,
        Occasion.PAUSE: _REMOVING,
        Occasion.RESUME: _REMOVING,
        Occasion.REMOVE: _STAY,
        Occasion.GONE: Become(Life.REMOVED),
    },
    Life.REMOVED: {**_IS_NOT, Occasion.REMOVE: _STAY},
}


def life_of(record: FeedRecord | None) -> Life:
    """Where a feed is, by its record."""
    return Life.ABSENT if record is None else _LIFE_OF[(record.state, record.goal)]


def verdict(record: FeedRecord | None, occasion: Occasion) -> Verdict:
    """What follows when `occasion` happens to the feed."""
    return LIFE_CYCLE[life_of(record)][occasion]


def newborn(feed: FeedId, spec: FeedSpec, former: FeedRecord | None) -> FeedRecord:
    """A feed that was just created; it goes on counting the epochs of a former one."""
    state, goal = LIVES[Life.NORMAL]
    epoch = 0 if former is None else former.epoch
    return FeedRecord(feed, state, goal, epoch, None, spec)


def lived_on(record: FeedRecord, occasion: Occasion, life: Life, error: str = "") -> FeedRecord:
    """The record after `occasion` made the feed's life `life`."""
    state, goal = LIVES[life]
    attempts = record.attempts
    if occasion is Occasion.TROUBLE:
        attempts += 1
    elif occasion in {Occasion.RESUME, Occasion.PROGRESS}:
        attempts = 0
    if occasion not in {Occasion.TROUBLE, Occasion.HOPELESS}:
        error = "" if life is Life.NORMAL else record.error
    return record.changed(state=state, goal=goal, error=error, attempts=attempts)


def given_to(record: FeedRecord, owner: NodeRef, epoch: Epoch) -> FeedRecord:
    """The record with another owner, under his epoch."""
    return record.changed(owner=owner, epoch=epoch)


def vacated(record: FeedRecord) -> FeedRecord:
    """The record after its owner has ended: what was to be brought about is brought about."""
    return record.changed(owner=None)


def exhausted(record: FeedRecord) -> FeedRecord:
    """The record of a feed for which there is no next epoch."""
    return record.changed(error="the feed's epochs are used up; create it under another name")


def needs_owner(record: FeedRecord) -> bool:
    """True while the feed's goal takes somebody to bring it about, or to keep it up."""
    life = life_of(record)
    if life is Life.REMOVED:
        return False
    return record.goal is not Goal.STOP or record.owner is not None


def backoff_ms(timing: Timing, attempts: int) -> Millis:
    """How long a feed rests before its next try, after this many tries in a row."""
    doublings = min(max(attempts - 1, 0), 40)
    return min(timing.backoff_ms_max, timing.backoff_ms_min << doublings)
