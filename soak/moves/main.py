"""The commands of `python -m soak.moves`."""

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from soak.connect import ConnectServer
from soak.moves.cells import COMMANDS, VICTIMS, cells
from soak.moves.flips import run_flips
from soak.moves.renames import run_renames
from soak.moves.trial import MoveOutcome, attempt
from soak.moves.world import MoveWorld, open_move_world

__all__ = ["main"]

RESULTS: Final = Path(__file__).parents[1] / "results"
SETTINGS: Final[dict[str, str | int]] = {
    "fsync": "off",
    "wal_level": "logical",
    "max_connections": 200,
    "max_replication_slots": 60,
    "max_wal_senders": 60,
}


def main(words: list[str]) -> int:
    """The exit code is 1 when anything was found."""
    parser = argparse.ArgumentParser(
        prog="python -m soak.moves", description="Moves, killed, under load, again and again."
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    matrix = kinds.add_parser("matrix", help="SIGKILL at every step of every command")
    matrix.add_argument("--commands", type=_list, default=list(COMMANDS), metavar="switch,cancel")
    matrix.add_argument("--victims", type=_list, default=list(VICTIMS), metavar="keeper,all")
    matrix.add_argument("--cells", type=int, default=None, metavar="N", help="at most so many")
    matrix.add_argument("--skip", type=int, default=0, metavar="N", help="go on after so many")
    flips = kinds.add_parser("flips", help="there and back under load")
    flips.add_argument("--flips", type=int, default=10, metavar="N")
    flips.add_argument("--writers", type=int, default=4, metavar="N")
    renames = kinds.add_parser("renames", help="complete --rename under heavy writes")
    renames.add_argument("--rounds", type=int, default=200, metavar="N")
    renames.add_argument("--at-once", type=int, default=5, metavar="N")
    for each in (matrix, flips, renames):
        each.add_argument("--results", type=Path, default=None, metavar="FILE")
        each.add_argument("--keep", type=Path, metavar="DIR", help="keep homes and logs there")
    asked = parser.parse_args(words)
    # Whoever ends us, we end what we have started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    doing = {"matrix": _matrix, "flips": _flips, "renames": _renames}
    with _world(asked.keep) as world:
        return doing[asked.kind](world, asked)


def _matrix(world: MoveWorld, asked: argparse.Namespace) -> int:
    chosen = cells(asked.commands, asked.victims, asked.cells)
    began = time.monotonic()
    outcomes: list[MoveOutcome] = []
    for number, cell in list(enumerate(chosen))[asked.skip :]:
        outcomes.append(attempt(world, cell))
        print(f"{number + 1:4} of {len(chosen)}  {_line(outcomes[-1])}", flush=True)
        _write(asked.results or RESULTS / "moves-matrix.json", {"cells": outcomes})
    passed = sum(outcome.passed for outcome in outcomes)
    closed = sorted(outcome.closed_s for outcome in outcomes if outcome.cell.flips)
    longest = f", closed for {closed[-1]:.1f} s at most" if closed else ""
    print(
        f"\n{passed} of {len(outcomes)} cells passed in {time.monotonic() - began:.0f} s{longest}; "
        f"{sum(outcome.changes for outcome in outcomes):,} changes acknowledged"
    )
    return 0 if passed == len(outcomes) else 1


def _flips(world: MoveWorld, asked: argparse.Namespace) -> int:
    report = run_flips(world, asked.flips, asked.writers)
    _write(asked.results or RESULTS / "moves-flips.json", report)
    print(
        f"{report.flips} flips, {report.writers} writers, acknowledged {report.changes} in "
        f"{report.seconds:.0f} s; blocked as writers saw it: p50 {report.blocked_ms_p50:.0f} ms, "
        f"p99 {report.blocked_ms_p99:.0f} ms, at most {report.blocked_ms_max:.0f} ms; "
        f"refused {report.refusals}"
    )
    for problem in report.problems:
        print(f"FAILED  {problem}")
    return 1 if report.problems else 0


def _renames(world: MoveWorld, asked: argparse.Namespace) -> int:
    report = run_renames(world, asked.rounds, asked.at_once)
    _write(asked.results or RESULTS / "moves-renames.json", report)
    for one in report.rounds:
        if not one.passed:
            print(f"FAILED  {one.move}: {one.why}")
    for line in report.apply_errors:
        print(f"FAILED  {line}")
    during = sum(one.transactions for one in report.rounds)
    print(
        f"{report.passed} of {len(report.rounds)} rounds passed in {report.seconds:.0f} s, "
        f"{during:,} transactions at targets while they were completed, "
        f"{len(report.apply_errors)} errors of applying"
    )
    return 0 if report.passed == len(report.rounds) and not report.apply_errors else 1


def _line(outcome: MoveOutcome) -> str:
    told = f"{outcome.seconds:5.1f} s  {outcome.cell}"
    if outcome.passed:
        return (
            f"passed  {told}: over in {outcome.resumed_s:.1f} s, closed for {outcome.closed_s:.1f}"
        )
    return f"FAILED  {told}: {outcome.why}"


def _list(text: str) -> list[str]:
    return text.split(",")


@contextlib.contextmanager
def _world(kept: Path | None) -> Iterator[MoveWorld]:
    """Servers, a Spark that outlives the nodes, two nodes."""
    with (
        _place(kept) as place,
        EmbeddedPostgres(16, settings=SETTINGS, start_timeout_s=120) as one,
        EmbeddedPostgres(18, settings=SETTINGS, start_timeout_s=120) as other,
        ConnectServer(place / "spark.log") as spark,
        open_move_world(
            place, _database(other, "metastore"), spark.url, one.url(), other.url()
        ) as world,
    ):
        yield world


@contextlib.contextmanager
def _place(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="lockgate-moves-") as place:
            yield Path(place)


def _database(server: EmbeddedPostgres, name: str) -> str:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return server.url(name)


def _write(path: Path, result: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".json.tmp")
    half.write_text(json.dumps(msgspec.to_builtins(result), indent=2) + "\n", "utf-8")
    half.replace(path)
