"""`lockgate metastore`: look after the metastore, before or without any node."""

from typing import Annotated

import typer

from lockgate.cli import output

__all__ = ["app"]

app = typer.Typer(help="Look after a metastore.", no_args_is_help=False)

LEASE_MS = 10_000
"""Asked for by opening; no lease is taken here."""


@app.command()
def prepare(
    url: Annotated[
        str, typer.Argument(help="sqlite:///FILE or postgresql://USER@HOST/DB.", metavar="URL")
    ],
    *,
    as_json: output.JsonFlag = False,
) -> int:
    """Make a metastore where there is none, migrate an older one, and say what it holds."""
    from lockgate.store.metastore import SqlMetastore

    with SqlMetastore.open(url, lease_ms=LEASE_MS) as store:
        found = store.survey()
    if as_json:
        output.result(found)
        return 0
    output.line(f"metastore  {found.metastore}, schema version {found.schema_version}")
    output.line(f"nodes      {found.nodes}")
    for scope in found.scopes:
        output.line(
            f"scope      {scope.scope}: {scope.records:,} records, "
            f"fence {scope.fence}, {scope.serial:,} batches"
        )
    return 0
