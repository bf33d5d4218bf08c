"""`lockgate history`: who did what when. Kept in the metastore, so it outlives every node."""

from itertools import islice
from typing import Annotated

import typer

from lockgate.cli import asking

__all__ = ["history", "show"]

PAGE: int = 100


def history(
    asked: asking.Asked,
    about: Annotated[
        str, typer.Argument(metavar="[NAME]", help="A feed, node or endpoint; else everything.")
    ] = "",
    *,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="At most so many.")
    ] = 50,
) -> None:
    """Who did what when, the newest first."""
    show(asked, about, limit)


def show(asked: asking.Asked, about: str, limit: int) -> None:
    """The newest entries about one object, or about all."""
    from lockgate.cli import feed_show

    found = asked.lg.history(about, limit=min(limit, PAGE))
    asked.show_all(islice(found, limit), feed_show.history)
