"""Reading lake tables with one's own Spark: `lockgate.lake.read(spark, "/data/lake", "public.t")`.

This needs no running Lockgate: all that a reader has to know lies in the lake itself.
"""

from typing import TYPE_CHECKING

from lockgate.lake.opening import Options
from lockgate.lake.pinning import pin
from lockgate.lake.reading import read, stable, tables, view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pin", "read", "register", "stable", "tables", "view"]


def register(spark: "SparkSession", options: Options | None = None) -> None:
    """Let this session know the format `lockgate`; see `lockgate.lake.source`.

    `options` are what the store of its lakes wants to know, credentials among it.
    """
    # A data source is a class of Spark's, which whoever imports Lockgate need not have.
    from lockgate.lake.source import register

    register(spark, options)
