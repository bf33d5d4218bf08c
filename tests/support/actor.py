"""A process of its own that works on a metastore: `python -m tests.support.actor VERB URL …`.

What it has done it says on stdout, a line at a time, so that whoever kills it knows what was
acknowledged.
"""

import subprocess
import sys
from pathlib import Path

from lockgate.model.batch import Batch, Landed, Loaded, Raise, Refused
from lockgate.store.metastore import SqlMetastore
from tests.support.stores import FEED, LEASE_MS, put, span

ROOT = Path(__file__).parents[2]


def start(verb: str, *arguments: str) -> subprocess.Popen[str]:
    """Run an actor. It says `ready`, then waits for a line on stdin before it works."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.actor", verb, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def said(actor: subprocess.Popen[str]) -> str:
    """The next line of an actor."""
    assert actor.stdout is not None
    line = actor.stdout.readline()
    assert line, f"the actor ended early, with {actor.wait()}"
    return line.strip()


def go(actor: subprocess.Popen[str]) -> None:
    """Let an actor that said `ready` work."""
    assert actor.stdin is not None
    actor.stdin.write("go\n")
    actor.stdin.flush()


def end(actor: subprocess.Popen[str]) -> list[str]:
    """Wait for an actor to end well: everything it said that nobody has read yet."""
    rest, _ = actor.communicate(timeout=60)
    assert actor.returncode == 0
    return rest.split()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _gate() -> None:
    _say("ready")
    sys.stdin.readline()


def _open(url: str) -> None:
    """Open the metastore and say so."""
    _gate()
    with SqlMetastore.open(url, lease_ms=LEASE_MS, timeout_ms=30_000):
        _say("opened")


def _write(url: str) -> None:
    """Write batches for ever; say every serial that landed."""
    with SqlMetastore.open(url, lease_ms=LEASE_MS) as store:
        loaded = store.load(FEED)
        assert isinstance(loaded, Loaded)
        _gate()
        serial = loaded.serial
        while True:
            serial += 1
            records = (span(serial), *(span(900_000 + n, table=f"t{serial}") for n in range(50)))
            answer = store.commit(put(serial, *records))
            assert isinstance(answer, Landed), answer
            _say(str(serial))


def _raise(url: str, name: str, wins: str) -> None:
    """Raise the feed's fence until `wins` raises landed; say every fence won, then the losses."""
    with SqlMetastore.open(url, lease_ms=LEASE_MS, timeout_ms=30_000) as store:
        _gate()
        won = lost = 0
        while won < int(wins):
            seen = store.load(FEED)
            assert isinstance(seen, Loaded)
            raised = Raise(FEED, seen.fence, seen.fence + 1)
            answer = store.commit(Batch(f"raiser {name}", 0, won + 1, raises=(raised,)))
            if isinstance(answer, Landed):
                won += 1
                _say(str(raised.new))
            else:
                assert isinstance(answer, Refused), answer
                lost += 1
        _say(f"lost:{lost}")


if __name__ == "__main__":
    {"open": _open, "write": _write, "raise": _raise}[sys.argv[1]](*sys.argv[2:])
