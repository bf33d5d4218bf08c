"""What a server's configuration means for the parts of a node."""

from lockgate.model.config import Timing
from lockgate.model.errors import UsageError
from lockgate.model.server_config import ServerConfig
from lockgate.node.home import Home
from lockgate.pipeline.session import SparkOptions
from lockgate.store.settings import Settings

__all__ = ["changelog_root", "spark_options", "timing"]


def changelog_root(config: ServerConfig, home: Home, settings: Settings) -> str:
    """The one place of the change log. All nodes have the same, or they would not find each
    other's segments."""
    shared = bool(config.metastore)
    if shared and not config.changelog:
        raise UsageError(
            "several nodes need a common place for the change log",
            object_="changelog",
            hint="name a directory that all of them reach, or an object store: "
            "--changelog s3://bucket/path",
        )
    mine = config.changelog or str(home.changelog)
    if not shared:
        return mine
    agreed = settings.once("changelog", mine)
    if agreed != mine:
        raise UsageError(
            "the other nodes keep the change log elsewhere",
            object_=mine,
            hint=f"start this node with --changelog {agreed}",
        )
    return mine


def timing(lease_ms: int) -> Timing:
    """Times in proportion to the lease. Others learn of a death when they renew: so, often."""
    return Timing(lease_ms=lease_ms, renew_ms=min(1_000, lease_ms // 5), tick_ms=250, resend_ms=400)


def spark_options(config: ServerConfig) -> SparkOptions:
    """How Spark is started or found."""
    given = config.spark
    return SparkOptions(
        master=given.master,
        name=f"lockgate {config.node}",
        python=given.python,
        driver_memory=given.driver_memory,
        slots=given.slots,
        ship=given.ship,
        settings=given.settings,
    )
