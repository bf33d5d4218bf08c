"""How results are shown and kept."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.figures import Figure, Result, Verdict

GIB = 2**30
MET, MISSED, UNKNOWN = "met", "MISSED", "not measured"


def show(console: Console, result: Result) -> None:
    """The result as a table, a column per case, with a verdict on every goal."""
    console.print(f"[bold]{result.title}[/]", highlight=False)
    table = Table()
    table.add_column("")
    for row in result.rows:
        table.add_column(row.case, justify="right")
    for name in _names(result):
        table.add_row(name, *(_cell(row.figure(name)) for row in result.rows))
    console.print(table)
    if result.plot:
        console.print(result.plot, highlight=False, markup=False)
    for figure in result.overall:
        console.print(f"  {figure.name}: {_cell(figure)}", highlight=False)
    for verdict in result.limits:
        word, style = _word(verdict), {True: "green", False: "bold red", None: "dim"}
        console.print(f"  [{style[verdict.passed]}]{word}[/]  {verdict.limit.goal}{_got(verdict)}")
    for note in result.notes:
        console.print(f"  note: {note}", markup=False)
    console.print()


def keep(result: Result, directory: Path, svg: str) -> None:
    """Write the result, then the summary of all results that are there."""
    directory.mkdir(parents=True, exist_ok=True)
    document = msgspec.json.format(msgspec.json.encode(result), indent=2)
    _write(directory / f"{result.name}.json", document + b"\n")
    if svg:
        _write(directory / f"{result.name}.svg", svg.encode())


def summarise(directory: Path, order: Iterable[str]) -> None:
    """Write `summary.md` from the JSON files, in this order."""
    files = [directory / f"{name}.json" for name in order]
    results = [msgspec.json.decode(f.read_bytes(), type=Result) for f in files if f.exists()]
    if results:
        _write(directory / "summary.md", _summary(results, directory).encode())


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all: a run that breaks off leaves the last result as it was."""
    half = path.with_suffix(path.suffix + ".tmp")
    half.write_bytes(content)
    half.replace(path)


# --- Markdown -------------------------------------------------------------------------------------


def _summary(results: list[Result], directory: Path) -> str:
    lines = ["# Measured", "", "Written by `make bench`; do not edit.", ""]
    lines += ["| goal | measured | |", "| --- | ---: | --- |"]
    for result in results:
        for verdict in result.limits:
            measured = "" if verdict.value is None else _number(verdict.value, verdict.limit.unit)
            lines.append(f"| {verdict.limit.goal} | {measured} | {_word(verdict)} |")
    for result in results:
        lines += ["", f"## {result.name}", "", f"{result.title}.", "", *_rows(result)]
        if (directory / f"{result.name}.svg").exists():
            lines += ["", f"![{result.title}]({result.name}.svg)"]
        for note in result.notes:
            lines += ["", f"Note: {note}"]
        lines += ["", _where(result)]
    return "\n".join([*lines, ""])


def _rows(result: Result) -> list[str]:
    cases = [row.case for row in result.rows]
    lines = ["| | " + " | ".join(cases) + " |", "| --- |" + " ---: |" * len(cases)]
    for name in _names(result):
        cells = [_cell(row.figure(name)) for row in result.rows]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    for figure in result.overall:
        lines += ["", f"{figure.name.capitalize()}: {_cell(figure)}."]
    return lines


def _where(result: Result) -> str:
    host = result.machine
    return (
        f"{result.date}, {host.cores} cores, {host.memory / GIB:.0f} GiB, {host.python}, "
        f"{host.platform}."
    )


# --- words ----------------------------------------------------------------------------------------


def _names(result: Result) -> list[str]:
    """The names of all figures, each once, in the order in which they come."""
    return list(dict.fromkeys(figure.name for row in result.rows for figure in row.figures))


def _cell(figure: Figure | None) -> str:
    return "" if figure is None else _number(figure.value, figure.unit)


def _number(value: float | int, unit: str) -> str:
    if isinstance(value, int):
        text = f"{value:,}"
    else:
        text = f"{value:,.1f}" if value >= 100 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def _word(verdict: Verdict) -> str:
    return {True: MET, False: MISSED, None: UNKNOWN}[verdict.passed]


def _got(verdict: Verdict) -> str:
    if verdict.value is None:
        return ""
    return f": {_number(verdict.value, verdict.limit.unit)}"
