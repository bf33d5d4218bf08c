"""Reading lake tables with one's own Spark: `lockgate.lake.read(spark, "/data/lake", "public.t")`.

This needs no running Lockgate: all that a reader has to know lies in the lake itself.
"""

from lockgate.lake.reading import read

__all__ = ["read"]
