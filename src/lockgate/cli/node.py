"""`lockgate node`: the processes of the cluster, and how to empty one."""

import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lockgate.cli import asking, columns, output, progress
from lockgate.model.errors import NotFound, Transient

if TYPE_CHECKING:
    from lockgate.client import Client
    from lockgate.model.documents import NodeStatus

__all__ = ["app"]

LOOK_S: Final = 0.5

app = typer.Typer(help="Lockgate's own processes.")


@asking.command(app, "list")
def list_(asked: asking.Asked) -> None:
    """All nodes that ever joined, and what they run."""
    asked.show_all(asked.lg.nodes.list(), _show_all)


@asking.command(app)
def drain(
    asked: asking.Asked,
    name: asking.NodeName,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until nothing is left on it.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, metavar="S", help="With --wait: give up after.")
    ] = 300.0,
) -> int:
    """Have everything leave a node, so that it can be stopped. Nothing new is given to it."""
    status = asked.lg.nodes.drain(name)
    if wait:
        status = _emptied(asked.lg, status, timeout)
    left = status.feeds + status.dispatchers
    asked.show(status, _show)
    if wait and status.state.value == "draining":
        output.error(
            f"{left:,} are still on it after {timeout:g} s ({name})",
            "it goes on by itself; `lockgate node list` shows how far it is",
        )
        return 1
    return 0


# --- inside ---------------------------------------------------------------------------------------


def _show(status: "NodeStatus") -> None:
    output.fields(
        [
            ("node", status.name),
            ("state", status.state.value),
            ("feeds", f"{status.feeds:,} left"),
            ("dispatchers", f"{status.dispatchers:,} left"),
        ]
    )
    output.next_steps(status.next_steps)


def _show_all(found: "list[NodeStatus]") -> None:
    columns.show(
        ("NAME", "STATE", "ADDRESS", ">LIFE", "COORDINATOR", ">FEEDS", ">DISPATCHERS"),
        (
            (
                *(node.name, node.state.value, node.address, str(node.incarnation)),
                *("yes" if node.coordinator else "", str(node.feeds), str(node.dispatchers)),
            )
            for node in found
        ),
        "no nodes",
    )


def _emptied(lg: "Client", status: "NodeStatus", timeout_s: float) -> "NodeStatus":
    """Wait until the node is no longer draining."""
    deadline = time.monotonic() + timeout_s
    most = status.feeds + status.dispatchers
    with progress.counted(f"{status.name}: moved away") as advance:
        while status.state.value == "draining" and time.monotonic() < deadline:
            left = status.feeds + status.dispatchers
            most = max(most, left)
            advance(most - left, most)
            time.sleep(LOOK_S)
            try:
                status = _one(lg, status.name)
            except Transient as error:
                output.note(f"{error}; trying again")
    return status


def _one(lg: "Client", name: str) -> "NodeStatus":
    for node in lg.nodes.list():
        if node.name == name:
            return node
    raise NotFound("there is no such node", object_=name, hint="`lockgate node list` names them")
