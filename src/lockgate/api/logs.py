"""What is written down: one line per request, per refused login, per bug; and no secret in any.

Of a request the log has who asked (the token's name), which verb, how it went, and how long it
took. It never has the path, the query, a header or a body: any of them may hold what somebody put
there by mistake. Texts are scrubbed here, where they are made, and once more by `redacting` on
their way out, which covers the lines of everybody else who logs through structlog.
"""

import logging
import traceback
from collections.abc import MutableMapping
from typing import Any, Literal, TextIO

import structlog

from lockgate.api.scrub import Scrubber
from lockgate.api.verbs import Lane, Verb

__all__ = ["Log", "configure_logs", "redacting"]


class Log:
    """The interface's own lines."""

    def __init__(self, scrubber: Scrubber, node: str) -> None:
        self._scrubber = scrubber
        # Not bound yet: whoever configures the logs may do so later.
        self._log = structlog.get_logger("lockgate.api", node=node)

    def request(
        self, id_: str, verb: Verb | None, who: str, address: str, status: int, ms: float
    ) -> None:
        """Somebody asked something, and was answered."""
        # Probes come every few seconds for ever, and say nothing when all is well.
        probe = verb is not None and verb.lane is Lane.WATCH and status < 400
        (self._log.debug if probe else self._log.info)(
            "request",
            id=id_,
            who=who or "-",
            verb=verb.operation if verb else "-",
            address=address,
            status=status,
            ms=round(ms, 1),
        )

    def refused(self, id_: str, verb: Verb, address: str) -> None:
        """Somebody showed no key, or one that fits nothing."""
        self._log.warning("login refused", id=id_, verb=verb.operation, address=address)

    def bug(self, id_: str, verb: Verb | None, error: BaseException) -> None:
        """Something that should not be. The trace has no values of variables in it."""
        trace = "".join(traceback.format_exception(error))
        self._log.error(
            "bug",
            id=id_,
            verb=verb.operation if verb else "-",
            kind=type(error).__name__,
            trace=self._scrubber.text(trace),
            next="report it with this trace",
        )


def redacting(scrubber: Scrubber) -> structlog.typing.Processor:
    """A processor that takes secrets out of every field. To stand right before the renderer."""

    def redact(
        _logger: Any, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        return {key: scrubber.fields(value) for key, value in event.items()}

    return redact


def configure_logs(
    stream: TextIO,
    scrubber: Scrubber,
    form: Literal["json", "text"] = "json",
    *,
    level: int = logging.INFO,
) -> None:
    """Have everything that goes through structlog, and warnings of the libraries, on the stream."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redacting(scrubber),
            _renderer(form),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    for name in ("uvicorn", "uvicorn.error"):
        library = logging.getLogger(name)
        library.handlers[:] = [_Forward()] if name == "uvicorn" else []
        library.propagate = name != "uvicorn"


def _renderer(form: Literal["json", "text"]) -> structlog.typing.Processor:
    if form == "json":
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=False)


class _Forward(logging.Handler):
    """The server library's lines, as ours."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        trace = (
            {"trace": "".join(traceback.format_exception(*record.exc_info))}
            if record.exc_info
            else {}
        )
        log.log(record.levelno, record.getMessage(), **trace)
