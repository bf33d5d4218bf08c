"""`lockgate demo`: a first look, on this machine, with nothing set up before."""

from lockgate.cli import output

__all__ = ["demo"]


def demo(*, as_json: output.JsonFlag = False) -> int:
    """Show what Lockgate does, on this machine."""
    import time

    from rich.console import Console

    from lockgate.sim.demo import run as show

    started = time.monotonic()
    # With --json the show itself goes to stderr: stdout belongs to the document.
    code = show(Console(stderr=as_json))
    if as_json:
        output.result({"ok": code == 0, "seconds": round(time.monotonic() - started, 3)})
    if code != 0:
        output.error("the demo did not reach its end", "what it printed last says where it stopped")
    return code
