"""The dispatcher manager: what a node does with the requests of maintainers."""
