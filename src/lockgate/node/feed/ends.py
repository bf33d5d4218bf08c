"""The endpoints of a feed, as addresses."""

from typing import NamedTuple

from lockgate.endpoints.delta.url import LakeUrl, is_lake
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import UsageError
from lockgate.model.feed_config import FeedConfig
from lockgate.model.secret import Secret

__all__ = ["Ends", "Url", "parse_source", "parse_url"]

Url = PostgresUrl | LakeUrl


def parse_url(text: str | Secret) -> Url:
    """The address that a text stands for; UsageError, quoting nothing, when it is none."""
    return LakeUrl.parse(text) if is_lake(text) else PostgresUrl.parse(text)


def parse_source(text: str | Secret) -> PostgresUrl:
    """The same for a source, which a lake cannot be."""
    if is_lake(text):
        raise UsageError(
            "a lake is a target of feeds, and no source",
            object_="from",
            hint="give a database as the feed's source",
        )
    return PostgresUrl.parse(text)


class Ends(NamedTuple):
    """Where a feed goes from and to."""

    source: PostgresUrl
    target: Url

    @classmethod
    def of(cls, config: FeedConfig) -> "Ends":
        """As the configuration has them, when it has URLs."""
        return cls(parse_source(config.source), parse_url(config.target))
