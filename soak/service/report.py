"""What came of a soak: for people, and as JSON."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["show", "write"]


def write(path: Path, result: dict[str, Any]) -> None:
    """Whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".json.tmp")
    half.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    half.replace(path)


def show(result: dict[str, Any]) -> None:
    """As a table, then what was found."""
    console = Console(highlight=False)
    table = Table(title=f"the service, soaked for {result['seconds']:.0f} s, seed {result['seed']}")
    table.add_column("")
    table.add_column("", justify="right")
    table.add_column("")
    table.add_row("rounds", str(result["rounds"]), f"recovered within {_slowest(result)}")
    for kind in ("kills", "pauses", "partitions", "ddl"):
        table.add_row(kind, str(sum(result[kind].values())), _list(result[kind]))
    for verb, ends in result["operators"].items():
        table.add_row(f"people: {verb}", str(sum(ends.values())), _list(ends))
    table.add_row("lives of nodes", str(result["lives"]), f"{_list(result['epochs'])} (epochs)")
    table.add_row("transactions", f"{result['transactions']:,}", f"{result['refused']:,} refused")
    table.add_row("rows", f"{result['rows']:,}", f"in {len(result['tables'])} tables")
    table.add_row(
        "longest without progress",
        f"{max(result['longest_without_progress_s'].values()):.1f} s",
        _list(result["longest_without_progress_s"]),
    )
    table.add_row("looks at the target", f"{result['looks']:,}", "each key covered once")
    table.add_row(
        "compared",
        "equal" if result["equal"] else "NOT EQUAL",
        f"{result['missing']} missing, {result['extra']} extra, {result['different']} different",
    )
    console.print(table)
    for table_name, one in result["tables"].items():
        if one["examples"]:
            console.print(f"  {table_name}: {'; '.join(one['examples'])}", markup=False)
    for found in result["found"]:
        console.print(f"  FOUND {found}", markup=False, soft_wrap=True)
    console.print(f"  warnings and errors in logs: {_list(result['told'])}", markup=False)
    console.print("passed" if result["passed"] else "FAILED")


def _slowest(result: dict[str, Any]) -> str:
    return f"{max(result['recoveries_s'], default=0.0):.1f} s"


def _list(counts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
