"""How many connections to the metastore a process has, and for whom.

    core      join, renew, commit, load: one thread asks, and a lease hangs on the answer
    data      the change log: the engines of feeds
    people    all others: what is asked over HTTP, books, reports

Three pools, because who waits for a connection waits behind everybody of the same pool. People can
ask more than there are connections for, and may read for seconds; a node that cannot renew its
lease meanwhile would stop all its work because somebody looked at it.
"""

from typing import Final

__all__ = ["CORE", "DATA", "PEOPLE"]

CORE: Final = (2, 0)
DATA: Final = (2, 6)
PEOPLE: Final = (5, 10)
"""Connections that are kept open, and further ones, closed when they are not needed any more."""
