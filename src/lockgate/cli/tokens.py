"""`lockgate token`: who may ask for what."""

from typing import Annotated

import typer

from lockgate.cli import asking, columns, output
from lockgate.model.tokens import Role

__all__ = ["app"]

app = typer.Typer(help="Who may ask for what.")


@app.command()
def add(
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
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """Make a token. It is shown this once, alone on stdout."""
    with asking.node(url, home) as lg:
        made = lg.tokens.add(name, role)
    if as_json:
        output.result(made)
        return
    output.line(made.token)
    output.note(f"{name} is {_a(made.role.value)}; set LOCKGATE_TOKEN to it. It is not shown again")


@app.command("list")
def list_(
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """All tokens by name, with their roles; never the tokens themselves."""
    with asking.node(url, home) as lg:
        found = list(lg.tokens.list())
    if as_json:
        output.result({"items": found})
        return
    columns.show(("NAME", "ROLE"), ((one.name, one.role.value) for one in found), "no tokens")


@app.command()
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is.")],
    *,
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """From now on a token opens nothing."""
    with asking.node(url, home) as lg:
        lg.tokens.remove(name)
    if as_json:
        output.result({"name": name, "removed": True})
    else:
        output.line(f"removed the token {name}")


def _a(word: str) -> str:
    return f"a{'n' * (word[0] in 'aeiou')} {word}"
