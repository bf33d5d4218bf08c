"""How moves, their steps and what came of a command look to people."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import typer

from lockgate.cli import columns, feed_show, output
from lockgate.cli.progress import seconds
from lockgate.client.moves import took_s
from lockgate.model.move_status import MoveFeed, MoveOutcome, MoveStatus, MoveStep
from lockgate.model.moves import MoveState

__all__ = [
    "document",
    "left_running",
    "line",
    "moves",
    "outcome",
    "plan",
    "status",
    "status_lines",
    "step_line",
]

_OVER = frozenset({MoveState.COMPLETED, MoveState.CANCELLED})


def moves(found: Iterable[MoveStatus]) -> None:
    """All moves, a line each."""
    columns.show(
        ("NAME", "STATE", "FROM", "TO", ">TABLES", "TRAFFIC", ">COPIED", ">LAG", "STEP", "ERROR"),
        (
            (
                *(move.name, move.state.value, move.source, move.target, f"{len(move.tables):,}"),
                *(move.traffic, _copied(move), _lag(move.lag_s), move.step or "-", move.error),
            )
            for move in found
        ),
        "no moves; `lockgate move create NAME --from EP --to EP --tables 'public.*'` begins one",
    )


def status(move: MoveStatus) -> None:
    """One move, and what can be done next."""
    for each in status_lines(move):
        output.line(each)


def status_lines(move: MoveStatus) -> list[str]:
    """The same as lines, for a picture that is drawn again and again."""
    state = move.state.value
    pairs = [
        ("move", typer.style(move.name, bold=True)),
        ("state", typer.style(state, fg=columns.colour_of(state) or None)),
        ("error", typer.style(move.error, fg="red") if move.error else ""),
        ("from", move.source),
        ("to", move.target),
        ("tables", _tables(move.tables)),
        ("traffic", _traffic(move)),
        ("copy", feed_show.copy_line(move.copy)),
        ("lag", "" if move.lag_s is None else _lag(move.lag_s)),
        ("forward", _feed(move.forward)),
        ("reverse", _feed(move.reverse)),
        ("as of", move.as_of),
        ("hook", move.hook),
        *(("kept", each) for each in move.kept),
        *(("note", note) for note in move.notes),
    ]
    shown = [(name, value) for name, value in pairs if value]
    lines = [f"{typer.style(name.ljust(7), dim=True)}  {value}" for name, value in shown]
    if move.steps:
        lines += ["", typer.style(f"steps of {move.command}", dim=True)]
        lines += [f"  {step_line(step)}" for step in move.steps]
    if move.next_steps:
        lines += ["", typer.style("next", dim=True)]
        lines += [f"  {step}" for step in move.next_steps]
    return lines


def step_line(step: MoveStep) -> str:
    """One step: how it is, how long it took, and what it did."""
    state = typer.style(step.state.ljust(7), fg=columns.colour_of(step.state) or None)
    took = took_s(step)
    time = "" if took is None else f"{took:.2f} s"
    return f"{step.name.ljust(14)}  {state}  {time.rjust(9)}  {step.detail}".rstrip()


def line(move: MoveStatus) -> str:
    """A move in one line."""
    parts = [f"{move.name}: {move.state.value}"]
    if move.step:
        parts.append(f"step {move.step}")
    copy = move.copy
    if copy.rows_total and copy.percent < 100:
        left = "" if copy.eta_s is None else f", about {seconds(copy.eta_s)} left"
        parts.append(f"copied {copy.rows_done:,} of {copy.rows_total:,} rows{left}")
    parts.append(f"traffic {move.traffic}")
    if move.lag_s is not None:
        parts.append(f"lag {move.lag_s:.1f} s")
    if move.error:
        parts.append(move.error)
    return "; ".join(parts)


# --- what came of a command -----------------------------------------------------------------------


def document(told: MoveOutcome, name: str) -> dict[str, Any]:
    """For scripts: the move's status, and beside it what came of the command. Of a dry run `steps`
    are those that would be done."""
    shown: dict[str, Any] = {"name": name} if told.status is None else asdict(told.status)
    shown |= {"verdict": told.verdict, "what": told.what, "hint": told.hint, "dry_run": told.dry}
    if told.dry:
        shown |= {"steps": told.steps, "findings": told.findings}
    return shown


def outcome(told: MoveOutcome, name: str, done: str, *, as_json: bool) -> int:
    """What came of a command; the exit code that it means. `done`: in words, if it went well."""
    if as_json:
        output.result(document(told, name))
    elif told.dry:
        plan(told)
    else:
        nothing = f"there was nothing to do ({name})"
        output.line(told.what or (nothing if told.verdict == "nothing-to-do" else done))
        if told.status is not None:
            for note in told.status.notes if told.status.state in _OVER else ():
                output.line(note)
            output.next_steps(told.status.next_steps)
    errors = sum(finding.severity == "error" for finding in told.findings)
    if errors:
        output.error(
            f"{errors} thing{'s' * (errors != 1)} stand{'s' * (errors == 1)} in the way ({name})",
            "each says what helps",
        )
    if told.verdict not in {"done", "nothing-to-do"}:
        output.error(f"{told.what or told.verdict} ({name})", told.hint)
        return 1
    return 1 if errors else 0


def plan(told: MoveOutcome) -> None:
    """What a command would do."""
    if told.what:
        output.line(told.what)
    columns.show(
        ("STEP", "WOULD"),
        ((step.name, step.detail) for step in told.steps),
        "nothing would be done",
    )
    if told.findings:
        output.line()
        feed_show.findings(told.findings)
    output.note("this was a dry run: nothing was changed")


def left_running(name: str, *, as_json: bool) -> None:
    """Somebody does not want to wait any longer."""
    what = "it is under way, and goes on by itself"
    hint = f"`lockgate move watch {name}` shows how far it is"
    if as_json:
        output.result(document(MoveOutcome("", "under-way", what, hint), name))
    output.note(f"{what}; {hint}")


# --- inside ---------------------------------------------------------------------------------------


def _traffic(move: MoveStatus) -> str:
    endpoint = {"source": move.source, "target": move.target}.get(move.traffic, "")
    return f"{move.traffic} ({endpoint})" if endpoint else move.traffic


def _tables(tables: Sequence[str], most: int = 8) -> str:
    named = ", ".join(tables[:most])
    return f"{named} and {len(tables) - most:,} more" if len(tables) > most else named


def _feed(feed: MoveFeed | None) -> str:
    if feed is None:
        return ""
    lag = "" if feed.lag_s is None else f", lag {feed.lag_s:.1f} s"
    return f"{feed.feed}: {feed.state}{lag}"


def _copied(move: MoveStatus) -> str:
    return f"{move.copy.percent:.0f} %" if move.copy.rows_total else "-"


def _lag(lag_s: float | None) -> str:
    return "-" if lag_s is None else f"{lag_s:.1f} s"
