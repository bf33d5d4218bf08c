"""Why a table was not made at the target."""

from lockgate.model.errors import Terminal

__all__ = ["TableDiffers", "TableNotEmpty", "TypeDiffers", "TypeMissing"]


class TableDiffers(Terminal):
    """A table of that name is there already, and rows of the source do not fit into it."""

    code = "table-differs"


class TableNotEmpty(Terminal):
    """A table of that name is there already and has rows, which Lockgate did not write."""

    code = "table-not-empty"


class TypeDiffers(Terminal):
    """A type of that name is there already and is another one."""

    code = "type-differs"


class TypeMissing(Terminal):
    """A column is of a type that Lockgate does not make: an extension's, a table's row type."""

    code = "type-missing"
