"""The transport between the nodes of a cluster (`core.ports.Transport`), over HTTP.

A message to oneself does not leave the process. Every other peer has a queue and a thread of its
own, so that one that is silent, slow or gone holds up neither the core nor the other peers.

    process = NodeProcess(…, transport=lambda process: LinkTransport(process.post, …), …)

Verbs of people take the other way, `ask`: they have an answer, and somebody who waits for it.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from lockgate.model.errors import Transient
from lockgate.model.ids import NodeId
from lockgate.model.instructions import Answer
from lockgate.model.messages import Message
from lockgate.model.secret import Secret
from lockgate.node.link.client import LinkClient
from lockgate.node.link.counters import Counters
from lockgate.node.link.sender import Sender
from lockgate.node.link.settings import LinkSettings
from lockgate.node.link.tls import LinkTls
from lockgate.node.link.wire import VERBS_PATH, Verb, decode_answer, encode_asked, encode_message

__all__ = ["ASK_S", "LinkTransport"]

ASK_S: Final = 10.0
"""How long the answer to a verb is waited for: a record in the metastore, and the way there."""


class LinkTransport:
    """Messages and verbs to other nodes, until `close`."""

    def __init__(
        self,
        process_post: Callable[[Message], None],
        node: NodeId,
        addresses: Callable[[NodeId], str | None],
        key: Callable[[], Secret],
        tls: LinkTls | None = None,
        *,
        counters: Counters | None = None,
        settings: LinkSettings | None = None,
    ) -> None:
        """`addresses` and `key` are asked on the senders' threads, before each request."""
        self._post_here = process_post
        self._node = node
        self._addresses = addresses
        self.counters = counters if counters is not None else Counters()
        self._settings = settings if settings is not None else LinkSettings()
        self._client = LinkClient(key, tls, self._settings.connect_s)
        self._lock = threading.Lock()
        self._senders: dict[NodeId, Sender] = {}
        self._closed = False

    def send(self, to: NodeId, message: Message) -> None:
        """Try to hand `message` over; return at once."""
        if to == self._node:
            self._post_here(message)
            return
        sender = self._sender(to)
        if sender is None:
            self.counters.add(to, dropped=1)
        else:
            sender.put(encode_message(message))

    def ask(self, to: NodeId, verb: Verb, timeout_s: float = ASK_S) -> Answer:
        """What the node `to` answers.

        Raises Transient when there was no answer: the verb may have been carried out all the
        same, and may be asked again. Raises UsageError when the node refuses to listen.
        """
        address = self._addresses(to)
        if address is None:
            raise Transient(
                "the metastore has no address of the node",
                object_=f"node {to}",
                hint="see that the node runs, then ask again",
            )
        body = encode_asked(self._node, to, verb)
        answer = decode_answer(self._client.post(to, address, VERBS_PATH, body, timeout_s))
        if answer.request != verb.request:
            raise Transient(
                "the node answered another request than this one",
                object_=f"node {to}",
                hint="ask again",
            )
        return answer

    def close(self) -> None:
        """End all threads and connections. What was not sent is counted as dropped."""
        with self._lock:
            self._closed = True
            senders = list(self._senders.values())
        threads = [thread for sender in senders if (thread := sender.close()) is not None]
        self._client.abort()
        # What cannot be interrupted is a connection being made, and a read of the addresses.
        deadline = time.monotonic() + self._settings.connect_s + 1
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._client.close()

    def _sender(self, to: NodeId) -> Sender | None:
        with self._lock:
            if self._closed:
                return None
            if to not in self._senders:
                self._senders[to] = Sender(
                    self._node, to, self._addresses, self._client, self.counters, self._settings
                )
            return self._senders[to]
