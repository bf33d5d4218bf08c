"""How diffs, and the rows that they found, look to people."""

from collections.abc import Iterable
from typing import Final

import typer

from lockgate.cli import columns, output
from lockgate.cli.progress import seconds
from lockgate.model.diffs import (
    DiffDocument,
    DiffSample,
    DiffState,
    DiffSummary,
    DiffTable,
    RowKind,
)

__all__ = ["diff", "diffs", "left_running", "line", "outcome", "rows_line", "sample_lines"]

_MARKS: Final = {RowKind.MISSING: "-", RowKind.EXTRA: "+", RowKind.DIFFERENT: "~"}
_COLOURS: Final = {RowKind.MISSING: "red", RowKind.EXTRA: "green", RowKind.DIFFERENT: "yellow"}


def diffs(found: Iterable[DiffSummary]) -> None:
    """All of them, a line each."""
    columns.show(
        (
            *("ID", "STATE", "EQUAL", "FROM", "TO", "OF", ">TABLES", ">ROWS", ">UNEQUAL"),
            *(">TIME", "STARTED", "ERROR"),
        ),
        (
            (
                *(each.id, each.state.value, _word(each.equal), each.source, each.target),
                *(_of(each.move, each.feed), f"{each.tables:,}", f"{each.rows:,}"),
                *(f"{each.unequal:,}", f"{each.seconds:.1f} s", each.started, each.error),
            )
            for each in found
        ),
        "no diffs; `lockgate diff run --feed NAME`, or --from EP --to EP --tables …, runs one",
    )


def outcome(found: DiffDocument, *, as_json: bool) -> int:
    """A diff, and the exit code that it means: 0 when the sides are equal, or it still runs."""
    if as_json:
        output.result(found)
    else:
        diff(found)
    if found.state is DiffState.FAILED:
        output.error(f"the diff failed ({found.id}): {found.error}", "; ".join(found.next_steps))
        return 1
    if found.equal is False:
        output.error(f"the two sides are not equal ({found.id})", "; ".join(found.next_steps))
        return 1
    return 0


def diff(found: DiffDocument) -> None:
    """One diff: its tables, the rows that differ, and what can be done next."""
    state = found.state.value
    rate = f", {found.rows_per_s:,.0f} rows/s" if found.rows_per_s else ""
    output.fields(
        [
            ("diff", typer.style(found.id, bold=True)),
            ("state", typer.style(state, fg=columns.colour_of(state) or None)),
            ("error", typer.style(found.error, fg="red") if found.error else ""),
            ("equal", _verdict(found.equal)),
            ("from", found.source),
            ("to", found.target),
            ("of", _of(found.move, found.feed)),
            ("position", found.position),
            ("compared", f"{rows_line(found)} in {seconds(found.seconds)}{rate}"),
            ("node", found.node),
            *(("note", note) for note in found.notes),
        ]
    )
    if found.tables:
        output.line()
        _tables(found.tables, repair=found.repair)
    for table in found.tables:
        _details(table)
    output.next_steps(found.next_steps)


def line(found: DiffDocument) -> str:
    """A diff in one line."""
    parts = [f"diff {found.id}: {found.state.value}", rows_line(found)]
    differing = sum(each.missing + each.extra + each.different for each in found.tables)
    if differing:
        parts.append(f"{differing:,} differ")
    return "; ".join(parts)


def rows_line(found: DiffDocument) -> str:
    """How far it is: rows done, of how many, and the time left."""
    progress = found.progress
    if found.state is not DiffState.RUNNING:
        return f"{progress.rows_done:,} rows"
    if not found.tables:
        return "taking a look at both sides" if found.node else "waiting to begin"
    left = "" if not progress.eta_s else f", about {seconds(progress.eta_s)} left"
    return f"{progress.rows_done:,} of about {progress.rows_total:,} rows{left}"


def left_running(found: DiffDocument, *, as_json: bool) -> None:
    """Somebody does not want to wait any longer."""
    if as_json:
        output.result(found)
    output.note(
        f"it is under way, and goes on by itself; `lockgate diff show {found.id}` shows how far "
        "it is"
    )


def sample_lines(sample: DiffSample) -> list[str]:
    """A row that differs: its key, and what each side has."""
    mark = typer.style(_MARKS[sample.kind], fg=_COLOURS[sample.kind])
    key = ", ".join(f"{name}={_text(value)}" for name, value in sample.key.items())
    head = f"  {mark} {sample.kind.value}" + (f"  {key}" if key else "")
    shown = [each for each in sample.columns if each.name not in sample.key]
    if sample.kind is RowKind.DIFFERENT:
        return [
            head,
            *(f"      {each.name}: {_text(each.source)} → {_text(each.target)}" for each in shown),
        ]
    extra = sample.kind is RowKind.EXTRA
    values = ((each.name, each.target if extra else each.source) for each in shown)
    told = ", ".join(f"{name}={_text(value)}" for name, value in values)
    return [head, f"      {told}"] if told else [head]


# --- inside ---------------------------------------------------------------------------------------


def _tables(tables: Iterable[DiffTable], *, repair: bool) -> None:
    headings = ["TABLE", ">ROWS", "EQUAL", ">MISSING", ">EXTRA", ">DIFFERENT"]
    if repair:
        headings.append(">REPAIRED")
    columns.show(
        (*headings, "ERROR"),
        (
            (
                *(_named(each), f"{each.rows:,}", _word(each.equal), f"{each.missing:,}"),
                *(f"{each.extra:,}", f"{each.different:,}"),
                *((f"{each.repaired:,}",) if repair else ()),
                each.error,
            )
            for each in tables
        ),
        "no tables",
    )


def _details(table: DiffTable) -> None:
    differing = table.missing + table.extra + table.different
    if not (table.samples or table.notes):
        return
    output.line()
    output.line(typer.style(_named(table), bold=True))
    for note in table.notes:
        output.line(f"  note: {note}")
    for sample in table.samples:
        for each in sample_lines(sample):
            output.line(each)
    if differing > len(table.samples) > 0:
        output.line(f"  … and {differing - len(table.samples):,} more")


def _named(table: DiffTable) -> str:
    return f"{table.table} → {table.target}" if table.target else table.table


def _of(move: str, feed: str) -> str:
    if move:
        return f"move {move}"
    return f"feed {feed}" if feed else ""


def _word(equal: bool | None) -> str:
    return {True: "yes", False: "no", None: "-"}[equal]


def _verdict(equal: bool | None) -> str:
    if equal is None:
        return ""
    return typer.style("yes", fg="green") if equal else typer.style("no", fg="red", bold=True)


def _text(value: str | None) -> str:
    """A value in one line. NULL is no text: a text of these four letters stands in quotes."""
    if value is None:
        return "NULL"
    plain = value.isprintable() and value == value.strip() and value not in ("", "NULL")
    return value if plain else repr(value)
