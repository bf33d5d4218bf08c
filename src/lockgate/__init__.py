"""Lockgate replicates live tables, moves them between databases, and proves both sides equal."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    # The version is read from the installed package's metadata, and only when asked for: that
    # import costs more than the rest of this module together.
    if name == "__version__":
        from importlib.metadata import version

        return version("lockgate")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
