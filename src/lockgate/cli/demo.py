"""`lockgate demo`: a first look, on this machine, with nothing set up before."""

from typing import Annotated

import typer

from lockgate.cli import output

__all__ = ["demo"]


def demo(
    *,
    rows: Annotated[int, typer.Option("--rows", min=10, help="Rows to begin with.")] = 100_000,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the feed's home directory.")] = False,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="A failover in the simulator instead: quick.")
    ] = False,
    as_json: output.JsonFlag = False,
) -> int:
    """Show what Lockgate does, on this machine."""
    import time

    from rich.console import Console

    started = time.monotonic()
    # With --json the show itself goes to stderr: stdout belongs to the document.
    console = Console(stderr=as_json)
    if simulated:
        from lockgate.sim.demo import run as simulate

        good = simulate(console) == 0
    else:
        from lockgate.demo.show import run as show

        good = show(console, rows, keep)
    if as_json:
        output.result({"ok": good, "seconds": round(time.monotonic() - started, 3)})
    if not good:
        output.error("the demo did not reach its end", "what it printed last says where it stopped")
    return 0 if good else 1
