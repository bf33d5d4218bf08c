"""A task in a process of its own: `python -m tests.endpoints.postgres.sink.task MODE URL FEED`.

It enters span `a` under token 1.2.1 from position 0, writes rows in one transaction, and stops in
the middle of it: it says `inside`, and goes on when it is told to. Then it says `committed`, or how
it failed. MODE says what it is in the middle of:

    alone    holding the row for itself, between two statements
    part     sharing the row, between two statements
    copy     inside a COPY, half of the rows sent
    query    inside a statement that runs for long: it never says anything more
"""

import subprocess
import sys
from pathlib import Path

import psycopg

from lockgate.endpoints.postgres.sink.gate import enter, leave, part_landed
from lockgate.endpoints.postgres.sink.session import open_session
from lockgate.model.ids import Token
from lockgate.model.spans import WHOLE

ROOT = Path(__file__).parents[4]
TOKEN = Token(1, 2, 1)
START = ((WHOLE, 0),)
TO = 7


def start(mode: str, url: str, feed: str) -> subprocess.Popen[str]:
    """Run a task, and wait until it is in the middle of its transaction."""
    task = subprocess.Popen(
        [sys.executable, "-m", "tests.endpoints.postgres.sink.task", mode, url, feed],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert task.stdout is not None
    assert task.stdout.readline().strip() == "inside"
    return task


def go_on(task: subprocess.Popen[str]) -> str:
    """Let it try to finish; how that went."""
    said, _ = task.communicate("go on\n", timeout=60)
    return said.strip()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _pause() -> None:
    _say("inside")
    sys.stdin.readline()


def _run(mode: str, url: str, feed: str) -> None:
    with open_session(url, feed, "a") as connection, connection.cursor() as cursor:
        share = mode == "part"
        enter(cursor, feed, "a", TOKEN, START, share=share)
        if share:
            part_landed(cursor, feed, "a", 0, 2, TO)
        with cursor.copy(f"COPY {feed}_t00 FROM STDIN") as copy:
            copy.write("1\t1\n")
            if mode == "copy":
                copy.write("2\t2\n" + "".join(f"{n}\t{n}\n" for n in range(1000, 20_000)))
                _pause()
            copy.write("3\t3\n")
        if mode == "query":
            _say("inside")
            cursor.execute("SELECT pg_sleep(3600)")
        if mode in ("alone", "part"):
            _pause()
        if not share:
            leave(cursor, feed, "a", TOKEN, START, TO)
        connection.commit()
    _say("committed")


if __name__ == "__main__":
    try:
        _run(*sys.argv[1:])
    except psycopg.Error as error:
        _say(f"failed: {type(error).__name__}")
