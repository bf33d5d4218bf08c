"""Positions: points in a source's log, totally ordered.

An endpoint maps its own coordinates (LSN, binlog file and offset) onto one integer, so that
comparing two positions never needs to know the endpoint. A span *at* position p has applied
every change up to and including p.
"""

Position = int

ORIGIN: Position = 0
"""Before the first change of any log."""
