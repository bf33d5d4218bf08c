"""`lockgate endpoint`: name databases, and see whether they are fit for a feed."""

import sys
from typing import Annotated

import typer

from lockgate.cli import asking, columns, output

__all__ = ["app"]

app = typer.Typer(help="Databases, by name.")


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for it.")],
    address: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="postgres://USER:PASSWORD@HOST:PORT/DATABASE, or - to read it from stdin. "
            "The password may be a reference: ${env:SHOP_PW}, ${file:/run/secrets/pw}.",
        ),
    ],
    *,
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """Give a database a name. References to secrets are looked up by the server."""
    from lockgate.model.secret import Secret

    secret = Secret(sys.stdin.readline().strip() if address == "-" else address)
    with asking.node(url, home) as lg:
        added = lg.endpoints.add(name, secret)
    if as_json:
        output.result(added)
        return
    output.fields([("endpoint", added.name), ("kind", added.kind), ("url", added.url)])
    output.next_steps([f"lockgate endpoint test {added.name}"])


@app.command("list")
def list_(
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """All endpoints, and the feeds that use them."""
    with asking.node(url, home) as lg:
        found = list(lg.endpoints.list())
    if as_json:
        output.result({"items": found})
        return
    columns.show(
        ("NAME", "KIND", "URL", "FEEDS"),
        ((one.name, one.kind, one.url, ", ".join(one.feeds)) for one in found),
        "no endpoints; `lockgate endpoint add NAME URL` names one",
    )


@app.command("test")
def look(
    name: asking.EndpointName,
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> int:
    """See whether an endpoint can be a source and a target. Exits 1 when it can be neither."""
    with asking.node(url, home) as lg:
        report = lg.endpoints.test(name)
    if as_json:
        output.result(report)
    else:
        from lockgate.cli import feed_show

        output.line(f"as a source: {'fit' if report.source_ok else 'not fit'}")
        feed_show.findings(report.as_source)
        output.line()
        output.line(f"as a target: {'fit' if report.target_ok else 'not fit'}")
        feed_show.findings(report.as_target)
        output.next_steps(report.next_steps)
    if report.source_ok or report.target_ok:
        return 0
    output.error(
        f"the endpoint can be neither a source nor a target ({name})", "each finding says why"
    )
    return 1


@app.command()
def remove(
    name: asking.EndpointName,
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """Forget an endpoint that no feed uses. Nothing changes in the database."""
    with asking.node(url, home) as lg:
        lg.endpoints.remove(name)
    if as_json:
        output.result({"name": name, "removed": True})
    else:
        output.line(f"removed the endpoint {name}")
