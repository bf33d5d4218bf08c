"""`lockgate history`: who did what when. Kept in the metastore, so it outlives every node."""

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from lockgate.cli import asking, output

__all__ = ["history", "show"]

PAGE: int = 100


def history(
    about: Annotated[
        str, typer.Argument(metavar="[NAME]", help="A feed, node or endpoint; else everything.")
    ] = "",
    *,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="At most so many.")
    ] = 50,
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """Who did what when, the newest first."""
    show(about, limit, url, home, as_json=as_json)


def show(about: str, limit: int, url: str | None, home: Path | None, *, as_json: bool) -> None:
    """The newest entries about one object, or about all."""
    with asking.node(url, home) as lg:
        found = list(islice(lg.history(about, limit=min(limit, PAGE)), limit))
    if as_json:
        output.result({"items": found})
        return
    from lockgate.cli import feed_show

    feed_show.history(found)
