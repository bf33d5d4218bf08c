"""How the cores of one world are configured: by chance, because no safety may rest on a time.

All of it is short, so that a lot happens in a minute of simulated time, and small, so that
every limit is met.
"""

from random import Random

from lockgate.model.config import CoreConfig, Policy, Timing


def draw(rng: Random) -> CoreConfig:
    """The settings of one world."""
    lease = rng.choice((2_400, 3_000, 3_000, 4_000))
    timing = Timing(
        lease_ms=lease,
        renew_ms=lease // 4,
        tick_ms=rng.choice((350, 400, 400, 500)),
        resend_ms=rng.choice((500, 700, 1_200)),
        bootstrap_wait_ms=rng.choice((500, 1_500, 1_500, 3_000)),
        silence_ms=rng.choice((2_500, 3_600, 5_000)),
        merge_wait_ms=rng.choice((1_500, 4_000, 8_000)),
        wish_wait_ms=(wish_wait := rng.choice((2_000, 8_000, 30_000))),
        request_wait_ms=wish_wait // 2,
        balance_ms=rng.choice((1_500, 3_000)),
        backoff_ms_min=500,
        backoff_ms_max=2_000,
    )
    policy = Policy(
        operators_max=rng.choice((3, 8, 100)),
        batch_records_max=rng.choice((3, 12, 100)),
        requests_max=rng.choice((2, 8, 100)),
        balance_slack=rng.choice((1, 2, 3)),
        balance_moves_max=rng.choice((1, 4)),
        merge_sources_max=rng.choice((2, 4)),
        attempts_max=rng.choice((2, 5)),
    )
    return CoreConfig(timing, policy)
