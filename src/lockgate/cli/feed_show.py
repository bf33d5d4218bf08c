"""How feeds, their tables, spans and plans look to people."""

from collections.abc import Iterable

import typer

from lockgate.cli import columns, output
from lockgate.cli.progress import seconds
from lockgate.model.documents import HistoryEntry
from lockgate.model.feed_status import (
    CopyProgress,
    FeedPlan,
    FeedStatus,
    FeedTable,
    FindingDocument,
)

__all__ = [
    "copy_line",
    "feeds",
    "findings",
    "history",
    "plan",
    "spans",
    "status",
    "status_lines",
    "tables",
]


def feeds(found: Iterable[FeedStatus]) -> None:
    """All feeds, a line each."""
    columns.show(
        ("NAME", "STATE", "SOURCE", "TARGET", ">TABLES", ">COPIED", ">LAG", "OWNER", "ERROR"),
        (
            (
                *(feed.name, feed.state.value, feed.source, feed.target, str(feed.tables)),
                *(_percent(feed.copy), _lag(feed.lag_s), feed.owner, feed.error),
            )
            for feed in found
        ),
        "no feeds; `lockgate feed create NAME --from EP --to EP --tables 'public.*'` makes one",
    )


def status(feed: FeedStatus) -> None:
    """One feed, and what can be done next."""
    for line in status_lines(feed):
        output.line(line)


def status_lines(feed: FeedStatus) -> list[str]:
    """The same as lines, for a picture that is drawn again and again."""
    state = feed.state.value
    pairs = [
        ("feed", typer.style(feed.name, bold=True)),
        ("state", typer.style(state, fg=columns.colour_of(state) or None)),
        ("error", typer.style(feed.error, fg="red") if feed.error else ""),
        ("from", feed.source),
        ("to", feed.target),
        ("tables", f"{feed.tables:,} in {feed.spans:,} span{'s' * (feed.spans != 1)}"),
        ("copy", copy_line(feed.copy)),
        ("changes", f"{feed.rows_applied:,} applied"),
        ("lag", _lag(feed.lag_s)),
        ("checkpoint", feed.checkpoint),
        ("resolved", feed.resolved),
        ("owner", f"{feed.owner or 'nobody yet'}, epoch {feed.epoch}"),
        *(("note", note) for note in feed.notes),
    ]
    shown = [(name, value) for name, value in pairs if value]
    lines = [f"{typer.style(name.ljust(10), dim=True)}  {value}" for name, value in shown]
    if feed.next_steps:
        lines += ["", typer.style("next", dim=True)]
        lines += [f"  {step}" for step in feed.next_steps]
    return lines


def tables(found: Iterable[FeedTable]) -> None:
    """The tables of a feed."""
    columns.show(
        ("TABLE", "TARGET", "STATE", ">SPANS", "CHECKPOINT", "ERROR"),
        (
            (
                *(table.table, table.target, table.state, str(len(table.spans))),
                *(table.checkpoint, table.error),
            )
            for table in found
        ),
        "no tables yet",
    )


def spans(found: Iterable[FeedTable]) -> None:
    """The spans of a feed: what is moved, split and merged."""
    columns.show(
        ("SPAN", "TABLE", "FROM", "TO", "NODE", "STATE", "POSITION", "OPERATOR", "ERROR"),
        (
            (
                *(span.span, span.table, span.low or "-", span.high or "-", span.node or "-"),
                *(span.state, span.position, span.operator, span.error),
            )
            for table in found
            for span in table.spans
        ),
        "no spans yet",
    )


def plan(planned: FeedPlan) -> None:
    """What creating a feed would make, and what stands in its way."""
    columns.show(
        ("TABLE", "TARGET", "EXISTS", "KEY", ">ROWS", "COLUMNS"),
        (
            (
                *(table.table, table.target, "yes" if table.exists else "no"),
                *(", ".join(table.key) or "(none)", f"about {table.rows_estimated:,}"),
                _columns(table.columns, table.masked, table.left_out),
            )
            for table in planned.tables
        ),
        "no tables",
    )
    conditions = [(table.table, table.rows) for table in planned.tables if table.rows]
    if conditions:
        output.line("\nonly rows where")
        output.fields(conditions)
    if planned.makes:
        output.line("\nwould be made")
        for made in planned.makes:
            output.line(f"  {made}")
    if planned.findings:
        output.line("")
        findings(planned.findings)


def findings(found: Iterable[FindingDocument]) -> None:
    """What was looked at, and what helps where it is not well."""
    for finding in found:
        word = typer.style(
            finding.severity.ljust(7), fg=columns.colour_of(finding.severity) or None
        )
        about = f" ({finding.object})" if finding.object else ""
        output.line(f"{word}  {finding.what}{about}")
        if finding.hint and finding.severity != "ok":
            output.line(f"         hint: {finding.hint}")


def history(found: Iterable[HistoryEntry]) -> None:
    """Who did what when."""
    columns.show(
        ("AT", "WHO", "DID", "TO", "DETAIL", "OUTCOME"),
        (
            (entry.at, entry.who, entry.verb, entry.object, entry.detail, entry.outcome)
            for entry in found
        ),
        "nothing was done yet",
    )


def _columns(names: tuple[str, ...], masked: tuple[str, ...], left_out: tuple[str, ...]) -> str:
    said = [str(len(names))]
    said += [f"{len(masked)} masked"] * bool(masked)
    said += [f"{len(left_out)} left out"] * bool(left_out)
    return ", ".join(said)


def copy_line(copy: CopyProgress) -> str:
    """How far a copy is; nothing when there is none."""
    if not copy.rows_total:
        return ""
    if copy.percent >= 100:
        return f"done, {copy.rows_done:,} rows"
    left = "" if copy.eta_s is None else f", about {seconds(copy.eta_s)} left"
    return f"{copy.percent:.1f} %, {copy.rows_done:,} of {copy.rows_total:,} rows{left}"


def _percent(copy: CopyProgress) -> str:
    return f"{copy.percent:.0f} %" if copy.rows_total else "-"


def _lag(lag_s: float | None) -> str:
    return "-" if lag_s is None else f"{lag_s:.1f} s"
