"""`lockgate endpoint`: name databases, and see whether they are fit for a feed."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lockgate.cli import asking, columns, output

if TYPE_CHECKING:
    from lockgate.model.documents import Endpoint, EndpointReport

__all__ = ["app"]

app = typer.Typer(help="Databases, by name.")


@asking.command(app)
def add(
    asked: asking.Asked,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for it.")],
    address: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="postgres://USER:PASSWORD@HOST:PORT/DATABASE, or - to read it from stdin. "
            "The password may be a reference: ${env:SHOP_PW}, ${file:/run/secrets/pw}.",
        ),
    ],
) -> None:
    """Give a database a name. References to secrets are looked up by the server."""
    from lockgate.model.secret import Secret

    secret = Secret(sys.stdin.readline().strip() if address == "-" else address)
    asked.show(asked.lg.endpoints.add(name, secret), _show_added)


@asking.command(app, "list")
def list_(asked: asking.Asked) -> None:
    """All endpoints, and the feeds that use them."""
    asked.show_all(asked.lg.endpoints.list(), _show_all)


@asking.command(app, "test")
def look(asked: asking.Asked, name: asking.EndpointName) -> int:
    """See whether an endpoint can be a source and a target. Exits 1 when it can be neither."""
    report = asked.lg.endpoints.test(name)
    asked.show(report, _show_report)
    if report.source_ok or report.target_ok:
        return 0
    output.error(
        f"the endpoint can be neither a source nor a target ({name})", "each finding says why"
    )
    return 1


@asking.command(app)
def remove(asked: asking.Asked, name: asking.EndpointName) -> None:
    """Forget an endpoint that no feed uses. Nothing changes in the database."""
    asked.lg.endpoints.remove(name)
    asked.show_removed(name, f"removed the endpoint {name}")


# --- inside ---------------------------------------------------------------------------------------


def _show_added(added: "Endpoint") -> None:
    output.fields([("endpoint", added.name), ("kind", added.kind), ("url", added.url)])
    output.next_steps([f"lockgate endpoint test {added.name}"])


def _show_all(found: "list[Endpoint]") -> None:
    columns.show(
        ("NAME", "KIND", "URL", "FEEDS"),
        ((one.name, one.kind, one.url, ", ".join(one.feeds)) for one in found),
        "no endpoints; `lockgate endpoint add NAME URL` names one",
    )


def _show_report(report: "EndpointReport") -> None:
    from lockgate.cli import feed_show

    output.line(f"as a source: {'fit' if report.source_ok else 'not fit'}")
    feed_show.findings(report.as_source)
    output.line()
    output.line(f"as a target: {'fit' if report.target_ok else 'not fit'}")
    feed_show.findings(report.as_target)
    output.next_steps(report.next_steps)
