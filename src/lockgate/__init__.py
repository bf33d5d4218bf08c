"""Lockgate replicates live tables, moves them between databases, and proves both sides equal."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockgate import lake as lake
    from lockgate.client import connect as connect

    __version__: str

__all__ = ["__version__", "connect", "lake"]


def __getattr__(name: str) -> Any:
    # Only when asked for: each of the imports costs more than the rest of this module.
    if name == "__version__":
        from importlib.metadata import version

        return version("lockgate")
    if name == "connect":
        from lockgate.client import connect

        return connect
    if name == "lake":
        from importlib import import_module

        return import_module("lockgate.lake")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
