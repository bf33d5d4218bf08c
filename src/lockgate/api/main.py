"""`lockgate server`: a node and its interface, from the first line of the log to the last.

    bind ──► join the cluster ──► listen ──► … SIGTERM or SIGINT … ──► stop listening
                                                                     ──► stop work, leave

The socket is bound first, so that the cluster is told the real address. A second signal does not
wait: what is cut short is finished by the next owner, as after any other death.
"""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Final

import structlog

from lockgate.api.logs import configure_logs
from lockgate.api.scrub import Scrubber
from lockgate.api.server import serve
from lockgate.api.tls import TlsFiles
from lockgate.model.errors import LockgateError
from lockgate.model.server_config import ServerConfig
from lockgate.node.service import NodeService

__all__ = ["run_server"]

WATCH_S: Final = 0.5
STOP_S: Final = 10.0


def run_server(config: ServerConfig) -> int:
    """Run a node until it is told to stop, or cannot go on. Returns the exit code."""
    scrubber = Scrubber([config.metastore] if config.metastore else [])
    for secret in (secret for hook in config.hooks.values() for secret in hook.secrets):
        scrubber.learn(secret)
    configure_logs(sys.stderr, scrubber, config.log, node=config.node)
    log = structlog.get_logger("lockgate.node").bind(node=config.node)
    told = _Told()
    service = NodeService(config)
    tls = config.tls
    files = TlsFiles(Path(tls.cert), Path(tls.key)) if tls.on else None
    server = serve(
        service, config.listen, files, scrubber=scrubber, answered=service.request_answered
    )
    try:
        service.start(config.advertise or server.url)
        for address in service.addresses():
            scrubber.learn(address)
        server.start()
        log.info("listening", url=server.url, token=f"in {Path(config.home) / 'token'}")
        failure = told.wait_for(service)
    finally:
        server.stop(STOP_S)
        service.stop()
    if failure is not None:
        log.error("the node has ended", why=str(failure), next=_hint(failure))
        return 1
    log.info("stopped")
    return 0


class _Told:
    """Whether somebody has asked the process to end."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, number: int, _: object) -> None:
        if self._asked.is_set():
            os._exit(128 + number)
        self._asked.set()

    def wait_for(self, service: NodeService) -> BaseException | None:
        """Until somebody asks, or the node has ended by itself: then why."""
        while not self._asked.wait(WATCH_S):
            if service.failure is not None:
                return service.failure
        return None


def _hint(failure: BaseException) -> str:
    return failure.hint if isinstance(failure, LockgateError) else "report it with the log"
