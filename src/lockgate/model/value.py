"""The base of everything that is passed around: frozen values.

A value holds values only, never itself, so values form no cycles: `gc=False` spares the
cyclic collector the walk over millions of them, which was most of the time of a large bootstrap.
"""

import msgspec


class Value(msgspec.Struct, frozen=True, gc=False):
    """A frozen value with the wire and disk format for free."""
