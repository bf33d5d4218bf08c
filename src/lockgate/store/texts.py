"""Which text a database can hold.

PostgreSQL keeps no NUL in text, and neither database keeps half a surrogate pair. JSON can carry
both, so people and scripts can send them. Whoever looks for such a name is told that it is not
there, as for any other name that nobody wrote; whoever keeps a remark keeps it without them.
"""

from lockgate.model.errors import UsageError

__all__ = ["fits", "mended", "wanted"]


def fits(text: str) -> bool:
    """True when every metastore can hold it."""
    return mended(text) == text


def mended(text: str) -> str:
    """The text, with `?` and `\N{REPLACEMENT CHARACTER}` for what no metastore can hold."""
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def wanted(name: str, what: str) -> str:
    """The name, which is going to be written. Raises UsageError when it cannot be."""
    if fits(name):
        return name
    raise UsageError(
        f"{what} has a character in it that cannot be kept",
        object_=mended(name),
        hint="leave out the NUL character and halves of surrogate pairs",
    )
