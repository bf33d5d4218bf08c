"""Which processes there are below this one, and what each of them is."""

import contextlib
from pathlib import Path

DRIVER, WORKERS, JAVA = "driver", "workers", "java"
"""The process that runs the feed; Spark's Python processes; Spark itself."""


def descendants(root: int) -> list[int]:
    """All processes that a process has started, and that they have started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text("utf-8", "replace")
                # The second field is a name in parentheses that may hold anything.
                parent = int(stat.rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, open_ = [], [root]
    while open_:
        below = children.get(open_.pop(), [])
        found += below
        open_ += below
    return found


def kind_of(pid: int) -> str | None:
    """What a descendant is; None when it is no part of Lockgate."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    if Path(words[0].decode("utf-8", "replace")).name == "java":
        return JAVA
    return WORKERS if any(word.startswith(b"pyspark.") for word in words) else None
