"""How a command speaks: results on stdout, everything else on stderr.

With `--json` stdout carries one JSON document and nothing else, also when the command fails, so
that a script may always parse it. Errors come as `error: …` and `hint: …` on stderr either way.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import typer

from lockgate.model.errors import LockgateError

__all__ = [
    "INTERRUPTED",
    "JsonFlag",
    "error",
    "failure",
    "fields",
    "line",
    "next_steps",
    "note",
    "result",
]

INTERRUPTED: Final = 130
"""What shells say of a command that Ctrl-C ended."""

JsonFlag = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def line(text: str = "") -> None:
    """One line of the result, for people."""
    typer.echo(text)


def note(text: str) -> None:
    """One line beside the result: what is going on."""
    typer.echo(text, err=True)


def fields(pairs: Iterable[tuple[str, str]]) -> None:
    """Names and values, one below the other. Empty values are left out."""
    shown = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        typer.echo(f"{typer.style(name.ljust(width), dim=True)}  {value}")


def next_steps(steps: Sequence[str]) -> None:
    """What can be done next, as the node says."""
    if steps:
        typer.echo()
        typer.echo(typer.style("next", dim=True))
    for step in steps:
        typer.echo(f"  {step}")


def result(document: object) -> None:
    """The whole result, for machines. A command calls this at most once."""
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(document, enc_hook=str), indent=2))


def error(message: str, hint: str) -> None:
    """Why the command fails, and what to do next."""
    typer.secho("error:", err=True, nl=False, fg=typer.colors.RED, bold=True)
    typer.echo(f" {message}", err=True)
    if hint:
        typer.secho("hint:", err=True, nl=False, fg=typer.colors.CYAN)
        typer.echo(f" {hint}", err=True)


def failure(problem: LockgateError, *, as_json: bool) -> int:
    """Report an error that ended the command; returns the exit code it asks for."""
    if as_json:
        result({"error": problem.as_dict()})
    error(str(problem), problem.hint)
    return problem.exit_code
