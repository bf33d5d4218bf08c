"""Samples by metric, as the library that writes them out wants them."""

from collections.abc import Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from lockgate.node.telemetry.catalogue import METRICS, Kind
from lockgate.node.telemetry.counts import Seen

__all__ = ["Families"]

_KNOWN = {metric.name: metric for metric in METRICS}


class Families:
    """What one scrape has found. A name or a label that is not in the catalogue is a bug."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._values: dict[str, list[tuple[tuple[str, ...], float | Seen]]] = {}

    def add(self, name: str, value: float | Seen | None, *labels: str) -> None:
        """One sample; None is none."""
        if value is None:
            return
        assert len(labels) == len(_KNOWN[name].labels), f"{name} has other labels"
        self._values.setdefault(name, []).append((labels, value))

    def one_of(self, name: str, states: tuple[str, ...], present: str, *labels: str) -> None:
        """One sample for each state: 1 for the present one."""
        for state in states:
            self.add(name, float(state == present), *labels, state)

    def families(self) -> Iterator[Metric]:
        """All of the catalogue, in its order, also those that have no sample now."""
        for metric in METRICS:
            labels = ["node", *metric.labels]
            samples = self._values.get(metric.name, [])
            if metric.kind is Kind.HISTOGRAM:
                yield self._histogram(metric.name, metric.help, labels, samples)
                continue
            of = GaugeMetricFamily if metric.kind is Kind.GAUGE else CounterMetricFamily
            family = of(metric.name, metric.help, labels=labels)
            for given, value in samples:
                assert not isinstance(value, Seen)
                family.add_metric([self._node, *given], value)
            yield family

    def _histogram(
        self,
        name: str,
        help_: str,
        labels: list[str],
        samples: list[tuple[tuple[str, ...], float | Seen]],
    ) -> Metric:
        family = HistogramMetricFamily(name, help_, labels=labels)
        for given, value in samples:
            assert isinstance(value, Seen)
            family.add_metric([self._node, *given], buckets=value.buckets, sum_value=value.sum)
        return family
