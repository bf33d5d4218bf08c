"""A move's own simulated world: two databases, feeds, writers, keepers, and what goes wrong."""
