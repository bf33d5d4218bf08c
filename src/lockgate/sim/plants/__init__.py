"""Planted bugs: each breaks one method, and the laws must notice.

A checker that no bug has ever set off proves nothing. Every plant says which law it breaks.
"""

from lockgate.sim.plants import (
    at_coordinator,
    at_lake,
    at_lost_side,
    at_maintainer,
    at_move,
    at_move_sides,
    at_node,
    at_owner,
    at_sink,
    at_writer,
)
from lockgate.sim.plants.registry import PLANTS, Plant

__all__ = [
    "PLANTS",
    "Plant",
    "at_coordinator",
    "at_lake",
    "at_lost_side",
    "at_maintainer",
    "at_move",
    "at_move_sides",
    "at_node",
    "at_owner",
    "at_sink",
    "at_writer",
]
