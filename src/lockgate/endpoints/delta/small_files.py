"""Small files beside a table's layers, each written once: whole, or not at all."""

import secrets
from typing import Final

from lockgate.endpoints.delta.death import layer_faults
from lockgate.endpoints.delta.place import Place

__all__ = ["HALF", "read_small", "write_small"]

HALF: Final = "half-"
"""How names begin of what is not whole yet."""


def read_small(place: Place, name: str) -> bytes:
    """Empty when it is not there."""
    with layer_faults("read", place, name):
        files, base = place.filesystem()
        try:
            with files.open_input_file(f"{base}/{name}") as source:
                return bytes(source.read())
        except FileNotFoundError:
            return b""


def write_small(place: Place, name: str, content: bytes) -> None:
    """Who lists the directory never finds half of it under its name."""
    with layer_faults("write", place, name):
        files, base = place.filesystem()
        files.create_dir(base, recursive=True)
        half = f"{base}/{HALF}{secrets.token_hex(8)}"
        with files.open_output_stream(half) as out:
            out.write(content)
        files.move(half, f"{base}/{name}")
