"""The soak of the thin runner: `python -m soak runner [--kills N] [--minutes M] [--seed S]`.

    writers ──► source ──► lockgate feed run … ──► target
                              ▲         │
               SIGKILL ───────┘         └── Spark, which outlives the runners: that, too, is killed

At the end nothing is killed any more, the feed becomes level, and every row is compared.
"""

import argparse
import contextlib
import datetime
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from soak.compare import Difference, compare
from soak.connect import ConnectServer
from soak.mischief import Mischief
from soak.process import FeedProcess, write_config
from soak.tables import SEEDED, prepare
from soak.writers import Writers

RESULTS = Path(__file__).parents[1] / "bench" / "results" / "soak-runner.json"
SETTINGS: dict[str, str | int] = {"fsync": "off", "wal_level": "logical", "max_connections": 60}
LEVEL_S = 900.0


def main(words: list[str]) -> int:
    """Run the soak. The exit code is 1 when a row is missing, extra or different."""
    parser = argparse.ArgumentParser(
        prog="python -m soak runner", description="Kill a feed, many times."
    )
    parser.add_argument("--kills", type=int, default=100, help="how many [default: 100]")
    parser.add_argument("--minutes", type=float, default=30, help="at most [default: 30]")
    parser.add_argument("--rows", type=int, default=SEEDED, help="to begin with")
    parser.add_argument(
        "--transactions", type=int, default=None, help="then the writers rest [default: never]"
    )
    parser.add_argument("--seed", type=int, default=None, help="of the random choices")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep homes and logs there")
    asked = parser.parse_args(words)
    seed = random.randrange(2**32) if asked.seed is None else asked.seed
    # Whoever ends us, we end what we have started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with _place(asked.keep) as place:
        soak = Soak(place, seed, asked.rows, asked.transactions)
        result = soak.run(asked.kills, 60 * asked.minutes)
    _write(asked.results, result)
    _show(result)
    return 0 if result["equal"] else 1


@contextlib.contextmanager
def _place(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="lockgate-soak-") as place:
            yield Path(place)


class Soak:
    """One soak, from empty servers to the last row compared."""

    def __init__(self, place: Path, seed: int, rows: int, transactions: int | None) -> None:
        self._place = place
        self._seed = seed
        self._rows = rows
        self._transactions = transactions
        self._rng = random.Random(seed)
        self._began = time.monotonic()

    def run(self, kills: int, seconds: float) -> dict[str, Any]:
        """Everything; what came of it."""
        self._say(f"seed {self._seed}")
        with (
            EmbeddedPostgres(16, settings=SETTINGS, start_timeout_s=120) as source,
            EmbeddedPostgres(18, settings=SETTINGS, start_timeout_s=120) as target,
            ConnectServer(self._place / "spark.log") as spark,
        ):
            prepare(source.url(), self._rows)
            runner = self._feed(source, target, spark)
            writers = Writers(source.url(), seed=self._seed, most=self._transactions)
            mischief = Mischief(self._rng, runner, spark, source, target)
            writers.start()
            try:
                self._kill(mischief, writers, kills, time.monotonic() + seconds)
            finally:
                writers.stop()
                runner.kill()
            if writers.bugs:
                raise writers.bugs[0]
            self._say("level …")
            level = self._become_level(runner)
            found = compare(source.url(), target.url())
            return self._result(mischief, writers, level, found, _applied(target))

    def _feed(
        self, source: EmbeddedPostgres, target: EmbeddedPostgres, spark: ConnectServer
    ) -> FeedProcess:
        config = {
            "source": source.url(),
            "target": target.url(),
            "tables": ["public.*"],
            "chunk_rows": 5000,
            "flush_interval_ms": 100,
        }
        path = write_config(self._place / "feed.toml", config)
        log = self._place / "runner.log"
        return FeedProcess("soak", path, self._place / "home", spark.url, log)

    def _kill(self, mischief: Mischief, writers: Writers, kills: int, deadline: float) -> None:
        while mischief.count < kills and time.monotonic() < deadline and not writers.bugs:
            kind = mischief.once()
            self._say(f"kill {mischief.count} of {kills}: {kind}")
            if any("the feed has failed" in said for said in mischief.ended):
                self._say(f"the feed has failed:\n{mischief.ended[-1]}")
                return

    def _become_level(self, runner: FeedProcess) -> bool:
        runner.start("--until-level")
        try:
            code = runner.wait(LEVEL_S)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            runner.kill()
        if code:
            self._say(f"the feed did not become level:\n{runner.said()[-4000:]}")
        return code == 0

    def _result(
        self,
        mischief: Mischief,
        writers: Writers,
        level: bool,
        found: list[Difference],
        epochs: int,
    ) -> dict[str, Any]:
        return {
            "equal": level and all(one.equal for one in found),
            "level": level,
            "missing": sum(one.missing for one in found),
            "extra": sum(one.extra for one in found),
            "different": sum(one.different for one in found),
            "kills": mischief.count,
            "killed": dict(sorted(mischief.kills.items())),
            "runners": mischief.starts + 1,
            "epochs": epochs,
            "ended_by_themselves": mischief.ended,
            "transactions": writers.transactions,
            "transactions_refused": writers.refused,
            "schema_changes": dict(writers.ddl),
            "tables": {one.table: one._asdict() for one in found},
            "rows": sum(one.rows for one in found),
            "seconds": round(time.monotonic() - self._began, 1),
            "seed": self._seed,
            "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:7.1f} s  {text}", flush=True)


def _applied(target: EmbeddedPostgres) -> int:
    """Under how many epochs the feed has run."""
    with psycopg.connect(target.url()) as connection:
        row = connection.execute("SELECT max(epoch) FROM lockgate.feeds").fetchone()
    return 0 if row is None else int(row[0] or 0)


def _write(path: Path, result: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".json.tmp")
    half.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    half.replace(path)


def _show(result: dict[str, Any]) -> None:
    killed = ", ".join(f"{kind} {count}" for kind, count in result["killed"].items())
    print(f"kills         {result['kills']} ({killed})")
    print(f"runners       {result['runners']}, {result['epochs']} epochs")
    print(
        f"transactions  {result['transactions']:,} committed, "
        f"{sum(result['schema_changes'].values())} of them change the schema"
    )
    print(f"rows          {result['rows']:,} in {len(result['tables'])} tables")
    print(
        f"compared      {result['missing']} missing, {result['extra']} extra, "
        f"{result['different']} different"
    )
    for table, one in result["tables"].items():
        if one["examples"]:
            print(f"  {table}: {'; '.join(one['examples'])}")
    if result["ended_by_themselves"]:
        print(f"runners that ended by themselves: {len(result['ended_by_themselves'])}")
