"""What every command that talks to a node takes: where it is, and how names are completed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lockgate.cli import completion

if TYPE_CHECKING:
    from lockgate.client import Client

__all__ = [
    "TABLES",
    "EndpointName",
    "FeedName",
    "HomeOption",
    "MorePatterns",
    "MoveName",
    "NodeName",
    "UrlOption",
    "node",
    "side",
]

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Where the server is. [default: LOCKGATE_URL, or http://127.0.0.1:8642]",
    ),
]
HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home",
        metavar="DIR",
        help="The server's home, where its token is, unless LOCKGATE_TOKEN holds one. "
        "[default: LOCKGATE_HOME, or ./lockgate-home]",
    ),
]
FeedName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The feed's name.", autocompletion=completion.feeds),
]
MoveName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The move's name.", autocompletion=completion.moves),
]
EndpointName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The endpoint's name.", autocompletion=completion.endpoints
    ),
]
NodeName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The node's name.", autocompletion=completion.nodes),
]

TABLES: Final = typer.Option(
    "--tables",
    metavar="PATTERN…",
    help="schema.table with * and ?; !pattern leaves out. Several may follow.",
)
MorePatterns = Annotated[list[str] | None, typer.Argument(metavar="PATTERN", hidden=True)]
"""`--tables a b c`: what follows the first comes as further arguments."""


def side(option: str, what: str) -> Any:
    """An option that names the endpoint on one side: `--from`, `--to`."""
    return typer.Option(option, metavar="EP", help=what, autocompletion=completion.endpoints)


@contextmanager
def node(url: str | None, home: Path | None) -> "Iterator[Client]":
    """A client of the node that the options, or the environment, name."""
    from lockgate.client import connect

    with connect(url, home=home) as client:
        yield client
