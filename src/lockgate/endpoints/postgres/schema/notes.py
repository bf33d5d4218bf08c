"""What people should know of a table before its rows travel: things left out, things to mend."""

from lockgate.model.value import Value

__all__ = ["Note"]


class Note(Value, frozen=True):
    """One thing worth saying about one object. A `blocking` one must be mended first."""

    code: str
    """Stable, for scripts."""
    object: str
    what: str
    hint: str = ""
    blocking: bool = False

    def __str__(self) -> str:
        return f"{self.object}: {self.what}"
