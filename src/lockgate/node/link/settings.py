"""The limits of the link: on what waits for a peer, and on how long anybody waits."""

from lockgate.model.value import Value
from lockgate.node.link.wire import BODY_BYTES_MAX, ENVELOPE_BYTES_MAX

__all__ = ["LinkSettings"]


class LinkSettings(Value, frozen=True):
    """Good for nodes that are milliseconds apart; tests are less patient."""

    waiting_max: int = 10_000
    """Messages that wait for one peer."""
    waiting_bytes_max: int = BODY_BYTES_MAX
    """And how many bytes they are. One message always fits."""
    message_bytes_max: int = BODY_BYTES_MAX - ENVELOPE_BYTES_MAX
    """Beyond it the peer would refuse the body, every time."""
    batch_bytes_max: int = 8 * 1024 * 1024
    """Messages that travel together, unless one alone is larger: what is in the air when a
    connection breaks is lost."""
    connect_s: float = 2.0
    answer_s: float = 5.0
    """How long a peer may take to say that it has the messages."""
    backoff_s: float = 0.05
    """Pause after a failure; twice as long after each further one, up to the next."""
    backoff_max_s: float = 2.0
    """Bounds what a dead peer costs, and how late a live one is noticed."""
    idle_s: float = 60.0
    """A peer that nobody has anything for has no thread, and no messages, after this."""
