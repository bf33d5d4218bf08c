"""Where processor time goes: the seconds of each part of what is measured.

Wall time on a machine with few cores says how long everything together took; this says whose work
it was. It is also what stays the same when somebody else uses the machine.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from psycopg.conninfo import conninfo_to_dict

from bench.figures import Figure
from bench.rig.processes import DRIVER, JAVA, WORKERS, descendants, kind_of

SOURCE, CLIENTS, TARGET = "source", "clients", "target"
"""The servers, and programs such as psql that have begun and ended meanwhile."""
KINDS: Final = (SOURCE, CLIENTS, DRIVER, JAVA, WORKERS, TARGET)
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Cpu:
    """The processor time that goes by while the `with` block lasts, by kind of process.

    `source` and `target` are the URLs of PostgreSQL servers, where there are any.
    """

    def __init__(self, source: str = "", target: str = "") -> None:
        servers = ((source, SOURCE), (target, TARGET))
        self._ports = {_port(url): name for url, name in servers if url}
        self.seconds: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._before = self._taken()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        after = self._taken()
        self.seconds = {name: after[name] - self._before[name] for name in KINDS}

    def figures(self, whose: str) -> tuple[Figure, ...]:
        """The parts that did anything."""
        return tuple(
            Figure(f"{whose}, CPU of {name}", round(spent, 2), "s")
            for name, spent in self.seconds.items()
            if spent >= 0.005
        )

    def _taken(self) -> dict[str, float]:
        mine = os.times()
        sums = dict.fromkeys(KINDS, 0.0)
        sums[DRIVER] = mine.user + mine.system
        sums[CLIENTS] = mine.children_user + mine.children_system
        for pid in descendants(os.getpid()):
            name = kind_of(pid)
            if name is not None:
                # The time of those that have ended is their parent's, as soon as it knows.
                sums[name] += _spent(pid, ended=name == WORKERS)
            elif (server := self._ports.get(_server_port(pid))) is not None:
                sums[server] += _spent(pid, ended=True)
                sums[server] += sum(_spent(below, ended=True) for below in descendants(pid))
        return sums


def _port(url: str) -> str:
    return str(conninfo_to_dict(url)["port"])


def _server_port(pid: int) -> str:
    """The port of a PostgreSQL server, if this is its first process; empty otherwise."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return ""
    is_server = Path(words[0]).name == "postgres" and "-p" in words
    return words[words.index("-p") + 1] if is_server else ""


def _spent(pid: int, *, ended: bool) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return 0.0
    user, system, of_user, of_system = map(int, stat.rpartition(")")[2].split()[11:15])
    return (user + system + (of_user + of_system if ended else 0)) / _TICKS
