"""A copy as a person with a shell does it best: `COPY` piped to `COPY`, binary, in two halves.

    psql source -c "COPY (… id <= n/2) TO STDOUT"  |  psql target -c "COPY … FROM STDIN"
    psql source -c "COPY (… id >  n/2) TO STDOUT"  |  psql target -c "COPY … FROM STDIN"

The primary key is there before the rows come, or is made afterwards; both are measured by whoever
wants the better one.
"""

import os
import subprocess
from typing import Final

from psycopg.conninfo import conninfo_to_dict

from bench.rig import orders
from bench.rig.servers import execute, program

_OUT: Final = "COPY (SELECT * FROM orders WHERE id {half}) TO STDOUT (FORMAT binary)"
_IN: Final = "COPY orders FROM STDIN (FORMAT binary)"


def copy(source: str, target: str, rows: int, *, key_first: bool) -> None:
    """From a table with the keys 1 to `rows` into a new one; returns when the key is there too."""
    orders.create(target, key=key_first)
    halves = (f"<= {rows // 2}", f"> {rows // 2}")
    pipes = [_pipe(source, target, _OUT.format(half=half)) for half in halves]
    codes = [process.wait() for pipe in pipes for process in pipe]
    if any(codes):
        raise RuntimeError(f"psql ended with {codes}")
    if not key_first:
        execute(target, orders.KEY)


def _pipe(source: str, target: str, out: str) -> tuple["subprocess.Popen[bytes]", ...]:
    reads = subprocess.Popen(_psql(out), env=_environment(source), stdout=subprocess.PIPE)
    assert reads.stdout is not None
    writes = subprocess.Popen(_psql(_IN), env=_environment(target), stdin=reads.stdout)
    reads.stdout.close()  # so that the reader hears of it when the writer ends early
    return reads, writes


def _psql(statement: str) -> list[str]:
    return [str(program("psql")), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement]


def _environment(url: str) -> dict[str, str]:
    """The server as psql takes it from its environment, where no list of processes shows it."""
    names = {"host": "HOST", "port": "PORT", "user": "USER", "dbname": "DATABASE"}
    words = conninfo_to_dict(url)
    found = {f"PG{names[key]}": str(words[key]) for key in names}
    return {"PATH": os.defpath, "PGPASSWORD": str(words["password"]), **found}
