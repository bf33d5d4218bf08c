"""What a process did in a run, told in a file that outlives it: a line per event.

A line is written with one call to the system. So what is there is whole, whenever the process dies.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["Story", "told"]


class Story:
    """Of one process in one run at a time."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._who = ""

    def begin(self, run: Path, who: str) -> None:
        """From now on, tell of this run."""
        self.end()
        folder = run / "story"
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._who = who
        self._file = os.open(folder / f"{who}-{os.getpid()}", flags, 0o600)

    def end(self) -> None:
        """Tell nothing more."""
        if self._file is not None:
            file, self._file = self._file, None
            os.close(file)

    def tell(self, event: str, **fields: Any) -> None:
        """One event. Before and after a run, nobody listens."""
        if self._file is not None:
            line = {"at": time.monotonic(), "who": self._who, "event": event, **fields}
            os.write(self._file, json.dumps(line, default=str).encode() + b"\n")


def told(run: Path) -> Iterator[dict[str, Any]]:
    """All events of a run, in the order of time: one machine has one clock."""
    lines: list[dict[str, Any]] = []
    for file in (run / "story").glob("*"):
        lines += [json.loads(line) for line in file.read_bytes().splitlines() if line]
    yield from sorted(lines, key=lambda line: float(line["at"]))
