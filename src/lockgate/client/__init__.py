"""The Python client: the verbs of the commands, typed, over `/api/v1`.

    with lockgate.connect() as lg:
        lg.endpoints.add("shop", "postgres://app:${env:SHOP_PW}@db/shop")
        lg.feeds.create("shop", source="shop", target="copy", tables=["public.*"])
        lg.feeds.wait("shop")

It needs httpx and msgspec and nothing of the machinery, so that scripts and the command line start
fast: no Spark, no Arrow, no SQLAlchemy is imported here, and a test says so.
"""

from lockgate.client.client import Client, connect

__all__ = ["Client", "connect"]
