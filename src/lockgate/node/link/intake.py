"""The receiving end of the link, behind whatever speaks HTTP and has checked the key.

What is meant for another node is not news: the address was another's before, or will be. Messages
are ignored then, and counted; a verb is refused as if nobody had been there.
"""

from collections.abc import Callable

from lockgate.model.errors import Transient
from lockgate.model.ids import NodeId
from lockgate.model.instructions import Answer
from lockgate.model.messages import Message
from lockgate.node.link.counters import Counters
from lockgate.node.link.wire import Verb, decode_asked, decode_told, encode_answer

__all__ = ["Intake"]


class Intake:
    """What other nodes send to this one; from any thread."""

    def __init__(
        self, node: NodeId, post: Callable[[Message], None], counters: Counters | None = None
    ) -> None:
        """`counters`: those of the transport, so that both directions are found in one place."""
        self._node = node
        self._post = post
        self.counters = counters if counters is not None else Counters()

    def receive(self, body: bytes) -> None:
        """Hand messages to the core, in their order. UsageError when they cannot be read."""
        told = decode_told(body)
        count = len(told.messages)
        if told.to != self._node:
            self.counters.add(told.sender, strayed=count)
            return
        for message in told.messages:
            self._post(message)
        self.counters.add(told.sender, received=count)

    def carry_out(self, body: bytes, ask_here: Callable[[Verb], Answer]) -> bytes:
        """The answer to a verb. UsageError when it cannot be read, Transient when it is not for
        this node, and whatever `ask_here` raises."""
        asked = decode_asked(body)
        if asked.to != self._node:
            raise Transient(
                "another node is at this address now",
                object_=f"node {self._node}",
                hint="ask again: the address is looked up anew",
            )
        return encode_answer(ask_here(asked.verb))
