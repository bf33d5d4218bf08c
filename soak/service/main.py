"""`python -m soak [service] [--minutes M] [--seed S] [--lease S] [--rows N] [--results FILE]`."""

import argparse
import contextlib
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from soak.service import report
from soak.service.soak import Plan, Soak

__all__ = ["main"]

RESULTS: Final = Path(__file__).parents[2] / "bench" / "results" / "soak.json"
ROWS: Final = 20_000


def main(words: list[str]) -> int:
    """Run the soak. The exit code is 1 when anything is not as it must be."""
    parser = argparse.ArgumentParser(
        prog="python -m soak", description="Hurt a cluster under writes, and compare every row."
    )
    parser.add_argument("--minutes", type=float, default=30, help="of mischief [default: 30]")
    parser.add_argument("--seed", type=int, default=None, help="of the random choices")
    parser.add_argument("--lease", type=float, default=3.0, metavar="S", help="[default: 3]")
    parser.add_argument("--rows", type=int, default=ROWS, help="of each feed, to begin with")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep homes and logs there")
    asked = parser.parse_args(words)
    seed = random.randrange(2**32) if asked.seed is None else asked.seed
    # Whoever ends us, we end what we have started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if asked.keep is not None:
        asked.keep.mkdir(parents=True, exist_ok=True)
    place = (asked.keep or Path(tempfile.mkdtemp(prefix="lockgate-soak-"))).resolve()
    plan = Plan(seconds=60 * asked.minutes, rows=asked.rows, lease_s=asked.lease)
    passed = False
    try:
        result = Soak(place, seed, plan).run()
        report.write(asked.results, result)
        report.show(result)
        passed = result["passed"]
    finally:
        if passed and asked.keep is None:
            with contextlib.suppress(OSError):
                shutil.rmtree(place)
        else:
            print(f"homes and logs are in {place}")
    return 0 if passed else 1
