"""What a node does for people: its verbs, its statuses, and the care for what they asked for."""

from lockgate.node.service.service import NodeService

__all__ = ["NodeService"]
