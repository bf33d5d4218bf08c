"""The commands that people type, against a real server."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from soak.nodes import NodeServer

__all__ = ["COMMAND", "Typed", "typed"]

COMMAND = Path(sys.executable).with_name("lockgate")
COMMAND_S = 240.0

Typed = Callable[..., tuple[int, Any]]


def typed(node: NodeServer) -> Typed:
    """Runs `lockgate …`; its exit code, and its document."""

    def run(*words: str) -> tuple[int, Any]:
        done = subprocess.run(
            [COMMAND, *words, "--url", node.url, "--home", node.home, "--json"],
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        try:
            return done.returncode, json.loads(done.stdout)
        except ValueError:
            raise AssertionError(f"{words}: {done.stdout}\n{done.stderr}\n{node.said()}") from None

    return run
