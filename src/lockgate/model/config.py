"""Times and limits that the core keeps to. Units stand last in the names."""

from lockgate.model.value import Value


class Timing(Value, frozen=True):
    """How long things may take. All of it is about liveness: no safety rests on a time."""

    lease_ms: int = 10_000
    renew_ms: int = 2_000
    tick_ms: int = 500
    resend_ms: int = 1_000
    """A request without a visible effect is repeated after this."""
    bootstrap_wait_ms: int = 5_000
    """A node that does not answer a bootstrap for this long is fenced and left behind."""
    silence_ms: int = 15_000
    """A node whose lease runs but that was not heard of for this long is treated as lost."""
    merge_wait_ms: int = 20_000
    """A merge whose sources are not all held by then is given up."""
    wish_wait_ms: int = 60_000
    """An operator that could not begin for this long is not wished for any more."""
    request_wait_ms: int = 5_000
    """The same for one that a person asked for, who is told so: less than anybody listens for the
    answer (`node.service.cluster.HERE_S`), because a wish is recorded nowhere before it begins."""
    balance_ms: int = 5_000
    backoff_ms_min: int = 1_000
    backoff_ms_max: int = 60_000


class Policy(Value, frozen=True):
    """A limit on everything."""

    operators_max: int = 2_000
    """Operators of one maintainer in flight at once; the rest wait their turn."""
    batch_records_max: int = 5_000
    requests_max: int = 5_000
    """Requests in one message."""
    balance_slack: int = 2
    """Spans (or feeds) a node may have above the least loaded one before balance moves some."""
    balance_moves_max: int = 4
    merge_sources_max: int = 4
    refusals_max: int = 6
    """Times in a row that the sink may refuse a span before the feed is in trouble."""
    attempts_max: int = 8
    """Tries in a row before a feed that cannot go on is failed."""


class CoreConfig(Value, frozen=True):
    """Everything the core can be told about how to behave."""

    timing: Timing = Timing()
    policy: Policy = Policy()
