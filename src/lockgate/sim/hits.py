"""How often the rare paths of a world were taken."""

from enum import Enum
from typing import Generic, TypeVar

P = TypeVar("P", bound=Enum)


class Hits(Generic[P]):
    """Of the probes of one kind of world, how often each was hit."""

    __slots__ = ("_probes", "hits")

    def __init__(self, probes: type[P]) -> None:
        self._probes = probes
        self.hits: dict[P, int] = {}

    def hit(self, probe: P) -> None:
        """The path was taken."""
        self.hits[probe] = self.hits.get(probe, 0) + 1

    def by_name(self) -> dict[str, int]:
        """All probes, the missed ones with 0."""
        return {probe.name.lower(): self.hits.get(probe, 0) for probe in self._probes}
