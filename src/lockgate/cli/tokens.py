"""`lockgate token`: who may ask for what."""

from typing import TYPE_CHECKING, Annotated

import typer

from lockgate.cli import asking, columns, output
from lockgate.model.tokens import Role

if TYPE_CHECKING:
    from lockgate.client.cluster import NewToken, TokenName

__all__ = ["app"]

app = typer.Typer(help="Who may ask for what.")


@asking.command(app)
def add(
    asked: asking.Asked,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is to be.")],
    *,
    role: Annotated[
        Role,
        typer.Option(
            "--role",
            help="A viewer looks; an operator also creates, pauses, moves; an admin also removes, "
            "and deals with endpoints and tokens.",
        ),
    ] = Role.VIEWER,
) -> None:
    """Make a token. It is shown this once, alone on stdout."""
    asked.show(asked.lg.tokens.add(name, role), _show_made)


@asking.command(app, "list")
def list_(asked: asking.Asked) -> None:
    """All tokens by name, with their roles; never the tokens themselves."""
    asked.show_all(asked.lg.tokens.list(), _show_all)


@asking.command(app)
def remove(
    asked: asking.Asked,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is.")],
) -> None:
    """From now on a token opens nothing."""
    asked.lg.tokens.remove(name)
    asked.show_removed(name, f"removed the token {name}")


# --- inside ---------------------------------------------------------------------------------------


def _show_made(made: "NewToken") -> None:
    output.line(made.token)
    whose = f"{made.name} is {_a(made.role.value)}"
    output.note(f"{whose}; set LOCKGATE_TOKEN to it. It is not shown again")


def _show_all(found: "list[TokenName]") -> None:
    columns.show(("NAME", "ROLE"), ((one.name, one.role.value) for one in found), "no tokens")


def _a(word: str) -> str:
    return f"a{'n' * (word[0] in 'aeiou')} {word}"
