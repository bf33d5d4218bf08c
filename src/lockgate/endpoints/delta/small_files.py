"""Small files beside a table's layers, each written once: whole, or not at all."""

import secrets
from typing import Final

from lockgate.endpoints.delta.death import layer_faults
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.store_time import delete_all, files_in

__all__ = ["HALF", "read_small", "sweep_halves", "write_small"]

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


def sweep_halves(place: Place, now_s: float, grace_s: float) -> None:
    """Delete what was never finished: whoever was writing it was killed."""
    found = (one for one in files_in(place) if one.name.startswith(HALF))
    delete_all(place, [one.name for one in found if now_s - one.changed_s > grace_s])
