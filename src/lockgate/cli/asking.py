"""What commands that talk to a node have in common: where it is, what they take, how they answer.

    @asking.command(app)
    def pause(asked: asking.Asked, name: asking.FeedName) -> None:
        asked.show(asked.lg.feeds.pause(name), feed_show.status)

Such a command has the options --url, --home and --json behind those of its own, and gets what they
say as its first argument.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, TypeVar

import typer

from lockgate.cli import completion, output

if TYPE_CHECKING:
    from lockgate.client import Client

__all__ = [
    "TABLES",
    "Asked",
    "EndpointName",
    "FeedName",
    "MorePatterns",
    "MoveName",
    "NodeName",
    "command",
    "side",
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

T = TypeVar("T")


def side(option: str, what: str) -> Any:
    """An option that names the endpoint on one side: `--from`, `--to`."""
    return typer.Option(option, metavar="EP", help=what, autocompletion=completion.endpoints)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the options say that all these commands have: whom to ask, and how to show the answer.

    The fields that it is made of are the options.
    """

    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="Where the server is. [default: LOCKGATE_URL, or http://127.0.0.1:8642]",
        ),
    ] = None
    home: Annotated[
        Path | None,
        typer.Option(
            "--home",
            metavar="DIR",
            help="The server's home, where its token is, unless LOCKGATE_TOKEN holds one. "
            "[default: LOCKGATE_HOME, or ./lockgate-home]",
        ),
    ] = None
    as_json: output.JsonFlag = False
    opened: ExitStack = field(init=False, default_factory=ExitStack)
    """Is closed when the command is over."""

    @functools.cached_property
    def lg(self) -> "Client":
        """A client of the node. Not made before it is wanted: what is wrong with the command itself
        is said first."""
        from lockgate.client import connect

        return self.opened.enter_context(connect(self.url, home=self.home))

    def show(self, answer: T, to_people: Callable[[T], None]) -> None:
        """What the node has answered: as it is for machines."""
        if self.as_json:
            output.result(answer)
        else:
            to_people(answer)

    def show_all(self, answers: Iterable[T], to_people: Callable[[list[T]], None]) -> None:
        """A list of the node's."""
        found = list(answers)
        if self.as_json:
            output.result({"items": found})
        else:
            to_people(found)

    def show_removed(self, name: str, to_people: str) -> None:
        """That something is gone."""
        self.show({"name": name, "removed": True}, lambda _: output.line(to_people))


Command = TypeVar("Command", bound=Callable[Concatenate[Asked, ...], int | None])

_SHARED: Final = inspect.signature(Asked).parameters.values()


def command(app: typer.Typer, name: str | None = None) -> Callable[[Command], Command]:
    """Make the function a command of the group, as `app.command` does, and give it `Asked`."""

    def made(function: Command) -> Command:
        @functools.wraps(function)
        def run(*, url: str | None, home: Path | None, as_json: bool, **said: Any) -> int | None:
            asked = Asked(url=url, home=home, as_json=as_json)
            with asked.opened:
                return function(asked, **said)

        _, *own = inspect.signature(function).parameters.values()
        # Typer makes arguments and options of what the signature says.
        run.__signature__ = inspect.Signature([*own, *_SHARED])  # type: ignore[attr-defined]
        app.command(name)(run)
        return function

    return made
