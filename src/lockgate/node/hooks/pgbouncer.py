"""A hook that has a PgBouncer hold the traffic, and then send it to the other side.

    before   PAUSE shop                         transactions end, what comes later waits
    after    shop = <the taking side's line>    in the file, atomically; then RELOAD, RESUME
    undo     RESUME shop                        the file was not touched

Applications notice a pause and no error. `after` looks, before it lets traffic go on, whether
PgBouncer has taken the line over: a file that it does not read would send it back to the old side.
"""

import contextlib
import shlex
from pathlib import Path
from typing import Final

from lockgate.endpoints.pgbouncer.console import Console
from lockgate.endpoints.pgbouncer.ini import fenced, line_of, point
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import EndpointBusy, LockgateError
from lockgate.model.hook_config import PgBouncerConfig
from lockgate.model.moves import Side
from lockgate.model.secret import Secret
from lockgate.node.hooks.port import HookContext, HookEnd, HookUnfit

__all__ = ["PgBouncerHook"]

_RESCUE_S: Final = 3.0
"""For letting traffic go on that could not be held as wished."""


class PgBouncerHook:
    """One database of one PgBouncer."""

    def __init__(self, name: str, config: PgBouncerConfig, timeout_s: float) -> None:
        self._name = name
        self._ini = Path(config.ini)
        self._database = config.database
        self._lines = {Side.SOURCE: config.source, Side.TARGET: config.target}
        self._url = PostgresUrl.parse(config.admin)
        self._timeout_s = timeout_s

    def check(self, ctx: HookContext) -> str:
        """Whether it answers, has the database, and the file has a line to exchange."""
        with self._console(ctx) as console:
            console.show(self._database)
        try:
            line_of(self._ini.read_bytes(), self._database)
        except OSError as error:
            raise self._unfit("the file cannot be read", error.strerror or "") from error
        return f"hook {self._name}: would hold {self._database} and point it to {_of(ctx.taking)}"

    def before(self, ctx: HookContext) -> str:
        with self._fenced(ctx):
            try:
                with self._console(ctx) as console:
                    console.pause(self._database)
            except LockgateError:
                # Half a pause holds traffic, too. Should this fail as well, undoing does it.
                with contextlib.suppress(LockgateError), Console(self._url, _RESCUE_S) as console:
                    console.resume(self._database)
                raise
        return f"hook {self._name}: PgBouncer holds {self._database}"

    def after(self, ctx: HookContext) -> str:
        line = self._lines[ctx.taking.side]
        with self._fenced(ctx), self._console(ctx) as console:
            point(self._ini, self._database, line.reveal())
            console.reload()
            self._look(console, line)
            console.resume(self._database)
        return f"hook {self._name}: {self._database} is at {_of(ctx.taking)}"

    def undo(self, ctx: HookContext) -> str:
        """Under the fence, so that nobody from before holds the traffic again afterwards. But it
        does not wait for the fence: letting it go on does no harm, and holding it does."""
        try:
            with self._fenced(ctx):
                self._resume(ctx)
        except EndpointBusy:
            self._resume(ctx)
            raise
        return f"hook {self._name}: {self._database} goes on as before"

    # --- inside ---------------------------------------------------------------------------------

    def _resume(self, ctx: HookContext) -> None:
        with self._console(ctx) as console:
            console.resume(self._database)

    def _patience_s(self, ctx: HookContext) -> float:
        return min(self._timeout_s, ctx.left_s)

    def _console(self, ctx: HookContext) -> Console:
        return Console(self._url, self._patience_s(ctx))

    def _fenced(self, ctx: HookContext) -> contextlib.AbstractContextManager[None]:
        mark = (ctx.birth, ctx.attempt)
        return fenced(self._ini, self._database, mark, self._patience_s(ctx))

    def _look(self, console: Console, line: Secret) -> None:
        """A reload is over when it is answered; what it did not take over it will not."""
        seen = console.show(self._database)
        wanted = _options(line.reveal())
        has = {"host": seen.host, "port": seen.port, "dbname": seen.database}
        for key in has.keys() & wanted.keys():
            if has[key] != wanted[key]:
                raise self._unfit(
                    f"PgBouncer still has {key}={has[key]} for {self._database} after a reload"
                )

    def _unfit(self, what: str, cause: str = "") -> HookUnfit:
        return HookUnfit(
            what,
            object_=str(self._ini),
            hint=f"see that PgBouncer at {self._url.label} reads this file, and its log; the file "
            f"is named in [hooks.{self._name}]",
            cause=cause or None,
        )


def _options(line: str) -> dict[str, str]:
    """`host=… port='…'` as pairs; nothing when it is written in a way that we do not know."""
    with contextlib.suppress(ValueError):
        pairs = (word.partition("=") for word in shlex.split(line))
        return {name: value for name, _, value in pairs if value}
    return {}


def _of(end: HookEnd) -> str:
    return f"{end.endpoint} ({end.side.value})"
