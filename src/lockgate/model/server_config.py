"""What one `lockgate server` process is to be, as people write it down.

    home = "/var/lib/lockgate"
    listen = "0.0.0.0:8642"
    advertise = "https://lg1.example:8642"      # where the other nodes find this one
    metastore = "postgresql://lg:${env:META_PW}@meta.example/lockgate"
    changelog = "s3://bucket/lockgate"
    node = "lg1"
    lease_s = 10
    log = "json"                                # or "text"

    [tls]
    cert = "/etc/lockgate/lg1.crt"
    key = "/etc/lockgate/lg1.key"
    ca = "/etc/lockgate/ca.crt"                 # who signs the certificates of the other nodes

    [spark]
    master = "spark://spark.example:7077"
    driver_memory = "2g"
    [spark.settings]
    "spark.executor.memory" = "4g"

    [lake]                                      # the same for every lake that this node keeps
    drain_s = 60

    [hooks.dns]                                 # what moves may name (`hook_config.py`)
    command = ["/usr/local/bin/point-dns", "shop"]

Plain data: paths are texts, and whether files and servers are there is found out by who uses them.
What can be known to be wrong without that is refused when the value is made, with the key named.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from lockgate.model.hook_config import HookConfig, check_hook, read_hooks
from lockgate.model.lake import LakeSettings
from lockgate.model.reading import convert, quoted, unfit
from lockgate.model.secret import Secret
from lockgate.model.value import Value

__all__ = [
    "DEFAULT_LISTEN",
    "DEFAULT_PORT",
    "LakeConfig",
    "ServerConfig",
    "SparkConfig",
    "TlsConfig",
    "fit_node_name",
    "is_loopback",
    "read_server_config",
    "split_address",
]

DEFAULT_PORT: Final = 8642
DEFAULT_LISTEN: Final = f"127.0.0.1:{DEFAULT_PORT}"

_NODE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_MEMORY: Final = re.compile(r"[1-9][0-9]{0,9}[kmgt]", re.IGNORECASE)
_LEASE_S: Final = (1.0, 600.0)
"""Below, a long pause would cost the lease; above, a failover would take for ever."""


class TlsConfig(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files in PEM. None of them: no TLS, and then only this machine is spoken to."""

    cert: str = ""
    key: str = ""
    ca: str = ""
    """Who signs the certificates of the other nodes; empty: whom the system trusts."""

    @property
    def on(self) -> bool:
        return bool(self.cert)


class SparkConfig(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which Spark the node uses: the fields that people choose of `pipeline.session.SparkOptions`,
    with the same names and meanings."""

    master: str = "local[*]"
    python: str = ""
    driver_memory: str = "1g"
    slots: int = 0
    ship: bool = True
    settings: dict[str, str] = msgspec.field(default_factory=dict)


class LakeConfig(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How lakes are looked after: when changes are drained, and how long files are kept."""

    drain_rows: int = 500_000
    drain_bytes: int = 256 * 1024 * 1024
    drain_s: float = 300.0
    """Changes are in stable after about this long, however few they are."""
    drain_share: float = 0.1
    """Changes against rows of stable, from which on a table is drained."""
    workers: int = 2
    """Tables that are worked on at a time."""
    retention_s: float = 86_400.0
    """How long the files of a dropped table are kept."""

    @property
    def settings(self) -> LakeSettings:
        return LakeSettings(
            workers=self.workers,
            drain_rows=self.drain_rows,
            drain_bytes=self.drain_bytes,
            drain_ms=int(self.drain_s * 1000),
            drain_share=self.drain_share,
            retention_ms=int(self.retention_s * 1000),
        )


class ServerConfig(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node's configuration. Made by `read_server_config`, or directly; sound either way."""

    home: str
    """The directory of everything that this node keeps."""
    node: str
    """Its name, by which the cluster knows it through all its lives. `fit_node_name` makes one."""
    listen: str = DEFAULT_LISTEN
    """HOST:PORT. Port 0 takes a free one."""
    advertise: str = ""
    """The URL under which other nodes find it; empty: made of `listen`."""
    metastore: Secret = Secret("")
    """Its URL; empty: a SQLite file in the home. It may hold references to secrets."""
    changelog: str = ""
    """A directory or `s3://…`, shared by all nodes; empty: in the home."""
    lease_s: float = 10.0
    """How long a node that fell silent keeps what it has."""
    log: Literal["json", "text"] = "json"
    tls: TlsConfig = TlsConfig()
    spark: SparkConfig = msgspec.field(default_factory=SparkConfig)
    lake: LakeConfig = LakeConfig()
    hooks: dict[str, HookConfig] = msgspec.field(default_factory=dict)
    """What is run around the flips of moves, by its name. People name it; only this says what it
    is."""

    def __post_init__(self) -> None:
        for check in _CHECKS:
            check(self)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        return split_address(self.listen)


def read_server_config(document: Mapping[str, Any]) -> ServerConfig:
    """The configuration that a document (of TOML) stands for."""
    spark = document.get("spark")
    settings = spark.get("settings") if isinstance(spark, Mapping) else None
    for name, value in settings.items() if isinstance(settings, Mapping) else ():
        convert(value, str, quoted("spark.settings", name))  # the reader's own error names no key
    read_hooks(document.get("hooks"))
    config: ServerConfig = convert(dict(document), ServerConfig)
    return config


def fit_node_name(host: str) -> str:
    """A node's name out of a machine's: lower case, without its domain, and nothing unusual."""
    name = re.sub(r"[^a-z0-9]+", "-", host.split(".", maxsplit=1)[0].lower())
    return name[:40].strip("-") or "node"


def split_address(listen: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` (`[::1]:8642` for IPv6)."""
    host, colon, port = listen.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (colon and host and port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise unfit(
            f"{listen!r} is no address to listen on", "listen", f"write HOST:PORT: {DEFAULT_LISTEN}"
        )
    return host, int(port)


def is_loopback(host: str) -> bool:
    """True when only this machine can reach the host."""
    return host in {"localhost", "::1"} or bool(re.fullmatch(r"127(\.[0-9]{1,3}){3}", host))


# --- what can be known to be wrong ----------------------------------------------------------------


def _check_names(config: ServerConfig) -> None:
    if not config.home:
        raise unfit("the home is missing", "home", "name a directory, which may be a new one")
    if not _NODE.fullmatch(config.node):
        raise unfit(
            f"{config.node!r} is no name of a node",
            "node",
            "take at most 40 of a-z, 0-9 and -, with no - at its ends",
        )
    if not _LEASE_S[0] <= config.lease_s <= _LEASE_S[1]:
        raise unfit(
            "a number is out of range", "lease_s", f"take {_LEASE_S[0]:g} to {_LEASE_S[1]:g}"
        )


def _check_tls(config: ServerConfig) -> None:
    tls = config.tls
    for key, has, needs in (("key", tls.cert, tls.key), ("cert", tls.key or tls.ca, tls.cert)):
        if has and not needs:
            raise unfit("a key is missing", f"tls.{key}", "TLS needs a certificate and its key")


def _check_address(config: ServerConfig) -> None:
    host, _ = config.address
    if not (is_loopback(host) or config.tls.on):
        raise unfit(
            f"other machines can reach {host}, and what they are told could be read on the way",
            "listen",
            "give TLS a certificate and a key (--tls-cert, --tls-key), or listen on 127.0.0.1",
        )


def _check_advertised(config: ServerConfig) -> None:
    if not config.advertise:
        return
    scheme = "https" if config.tls.on else "http"
    url = urlsplit(config.advertise)
    if url.scheme != scheme or not url.hostname or url.path.strip("/") or url.query:
        raise unfit(
            f"{config.advertise!r} is no address of this node",
            "advertise",
            f"write {scheme}://HOST:PORT",
        )


def _check_spark(config: ServerConfig) -> None:
    spark = config.spark
    if not spark.master:
        raise unfit("there is no Spark to use", "spark.master", "write local[*], or a master's URL")
    if not _MEMORY.fullmatch(spark.driver_memory):
        raise unfit(
            f"{spark.driver_memory!r} is no amount of memory", "spark.driver_memory", "write 2g"
        )
    if not 0 <= spark.slots <= 100_000:
        raise unfit("a number is out of range", "spark.slots", "take 0 to 100000")


def _check_lake(config: ServerConfig) -> None:
    lake = config.lake
    ranges = {
        "drain_rows": (1, 10**9),
        "drain_bytes": (1, 2**40),
        "drain_s": (1.0, 7 * 86_400.0),
        "drain_share": (0.0001, 1000.0),
        "workers": (1, 64),
        "retention_s": (0.0, 365 * 86_400.0),
    }
    for key, (least, most) in ranges.items():
        if not least <= getattr(lake, key) <= most:
            raise unfit("a number is out of range", f"lake.{key}", f"take {least:g} to {most:g}")


def _check_hooks(config: ServerConfig) -> None:
    for name, hook in config.hooks.items():
        check_hook(name, hook)


_CHECKS: Final = (
    _check_names,
    _check_tls,
    _check_address,
    _check_advertised,
    _check_spark,
    _check_lake,
    _check_hooks,
)
