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
from lockgate.node.telemetry.lines import Line

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
        # Probes, and what nodes tell each other, come for ever and say nothing when all is well.
        quiet = verb is not None and verb.lane in {Lane.WATCH, Lane.LINK} and status < 400
        (self._log.debug if quiet else self._log.info)(
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
    node: str = "",
) -> None:
    """Have everything on the stream that goes through structlog or through the standard library's
    logging: the node's own lines from `level` on, warnings of the libraries."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _of_node(node),
            structlog.processors.format_exc_info,
            redacting(scrubber),
            _renderer(form),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [each for each in root.handlers if not isinstance(each, _Forward)]
    root.addHandler(_Forward())
    logging.getLogger("lockgate").setLevel(level)
    # What it has to say is about closing a connection that has failed already, which we tell of.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
    for name in ("uvicorn", "uvicorn.error"):
        library = logging.getLogger(name)
        library.handlers[:] = [_Forward()] if name == "uvicorn" else []
        library.propagate = name != "uvicorn"


def _of_node(node: str) -> structlog.typing.Processor:
    """Every line says which node it is of: logs of several are read together."""

    def name(
        _logger: Any, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        if node:
            event.setdefault("node", node)
        return event

    return name


def _renderer(form: Literal["json", "text"]) -> structlog.typing.Processor:
    if form == "json":
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=False)


class _Forward(logging.Handler):
    """Lines of the standard library's logging, as ours: the node's own with their fields."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            said = record.msg
            fields: dict[str, Any] = {"logger": record.name}
            if isinstance(said, Line):
                fields |= said.fields
            if record.exc_info:
                fields["trace"] = "".join(traceback.format_exception(*record.exc_info))
            event = said.event if isinstance(said, Line) else record.getMessage()
            # Not `handleError`, which would show the line as it is: secrets are not out of it yet.
            structlog.get_logger(record.name).log(record.levelno, event, **fields)
        except Exception:  # a stream that is gone, a line that cannot be formatted: no harm to work
            return
