"""`python -m soak.matrix [--operators …] [--victims …] [--cells N] [--faults S]`."""

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from soak.connect import ConnectServer
from soak.matrix.cells import ROLES, STATES, WHENS, cells
from soak.matrix.faults import FaultOutcome, endure, faults
from soak.matrix.proxied import open_proxied_world
from soak.matrix.trial import Outcome, attempt

RESULTS = Path(__file__).parents[1] / "results" / "matrix.json"
SETTINGS: dict[str, str | int] = {"fsync": "off", "wal_level": "logical", "max_connections": 100}
VICTIMS = ("owner", "origin", "destination")


def main(words: list[str]) -> int:
    """Try cells. The exit code is 1 when one of them failed."""
    parser = argparse.ArgumentParser(
        prog="python -m soak.matrix", description="Kill nodes at every state of every operator."
    )
    parser.add_argument("--operators", type=_list, default=list(STATES), metavar="move,split")
    parser.add_argument("--victims", type=_list, default=list(VICTIMS), metavar="owner,origin")
    parser.add_argument("--cells", type=int, default=None, metavar="N", help="at most so many")
    parser.add_argument("--skip", type=int, default=0, metavar="N", help="go on after so many")
    parser.add_argument(
        "--faults", type=float, default=0, metavar="S", help="then break every way for S seconds"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep homes and logs there")
    asked = parser.parse_args(words)
    chosen = cells(asked.operators, asked.victims, asked.cells)
    # Whoever ends us, we end what we have started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    outcomes: list[Outcome] = []
    endured: list[FaultOutcome] = []
    with (
        _place(asked.keep) as place,
        EmbeddedPostgres(16, settings=SETTINGS, start_timeout_s=120) as one,
        EmbeddedPostgres(18, settings=SETTINGS, start_timeout_s=120) as other,
        ConnectServer(place / "spark.log") as spark,
        open_proxied_world(
            place, _database(other, "metastore"), spark.url, one.url(), other.url()
        ) as proxied,
    ):
        world = proxied.world
        for number, cell in list(enumerate(chosen))[asked.skip :]:
            outcome = attempt(world, cell, number)
            outcomes.append(outcome)
            print(f"{number + 1:4} of {len(chosen)}  {_line(outcome)}", flush=True)
            _write(asked.results, {"cells": outcomes, "faults": endured})
        for fault in faults() if asked.faults else ():
            endured.append(endure(proxied, fault, asked.faults))
            print(_fault_line(endured[-1]), flush=True)
        transactions, looks = world.writer.transactions, world.watcher.looks
    _write(asked.results, {"cells": outcomes, "faults": endured})
    _show(outcomes)
    passed = sum(outcome.passed for outcome in outcomes)
    survived = sum(outcome.passed for outcome in endured)
    print(
        f"\n{passed} of {len(outcomes)} cells passed, {survived} of {len(endured)} faults endured, "
        f"in {time.monotonic() - began:.0f} s; {transactions:,} transactions, "
        f"{looks:,} looks at the target"
    )
    return 0 if passed + survived == len(outcomes) + len(endured) else 1


def _database(server: EmbeddedPostgres, name: str) -> str:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return server.url(name)


def _list(text: str) -> list[str]:
    return text.split(",")


@contextlib.contextmanager
def _place(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="lockgate-matrix-") as place:
            yield Path(place)


def _line(outcome: Outcome) -> str:
    told = f"{outcome.seconds:5.1f} s  {outcome.cell}"
    if outcome.passed:
        return f"passed  {told}: converged in {outcome.converged_s:.1f} s"
    return f"FAILED  {told}: {outcome.why}"


def _fault_line(outcome: FaultOutcome) -> str:
    told = f"{outcome.seconds:5.1f} s  {outcome.fault}"
    return f"passed  {told}" if outcome.passed else f"FAILED  {told}: {outcome.why}"


def _write(path: Path, result: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".json.tmp")
    half.write_text(json.dumps(msgspec.to_builtins(result), indent=2) + "\n", "utf-8")
    half.replace(path)


def _show(outcomes: list[Outcome]) -> None:
    """A line for each operator and state; in each column passed of tried."""
    columns = [(when, victim) for victim in VICTIMS for when in WHENS]
    print("\n" + " " * 20 + "".join(f"{victim:>18}" for victim in VICTIMS))
    print(" " * 20 + "".join(f"{when:>9}" for _, when in [(v, w) for v in VICTIMS for w in WHENS]))
    for operator, states in STATES.items():
        for state in states:
            shown = ""
            for when, victim in columns:
                found = [
                    one.passed
                    for one in outcomes
                    if one.cell == (operator, state.value, when, victim)
                ]
                absent = "-" if victim not in ROLES[operator] else ""
                shown += f"{'FAILED' if False in found else 'ok' if found else absent:>9}"
            print(f"{operator:8}{state.value:12}{shown}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
