"""Probes: the rare paths, by name. A long run that never came by one of them tested too little.

A probe is hit from outside the core: by what is sent, written, answered or refused.
"""

from enum import Enum

from lockgate.sim.hits import Hits


class Probe(Enum):
    """Each is a path, and what it looks like when it is taken."""

    # The network.
    MESSAGE_MUCH_LATER = "a message came again long after it was sent"
    MESSAGE_TO_FORMER_LIFE = "a request arrived at a later life of its addressee"
    REPLY_OF_FORMER_LIFE = "a bootstrap reply came from a life of a node that is over"
    BOOTSTRAP_ANSWERED_LATE = "a node answered a bootstrap when its maintainer had gone on"
    BOOTSTRAP_ANSWERED_TWICE = "a node answered one bootstrap again"
    STALE_TOLD = "a node told a maintainer that it is stale"
    TOMBSTONE_STOPPED_BOOTSTRAP = "a bootstrap met a tombstone and created nothing"
    TOMBSTONE_OF_FORMER_LIFE = "a tombstone held although its node had started anew"
    UNFENCED_ADMITTED = "an owner of epoch 0 was admitted where nothing else was seen"
    UNFENCED_REFUSED = "an owner of epoch 0 was refused after a fenced one"
    # The metastore.
    BATCH_NOT_LANDED = "a batch certainly did not land"
    BATCH_UNKNOWN_LOST = "a batch of unknown outcome did not land"
    BATCH_UNKNOWN_LANDED = "a batch of unknown outcome had landed"
    BATCH_LANDED_LATE = "a batch landed after it was answered as unknown"
    BATCH_LATE_REFUSED = "a batch of unknown outcome arrived after its scope had a new owner"
    BATCH_REPEATED = "a batch that had landed was sent again"
    BATCH_REFUSED = "a batch of a stale owner was refused"
    COORDINATOR_REFUSED = "a deposed coordinator's batch was refused"
    EPOCH_RACE_LOST = "an epoch was not raised because a newer coordinator was there"
    METASTORE_CUT_OFF = "a node that others could reach could not reach the metastore"
    JOIN_ANSWER_LOST = "a node got a life and did not hear of it"
    LEASE_LOST_TOLD = "the metastore told a node that its lease had ended"
    LOAD_FAILED = "a scope could not be read"
    LOADED_MOVE = "a successor found a move under way"
    LOADED_SPLIT = "a successor found a split under way"
    LOADED_MERGE = "a successor found a merge under way"
    LOADED_BARRIER = "a successor found a barrier under way"
    LOADED_JOURNAL = "a node found what its former life had noted"
    # The sink.
    ZOMBIE_FENCED = "a task that outlived its driver was refused by the sink"
    ZOMBIE_COMMITTED = "a task that outlived its driver committed before anybody took over"
    SINK_OUTCOME_UNKNOWN = "a dispatcher claimed again to learn where it stands"
    SINK_ROW_MOVED = "a transaction met a row that its own predecessor had moved late"
    SPLIT_AT_SINK = "a span's row became its children's"
    MERGE_AT_SINK = "rows became one"
    MERGE_UNEVEN = "rows at different positions became one"
    CLAIM_GONE = "a claim found no row"
    CLAIM_NEWER = "a claim met a newer token"
    DDL_WRITTEN_AGAIN = "a DDL that was written was asked for again"
    TABLE_RECREATED = "a table of a dropped one's name was created"
    DDL_MANY_TABLES = "a DDL of several tables was written"
    DDL_EVERY_TABLE = "a DDL of every table was written"
    FEED_REBORN = "a feed was created again over its tombstone"
    CLOSE_TOO_LATE = "the sink refused to close for an old owner"
    CLOSE_UNBORN = "a feed was closed that had nothing at the sink"
    SINK_DOWN = "a transaction met a sink that could not be reached"
    CLOSE_DOWN = "a feed was to be closed at a sink that could not be reached"
    CLOSE_FAILED = "it was not known whether the sink closed"
    # Nodes.
    CRASH_BETWEEN = "a node died between two instructions of one event"
    TWO_PROCESSES = "a node was started anew while its old process still lived"
    CLOCK_PUT_BACK = "a node's clock was put back by an hour while it ran"
    PAUSED_BETWEEN = "a node was paused between two instructions of one event"
    SELF_FENCED = "a node stopped everything because its lease was over"
    PAUSED_PAST_LEASE = "a paused node woke up after its lease, with dispatchers"
    HUNG_PAST_BOOTSTRAP = "a maintainer ran on although a hung node did not answer"
    SUCCESSOR_ON_SAME_NODE = "a node got the next epoch of a feed it already maintained"
    CRASH_ORIGIN_OF_MOVE = "the origin of a move died"
    CRASH_DESTINATION_OF_MOVE = "the destination of a move died"
    CRASH_OWNER_IN_MOVE = "the maintainer died during a move"
    CRASH_ORIGIN_OF_SPLIT = "the node of a split's parent died"
    CRASH_OWNER_IN_SPLIT = "the maintainer died during a split"
    CRASH_SOURCE_OF_MERGE = "the node of a merge's source died"
    CRASH_OWNER_IN_MERGE = "the maintainer died during a merge"
    CRASH_OWNER_IN_BARRIER = "the maintainer died during a barrier"
    CRASH_TRIGGER_IN_BARRIER = "the trigger's node died during a barrier"
    CRASH_DDL_UNREPORTED = "the trigger's node died after a DDL was written, before it was known"
    CRASH_OWNER_CLOSING = "the maintainer died while it closed its feed"
    CRASH_COORDINATOR = "the coordinator died"
    CRASH_COORDINATOR_IN_DRAIN = "the coordinator died during a drain"
    # Operators, by their records.
    MOVE_COMMITTED = "a move was committed"
    MOVE_GIVEN_UP = "a move was given up"
    SPLIT_COMMITTED = "a split was committed"
    SPLIT_GIVEN_UP = "a split was given up"
    MERGE_COMMITTED = "a merge was committed"
    MERGE_GIVEN_UP = "a merge was given up"
    OPERATOR_MET_DROP = "an operator's span was dropped under it"
    # People.
    DRAIN_DONE = "a drained node was empty"
    DRAIN_ENDED_BY_RESTART = "a drain ended because its node started anew"
    FEED_STOPPED = "a feed was paused and stood still"
    FEED_RESUMED = "a stopped feed ran again"
    FEED_REMOVED = "a feed was removed"
    FEED_RETRIED = "a feed in trouble was tried again"
    FEED_FAILED = "a feed was in trouble that no further try would cure"
    FEED_FINISHED = "a feed reached its end"


class Probes(Hits[Probe]):
    """How often each was hit."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(Probe)
