"""Hooks of moves: what the user's own machinery does around the flip of the traffic."""

from lockgate.node.hooks.named import hook_named
from lockgate.node.hooks.port import FindHook, Hook, HookContext, HookEnd, Keeping

__all__ = ["FindHook", "Hook", "HookContext", "HookEnd", "Keeping", "hook_named"]
