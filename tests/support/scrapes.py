"""What Prometheus would read of a node."""

from typing import Final

from prometheus_client.parser import text_string_to_metric_families

__all__ = ["Scrape"]

_NONE: Final = float("nan")


class Scrape:
    """One answer of `/metrics`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found = self.samples.setdefault(sample.name, [])
                found.append((sample.labels, sample.value))

    @property
    def names(self) -> set[str]:
        """Of all samples, not of what is only described."""
        return set(self.samples)

    def all(self, name: str, **labels: str) -> list[float]:
        """The samples that have these labels, and maybe others."""
        return [
            value for given, value in self.samples.get(name, ()) if labels.items() <= given.items()
        ]

    def value(self, name: str, **labels: str) -> float:
        """The only sample that has these labels."""
        found = self.all(name, **labels)
        assert len(found) == 1, f"{len(found)} samples of {name} with {labels}"
        return found[0]

    def one_of(self, name: str, **labels: str) -> str:
        """The state whose sample is 1, where there is one sample for each state."""
        lit = [
            given["state"]
            for given, value in self.samples.get(name, ())
            if labels.items() <= given.items() and value == 1
        ]
        assert len(lit) == 1, f"{name} with {labels} is 1 for {lit}"
        return lit[0]
