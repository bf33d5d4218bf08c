"""Runs a hook's program for a node that may die, or stand still, at any moment.

    node ──► warden ──► program and what it starts      one session, one process group
      └── lifeline: until when the program has leave to run; its end is the node's end

    the program ends, the lifeline ends, its time or its leave is over:  the whole group is killed

A program that outlived its node, or the node's lease, would hold traffic that a successor has let
go on. So whoever dies, somebody is left to end it: of a node this one, and of this one the node.
How the program ended is told by a pipe, because this one goes with the group. Time is the clock
that all processes of a machine share, so a node that stands still holds up nothing.

A script of its own: it is started with nothing but the standard library, in milliseconds.

    warden.py LIFELINE REPORT DEADLINE PROGRAM [ARGUMENT …]
"""

import os
import select
import signal
import struct
import sys
import time

_LEAVE = struct.Struct("d")
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What a machine that shuts down sends to everybody: the program hears it, and this one stays."""


def main(words: list[str]) -> None:
    """Never returns: it goes with the group."""
    lifeline, report, deadline = int(words[0]), int(words[1]), float(words[2])
    assert os.getpgrp() == os.getpid(), "a group of its own: it is killed"
    try:
        for inherited in (lifeline, report):
            os.set_inheritable(inherited, False)
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for each in _ENDING:
            signal.signal(each, signal.SIG_IGN)
        poll = select.poll()
        poll.register(lifeline, select.POLLIN)
        leave = _leave(lifeline)
        if leave is None or time.monotonic() >= min(deadline, leave):
            return
        poll.register(woken, select.POLLIN)
        child = os.fork()
        if child == 0:
            _become(words[3:], report)
        while (left_s := min(deadline, leave) - time.monotonic()) > 0:
            happened = [fd for fd, _ in poll.poll(left_s * 1000 + 1)]
            if lifeline in happened and (leave := _leave(lifeline)) is None:
                return
            if woken in happened:
                os.read(woken, 64)
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                _say(report, f"ended {os.waitstatus_to_exitcode(status)}")
                return
    finally:
        os.killpg(os.getpgrp(), signal.SIGKILL)


def _leave(lifeline: int) -> float | None:
    """What the node has said last; it has said something before it began. None: it is gone."""
    said = os.read(lifeline, 64 * _LEAVE.size)
    return _LEAVE.unpack(said[-_LEAVE.size :])[0] if said else None


def _become(command: list[str], report: int) -> None:
    """Never returns."""
    try:
        for each in (*_ENDING, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(each, signal.SIG_DFL)
        os.execv(command[0], command)
    except OSError as error:
        _say(report, f"unfit {error.errno}")
    finally:
        os._exit(127)


def _say(report: int, what: str) -> None:
    """The first line counts."""
    os.write(report, f"{what}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
