"""The TCP proxy that hurts: the soak's own, for tests."""

from soak.proxy import FaultProxy, Way

__all__ = ["FaultProxy", "Way"]
