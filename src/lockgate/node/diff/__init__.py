"""Diffs on a node: tables of two sides compared, by whichever node has room for it.

sides        what an order means now: addresses, tables, and snapshots to compare them under
lake_tables  which tables of a lake that means, where a lake is the source
work         one attempt at one diff, from its plan to its end
runner       which diffs are worked on here; those that dead nodes have left, too
"""
