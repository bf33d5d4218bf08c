"""From a hook's name, as a move has it, to the hook that this node's configuration has under it.

Over the API people only ever name a hook. What it runs is written in the server's configuration, by
whoever may write there.
"""

from collections.abc import Callable

from lockgate.model.server_config import ServerConfig
from lockgate.node.hooks.command import CommandHook
from lockgate.node.hooks.pgbouncer import PgBouncerHook
from lockgate.node.hooks.port import Hook, HookContext, HookUnfit, Keeping

__all__ = ["NoHook", "hook_named"]


class NoHook:
    """Nobody is to be told of a flip."""

    def check(self, ctx: HookContext) -> str:
        del ctx
        return "no hook"

    before = after = undo = check


def hook_named(
    config: ServerConfig,
    keeping: Keeping,
    name: str,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Hook:
    """The hook of this name; for an empty one, a hook that does nothing. A program has no fence but
    `keeping`, and what compares the text that it is given; it ends when it `is_stopped`."""
    if not name:
        return NoHook()
    found = config.hooks.get(name)
    if found is None:
        known = ", ".join(sorted(config.hooks)) or "none"
        raise HookUnfit(
            f"the node {config.node} has no hook of this name",
            object_=name,
            hint=f"write [hooks.{name}] in the configuration of every node, and start it again; "
            f"it has: {known}",
        )
    if found.pgbouncer is not None:
        return PgBouncerHook(name, found.pgbouncer, found.timeout_s)
    return CommandHook(name, found.command, found.timeout_s, keeping, is_stopped)
