"""Hooks of moves: what the user's own machinery does around the flip of the traffic."""

from lockgate.node.hooks.named import hook_named
from lockgate.node.hooks.port import Hook, HookContext, HookEnd

__all__ = ["Hook", "HookContext", "HookEnd", "hook_named"]
