"""`python -m soak [service | runner | fuzz] …`; with none of them, the service."""

import importlib
import sys
from typing import Final

KINDS: Final = {
    "service": "soak.service.main",
    "runner": "soak.runner",
    "fuzz": "soak.fuzz",
}


def main(words: list[str]) -> int:
    """Run one of them. The exit code is 1 when something was found."""
    kind, rest = ("service", words) if not words or words[0] not in KINDS else (words[0], words[1:])
    code: int = importlib.import_module(KINDS[kind]).main(rest)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
