"""What a process of the soak can be: it becomes something by the call `be`, for one run."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from lockgate.endpoints.delta import drain_plan
from lockgate.node.lake import host, hosts, surveying
from soak.lake.points import Armed, Points, install
from soak.lake.story import Story

__all__ = ["Part", "Role", "Stage"]

_ROWS_MAX: Final = 48
"""Of a file: few, so that tables have several, and some are small."""


@dataclass(frozen=True)
class Part:
    """What a process is in one run."""

    role: str
    """`keeper`, `feed` or `reader`."""
    name: str
    home: str
    run: Path
    seed: int
    """Of the run: which log the source has."""
    number: int = 0
    """Of the process's life: what takes over has a higher one."""
    drain_ms: int = 300
    workers: int = 2
    metastore: Path = Path()


class Role(Protocol):
    """One of them."""

    def act(self, verb: str, args: tuple[Any, ...]) -> Any:
        """Answer a call."""

    def end(self) -> None:
        """The run is over: nothing of it goes on."""


class Stage:
    """A process between its roles."""

    def __init__(self) -> None:
        self._story = Story()
        self._points = Points(lambda point: self._story.tell("dies", point=point))
        self._role: Role | None = None
        install(self._points)
        # Module constants of the package, in this process only: a run takes seconds.
        for module, name, value in (
            (drain_plan, "ROWS_MAX", _ROWS_MAX),
            (surveying, "ROWS_MAX", _ROWS_MAX),
            (host, "TICK_S", 0.03),
            (hosts, "LOOK_S", 0.05),
            (hosts, "AGAIN_S", 0.1),
        ):
            setattr(module, name, value)
        logging.getLogger("lockgate").addHandler(_Listener(self._story))
        logging.getLogger("lockgate").propagate = False

    def act(self, verb: str, args: tuple[Any, ...]) -> Any:
        """Answer a call."""
        if verb == "be":
            return self._be(*args)
        if verb == "arm":
            return self._points.arm(*args)
        if verb == "passed":
            return self._points.passed()
        assert self._role is not None, verb
        if verb == "end":
            role, self._role = self._role, None
            self._points.arm(Armed())
            role.end()
            return self._story.end()
        return self._role.act(verb, args)

    def _be(self, part: Part, armed: Armed) -> None:
        from soak.lake.feed import FeedRole
        from soak.lake.keeper import KeeperRole
        from soak.lake.reader import ReaderRole

        roles = {"keeper": KeeperRole, "feed": FeedRole, "reader": ReaderRole}
        self._story.begin(part.run, part.name)
        self._points.arm(armed)
        self._role = roles[part.role](part, self._story)


class _Listener(logging.Handler):
    """Tells what the package logs."""

    def __init__(self, story: Story) -> None:
        super().__init__(logging.WARNING)
        self._story = story

    def emit(self, record: logging.LogRecord) -> None:
        trace = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
        said = record.getMessage()
        self._story.tell("log", level=record.levelname, said=said, trace=trace)
