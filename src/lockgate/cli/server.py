"""`lockgate server`: one node of the service, in this process, until it is stopped."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lockgate.cli import config_file, output

if TYPE_CHECKING:
    from lockgate.model.server_config import ServerConfig

__all__ = ["server"]

OPTIONS: Final = {
    "home": "--home",
    "listen": "--listen",
    "advertise": "--advertise",
    "metastore": "--metastore",
    "node": "--node",
    "changelog": "--changelog",
    "lease_s": "--lease",
    "log": "--log",
    "tls.cert": "--tls-cert",
    "tls.key": "--tls-key",
    "tls.ca": "--tls-ca",
    "spark.master": "--spark-master",
    "spark.driver_memory": "--spark-memory",
    "spark.ship": "--spark-ship",
}
"""What says a key of the configuration on the command line."""


def server(
    *,
    home: Annotated[
        str | None,
        typer.Option(
            "--home",
            metavar="DIR",
            help="Where everything is kept; made if it is not there. "
            "[default: LOCKGATE_HOME, or ./lockgate-home]",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The same and more (TOML). Options win."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Where to listen; beyond this machine only with TLS. [default: 127.0.0.1:8642]",
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            "--advertise",
            metavar="URL",
            help="Where other nodes find this one. [default: made of --listen]",
        ),
    ] = None,
    metastore: Annotated[
        str | None,
        typer.Option(
            "--metastore",
            metavar="URL",
            help="postgresql://… for several nodes. [default: a SQLite file in the home]",
        ),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option("--node", metavar="NAME", help="Its name. [default: this machine's]"),
    ] = None,
    changelog: Annotated[
        str | None,
        typer.Option(
            "--changelog",
            metavar="URL",
            help="A directory or s3://…, common to all nodes. [default: in the home]",
        ),
    ] = None,
    lease: Annotated[
        float | None,
        typer.Option(
            "--lease", metavar="S", help="How long a silent node keeps its work. [default: 10]"
        ),
    ] = None,
    tls_cert: Annotated[
        str | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate (PEM).")
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option("--tls-key", metavar="FILE", help="Its key (PEM).")
    ] = None,
    tls_ca: Annotated[
        str | None,
        typer.Option("--tls-ca", metavar="FILE", help="Who signs the other nodes' certificates."),
    ] = None,
    spark_master: Annotated[
        str | None,
        typer.Option(
            "--spark-master",
            metavar="MASTER",
            help="spark://…, sc://… (Connect), local[4]. [default: local[*]]",
        ),
    ] = None,
    spark_memory: Annotated[
        str | None,
        typer.Option("--spark-memory", metavar="SIZE", help="Of Spark's driver. [default: 1g]"),
    ] = None,
    spark_ship: Annotated[
        bool | None,
        typer.Option(
            "--spark-ship/--no-spark-ship",
            help="Send Lockgate's code to a remote Spark. [default: yes]",
        ),
    ] = None,
    log: Annotated[
        str | None, typer.Option("--log", metavar="json|text", help="Form of the log. [json]")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Say what the configuration comes to, and start nothing."),
    ] = False,
    as_json: output.JsonFlag = False,
) -> int:
    """Run a Lockgate server: HTTP interface, feeds, Spark. Stops well on Ctrl-C and SIGTERM.

    With nothing said it listens on 127.0.0.1:8642 and keeps everything in ./lockgate-home; the
    token for the other commands is made there.
    """
    said: dict[str, object] = {
        "home": home,
        "listen": listen,
        "advertise": advertise,
        "metastore": metastore,
        "node": node,
        "changelog": changelog,
        "lease_s": lease,
        "log": log,
        "tls.cert": tls_cert,
        "tls.key": tls_key,
        "tls.ca": tls_ca,
        "spark.master": spark_master,
        "spark.driver_memory": spark_memory,
        "spark.ship": spark_ship,
    }
    parsed = read(config, said)
    if check:
        _show(parsed, as_json=as_json)
        return 0

    from lockgate.api.main import run_server

    code: int = run_server(parsed)
    if as_json:
        output.result({"node": parsed.node, "exit_code": code})
    return code


def read(file: Path | None, said: dict[str, object]) -> "ServerConfig":
    """The configuration that a file and options stand for."""
    import os
    import socket

    from lockgate.model.server_config import fit_node_name, read_server_config

    written = config_file.read(file)
    for key, value in said.items():
        written.say(key, value, OPTIONS[key])
    document = written.document
    document.setdefault("home", os.environ.get("LOCKGATE_HOME") or "lockgate-home")
    document.setdefault("node", fit_node_name(socket.gethostname()))
    with written.located(OPTIONS):
        return read_server_config(document)


def _show(config: "ServerConfig", *, as_json: bool) -> None:
    if as_json:
        import msgspec

        document: dict[str, object] = msgspec.to_builtins(config, enc_hook=str)
        # An empty secret is none: no mask, which would say that there is one.
        output.result(document | {"metastore": str(config.metastore) if config.metastore else ""})
        return
    spark, tls = config.spark, config.tls
    output.fields(
        [
            ("node", config.node),
            ("home", config.home),
            ("listen", config.listen),
            ("advertise", config.advertise),
            ("metastore", str(config.metastore) if config.metastore else "SQLite in the home"),
            ("changelog", config.changelog or "in the home"),
            ("lease", f"{config.lease_s:g} s"),
            ("tls", f"{tls.cert}, {tls.key}" + f", {tls.ca}" * bool(tls.ca) if tls.on else "off"),
            ("spark", f"{spark.master}, driver memory {spark.driver_memory}"),
            ("hooks", ", ".join(sorted(config.hooks))),
            ("log", config.log),
        ]
    )
