"""How lakes, their tables, and what came of a request look to people."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import typer

from lockgate.cli import columns, output
from lockgate.model.lake_documents import UNDER_WAY, LakeOutcome, LakeSummary, LakeTableDocument

__all__ = ["document", "lake", "left_running", "outcome", "size", "table"]

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def document(seen: LakeSummary, tables: Sequence[LakeTableDocument]) -> dict[str, Any]:
    """A lake for scripts: as every list, and beside the items who leads."""
    return {**asdict(seen), "items": tables}


def lake(seen: LakeSummary, tables: Sequence[LakeTableDocument]) -> None:
    """A lake, then its tables, a line each."""
    under_way = "" if seen.stage == seen.role else f", {seen.stage}"
    counted = f", {seen.done:,} of {seen.total:,} tables" if seen.total else ""
    output.fields(
        [
            ("lake", typer.style(seen.lake, bold=True)),
            ("role", typer.style(seen.role, fg=_colour(seen.role)) + under_way + counted),
            ("error", typer.style(seen.error, fg="red") if seen.error else ""),
            ("leader", _leader(seen)),
            ("tables", f"{seen.tables:,}, as of {seen.seen_s:.1f} s ago"),
        ]
    )
    output.line()
    columns.show(
        ("TABLE", "STATE", ">STABLE", ">INGEST", ">SEGMENTS", ">SIZE", "DRAINED-TO", "ERROR"),
        (
            (
                *(each.table, each.state, f"{each.stable_rows:,}", f"{each.ingest_rows:,}"),
                *(f"{each.ingest_segments:,}", size(each.size_bytes), each.drained_to, each.error),
            )
            for each in tables
        ),
        f"no tables; `lockgate feed create NAME --from EP --to {seen.lake} --tables 'public.*'` "
        "brings some",
    )
    output.next_steps(seen.next_steps)


def table(seen: LakeTableDocument) -> None:
    """One table, and what can be done next."""
    waiting = f"{seen.ingest_rows:,} changes in {seen.ingest_segments:,} segment"
    output.fields(
        [
            ("table", typer.style(seen.table, bold=True)),
            ("state", typer.style(seen.state, fg=_colour(seen.state))),
            ("error", typer.style(seen.error, fg="red") if seen.error else ""),
            ("role", f"{seen.role}, epoch {seen.epoch}" if seen.epoch else seen.role),
            ("stable", f"{seen.stable_rows:,} rows, version {seen.stable_version:,}"),
            ("ingest", waiting + "s" * (seen.ingest_segments != 1)),
            ("drained to", seen.drained_to),
            ("size", f"{size(seen.size_bytes)} ({seen.size_bytes:,} bytes)"),
            ("incarnation", str(seen.incarnation)),
        ]
    )
    output.next_steps(seen.next_steps)


def outcome(told: LakeOutcome, done: str, object_: str, *, as_json: bool) -> int:
    """What came of a request; the exit code that it means. `done`: in words, if it went well."""
    if as_json:
        output.result(told)
    if told.verdict not in {"done", "nothing-to-do"}:
        output.error(f"{told.what or told.verdict} ({object_})", told.hint)
        return 1
    if not as_json:
        nothing = f"there was nothing to do ({object_})"
        output.line(told.what or (done if told.verdict == "done" else nothing))
    for each in told.failed:
        output.note(f"not yet: {each}")
    return 0


def left_running(endpoint: str, *, as_json: bool) -> None:
    """Somebody does not want to wait any longer."""
    what = "it is under way, and goes on by itself"
    hint = f"`lockgate lake list {endpoint}` shows how far it is"
    if as_json:
        output.result(LakeOutcome("", UNDER_WAY, what, hint))
    output.note(f"{what}; {hint}")


def size(count: int) -> str:
    """An amount of bytes as people say it."""
    amount = float(count)
    for unit in _UNITS:
        if amount < 1024 or unit == _UNITS[-1]:
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def _leader(seen: LakeSummary) -> str:
    if not seen.leader:
        return "nobody"
    return f"{seen.leader}, epoch {seen.epoch}" if seen.epoch else seen.leader


def _colour(word: str) -> str | None:
    return columns.colour_of(word) or None
